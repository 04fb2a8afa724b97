// SPDX-License-Identifier: Apache-2.0

package health

// What callers use. Calls never wait for a check: they leave commands for the thread, and read states that it has
// published.

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/polycube/polycube/cube"
)

// Options are the options of a Checker.
type Options struct {
	// Namespace is the file of the network namespace to check from, such as /run/netns/NAME, or /proc/self/fd/N for a
	// descriptor. Empty is the namespace of the process.
	Namespace string
	// Changed, if set, is called when the status of a server changes, from a goroutine that holds no lock, one call at a
	// time. For each id, the calls are in order. While a call takes long, further changes of an id are combined, so that
	// the last call always has the last state. There is no call for an id that was removed, unless it has begun. It may
	// call the Checker's methods, except Close.
	Changed func(id string, is State)
	// Handshakes limits how many TLS handshakes compute at the same time: by default half of the CPUs that Go uses, at
	// least one. A handshake that waits for its server does not count.
	Handshakes int
}

// ErrUnknown is returned for an id that is not set.
var ErrUnknown = fmt.Errorf("no such health check: %w", cube.ErrNotFound)

// errClosed is returned after Close.
var errClosed = errors.New("the health checker is closed")

// Checker checks servers. Its methods may be called concurrently.
type Checker struct {
	changed func(id string, is State)
	wake    int // eventfd
	tid     int // of the thread; valid once it has started
	count   counters
	ctx     context.Context // done when the Checker closes
	cancel  context.CancelFunc
	jobs    sync.WaitGroup
	done    sync.WaitGroup // thread and notifier

	mu      sync.Mutex // guards what follows, and the entries
	notify  sync.Cond
	closed  bool
	entries map[string]*entry
	// queue has the entries that the thread has to look at, results those of goroutines.
	queue   []*entry
	results []result
	// notices are the entries with a change for the callback.
	notices []*entry
}

// entry is what callers see of an id. All is guarded by Checker.mu, except server, which the thread owns.
type entry struct {
	id      string
	want    *prepared // nil: removed
	queued  bool
	state   State
	noticed bool
	owner   *Checker
	server  *server
}

func (e *entry) status() Status {
	e.owner.mu.Lock()
	defer e.owner.mu.Unlock()
	return e.state.Status
}

// counters are written by the thread and by goroutines.
type counters struct {
	checks, failed, timeouts, skipped, late, connections, handshakes, waited, panics atomic.Uint64
}

// Stats are totals of a Checker.
type Stats struct {
	// Servers by status.
	Unknown, Up, Down int
	// Checks with a result, those that failed, and those of the failed ones that had no answer in time.
	Checks, Failed, Timeouts uint64
	// Skipped are checks that could not be made for a reason on this host.
	Skipped uint64
	// Late are checks that started more than 100 ms after they were due: the host is overloaded.
	Late uint64
	// Connections and Handshakes count TCP connections tried and TLS handshakes begun. HandshakesWaited is how long
	// handshakes waited for others, in total.
	Connections, Handshakes uint64
	HandshakesWaited        time.Duration
	// CPU is the time that the thread has used, including the kernel's part; handshakes and gRPC are not in it.
	CPU time.Duration
	// Panics are errors of this program that a check led to; they count as failures of the server.
	Panics uint64
}

// New starts a Checker, without servers.
func New(o Options) (*Checker, error) {
	if o.Handshakes <= 0 {
		o.Handshakes = max(1, runtime.GOMAXPROCS(0)/2)
	}
	wake, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	if err != nil {
		return nil, fmt.Errorf("health checks: eventfd: %w", err)
	}
	c := &Checker{changed: o.Changed, wake: wake, entries: map[string]*entry{}}
	c.notify.L = &c.mu
	c.ctx, c.cancel = context.WithCancel(context.Background())
	c.done.Add(2)
	if err := startThread(c, o); err != nil {
		c.cancel()
		unix.Close(wake)
		return nil, fmt.Errorf("health checks: %w", err)
	}
	go c.notifier()
	return c, nil
}

// Set adds a server, or changes how it is checked. With another target or another kind of request, its status stays
// and the first result of the new check counts at once; with other times and counts alone, counting continues. The
// error wraps cube.ErrInvalid if the check is invalid, and nothing has changed.
func (c *Checker) Set(id string, check Check) error {
	p, err := check.prepare()
	if err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return errClosed
	}
	e := c.entries[id]
	if e == nil {
		e = &entry{id: id, owner: c, state: State{Status: p.Initial, Since: time.Now()}}
		c.entries[id] = e
	}
	e.want = p
	c.enqueue(e)
	if p.Kind == None {
		e.state.Error = ""
		c.become(e, Up, time.Now())
	}
	return nil
}

