// SPDX-License-Identifier: Apache-2.0

package observe

import (
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"strings"
	"sync/atomic"
	"time"

	"github.com/polycube/polycube/internal/access"
	"github.com/polycube/polycube/internal/datapath"
	"github.com/polycube/polycube/internal/events"
	"github.com/polycube/polycube/internal/metrics"
	"github.com/polycube/polycube/internal/rest/directory"
	"github.com/polycube/polycube/internal/rest/help"
	"github.com/polycube/polycube/internal/rest/message"
	"github.com/polycube/polycube/internal/rest/resource"
	"github.com/polycube/polycube/internal/slowpath"
	"github.com/polycube/polycube/internal/store"
	"github.com/polycube/polycube/internal/suggest"
	"github.com/polycube/polycube/internal/trace"
)

// Observed is the state of the daemon, other than its cubes, that can be shown. Nil fields are not shown.
type Observed struct {
	// Instance is the daemon's name, "" for the main one; Started is its start time.
	Instance string
	Started  time.Time
	// Events records events.
	Events *events.Log
	// Linker reports the programs in use.
	Linker interface {
		Activity() datapath.Activity
		Segments() []datapath.Segment
	}
	// SlowPath reports how full the ring is; false while there is none.
	SlowPath func() (slowpath.Load, bool)
	Store    interface{ Stats() store.Stats }
	// Pins reports problems with the directory of pinned maps and programs, nil if there are none.
	Pins func() error
	// Level is the daemon's own log level.
	Level LogLevel
}

// LogLevel is a level that can be changed while the daemon runs.
type LogLevel interface {
	// Level is its name.
	Level() string
	// SetLevel returns an error for an invalid level.
	SetLevel(name string) error
}

// noLevel is for a server that does not control its log level.
type noLevel struct{}

// Level is unknown.
func (noLevel) Level() string { return "" }

// SetLevel refuses.
func (noLevel) SetLevel(string) error { return errors.New("loglevel cannot be changed on this daemon") }

// Manager is the part of the cubes that can be shown: *topology.Manager.
type Manager interface {
	directory.Manager
	metrics.Topology
	trace.Counters
	// Status describes how a cube's programs run.
	Status(cube string) (datapath.CubeStatus, error)
	// PortStats are the counters of a port.
	PortStats(cube, port string) (datapath.PortCounters, error)
}

// Options configure an Observer.
type Options struct {
	Manager Manager
	Version string
	Log     *slog.Logger
	Names   *directory.Directory
	Help    *help.Guide
	// Drops samples the drop counters; nil has no rates and times.
	Drops *trace.Drops
	// TLS reports which certificate files cannot be read; nil without TLS.
	TLS *access.TLS
	Observed
}

// Observer serves the state of the daemon and its cubes: status, metrics, drops and events. It owns the slots of
// clients that follow events.
type Observer struct {
	manager  Manager
	version  string
	log      *slog.Logger
	out      message.Sender
	names    *directory.Directory
	help     *help.Guide
	observed Observed
	exporter *metrics.Exporter
	drops    *trace.Drops
	tls      *access.TLS

	Heartbeat time.Duration
	// subscribers follow events. ending is closed when they must stop.
	subscribers atomic.Int64
	ending      chan struct{}
	// followers are the slots of clients that follow events, ownerFollowers those of root.
	followers, ownerFollowers *access.Slots
}

// New creates an observer.
func New(from Options) *Observer {
	o := &Observer{manager: from.Manager, version: from.Version, log: from.Log, out: message.Sender{Log: from.Log}, names: from.Names, help: from.Help,
		observed: from.Observed, drops: from.Drops, tls: from.TLS, Heartbeat: heartbeat, ending: make(chan struct{})}
	if o.observed.Started.IsZero() {
		o.observed.Started = time.Now()
	}
	if o.observed.Level == nil {
		o.observed.Level = noLevel{}
	}
	if o.drops == nil {
		o.drops = trace.NewDrops(o.manager, nil)
	}
	o.followers, o.ownerFollowers = access.NewSlots(MaxSubscribers, MaxSubscribersPerClient), access.NewSlots(MaxSubscribers, MaxSubscribers)
	o.exporter = metrics.New(metrics.Sources{Topology: o.manager, Version: o.version, Linker: o.observed.Linker, SlowPath: o.observed.SlowPath,
		Store: o.observed.Store, Events: o.observed.Events, Subscribers: func() int { return int(o.subscribers.Load()) }, Logger: o.log})
	return o
}

// Exports handles scrapes; its requests are counted elsewhere.
func (o *Observer) Exports() *metrics.Exporter { return o.exporter }

// End ends the event streams. It is called once.
func (o *Observer) End() { close(o.ending) }

// ServeHealth handles /healthz: the daemon responds.
func (o *Observer) ServeHealth(w http.ResponseWriter, r *http.Request) error {
	return o.probe(w, r, nil)
}

