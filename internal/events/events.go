// SPDX-License-Identifier: Apache-2.0

// Package events keeps recent events for clients that follow them. There is one ring for all: a reader only has a
// position in it. So a slow reader costs others nothing; when the ring has overtaken it, it gets the number of events
// that it missed.
package events

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Type is the kind of an event.
type Type string

// The types.
const (
	// Config is a change of the configuration.
	Config Type = "config"
	// Port is a port that went UP or DOWN.
	Port Type = "port"
	// Cube is a cube that is degraded, broken, restored or adopted, or what its code reports.
	Cube Type = "cube"
	// Session is a session of a cube that is new, in another state or gone, or the number of such events that are lost.
	Session Type = "session"
	// Netdev is a network device that appeared, disappeared, is up or is down.
	Netdev Type = "netdev"
	// Relink is a cube's program that was relinked, in call or inline mode, or could not be inlined.
	Relink Type = "relink"
	// Service is a service that was registered, updated, removed, lost or returned.
	Service Type = "service"
	// Daemon is an event of the daemon itself: it is ready, or its log level changed.
	Daemon Type = "daemon"
	// Lost tells one reader how many events it missed. It is not in the ring.
	Lost Type = "lost"
)

// Types lists the types that can be requested.
var Types = []Type{Config, Port, Cube, Session, Netdev, Relink, Service, Daemon}

// MaxListed limits the cubes and the paths that one event lists.
const MaxListed = 32

// Event is an event. Its members depend on its type.
type Event struct {
	// ID is the run of the daemon and an increasing number, joined by a dash.
	ID   string    `json:"id"`
	Time time.Time `json:"time"`
	Type Type      `json:"type"`
	// Message describes it in a sentence.
	Message string `json:"message"`

	Cube    string `json:"cube,omitempty"`
	Port    string `json:"port,omitempty"`
	Netdev  string `json:"netdev,omitempty"`
	Service string `json:"service,omitempty"`
	// State is the new state: UP, DOWN, degraded, appeared, inline and so on.
	State string `json:"state,omitempty"`
	// Reason says why.
	Reason string `json:"reason,omitempty"`

	// Revision is that of the configuration after the change.
	Revision uint64   `json:"revision,omitempty"`
	Origins  []Origin `json:"origins,omitempty"`
	// Changes are by cube; those above [MaxListed] are only counted, in More.
	Changes []Change `json:"changes,omitempty"`
	More    int      `json:"more,omitempty"`
	// Cubes are the names of all affected cubes, at most MaxListed, if Cube does not name a single one.
	Cubes []string `json:"cubes,omitempty"`

	// Count is how many events a reader missed; 0 if unknown, because the daemon was restarted.
	Count uint64 `json:"count,omitempty"`

	// about are the cubes that it concerns, if they are more than are listed; with very many, it concerns all.
	about    []string
	aboutAll bool
}

// Origin is the client that requested a change.
type Origin struct {
	Who  string `json:"who"`
	From string `json:"from,omitempty"`
	What string `json:"what,omitempty"`
}

// Change is a change of the configuration of a cube, or of what is attached to a netdev.
type Change struct {
	Cube    string `json:"cube,omitempty"`
	Service string `json:"service,omitempty"`
	Netdev  string `json:"netdev,omitempty"`
	// Op is created, changed or deleted.
	Op string `json:"op"`
	// Paths are the nodes that changed, at most [MaxListed] in one event.
	Paths []string `json:"paths,omitempty"`
	More  int      `json:"more,omitempty"`
}

// The ring must stay small even if an event names a thousand cubes, or has a reason of many lines.
const (
	maxAbout = 256
	maxText  = 1000
)

// About adds the names of cubes that an event concerns but does not list. With more than a few hundred cubes, it
// concerns every name.
func (e *Event) About(cubes []string) {
	if len(cubes) > maxAbout {
		e.aboutAll = true
		return
	}
	e.about = slices.Clone(cubes)
}

