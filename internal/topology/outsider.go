// SPDX-License-Identifier: Apache-2.0

package topology

// A service that is not part of the daemon: who asked for it, and its lives, one after the other.

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"time"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/internal/store"
)

// Registration is a service that is not part of the daemon, as a request names it and the store keeps it.
type Registration struct {
	Name string `json:"name"`
	// Type is lib, an executable that the daemon starts, or grpc, a process that listens elsewhere.
	Type string `json:"type"`
	// URI is the path of the executable, or HOST:PORT.
	URI string `json:"uri"`
}

// Host starts services that are not part of the daemon.
type Host interface {
	// Start begins a life of a service: a process or a connection. again is an earlier life of the same version, nil if
	// there was none or another version is wanted. The context bounds the start alone.
	Start(ctx context.Context, r Registration, again Life) (Life, error)
}

// Life is a running service, from its start until it is lost or closed. It does not come back: Start makes the next.
type Life interface {
	// Service is what it says it is. Its instances fail when the life has ended.
	Service() cube.Service
	// Done is closed when the life has ended, of which Err is the reason.
	Done() <-chan struct{}
	Err() error
	// Close ends it.
	Close()
}

// serviceKey begins the keys in the store of services.
const serviceKey = "service/"

// outsider is one of them.
type outsider struct {
	name string
	// turn holds one token: who has it may begin and end lives.
	turn chan struct{}
	// ended is closed when the service is removed.
	ended chan struct{}

	mu       sync.Mutex
	reg      Registration
	life     Life // nil while there is none
	last     Life // the life, or the one that ended
	since    time.Time
	restarts int
	failure  string
	// changed is closed when another life takes over.
	changed chan struct{}
}

func newOutsider(reg Registration) *outsider {
	o := &outsider{name: reg.Name, reg: reg, turn: make(chan struct{}, 1), ended: make(chan struct{}),
		changed: make(chan struct{}), since: time.Now()}
	o.turn <- struct{}{}
	return o
}

func (o *outsider) take(ctx context.Context) error {
	select {
	case <-o.turn:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("service %s: waiting for another change of it to end: %w", o.name, ctx.Err())
	}
}

func (o *outsider) give() { o.turn <- struct{}{} }

// hold takes the turn of an outsider that nobody else knows yet.
func (o *outsider) hold() { <-o.turn }

// end says that the service is removed, for good.
func (o *outsider) end() { close(o.ended) }

// gone is closed when the service is removed.
func (o *outsider) gone() <-chan struct{} { return o.ended }

// lastLife is the present life or the last one, nil if there was none.
func (o *outsider) lastLife() Life {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.last
}

// restarted counts a life that follows another one.
func (o *outsider) restarted() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.restarts++
}

// state says how the service is.
func (o *outsider) state() ServiceState {
	o.mu.Lock()
	defer o.mu.Unlock()
	st := ServiceState{Registration: o.reg, Running: o.life != nil, Since: o.since, Restarts: o.restarts, Error: o.failure}
	if x, ok := o.life.(measured); ok {
		st.Undelivered, st.Refused = x.Drops()
	}
	return st
}

// series are the figures that the service gave last.
func (o *outsider) series() []Series {
	if _, life, _ := o.now(); life != nil {
		if x, ok := life.(measured); ok {
			return x.Series()
		}
	}
	return nil
}

// now returns the life and what is closed when there is another one.
func (o *outsider) now() (Registration, Life, <-chan struct{}) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.reg, o.life, o.changed
}

// live notes that a life has begun, and returns the one before.
func (o *outsider) live(reg Registration, life Life) Life {
	o.mu.Lock()
	defer o.mu.Unlock()
	before := o.life
	o.reg, o.life, o.last, o.since, o.failure = reg, life, life, time.Now(), ""
	close(o.changed)
	o.changed = make(chan struct{})
	return before
}

// dead notes that a life has ended, or that none has begun; it reports whether there was one that ended.
func (o *outsider) dead(life Life, why error) bool {
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

// lived is how long the life has lasted.
func (o *outsider) lived() time.Duration {
	o.mu.Lock()
	defer o.mu.Unlock()
	return time.Since(o.since)
}

func (o *outsider) removed() bool {
	select {
	case <-o.ended:
		return true
	default:
		return false
	}
}

// said notes why an attempt failed; it reports whether that is news.
func (o *outsider) said(err error) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	news := o.failure != err.Error()
	o.failure = err.Error()
	return news
}

// serviceRecord is a service in the store.
func serviceRecord(reg Registration) (store.Record, error) {
	value, err := json.Marshal(reg)
	if err != nil {
		return store.Record{}, fmt.Errorf("encoding service %s: %w", reg.Name, err)
	}
	return store.Record{Key: serviceKey + reg.Name, Value: value}, nil
}

// ServiceState says how a service is.
type ServiceState struct {
	Registration
	// Running is false while the service is lost.
	Running bool
	// Since is when that began.
	Since time.Time
	// Restarts counts how often the service came back.
	Restarts int
	// Error is why it is lost, or the last attempt to start it failed.
	Error string
	// Undelivered counts packets that did not reach the service since it began, Refused those that it sent and that
	// were not taken.
	Undelivered, Refused uint64
}

// Series is a figure that a service gave of one of its cubes.
type Series struct {
	Service, Cube, Name, Help string
	Counter                   bool
	Labels                    map[string]string
	Value                     float64
}

// measured is a life that has figures.
type measured interface {
	Series() []Series
	Drops() (undelivered, refused uint64)
}
