// SPDX-License-Identifier: Apache-2.0

// Editing a whole bulk list. A body may have hundreds of thousands of entries: they are processed in the order of their
// keys, so that what one look-up reads of a table is still in the CPU's cache for the next.

package yang

import (
	"slices"

	"github.com/polycube/polycube/internal/bulk"
	"github.com/polycube/polycube/internal/fault"
)

// presence says what may exist before an entry is put.
type presence bool

const (
	// strict: Create requires it to be missing, Merge to exist.
	strict presence = false
	upsert presence = true
)

// candidate is an element of a body that becomes an entry.
type candidate struct {
	value
	at    int
	keys  []string
	mould *mould
	// bodies are what the element says about lists in the entry.
	bodies []bulkBody
	// old is the entry with these keys, and fresh what is added if there is none.
	old, fresh *bulk.Entry
	err        error
}

// put applies entries to a list. Replace removes the others.
func (b *bulkEditor) put(l bulkPlace, items []value, how presence) {
	if l.list.positions {
		first := 0
		if b.op == Create { // entries without a position follow those that exist
			first = b.table(l).Len()
		}
		items = inPlace(l.list, items, first)
	}
	b.table(l) // so that all look into the same one
	m := newMoulds(l)
	candidates := make([]candidate, len(items))
	all := make([]*candidate, len(items))
	for i := range items {
		all[i] = &candidates[i]
		*all[i] = candidate{value: items[i], at: i}
		b.read(m, all[i])
	}
	b.changes = slices.Grow(b.changes, len(all))
	sorted := b.sort(l, all)
	if l.list.positions { // each moves those after it
		for _, c := range all {
			b.examine(m, c, how)
			b.apply(l, c, how)
		}
	} else {
		fresh := true
		for _, c := range sorted {
			b.examine(m, c, how)
			fresh = fresh && c.fresh != nil
		}
		if fresh { // otherwise there may be faults, of which the first ones in the body are reported
			all = sorted
		}
		for _, c := range all {
			b.apply(l, c, how)
		}
	}
	if b.op == Replace && len(b.errs) == 0 {
		b.removeOthers(l, sorted)
	}
}

// read finds the keys of an element of a body.
func (b *bulkEditor) read(m *moulds, c *candidate) {
	if b.ended(m, c) {
		return
	}
	if c.kind != objectValue {
		c.err = fault.At(InvalidValue, m.path(), "element %d is %s, but must be an object", c.at, c.kind)
		return
	}
	if c.keys, c.err = m.keys(c.at, c.value); c.err == nil && m.list.holdsBulk {
		c.value, c.bodies = m.list.cutBulk(slices.Concat(m.above, c.keys), c.value)
	}
	c.mould = m.mould(c.value)
}

// ended refuses a candidate if nobody waits for the edit any more.
func (b *bulkEditor) ended(m *moulds, c *candidate) bool {
	err := b.ctx.Err()
	if err != nil {
		c.err = fault.At(InvalidValue, m.path(), "element %d: %v", c.at, err)
	}
	return err != nil
}

// sort returns the candidates in the order of their keys, and refuses those whose keys another one has.
func (b *bulkEditor) sort(l bulkPlace, all []*candidate) []*candidate {
	table := b.t.tables.At(l.list.path, l.above)
	sorted := slices.Clone(all)
	slices.SortFunc(sorted, func(x, y *candidate) int {
		if c := table.Compare(x.keys, y.keys); c != 0 {
			return c
		}
		return x.at - y.at
	})
	for i, c := range sorted {
		if i > 0 && c.keys != nil && slices.Equal(c.keys, sorted[i-1].keys) {
			c.err = fault.At(InvalidValue, l.at(c.keys), "is given twice")
		}
	}
	return sorted
}

// examine finds out what a candidate becomes. It changes nothing but the candidate.
func (b *bulkEditor) examine(m *moulds, c *candidate, how presence) {
	if c.err != nil || b.ended(m, c) {
		return
	}
	c.old, _ = b.t.tables.At(m.list.path, m.above).Find(c.keys, &m.near)
	if c.old == nil && !b.fixed(m.list) && (b.op != Merge || how == upsert) {
		c.fresh, c.err = m.entry(c.keys, c.value, c.mould)
	}
}

// apply adds an entry, or changes the one that exists.
func (b *bulkEditor) apply(l bulkPlace, c *candidate, how presence) {
	if len(b.errs) >= maxFaults {
		return
	}
	defer func() { b.within(l, c.keys, c.bodies) }()
	switch {
	case c.err != nil:
		b.fail(c.err)
	case c.fresh != nil:
		b.insert(l, c.fresh)
	case c.old == nil && b.fixed(l.list):
		b.refuse(l.at(c.keys), c.value, fixedEntry(l, c.keys))
	case c.old == nil:
		b.refuse(l.at(c.keys), c.value, fault.At(DataMissing, l.at(c.keys), "does not exist"))
	case b.op == Create && how == strict:
		b.refuse(l.at(c.keys), c.value, fault.At(DataExists, l.at(c.keys), "exists already"))
	case b.op == Replace:
		b.change(l, c.old, Replace, l.at(c.keys), c.value)
	default:
		b.change(l, c.old, Merge, l.at(c.keys), c.value)
	}
}

// removeOthers removes the entries that are not among the candidates, which are in the order of their keys.
func (b *bulkEditor) removeOthers(l bulkPlace, all []*candidate) {
	var gone []*bulk.Entry
	table := b.table(l)
	table.All(func(e *bulk.Entry) bool {
		for len(all) > 0 && table.Compare(all[0].keys, e.Keys) < 0 {
			all = all[1:]
		}
		if len(all) == 0 || !slices.Equal(all[0].keys, e.Keys) {
			gone = append(gone, e)
		}
		return true
	})
	if len(gone) > 0 && b.fixed(l.list) {
		b.fail(fault.At(InvalidValue, l.at(gone[0].Keys), "is fixed at creation"))
		return
	}
	for _, e := range slices.Backward(gone) {
		b.remove(l, e)
	}
}
