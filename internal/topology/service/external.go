// SPDX-License-Identifier: Apache-2.0

package service

// An external service: its registration, and its runs, one after the other.

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"time"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/internal/store"
)

// Registration is an external service in the form of the request, which is also stored.
type Registration struct {
	Name string `json:"name"`
	// Type is lib, an executable that the daemon starts, or grpc, a process that listens elsewhere.
	Type string `json:"type"`
	// URI is the path of the executable, or HOST:PORT.
	URI string `json:"uri"`
}

// Host starts external services.
type Host interface {
	// Start starts a run of a service: a process or a connection. again is an earlier run of the same version, nil
	// if there was none or if another version is requested. The context limits the start only.
	Start(ctx context.Context, r Registration, again Life) (Life, error)
}

// Life is one run of a service, from its start until it is lost or closed. It is not restarted: Start makes the next
// one.
type Life interface {
	// Service is the service as it describes itself. Its instances return errors once the run has ended.
	Service() cube.Service
	// Done is closed when the run has ended; Err is the reason.
	Done() <-chan struct{}
	Err() error
	// Close ends the run.
	Close()
}

// Key is the prefix of the keys of services in the store.
const Key = "service/"

// External is an external service. Its methods may be called from any goroutine.
type External struct {
	Name string
	// turn holds one token: its holder may start and end runs.
	turn chan struct{}
	// ended is closed when the service is removed.
	ended chan struct{}

	mu       sync.Mutex
	reg      Registration
	life     Life // nil if there is none
	last     Life // the current run, or the one that ended
	since    time.Time
	restarts int
	failure  string
	// changed is closed when another run replaces this one.
	changed chan struct{}
}

// NewExternal returns a service without a run, whose turn is free.
func NewExternal(reg Registration) *External {
	o := &External{Name: reg.Name, reg: reg, turn: make(chan struct{}, 1), ended: make(chan struct{}),
		changed: make(chan struct{}), since: time.Now()}
	o.turn <- struct{}{}
	return o
}

// Take waits for the turn to start and end runs. The caller must give it back.
func (o *External) Take(ctx context.Context) error {
	select {
	case <-o.turn:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("service %s: wait for another change of it to end: %w", o.Name, ctx.Err())
	}
}

// Give returns the turn.
func (o *External) Give() { o.turn <- struct{}{} }

// Hold takes the turn of an external service that is not visible to others yet.
func (o *External) Hold() { <-o.turn }

// End marks the service as removed, permanently.
func (o *External) End() { close(o.ended) }

// Gone is closed when the service is removed.
func (o *External) Gone() <-chan struct{} { return o.ended }

// LastLife is the current run or the last one, nil if there was none.
func (o *External) LastLife() Life {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.last
}

// Restarted counts a run that follows another one.
func (o *External) Restarted() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.restarts++
}

// State returns the state of the service.
func (o *External) State() State {
	o.mu.Lock()
	defer o.mu.Unlock()
	st := State{Registration: o.reg, Running: o.life != nil, Since: o.since, Restarts: o.restarts, Error: o.failure}
	if x, ok := o.life.(measured); ok {
		st.Undelivered, st.Refused = x.Drops()
	}
	return st
}

// Series are the latest figures of the service.
func (o *External) Series() []Series {
	if _, life, _ := o.Now(); life != nil {
		if x, ok := life.(measured); ok {
			return x.Series()
		}
	}
	return nil
}

// Now returns the current run and a channel that is closed when another run replaces it.
func (o *External) Now() (Registration, Life, <-chan struct{}) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.reg, o.life, o.changed
}

// Live records that a run has started, and returns the one before.
func (o *External) Live(reg Registration, life Life) Life {
	o.mu.Lock()
	defer o.mu.Unlock()
	before := o.life
	o.reg, o.life, o.last, o.since, o.failure = reg, life, life, time.Now(), ""
	close(o.changed)
	o.changed = make(chan struct{})
	return before
}

// Dead records that a run has ended, or that none could be started; it reports whether there was one that ended.
func (o *External) Dead(life Life, why error) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if life != nil && o.life != life {
		return false // an update was faster
	}
	if o.life != nil {
		o.since = time.Now()
	}
	o.life, o.failure = nil, why.Error()
	return life != nil
}

// Lasted is how long the run has lasted.
func (o *External) Lasted() time.Duration {
	o.mu.Lock()
	defer o.mu.Unlock()
	return time.Since(o.since)
}

// Removed reports whether the service was removed.
func (o *External) Removed() bool {
	select {
	case <-o.ended:
		return true
	default:
		return false
	}
}

// Said records why an attempt failed; it reports whether the reason is new.
func (o *External) Said(err error) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	news := o.failure != err.Error()
	o.failure = err.Error()
	return news
}

// Record is a service in the store.
func Record(reg Registration) (store.Record, error) {
	value, err := json.Marshal(reg)
	if err != nil {
		return store.Record{}, fmt.Errorf("encode service %s: %w", reg.Name, err)
	}
	return store.Record{Key: Key + reg.Name, Value: value}, nil
}

// State is the state of a service.
type State struct {
	Registration
	// Running is false while the service is lost.
	Running bool
	// Since is when this state began.
	Since time.Time
	// Restarts counts how often the service was restarted.
	Restarts int
	// Error is why it is lost, or why the last attempt to start it failed.
	Error string
	// Undelivered counts packets that did not reach the service since it started, Refused packets that it sent and
	// that were not accepted.
	Undelivered, Refused uint64
}

// Series is a figure that a service reported for one of its cubes.
type Series struct {
	Service, Cube, Name, Help string
	Counter                   bool
	Labels                    map[string]string
	Value                     float64
}

// measured is a run that reports figures.
type measured interface {
	Series() []Series
	Drops() (undelivered, refused uint64)
}
