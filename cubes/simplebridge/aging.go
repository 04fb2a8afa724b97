// SPDX-License-Identifier: Apache-2.0

package simplebridge

// The fast path does not use an aged entry, and state does not show it; a sweep makes its
// place free. It also mends what a race between a frame and a change can leave behind: an
// address learned from a port while the port was taken away, or a configured entry whose memory
// a program still held as that of the learned one before.

import "time"

// Limits of the time between two sweeps: a full table is learned into only after a sweep, and a
// large one takes milliseconds to read.
const (
	minSweep = time.Second
	maxSweep = 10 * time.Second
)

// sweepEvery sets how often to sweep by the aging time. A period that stays keeps its beat.
func (b *bridge) sweepEvery(aging time.Duration) {
	period := maxSweep
	if aging > 0 {
		period = min(max(aging/4, minSweep), maxSweep)
	}
	if period == b.period {
		return
	}
	if b.stopSweep != nil {
		b.stopSweep()
	}
	b.period, b.stopSweep = period, b.env.Every(period, b.sweepNow)
}

func (b *bridge) sweepNow() {
	if !b.open {
		return
	}
	if err := b.sweep(); err != nil {
		b.env.Logger().Error("aging the filtering database", "error", err)
	}
}

// sweep removes what is aged or behind no port, and holds configured entries to what they are.
func (b *bridge) sweep() error {
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
