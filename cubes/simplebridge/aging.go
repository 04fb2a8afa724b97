// SPDX-License-Identifier: Apache-2.0

package simplebridge

// The fast path does not use an aged entry, and state does not show it; the sweeper makes its
// place free. It also mends what a race between a frame and a change can leave behind: an
// address learned from a port while the port was taken away, or a configured entry whose memory
// a program still held as that of the learned one before.

import (
	"sync"
	"time"
)

// Limits of the time between two sweeps: a full table is learned into only after a sweep, and a
// large one takes milliseconds to read.
const (
	minSweep = time.Second
	maxSweep = 10 * time.Second
)

type sweeper struct {
	period chan time.Duration
	done   chan struct{}
	wait   sync.WaitGroup
}

func startSweeper(b *bridge) *sweeper {
	s := &sweeper{period: make(chan time.Duration, 1), done: make(chan struct{})}
	s.wait.Go(func() { s.run(b) })
	return s
}

// every sets how often to sweep by the aging time.
func (s *sweeper) every(aging time.Duration) {
	period := maxSweep
	if aging > 0 {
		period = min(max(aging/4, minSweep), maxSweep)
	}
	select { // the last period given counts
	case <-s.period:
	default:
	}
	s.period <- period
}

func (s *sweeper) run(b *bridge) {
	timer := time.NewTicker(maxSweep)
	defer timer.Stop()
	for {
		select {
		case <-s.done:
			return
		case period := <-s.period:
			timer.Reset(period)
		case <-timer.C:
			b.sweepNow()
		}
	}
}

// stop ends the goroutine and waits for it.
func (s *sweeper) stop() {
	close(s.done)
	s.wait.Wait()
}

func (b *bridge) sweepNow() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.open {
		return
	}
	if err := b.sweepLocked(); err != nil {
		b.env.Logger().Error("aging the filtering database", "error", err)
	}
}

// sweepLocked removes what is aged or behind no port, and holds configured entries to what
// they are. b.mu is held.
func (b *bridge) sweepLocked() error {
	now, err := clock()
	if err != nil {
		return err
	}
	right := map[Address]bool{}
	err = b.fdb.removeIf(func(a Address, e entry) bool {
		if port, ok := b.static[a]; ok {
			right[a] = e.Fixed != 0 && e.Port == port
			return false
		}
		_, known := b.env.PortName(e.Port)
		return e.Fixed != 0 || !known || e.aged(now, b.aging)
	})
	if err != nil {
		return err
	}
	for a, port := range b.static {
		if right[a] {
			continue
		}
		if err := b.fdb.put(a, entry{Seen: now, Port: port, Fixed: 1}); err != nil {
			return err
		}
	}
	return nil
}
