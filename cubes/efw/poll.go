// SPDX-License-Identifier: Apache-2.0

package efw

// Watches iptables-legacy for changes: once for all cubes of the daemon, as long as one subscribes. Where the kernel lets a
// program report that a table was replaced, tables are compared then, otherwise periodically.

import (
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"
)

// How often iptables-legacy tables are compared: while verdicts depend on them, and while none does, when a late detection only
// delays the fast path. The longer period also applies where replacements are reported.
const (
	legacyPeriod = 20 * time.Millisecond
	idlePeriod   = 200 * time.Millisecond
)

// namespace identifies a network namespace while something of it is open.
type namespace struct{ device, inode uint64 }

// pollers are the daemon's pollers, by namespace: the daemon has one, tests have more. This is package-level state because cubes know
// nothing about each other.
var pollers = struct {
	sync.Mutex
	of map[namespace]*poller
	// swaps tells all of them when to look; nil if nothing does, because of an error.
	swaps    *swaps
	swapless error
}{of: map[namespace]*poller{}}

// poller polls the tables of one namespace.
type poller struct {
	looking sync.Mutex // guards the reader
	reader  *legacyReader
	at      namespace
	clock   *clock
	// subscribers and their needs are guarded by the lock of the pollers.
	subscribers map[*subscriber]bool
}

// subscriber is a cube that is notified of changes. A slow one gets one notification for several.
type subscriber struct {
	p       *poller
	changes chan struct{}
	depends bool
}

// followLegacy subscribes to changes in the namespace that visit enters. It may also notify of changes made before it returns.
func followLegacy(visit func(func() error) error) (*subscriber, error) {
	var is unix.Stat_t
	err := visit(func() error { return unix.Stat("/proc/thread-self/ns/net", &is) })
	if err != nil {
		return nil, fmt.Errorf("identify the network namespace: %w", &os.PathError{Op: "stat", Path: "/proc/thread-self/ns/net", Err: err})
	}
	at := namespace{is.Dev, is.Ino}
	pollers.Lock()
	defer pollers.Unlock()
	p := pollers.of[at]
	if p == nil {
		reader, err := newLegacyReader(visit)
		if err != nil {
			return nil, err
		}
		c, err := newClock()
		if err != nil {
			reader.close()
			return nil, err
		}
		p = &poller{reader: reader, at: at, clock: c, subscribers: map[*subscriber]bool{}}
		pollers.of[at] = p
		if pollers.swaps == nil {
			pollers.swaps, pollers.swapless = followSwaps(swapFunction, lookNow)
		}
		p.look()
		go p.run()
	}
	s := &subscriber{p: p, changes: make(chan struct{}, 1)}
	p.subscribers[s] = true
	if err := p.pace(); err != nil {
		unused, failed := s.end()
		go func() { _ = unused.close() }() // it takes the lock
		return nil, errors.Join(err, failed)
	}
	return s, nil
}

// lookNow makes all pollers compare the tables.
func lookNow() {
	pollers.Lock()
	defer pollers.Unlock()
	for _, p := range pollers.of {
		_ = p.pace() // the clock continues as it was set before
	}
}

// swapless returns why replacements of tables are not reported, nil if they are.
func swapless() error {
	pollers.Lock()
	defer pollers.Unlock()
	return pollers.swapless
}

// depend sets whether verdicts depend on the tables. If they begin to, the tables are compared at once: the last time may be long ago.
func (s *subscriber) depend(depends bool) error {
	pollers.Lock()
	defer pollers.Unlock()
	if s.depends == depends {
		return nil
	}
	s.depends = depends
	return s.p.pace()
}

// close ends the subscription, and closes the channel of changes.
func (s *subscriber) close() error {
	pollers.Lock()
	unused, err := s.end()
	pollers.Unlock()
	return errors.Join(err, unused.close())
}

// end does the same, with the lock held. It returns what the caller closes without the lock, because nobody is notified any more.
func (s *subscriber) end() (unused *swaps, err error) {
	delete(s.p.subscribers, s)
	close(s.changes)
	if len(s.p.subscribers) == 0 {
		delete(pollers.of, s.p.at)
	}
	if len(pollers.of) == 0 {
		unused, pollers.swaps = pollers.swaps, nil
	}
	return unused, s.p.pace()
}

// pace makes the poller look now, and then as often as needed. The lock is held.
func (p *poller) pace() error {
	if err := p.clock.set(p.period()); err != nil {
		return fmt.Errorf("poll iptables-legacy for changes: %w", err)
	}
	return nil
}

// run polls until no subscriber is left.
func (p *poller) run() {
	defer p.reader.close()
	defer p.clock.close()
	for {
		if !p.clock.wait() {
			time.Sleep(legacyPeriod) // keep polling without the clock: a gate may be open
		}
		if !p.wanted() {
			return
		}
		if p.look() {
			p.tell()
			followLater()
		}
	}
}

func (p *poller) look() (changed bool) {
	p.looking.Lock()
	defer p.looking.Unlock()
	return p.reader.look()
}

// changed compares the tables now, and reports whether they have changed since they were last compared. All subscribers are notified.
func (s *subscriber) changed() bool {
	changed := s.p.look()
	if changed {
		s.p.tell()
	}
	return changed
}

// followLater follows swaps if the module with the tables was loaded after the first attempt.
func followLater() {
	pollers.Lock()
	defer pollers.Unlock()
	if len(pollers.of) == 0 || !errors.Is(pollers.swapless, ebpf.ErrNotSupported) {
		return
	}
	if pollers.swaps, pollers.swapless = followSwaps(swapFunction, lookNow); pollers.swapless == nil {
		for _, p := range pollers.of {
			_ = p.pace() // there may have been a swap before
		}
	}
}

// wanted reports whether there are subscribers.
func (p *poller) wanted() bool {
	pollers.Lock()
	defer pollers.Unlock()
	return len(p.subscribers) > 0
}

// period returns how often to look. The lock is held.
func (p *poller) period() time.Duration {
	if pollers.swaps != nil {
		return idlePeriod
	}
	for s := range p.subscribers {
		if s.depends {
			return legacyPeriod
		}
	}
	return idlePeriod
}

// tell notifies the subscribers of a change.
func (p *poller) tell() {
	pollers.Lock()
	defer pollers.Unlock()
	for s := range p.subscribers {
		select {
		case s.changes <- struct{}{}:
		default:
		}
	}
}
