// SPDX-License-Identifier: Apache-2.0

package table

// Half-open connections, of <pcn/conntrack_embryo.h>. Programs take entries from each other without a grace period, so
// an entry is copied, and then counts only if its status is the same as before.

import (
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/cilium/ebpf"

	"github.com/polycube/polycube/cube"
)

// embryoRing is struct pcn_conntrack_embryo_ring.
type embryoRing struct {
	embryos uint32
	lines   uint32
	_       [14]uint32
	head    uint32
	_       [15]uint32
}

// Members of the status of an embryo, and enum pcn_embryo_status.
const (
	embryoStatus = 0xf
	embryoOpen   = 1
	embryoDead   = 3
)

// embryos are the half-open connections.
type embryos struct {
	entries []Entry
	ring    *embryoRing
}

// startEmbryos maps the half-open connections into memory. Their table is ready as soon as its size is written. A cube's own
// table has none.
func (t *Table) startEmbryos(maps Maps) error {
	y := &t.young
	var err error
	if y.entries, err = mapped[Entry](t, maps, embryosMap); errors.Is(err, cube.ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	words, err := maps.Map(embryoLinesMap)
	if err != nil {
		return err
	}
	rings, err := mapped[embryoRing](t, maps, embryoRingMap)
	if err != nil {
		return err
	}
	y.ring = &rings[0]
	n, lines := len(y.entries), int(words.MaxEntries())
	if n&(n-1) != 0 || n>>numberBits > 0 || lines&(lines-1) != 0 {
		return fmt.Errorf("%d half-open connections and %d lines do not fit together: %w", n, lines, ebpf.ErrNotSupported)
	}
	y.ring.lines = uint32(lines - 1)
	atomic.StoreUint32(&y.ring.embryos, uint32(n-1))
	return nil
}

// isOpen reports whether an entry is a half-open connection.
func (y *embryos) isOpen(n int) bool {
	return atomic.LoadUint32(&y.entries[n].Status)&embryoStatus == embryoOpen
}

// read copies an entry if it is a half-open connection, and returns its status.
func (y *embryos) read(n int) (Entry, uint32, bool) {
	from := &y.entries[n]
	status := atomic.LoadUint32(&from.Status)
	if status&embryoStatus != embryoOpen {
		return Entry{}, 0, false
	}
	e := Entry{from.Key, open, from.Generation, from.Seen, from.Mark, from.Rule, from.State, from.User}
	return e, status, atomic.AddUint32(&from.Status, 0) == status // also orders the reads before it, on arm64
}

// tries is how often the removal of a half-open connection is tried while packets change it.
const tries = 8

// remove ends the half-open connections that a filter selects, reports them, and returns their number. Programs reuse their memory.
func (y *embryos) remove(selected func(*Entry) bool, ended func(*Entry)) int {
	removed := 0
	for n := range y.entries {
		for range tries {
			e, status, ok := y.read(n)
			if ok && !selected(&e) || !ok && status == 0 {
				break
			}
			if ok && atomic.CompareAndSwapUint32(&y.entries[n].Status, status, status&^embryoStatus|embryoDead) {
				removed++
				ended(&e)
				break
			}
		}
	}
	return removed
}

// HalfOpen returns the number of half-open connections of a zone, which its limit does not count.
func (t *Table) HalfOpen(zone uint16) int {
	count := 0
	for n := range t.young.entries {
		if e, _, ok := t.young.read(n); ok && e.Key.Zone == zone {
			count++
		}
	}
	return count
}
