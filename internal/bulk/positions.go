// SPDX-License-Identifier: Apache-2.0

package bulk

// Lists whose keys are positions. An insertion or a removal changes the positions of all entries after it, but it should
// cost as much as one entry. So an entry is stored under a number that only orders it, with gaps between the numbers
// of neighbours, and gets its position when it is read: the tree finds an entry by rank. Where a gap is used up,
// the entries around it get other numbers ("list labeling"; D. E. Willard, Maintaining dense sequential files in a
// dynamic environment, STOC 1982).

import (
	"fmt"
	"strconv"
)

const (
	// orders is the number of orders.
	orders = 1 << 31
	// stride is the distance of entries that are appended one after another, from the middle.
	stride = 1 << 13
	// MaxPositions is how many entries a table of positions can have.
	MaxPositions = orders >> 7
)

// position returns the position in keys.
func position(keys []string) (int, bool) {
	if len(keys) != 1 {
		return 0, false
	}
	at, err := strconv.ParseUint(keys[0], 10, 32)
	return int(at), err == nil
}

// Insert adds an entry to a table of positions; its key is the position, and entries from there on move. It returns the
// addition, after the entries that got other orders to make room.
func (t *Table) Insert(e *Entry) ([]Change, error) {
	at, ok := position(e.Keys)
	switch {
	case !t.form.Positions || !ok:
		return nil, fmt.Errorf("an entry cannot be inserted at %q", e.Keys)
	case at > t.Len():
		return nil, fmt.Errorf("there are %d entries, so the next one is %d", t.Len(), t.Len())
	case t.Len() >= MaxPositions:
		return nil, fmt.Errorf("there are %d entries already, which is the maximum", MaxPositions)
	}
	order, changes := t.room(at)
	added := *e
	added.order, added.serial = order, serials.Add(1)
	stored := added.keyed(uint64(order))
	t.entries.Set(stored)
	t.count(stored, 1)
	return append(changes, Change{At: e.Keys, New: stored}), nil
}

// Restore adds an entry under the key of its text, as Stored gave it. It returns false if there is one with this key.
func (t *Table) Restore(e *Entry) bool {
	if t.form.Positions {
		order, ok := position(e.Keys)
		if !ok || order >= orders {
			return false
		}
		restored := *e
		restored.order, restored.serial = uint32(order), serials.Add(1)
		e = &restored
	}
	if _, ok := t.entries.Get(e); ok {
		return false
	}
	t.entries.Set(e)
	t.count(e, 1)
	return true
}

// order returns the order of the entry at a position: less than all before the first, greater after the last.
func (t *Table) order(at int) int64 {
	if at < 0 {
		return -1
	}
	if e, ok := t.entries.GetAt(at); ok {
		return int64(e.order)
	}
	return orders
}

// room returns a free order for a new entry at a position, and how others change for that.
func (t *Table) room(at int) (uint32, []Change) {
	before, after := t.order(at-1), t.order(at)
	switch {
	case t.Len() == 0:
		return orders / 2, nil
	case at == t.Len() && before+stride < orders:
		return uint32(before + stride), nil
	case at == 0 && after-stride >= 0:
		return uint32(after - stride), nil
	case after-before > 1:
		return uint32(before + (after-before)/2), nil
	}
	return t.spread(at)
}

// spread gives the entries around a position other orders, and returns the order between them. The more entries move,
// the wider apart they must get, so that it takes longer until as many have to move again.
func (t *Table) spread(at int) (uint32, []Change) {
	var from, to int // the entries that move
	var low, gap int64
	for size, enough := 8, int64(8); ; size, enough = 2*size, enough*3/2 {
		from, to = max(at-size, 0), min(at+size, t.Len())
		low = t.order(from - 1)
		gap = (t.order(to) - low) / int64(to-from+2)
		if gap >= enough || to-from == t.Len() {
			break
		}
	}
	moving := make([]*Entry, 0, to-from)
	for i := from; i < to; i++ {
		e, _ := t.entries.GetAt(i)
		moving = append(moving, e)
	}
	for _, e := range moving {
		t.entries.Delete(e)
	}
	var free uint32
	changes := make([]Change, 0, len(moving)+1)
	next := low
	for i, e := range moving {
		if from+i == at {
			next += gap
			free = uint32(next)
		}
		next += gap
		if next == int64(e.order) {
			t.entries.Set(e)
			continue
		}
		other := *e
		other.order = uint32(next)
		stored := other.keyed(uint64(next))
		t.entries.Set(stored)
		changes = append(changes, Change{At: []string{strconv.Itoa(from + i)}, Old: e, New: stored})
	}
	if at == to {
		free = uint32(next + gap)
	}
	return free, changes
}
