// SPDX-License-Identifier: Apache-2.0

package fdb

// The fast path does not use an aged entry, and state does not show it; a sweep makes its
// place free. It also mends what a race between a frame and a change can leave behind: an
// address learned from a port while the port was taken away, or a configured entry whose memory
// a program still held as that of the learned one before.

import (
	"time"

	"github.com/polycube/polycube/aging"
	"github.com/polycube/polycube/cube"
)

// SetAging sets the aging time, and by it how often to sweep.
func (d *Database[K]) SetAging(limit time.Duration) {
	d.aging = limit
	d.timer.Every(d.env, aging.Period(limit), d.sweepNow)
}

func (d *Database[K]) sweepNow() {
	if err := d.sweep(); err != nil {
		d.env.Logger().Error("aging the filtering database", "error", err)
	}
}

// sweep removes what is aged or behind no port, and holds configured entries to what they are.
func (d *Database[K]) sweep() error {
	now, err := cube.TimeCoarse()
	if err != nil {
		return err
	}
	right := map[K]bool{}
	var gone []K
	for k, e := range d.table.All(&err) {
		if port, ok := d.static[k]; ok {
			right[k] = e.Fixed != 0 && e.Port == port
			continue
		}
		if !d.live(k, e, now) {
			gone = append(gone, k)
		}
	}
	if err != nil {
		return err
	}
	if _, err := d.table.DeleteAll(gone); err != nil {
		return err
	}
	for k, port := range d.static {
		if right[k] {
			continue
		}
		if err := d.set(k, Entry{Seen: now, Port: port, Fixed: 1}); err != nil {
			return err
		}
	}
	return nil
}
