// SPDX-License-Identifier: Apache-2.0

// The entries of a bulk list. A table is copied in constant time, and copies share common parts, so that readers keep
// their version while the next one is built.

package yang

import (
	"cmp"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/tidwall/btree"
)

// Entry is an entry of a bulk list. It is never changed.
type Entry struct {
	keys []string
	// full has defaults, saved only explicit values. They share memory if equal.
	full, saved string
	// refs are the values of the leafrefs, as refID encodes them.
	refs []string
}

// refID encodes a leafref: its number among the list's references, and the value.
func refID(ref int, value string) string { return string(rune('0'+ref)) + value }

// splitRef is the reverse of refID.
func splitRef(id string) (ref int, value string) {
	r, n := utf8.DecodeRuneInString(id)
	return int(r - '0'), id[n:]
}

// Keys returns the keys in canonical form, in model order.
func (e *Entry) Keys() []string { return e.keys }

// JSON is the entry with all members in model order, with or without defaults.
func (e *Entry) JSON(o JSONOptions) string {
	if o.Defaults {
		return e.full
	}
	return e.saved
}

// Table has the entries of a bulk list in the order of their keys. The tables that a [Tree] returns no longer change,
// and can be read concurrently.
type Table struct {
	list    *Node
	entries *btree.BTreeG[*Entry]
	// used counts the entries that refer to a value.
	used    btree.Map[string, int]
	compare func(a, b []string) int
}

func newTable(list *Node) *Table {
	numeric := make([]bool, len(list.keys))
	for i, k := range list.keys {
		numeric[i] = strings.Contains(k.typ.Base, "int") && len(k.typ.Union) == 0
	}
	compare := func(a, b []string) int {
		for i := range min(len(a), len(b)) {
			if c := compareKeys(a[i], b[i], numeric[i]); c != 0 {
				return c
			}
		}
		return cmp.Compare(len(a), len(b))
	}
	less := func(a, b *Entry) bool { return compare(a.keys, b.keys) < 0 }
	return &Table{list: list, entries: btree.NewBTreeGOptions(less, btree.Options{NoLocks: true}), compare: compare}
}

// compareKeys orders canonical numbers as numbers and the rest as text.
func compareKeys(a, b string, numeric bool) int {
	if !numeric {
		return cmp.Compare(a, b)
	}
	minusA, minusB := strings.HasPrefix(a, "-"), strings.HasPrefix(b, "-")
	switch {
	case minusA && !minusB:
		return -1
	case minusB && !minusA:
		return 1
	}
	c := cmp.Or(cmp.Compare(len(a), len(b)), cmp.Compare(a, b))
	if minusA {
		return -c
	}
	return c
}

// copy returns a table that can be changed without affecting t.
func (t *Table) copy() *Table {
	return &Table{list: t.list, entries: t.entries.Copy(), used: *t.used.Copy(), compare: t.compare}
}

// List returns the node of the list.
func (t *Table) List() *Node { return t.list }

// Len returns the number of entries.
func (t *Table) Len() int { return t.entries.Len() }

// Get finds an entry by its keys in canonical form.
func (t *Table) Get(keys []string) (*Entry, bool) { return t.entries.Get(&Entry{keys: keys}) }

// All calls f for the entries in order, until it returns false.
func (t *Table) All(f func(*Entry) bool) { t.entries.Scan(f) }

// Compare orders keys in canonical form like the table.
func (t *Table) Compare(a, b []string) int { return t.compare(a, b) }

// After calls f for the entries after the one with these keys, which need not exist, until f returns false.
func (t *Table) After(keys []string, f func(*Entry) bool) {
	t.entries.Ascend(&Entry{keys: keys}, func(e *Entry) bool {
		return slices.Equal(e.keys, keys) || f(e)
	})
}

// set replaces the entry with the keys of e, and returns the old one.
func (t *Table) set(e *Entry) *Entry {
	old, _ := t.entries.Set(e)
	t.count(old, -1)
	t.count(e, 1)
	return old
}

func (t *Table) remove(e *Entry) {
	t.entries.Delete(e)
	t.count(e, -1)
}

// referrer finds an entry with a reference.
func (t *Table) referrer(id string) *Entry {
	var found *Entry
	t.All(func(e *Entry) bool {
		if slices.Contains(e.refs, id) {
			found = e
		}
		return found == nil
	})
	return found
}

func (t *Table) count(e *Entry, by int) {
	if e == nil {
		return
	}
	for _, v := range e.refs {
		n, _ := t.used.Get(v)
		if n += by; n == 0 {
			t.used.Delete(v)
		} else {
			t.used.Set(v, n)
		}
	}
}
