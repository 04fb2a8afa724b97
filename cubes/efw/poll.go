// SPDX-License-Identifier: Apache-2.0

package efw

// Looks for changes of iptables-legacy: once for all cubes of the daemon, as long as one of them asks. Where the kernel lets a program
// tell when a table is swapped, it looks then, otherwise periodically.

import (
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"
)

// How often tables of iptables-legacy are compared: while the verdict on a packet depends on them, and while none does, so that
// a change costs nothing but a later fast path. The longer period is that of tables whose swaps are told, too.
const (
	legacyPeriod = 20 * time.Millisecond
	idlePeriod   = 200 * time.Millisecond
)

// namespace identifies a network namespace while something of it is open.
type namespace struct{ device, inode uint64 }

// pollers are those of the daemon, which has one namespace; tests have more. This is state of the package because cubes know
// nothing of each other.
var pollers = struct {
	sync.Mutex
	of map[namespace]*poller
	// swaps tells all of them when to look; nil if nothing does, because of an error.
	swaps    *swaps
	swapless error
}{of: map[namespace]*poller{}}

// poller looks at the tables of one namespace.
type poller struct {
	reader *legacyReader
	at     namespace
	clock  *clock
	// subscribers and their needs are guarded by the lock of the pollers.
	subscribers map[*subscriber]bool
}

// subscriber is a cube that is told about changes. One who is slow gets one notice for several.
type subscriber struct {
	p       *poller
	changes chan struct{}
	depends bool
}

// followLegacy begins to tell about changes in a namespace that a function visits. What was changed before it returns may be told, too.
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
		p.reader.look()
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

// lookNow has all pollers look.
func lookNow() {
	pollers.Lock()
	defer pollers.Unlock()
	for _, p := range pollers.of {
		_ = p.pace() // the clock continues as it was set before
	}
}

// swapless returns why swaps of tables are not told, nil if they are.
func swapless() error {
	pollers.Lock()
	defer pollers.Unlock()
	return pollers.swapless
}

// depend says whether verdicts depend on the tables. If they begin to, the tables are compared at once, as that may have been long ago.
func (s *subscriber) depend(depends bool) error {
	pollers.Lock()
	defer pollers.Unlock()
	if s.depends == depends {
		return nil
	}
	s.depends = depends
	return s.p.pace()
}

// close ends it. The channel of changes is closed.
func (s *subscriber) close() error {
	pollers.Lock()
	unused, err := s.end()
	pollers.Unlock()
	return errors.Join(err, unused.close())
}

// end does so, with the lock held. It returns what is to be closed without it, because nobody is told any more.
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

// pace has the poller look now, and then as often as is needed. The lock is held.
func (p *poller) pace() error {
	if err := p.clock.set(p.period()); err != nil {
		return fmt.Errorf("look for changes of iptables-legacy: %w", err)
	}
	return nil
}

// run looks until there is no subscriber left.
func (p *poller) run() {
	defer p.reader.close()
	defer p.clock.close()
	for {
		if !p.clock.wait() {
			time.Sleep(legacyPeriod) // it goes on looking without a clock: a gate may be open
		}
		if !p.wanted() {
			return
		}
		if p.reader.look() {
			p.tell()
			followLater()
		}
	}
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

// tell tells the subscribers that something has changed.
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
