// SPDX-License-Identifier: Apache-2.0

package health

// The thread that makes the checks: it has entered the network namespace, waits with epoll, and owns all servers.

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// readBuffer is how much one call reads from a socket.
	readBuffer = 32 << 10
	batch      = 256 // events of one epoll_wait
	rounds     = 64  // of a batch each, before timers are looked at
)

// Values of epoll data other than slots of servers.
const (
	slotWake = -1 - iota
	slotEcho4
	slotEcho6
)

// thread is the state of the thread. Only the thread uses it, except where it says otherwise.
type thread struct {
	c         *Checker
	sched     scheduler
	namespace string
	base      time.Time
	epoll     int
	// slots has the servers by the number in their epoll events; free are the numbers not in use.
	slots []*server
	free  []int32
	buf   []byte
	echo  pinger
	gate  gate
}

// startThread starts the thread of a Checker.
func startThread(c *Checker, o Options) error {
	epoll, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return fmt.Errorf("epoll: %w", err)
	}
	t := &thread{c: c, namespace: o.Namespace, base: time.Now(), epoll: epoll, buf: make([]byte, readBuffer),
		gate: make(gate, o.Handshakes)}
	t.sched = scheduler{wheel: newWheel(), random: rand.New(rand.NewPCG(rand.Uint64(), rand.Uint64())), prober: t, //nolint:gosec // spreads load
		publish: t.publish, clock: t.now, count: &c.count}
	t.echo = newPinger()
	err = unix.EpollCtl(epoll, unix.EPOLL_CTL_ADD, c.wake, &unix.EpollEvent{Events: unix.EPOLLIN, Fd: slotWake})
	if err != nil {
		unix.Close(epoll)
		return fmt.Errorf("epoll: %w", err)
	}
	entered := make(chan error)
	go t.begin(entered)
	if err := <-entered; err != nil {
		unix.Close(epoll)
		return err
	}
	return nil
}

// begin runs on a thread of its own, other than the first thread of the process: /proc/PID/ns would show the namespace
// of that thread as the process's.
func (t *thread) begin(entered chan<- error) {
	runtime.LockOSThread()
	if unix.Gettid() == unix.Getpid() {
		moved := make(chan struct{})
		go func() {
			runtime.LockOSThread()
			close(moved)
			t.enter(entered)
		}()
		<-moved // while this goroutine occupies the first thread
		runtime.UnlockOSThread()
		return
	}
	t.enter(entered)
}

// enter enters the namespace, reports whether that has worked, and makes the checks until the Checker closes.
func (t *thread) enter(entered chan<- error) {
	back, err := enterNamespace(t.namespace)
	t.c.tid = unix.Gettid()
	entered <- err
	if err != nil {
		runtime.UnlockOSThread()
		return
	}
	t.run()
	if back() == nil {
		runtime.UnlockOSThread()
	} // otherwise the thread ends with the goroutine
	t.c.done.Done()
}

// enterNamespace moves the thread. After an error it is where it was.
func enterNamespace(path string) (back func() error, err error) {
	if path == "" {
		return func() error { return nil }, nil
	}
	to, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("network namespace: %w", err)
	}
	defer to.Close()
	from, err := os.Open("/proc/thread-self/ns/net")
	if err != nil {
		return nil, fmt.Errorf("network namespace: %w", err)
	}
	if err := unix.Setns(int(to.Fd()), unix.CLONE_NEWNET); err != nil {
		from.Close()
		return nil, fmt.Errorf("enter the network namespace %s: %w", path, err)
	}
	return func() error {
		defer from.Close()
		return unix.Setns(int(from.Fd()), unix.CLONE_NEWNET)
	}, nil
}

func (t *thread) now() time.Duration { return time.Since(t.base) }

// run makes checks until the Checker closes, and frees everything.
func (t *thread) run() {
	events := make([]unix.EpollEvent, batch)
	for t.commands() {
		t.sched.advance()
		// All answers that are there are read before deadlines are looked at: the thread may be late itself.
		for range rounds {
			if t.wait(events) < len(events) {
				break
			}
		}
	}
	t.c.cancel()
	for _, s := range t.slots {
		if s != nil {
			t.drop(s)
		}
	}
	t.c.jobs.Wait()
	for _, r := range t.takeResults() {
		r.session.close()
	}
	t.echo.close()
	unix.Close(t.epoll)
}

// wait waits for the next timer or for events, and returns how many there were.
func (t *thread) wait(events []unix.EpollEvent) int {
	n, err := unix.EpollWait(t.epoll, events, t.pause())
	if err != nil && !errors.Is(err, unix.EINTR) {
		panic(fmt.Sprintf("health checks: epoll_wait: %v", err)) // impossible by the manual
	}
	for _, e := range events[:max(n, 0)] {
		t.event(e)
	}
	return n
}

