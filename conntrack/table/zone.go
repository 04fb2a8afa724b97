// SPDX-License-Identifier: Apache-2.0

package table

import (
	"maps"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/polycube/polycube/conntrack"
)

// SetTimeouts sets how long connections of a zone are kept without packets. Those of a zone without timeouts do not
// expire: after a restart, its cube may not be there yet. A cube that is deleted removes its connections by Own.
func (t *Table) SetTimeouts(zone uint16, timeouts conntrack.Timeouts) {
	t.setting.Lock()
	defer t.setting.Unlock()
	if t.timeouts == nil {
		t.timeouts = map[uint16]*conntrack.Timeouts{}
	}
	t.timeouts[zone] = &timeouts
}

// Sweep removes the connections of all zones that have expired, and those that programs have ended, and returns their
// number. It does nothing if that was done less than an interval ago: every user of the table calls it regularly, and one
// call does the work for all.
func (t *Table) Sweep(interval time.Duration) (int, error) {
	now := monotonic()
	t.setting.Lock()
	if t.swept > 0 && now-t.swept < interval {
		t.setting.Unlock()
		return 0, nil
	}
	t.swept = now
	timeouts := maps.Clone(t.timeouts)
	t.setting.Unlock()
	is := expired(now, timeouts)
	d := Deletion{Table: t, Selects: is, Confirm: is}
	return d.all()
}

// expired is the filter for connections that are idle for longer than the timeout of their state.
func expired(now time.Duration, timeouts map[uint16]*conntrack.Timeouts) func(*Entry) bool {
	return func(e *Entry) bool {
		of := timeouts[e.Key.Zone]
		if of == nil {
			return false
		}
		limit := of.Of(&e.State)
		return limit > 0 && e.Idle(now) > limit
	}
}

// monotonic is the time by the clock of the entries.
func monotonic() time.Duration {
	var ts unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts) // cannot fail for this clock
	return time.Duration(ts.Nano())
}

// Count returns the number of open connections of a zone.
func (t *Table) Count(zone uint16) int { return int(int32(atomic.LoadUint32(&t.zones[zone].count))) }

// Limit sets how many connections a zone may have; 0: no limit but the size of the table. Those that exist stay.
func (t *Table) Limit(zone uint16, limit uint32) { atomic.StoreUint32(&t.zones[zone].limit, limit) }

// Generation returns the generation of a zone's rules.
func (t *Table) Generation(zone uint16) uint32 { return atomic.LoadUint32(&t.zones[zone].generation) }

// NextGeneration records that a zone's rules have changed: the next packet of each connection goes through them.
func (t *Table) NextGeneration(zone uint16) { atomic.AddUint32(&t.zones[zone].generation, 1) }