// ServeReady handles /readyz: cubes are restored, and changes are possible.
func (o *Observer) ServeReady(w http.ResponseWriter, r *http.Request) error {
	if o.observed.Store != nil {
		switch st := o.observed.Store.Stats(); {
		case st.Broken:
			return o.probe(w, r, errors.New("the disk state is unknown after a write error, changes are refused"))
		case st.Refusal != "":
			return o.probe(w, r, errors.New("the last change could not be written to disk: "+st.Refusal))
		}
	}
	select {
	case <-o.ending:
		return o.probe(w, r, errors.New("the daemon is stopping"))
	default:
		return o.probe(w, r, nil)
	}
}

// probe responds with a status for programs and a word for people.
func (o *Observer) probe(w http.ResponseWriter, r *http.Request, sick error) error {
	if err := message.Allow(r, http.MethodGet); err != nil {
		return err
	}
	status, text := http.StatusOK, "ok\n"
	if sick != nil {
		status, text = http.StatusServiceUnavailable, sick.Error()+"\n"
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.WriteHeader(status)
	if r.Method != http.MethodHead {
		_, _ = w.Write([]byte(text)) // the client may have disconnected
	}
	return nil
}

// DaemonView is the state of the daemon.
type DaemonView struct {
	Version  string    `json:"version"`
	Instance string    `json:"instance"`
	Pid      int       `json:"pid"`
	Started  time.Time `json:"started"`
	Uptime   int64     `json:"uptime-seconds"`
	Loglevel string    `json:"loglevel"`
	Kernel   string    `json:"kernel"`
	// Memory is the resident memory of the process, in bytes.
	Memory uint64 `json:"memory-bytes"`
}

func (o *Observer) daemonView() DaemonView {
	v := DaemonView{Version: o.version, Instance: o.observed.Instance, Pid: os.Getpid(), Started: o.observed.Started.UTC().Truncate(time.Millisecond),
		Uptime: int64(time.Since(o.observed.Started).Seconds()), Kernel: kernelRelease(), Memory: residentMemory()}
	v.Loglevel = o.observed.Level.Level()
	return v
}

// ServeDaemon handles /daemon and /daemon/loglevel, the only setting of the daemon that can be changed.
func (o *Observer) ServeDaemon(w http.ResponseWriter, r *http.Request, rest []string) error {
	methods := []string{http.MethodGet, http.MethodOptions}
	leaf := len(rest) == 1
	if leaf && rest[0] != "loglevel" {
		return o.names.NoResource(r, rest[0], "loglevel")
	}
	if leaf {
		methods = append(methods, http.MethodPatch)
	}
	if err := message.Allow(r, methods...); err != nil {
		return err
	}
	switch {
	case r.Method == http.MethodOptions:
		return o.helpDaemon(w, r, rest, methods)
	case r.Method == http.MethodPatch:
		return o.setLogLevel(w, r)
	case leaf:
		return o.out.JSON(w, r, http.StatusOK, o.observed.Level.Level())
	}
	return o.out.JSON(w, r, http.StatusOK, o.daemonView())
}

// logLevels are the daemon's, from the most verbose on.
var logLevels = []string{"trace", "debug", "info", "warn", "err", "critical", "off"}

// setLogLevel changes the daemon's level. It is not saved: the next start uses the level in its options.
func (o *Observer) setLogLevel(w http.ResponseWriter, r *http.Request) error {
	body, err := message.ReadBody(w, r)
	if err != nil {
		return err
	}
	name := strings.Trim(string(body), `"`)
	before := o.observed.Level.Level()
	if err := o.observed.Level.SetLevel(name); err != nil {
		return &message.Error{Status: http.StatusBadRequest, Tag: message.TagInvalidValue, Field: "loglevel", Message: err.Error(),
			Near: suggest.Near(name, logLevels)}
	}
	now := o.observed.Level.Level()
	o.log.Warn("log level changed", "before", before, "now", now)
	if now != before {
		o.observed.Events.Add(events.Event{Type: events.Daemon, State: "loglevel", Reason: now,
			Message: fmt.Sprintf("log level changed to %s, was %s", now, before)})
	}
	w.WriteHeader(http.StatusOK)
	return nil
}

// helpDaemon handles OPTIONS of /daemon.
func (o *Observer) helpDaemon(w http.ResponseWriter, r *http.Request, rest []string, methods []string) error {
	verb, completion, err := help.Verb(r)
	if err != nil {
		return err
	}
	level := help.Param{Name: "loglevel", Description: "Log level of the daemon itself", Example: "DEBUG", Type: "leaf", SimpleType: "enumeration",
		Constraints: help.Constraints{Values: []string{"TRACE", "DEBUG", "INFO", "WARN", "ERR", "CRITICAL", "OFF"}}}
	var h help.Help
	switch {
	case len(rest) == 1 && completion:
		return o.out.JSON(w, r, http.StatusOK, help.BegunBy(r, directory.Lower(level.Values)))
	case len(rest) == 1 || verb == resource.VerbSet:
		h.Params = []help.Param{level}
	case verb == resource.VerbNone:
		h.Commands = []string{"show", "set"}
	}
	return o.help.Answer(w, r, methods, verb, completion, h)
}
