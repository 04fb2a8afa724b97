// SPDX-License-Identifier: Apache-2.0

package bridge

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
	b.report("aging the filtering database", b.sweep())
}

// sweep removes what is aged or behind no port of its VLAN, and holds configured entries to what
// they are.
func (b *bridge) sweep() error {
	now, err := clock()
	if err != nil {
		return err
	}
	right := map[Key]bool{}
	var gone []Key
	for k, e := range b.fdb.All(&err) {
		if port, ok := b.static[k]; ok {
			right[k] = e.Fixed != 0 && e.Port == port
			continue
		}
		port := b.ports.now[e.Port]
		if e.Fixed != 0 || !port.Member.has(k.vlan()) || e.aged(now, b.aging) {
			gone = append(gone, k)
		}
	}
	if err != nil {
		return err
	}
	if _, err := b.fdb.DeleteAll(gone); err != nil {
		return err
	}
	for k, port := range b.static {
		if right[k] {
			continue
		}
		if err := b.fdb.put(k, entry{Seen: now, Port: port, Fixed: 1}); err != nil {
			return err
		}
	}
	return nil
}
