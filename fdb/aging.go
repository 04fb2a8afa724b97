// SPDX-License-Identifier: Apache-2.0

package fdb

// The fast path does not use an expired entry, and state does not show it; a sweep frees it. It also repairs the result
// of a race between a frame and a change: an address learned on a port while the port was removed, or a configured
// entry that a program overwrote because it still held the previous learned one.

import (
	"errors"
	"time"

	"github.com/polycube/polycube/aging"
	"github.com/polycube/polycube/cube"
)

// SetAging sets the aging time, and from it the interval of sweeps.
func (d *Database[K]) SetAging(limit time.Duration) {
	d.aging = limit
	d.timer.Every(d.env, aging.Period(limit), d.sweepNow)
}

func (d *Database[K]) sweepNow() {
	if err := d.sweep(); err != nil {
		d.env.Logger().Error("age the filtering database", "error", err)
	}
}

// sweep removes entries that have expired or whose port is gone, and restores configured entries.
func (d *Database[K]) sweep() error {
	now, err := cube.TimeCoarse()
	if err != nil {
		return err
	}
	right := map[K]bool{}
	changed := false
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
	if len(gone) > 0 {
		changed = true
		_, err = d.table.DeleteAll(gone)
	}
	for k, port := range d.static {
		if err != nil {
			break
		}
		if !right[k] {
			changed = true
			err = d.set(k, Entry{Seen: now, Port: port, Fixed: 1})
		}
	}
	if changed {
		err = errors.Join(err, d.cache.EndLeases())
	}
	return err
}