// bound shortens long text.
func (e *Event) bound() {
	clip(&e.Message)
	clip(&e.Reason)
	for i := range e.Origins {
		clip(&e.Origins[i].Who)
		clip(&e.Origins[i].From)
		clip(&e.Origins[i].What)
	}
	for i := range e.Changes {
		for j := range e.Changes[i].Paths {
			clip(&e.Changes[i].Paths[j])
		}
	}
}

func clip(s *string) {
	if len(*s) > maxText {
		*s = strings.ToValidUTF8((*s)[:maxText], "") + "..."
	}
}

// Concerns reports whether an event concerns a cube.
func (e *Event) Concerns(cube string) bool {
	if e.Cube == cube || e.aboutAll || slices.Contains(e.about, cube) {
		return true
	}
	for _, c := range e.Cubes {
		if c == cube {
			return true
		}
	}
	for _, c := range e.Changes {
		if c.Cube == cube {
			return true
		}
	}
	return false
}

// Size of the ring: one hour with one change per second.
const defaultSize = 4096

// Log is the ring. A nil one keeps nothing.
type Log struct {
	run  string
	size uint64

	mu   sync.Mutex
	ring []Event
	// last is the number of the newest event; the first one is 1.
	last uint64
	// news is closed when there is a new event, nil while no reader waits.
	news chan struct{}
}

// New creates an empty log of size events, 0 for the default. run distinguishes this run of the daemon from others; it
// contains no dash.
func New(run string, size int) *Log {
	if size <= 0 {
		size = defaultSize
	}
	return &Log{run: run, size: uint64(size)}
}

// Add adds an event with the next number, and the current time if it has none. It never waits for a reader.
func (l *Log) Add(e Event) {
	if l == nil {
		return
	}
	e.bound()
	if e.Time.IsZero() {
		e.Time = time.Now()
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.last++
	e.ID = l.id(l.last)
	if uint64(len(l.ring)) < l.size {
		l.ring = append(l.ring, e)
	} else {
		l.ring[(l.last-1)%l.size] = e
	}
	if l.news != nil {
		close(l.news)
		l.news = nil
	}
}

func (l *Log) id(n uint64) string { return l.run + "-" + strconv.FormatUint(n, 10) }

// Total is the number of events since the start.
func (l *Log) Total() uint64 {
	if l == nil {
		return 0
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.last
}

// Reader follows the log from a position on. It is for one goroutine.
type Reader struct {
	log *Log
	at  uint64
	// gap says that events before the first one may have been missed, an unknown number.
	gap bool
}

// Follow returns a reader of new events, or of those after the event with an id, "" for none. The id of another run of
// the daemon stands for the oldest event, with a notice that events may be missing.
func (l *Log) Follow(after string) (*Reader, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if after == "" {
		return &Reader{log: l, at: l.last}, nil
	}
	run, number, ok := strings.Cut(after, "-")
	n, err := strconv.ParseUint(number, 10, 64)
	if !ok || err != nil {
		return nil, fmt.Errorf("%.80q is not the id of an event", after)
	}
	if run != l.run || n > l.last {
		return &Reader{log: l, gap: true}, nil
	}
	return &Reader{log: l, at: n}, nil
}

// Next returns new events, up to limit, and a channel that is closed when there are more; the channel is nil if there
// already are more. An event of type Lost stands for missing ones.
func (r *Reader) Next(limit int) ([]Event, <-chan struct{}) {
	l := r.log
	l.mu.Lock()
	defer l.mu.Unlock()
	var out []Event
	if r.gap {
		r.gap = false
		out = append(out, Event{ID: l.id(r.at), Time: time.Now(), Type: Lost,
			Message: "the daemon was restarted: events from before are lost"})
	}
	if kept := l.last - uint64(len(l.ring)); r.at < kept {
		missed := kept - r.at
		r.at = kept
		out = append(out, Event{ID: l.id(r.at), Time: time.Now(), Type: Lost, Count: missed,
			Message: fmt.Sprintf("%d events are missing: they were not read fast enough", missed)})
	}
	for ; r.at < l.last && len(out) < limit; r.at++ {
		out = append(out, l.ring[r.at%l.size])
	}
	if r.at < l.last {
		return out, nil
	}
	if l.news == nil {
		l.news = make(chan struct{})
	}
	return out, l.news
}
