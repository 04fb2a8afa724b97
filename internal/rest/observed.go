// SPDX-License-Identifier: Apache-2.0

package rest

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"strings"
	"time"

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
)

// Observed is what there is to see of the daemon beside its cubes. Whatever is nil is not shown.
type Observed struct {
	// Instance is the daemon's name, "" for the main one; Started is when it began.
	Instance string
	Started  time.Time
	// Events keeps what happens.
	Events *events.Log
	// Linker tells of the programs in use.
	Linker interface {
		Activity() datapath.Activity
		Segments() []datapath.Segment
	}
	// SlowPath tells how full the ring is; false while there is none.
	SlowPath func() (slowpath.Load, bool)
	Store    interface{ Stats() store.Stats }
	// Pins says what is wrong where maps and programs are pinned, nil if all is well.
	Pins func() error
	// Level is the daemon's own log level.
	Level LogLevel
}

// LogLevel is a level that can be changed while the daemon runs.
type LogLevel interface {
	// Level is its name.
	Level() string
	// SetLevel returns an error for what is no level.
	SetLevel(name string) error
}

// noLevel is that of a server whose log is somebody else's.
type noLevel struct{}

// Level is unknown.
func (noLevel) Level() string { return "" }

// SetLevel refuses.
func (noLevel) SetLevel(string) error { return errors.New("loglevel: it cannot be changed here") }

// observe makes what answers for metrics.
func (s *Server) observe(o Observed) {
	s.observed = o
	if s.observed.Started.IsZero() {
		s.observed.Started = time.Now()
	}
	if o.Level == nil {
		s.observed.Level = noLevel{}
	}
	s.exporter = metrics.New(metrics.Sources{Topology: s.manager, Version: s.version, Linker: o.Linker, SlowPath: o.SlowPath,
		Store: o.Store, Events: o.Events, Subscribers: func() int { return int(s.subscribers.Load()) }, Logger: s.log})
}

// serveHealth answers /healthz: the daemon answers requests.
func (s *Server) serveHealth(w http.ResponseWriter, r *http.Request) error {
	return s.probe(w, r, nil)
}

// serveReady answers /readyz: cubes are restored, and changes can be made.
func (s *Server) serveReady(w http.ResponseWriter, r *http.Request) error {
	if s.observed.Store != nil {
		switch st := s.observed.Store.Stats(); {
		case st.Broken:
			return s.probe(w, r, errors.New("the disk cannot tell what it holds, changes are refused"))
		case st.Refusal != "":
			return s.probe(w, r, errors.New("the last change could not be written: "+st.Refusal))
		}
	}
	select {
	case <-s.ending:
		return s.probe(w, r, errors.New("the daemon is stopping"))
	default:
		return s.probe(w, r, nil)
	}
}

// probe answers those who look at the status alone, with a word for others.
func (s *Server) probe(w http.ResponseWriter, r *http.Request, sick error) error {
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
		_, _ = w.Write([]byte(text)) // who asked may be gone
	}
	return nil
}

// daemonView is the daemon itself.
type daemonView struct {
	Version  string    `json:"version"`
	Instance string    `json:"instance"`
	Pid      int       `json:"pid"`
	Started  time.Time `json:"started"`
	Uptime   int64     `json:"uptime-seconds"`
	Loglevel string    `json:"loglevel"`
	Kernel   string    `json:"kernel"`
	// Memory is what the process has in memory, in bytes.
	Memory uint64 `json:"memory-bytes"`
}

func (s *Server) daemonView() daemonView {
	v := daemonView{Version: s.version, Instance: s.observed.Instance, Pid: os.Getpid(), Started: s.observed.Started.UTC().Truncate(time.Millisecond),
		Uptime: int64(time.Since(s.observed.Started).Seconds()), Kernel: kernelRelease(), Memory: residentMemory()}
	v.Loglevel = s.observed.Level.Level()
	return v
}

// serveDaemon answers /daemon and /daemon/loglevel, the one thing of it that can be changed.
func (s *Server) serveDaemon(w http.ResponseWriter, r *http.Request, rest []string) error {
	methods := []string{http.MethodGet, http.MethodOptions}
	leaf := len(rest) == 1
	if leaf && rest[0] != "loglevel" {
		return s.names.NoResource(r, rest[0], "loglevel")
	}
	if leaf {
		methods = append(methods, http.MethodPatch)
	}
	if err := message.Allow(r, methods...); err != nil {
		return err
	}
	switch {
	case r.Method == http.MethodOptions:
		return s.helpDaemon(w, r, rest, methods)
	case r.Method == http.MethodPatch:
		return s.setLogLevel(w, r)
	case leaf:
		return s.out.JSON(w, r, http.StatusOK, s.observed.Level.Level())
	}
	return s.out.JSON(w, r, http.StatusOK, s.daemonView())
}

// logLevels are the daemon's, from the most on.
var logLevels = []string{"trace", "debug", "info", "warn", "err", "critical", "off"}

// setLogLevel changes the daemon's level. It is not kept: the next start has that of its options.
func (s *Server) setLogLevel(w http.ResponseWriter, r *http.Request) error {
	body, err := message.ReadBody(w, r)
	if err != nil {
		return err
	}
	name := strings.Trim(string(body), `"`)
	before := s.observed.Level.Level()
	if err := s.observed.Level.SetLevel(name); err != nil {
		return &message.Error{Status: http.StatusBadRequest, Tag: message.TagInvalidValue, Field: "loglevel", Message: err.Error(),
			Near: suggest.Near(name, logLevels)}
	}
	now := s.observed.Level.Level()
	s.log.Warn("the daemon logs at another level", "before", before, "now", now)
	if now != before {
		s.observed.Events.Add(events.Event{Type: events.Daemon, State: "loglevel", Reason: now,
			Message: fmt.Sprintf("the daemon logs at level %s, before %s", now, before)})
	}
	w.WriteHeader(http.StatusOK)
	return nil
}

// helpDaemon answers OPTIONS of /daemon.
func (s *Server) helpDaemon(w http.ResponseWriter, r *http.Request, rest []string, methods []string) error {
	verb, completion, err := help.Verb(r)
	if err != nil {
		return err
	}
	level := help.Param{Name: "loglevel", Description: "What the daemon itself logs", Example: "DEBUG", Type: "leaf", SimpleType: "enumeration",
		Constraints: help.Constraints{Values: []string{"TRACE", "DEBUG", "INFO", "WARN", "ERR", "CRITICAL", "OFF"}}}
	var h help.Help
	switch {
	case len(rest) == 1 && completion:
		return s.out.JSON(w, r, http.StatusOK, help.BegunBy(r, directory.Lower(level.Values)))
	case len(rest) == 1 || verb == resource.VerbSet:
		h.Params = []help.Param{level}
	case verb == resource.VerbNone:
		h.Commands = []string{"show", "set"}
	}
	return s.help.Answer(w, r, methods, verb, completion, h)
}