// Remove ends the checks of a server. It does nothing if there is none.
func (c *Checker) Remove(id string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	e := c.entries[id]
	if e == nil || c.closed {
		return
	}
	delete(c.entries, id)
	e.want = nil
	c.enqueue(e)
}

// enqueue tells the thread about an entry. The caller holds mu.
func (c *Checker) enqueue(e *entry) {
	if !e.queued {
		e.queued = true
		c.queue = append(c.queue, e)
		c.wakeThread()
	}
}

// wakeThread may be called with or without mu. A write fails only if the thread has already been woken.
func (c *Checker) wakeThread() { _, _ = unix.Write(c.wake, []byte{1, 0, 0, 0, 0, 0, 0, 0}) }

// State returns the state of a server; false if there is none.
func (c *Checker) State(id string) (State, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	e := c.entries[id]
	if e == nil {
		return State{}, false
	}
	return e.state, true
}

// Report sets the status of a server of kind API, at once. why is shown as the error of a server that is down.
func (c *Checker) Report(id string, up bool, why string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	e := c.entries[id]
	switch {
	case c.closed:
		return errClosed
	case e == nil:
		return fmt.Errorf("report the health of %s: %w", id, ErrUnknown)
	case e.want.Kind != API:
		return fmt.Errorf("report the health of %s: its check is not of type API: %w", id, cube.ErrInvalid)
	}
	is, out := Down, failure(why)
	if up {
		is, out = Up, success
	}
	c.count.checks.Add(1)
	if !up {
		c.count.failed.Add(1)
	}
	c.record(e, out, is, 0, time.Now())
	return nil
}

// record takes a result, with the status and the latency. The caller holds mu.
func (c *Checker) record(e *entry, out outcome, is Status, latency time.Duration, now time.Time) {
	s := &e.state
	s.Error = out.why
	if !out.skipped {
		s.Checked = now
		s.Checks++
		if out.ok {
			s.Latency = latency
		} else {
			s.Failed++
		}
	}
	c.become(e, is, now)
}

// become sets the status. The caller holds mu.
func (c *Checker) become(e *entry, is Status, now time.Time) {
	if e.state.Status == is {
		return
	}
	e.state.Status, e.state.Since = is, now
	if c.changed != nil && !e.noticed {
		e.noticed = true
		c.notices = append(c.notices, e)
		c.notify.Signal()
	}
}

// notifier calls the callback.
func (c *Checker) notifier() {
	defer c.done.Done()
	c.mu.Lock() // without defer, which would hide a panic of the callback
	for {
		for len(c.notices) == 0 && !c.closed {
			c.notify.Wait()
		}
		if c.closed {
			c.mu.Unlock()
			return
		}
		notices := c.notices
		c.notices = nil
		for _, e := range notices {
			e.noticed = false
			if e.want == nil || c.closed {
				continue
			}
			state := e.state
			c.mu.Unlock()
			c.changed(e.id, state)
			c.mu.Lock()
		}
	}
}

// Stats returns the totals.
func (c *Checker) Stats() Stats {
	n := &c.count
	s := Stats{
		Checks: n.checks.Load(), Failed: n.failed.Load(), Timeouts: n.timeouts.Load(), Skipped: n.skipped.Load(),
		Late: n.late.Load(), Connections: n.connections.Load(), Handshakes: n.handshakes.Load(),
		HandshakesWaited: time.Duration(n.waited.Load()), Panics: n.panics.Load(), CPU: threadTime(c.tid),
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, e := range c.entries {
		switch e.state.Status {
		case Up:
			s.Up++
		case Down:
			s.Down++
		default:
			s.Unknown++
		}
	}
	return s
}

// threadTime returns the CPU time of a thread of this process; 0 if it has ended.
func threadTime(tid int) time.Duration {
	text, err := os.ReadFile(fmt.Sprintf("/proc/self/task/%d/schedstat", tid))
	if err != nil {
		return 0
	}
	first, _, _ := strings.Cut(string(text), " ")
	ns, err := strconv.ParseInt(first, 10, 64)
	if err != nil {
		return 0
	}
	return time.Duration(ns)
}

// Close ends all checks and waits for the callback in progress. It must not be called from the callback.
func (c *Checker) Close() error {
	c.mu.Lock()
	if c.closed {
		c.mu.Unlock()
		return nil
	}
	c.closed = true
	c.notify.Broadcast()
	c.mu.Unlock()
	c.wakeThread()
	c.done.Wait()
	return unix.Close(c.wake)
}