// pause is the time until the next timer, in milliseconds; -1 if there is none.
func (t *thread) pause() int {
	at, ok := t.sched.wheel.next()
	if !ok {
		return -1
	}
	left := max(at-t.now(), 0)
	return int((left + time.Millisecond - 1) / time.Millisecond)
}

func (t *thread) event(e unix.EpollEvent) {
	switch e.Fd {
	case slotWake:
		var count [8]byte
		_, _ = unix.Read(t.c.wake, count[:]) // nothing to read is fine, too: commands are looked at in any case
	case slotEcho4, slotEcho6:
		t.echoes(e.Fd == slotEcho6)
	default:
		if s := t.slots[e.Fd]; s != nil && s.conn.slot == e.Fd {
			t.ready(s, e.Events)
		}
	}
}

// commands carries out what callers and goroutines have left; false if the Checker closes.
func (t *thread) commands() bool {
	t.c.mu.Lock()
	queue, closed := t.c.queue, t.c.closed
	t.c.queue = nil
	wants := make([]*prepared, len(queue))
	for i, e := range queue {
		e.queued, wants[i] = false, e.want
	}
	t.c.mu.Unlock()
	if closed {
		return false
	}
	for i, e := range queue {
		t.apply(e, wants[i])
	}
	for _, r := range t.takeResults() {
		t.result(r)
	}
	return true
}

func (t *thread) takeResults() []result {
	t.c.mu.Lock()
	defer t.c.mu.Unlock()
	r := t.c.results
	t.c.results = nil
	return r
}

// apply makes the server of an entry what it should be.
func (t *thread) apply(e *entry, want *prepared) {
	checked := want.active()
	switch s := e.server; {
	case s == nil && checked:
		s = &server{entry: e, check: want}
		s.conn.slot = t.slot(s)
		e.server = s
		t.sched.add(s)
	case s != nil && !checked:
		t.drop(s)
		e.server = nil
	case s != nil && s.check != want:
		t.sched.change(s, want)
	}
}

// slot takes a number for the events of a server.
func (t *thread) slot(s *server) int32 {
	if n := len(t.free); n > 0 {
		slot := t.free[n-1]
		t.free = t.free[:n-1]
		t.slots[slot] = s
		return slot
	}
	t.slots = append(t.slots, s)
	return int32(len(t.slots) - 1)
}

// drop removes a server. It is called outside of the loop over events, so none of them is for the slot's next server.
func (t *thread) drop(s *server) {
	t.sched.stop(s)
	t.slots[s.conn.slot] = nil
	t.free = append(t.free, s.conn.slot)
}

// publish makes a result visible.
func (t *thread) publish(s *server, out outcome, _ bool, now time.Duration) {
	t.c.mu.Lock()
	defer t.c.mu.Unlock()
	if e := s.entry; e.want.active() {
		t.c.record(e, out, s.judge.status, now-s.began, time.Now()) // the host's clock may have been set
	}
}

// recovered is deferred: a panic in the check of a server is a failure of the server.
func (t *thread) recovered(s *server) {
	if r := recover(); r != nil {
		t.c.count.panics.Add(1)
		t.sched.stop(s)
		t.sched.finish(s, failure(panicText(r)))
	}
}

func panicText(r any) string { return fmt.Sprintf("internal error while checking: %v", r) }

// start is a part of prober.
func (t *thread) start(s *server) {
	defer t.recovered(s)
	switch {
	case s.check.Kind == ICMP:
		t.sendEcho(s)
	case s.session != nil:
		t.launch(s, -1)
	case s.conn.connected:
		t.request(s)
	default:
		t.connect(s)
	}
}

// expire is a part of prober.
func (t *thread) expire(s *server) (why string) {
	defer func() {
		if r := recover(); r != nil {
			t.c.count.panics.Add(1)
			why = panicText(r)
		}
	}()
	within := seconds(s.timeout)
	why = "no response within " + within
	if s.check.Kind == ICMP {
		t.echo.forget(s)
		return why
	}
	if s.phase == exchanging {
		why = "connected, but " + why
		if s.conn.answer.got {
			why = "the response was incomplete after " + within
		}
	}
	t.closeSocket(s)
	return why
}

// release is a part of prober.
func (t *thread) release(s *server) {
	t.echo.forget(s)
	t.closeSocket(s)
	if s.session != nil {
		t.c.jobs.Add(1)
		go func(is *session) { // closing TLS may wait for the peer
			defer t.c.jobs.Done()
			is.close()
		}(s.session)
		s.session = nil
	}
}

// seconds writes a timeout as errors do: 2 s, 1.5 s or 250 ms.
func seconds(d time.Duration) string {
	if d < time.Second {
		return fmt.Sprintf("%d ms", d.Milliseconds())
	}
	return fmt.Sprintf("%g s", d.Seconds())
}
