// SPDX-License-Identifier: Apache-2.0

package bulk

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"github.com/tidwall/btree"
)

// Form is what all tables of a list have in common.
type Form struct {
	// List is the list's path in the model.
	List string
	// Numeric says which keys are numbers.
	Numeric []bool
	// Positions: the only key of an entry, a number and the first member of its text, is its position in the table.
	Positions bool
	// Inner are the lists in its entries that have tables of their own, in the order of the model.
	Inner []Inner
}

// Table has the entries of a list in the order of their keys. It is copied in constant time, and copies share common
// parts, so that readers keep their version while the next one is made. Tables that no longer change can be read
// concurrently.
type Table struct {
	form    *Form
	above   []string
	entries *btree.BTreeG[*Entry]
	// used counts the entries that refer to a value.
	used btree.Map[string, int]
	// last is where the last entry was set: the next one is often its neighbour.
	last btree.PathHint
}

// Hint is where an entry was looked for: its neighbours are found with fewer comparisons.
type Hint struct {
	path btree.PathHint
	key  Entry
}

// New returns an empty table, for the list below entries with some keys.
func (f *Form) New(above []string) *Table {
	less := func(a, b *Entry) bool { return f.compare(a.Keys, b.Keys) < 0 }
	if f.Positions {
		less = func(a, b *Entry) bool { return a.order < b.order }
	}
	return &Table{form: f, above: above, entries: btree.NewBTreeGOptions(less, btree.Options{NoLocks: true})}
}

func (f *Form) compare(a, b []string) int {
	for i := range min(len(a), len(b)) {
		if c := compareKeys(a[i], b[i], f.Numeric[i]); c != 0 {
			return c
		}
	}
	return cmp.Compare(len(a), len(b))
}

// compareKeys orders canonical numbers as numbers and the rest as text.
func compareKeys(a, b string, numeric bool) int {
	if !numeric {
		return strings.Compare(a, b)
	}
	minusA, minusB := strings.HasPrefix(a, "-"), strings.HasPrefix(b, "-")
	switch {
	case minusA && !minusB:
		return -1
	case minusB && !minusA:
		return 1
	}
	c := cmp.Or(cmp.Compare(len(a), len(b)), strings.Compare(a, b))
	if minusA {
		return -c
	}
	return c
}

// Copy returns a table that can be changed without affecting t.
func (t *Table) Copy() *Table {
	return &Table{form: t.form, above: t.above, entries: t.entries.Copy(), used: *t.used.Copy()}
}

// Above are the keys of the entries above the list, outermost first.
func (t *Table) Above() []string { return t.above }

// Len returns the number of entries.
func (t *Table) Len() int { return t.entries.Len() }

// Get finds an entry by its keys in canonical form.
func (t *Table) Get(keys []string) (*Entry, bool) { return t.Find(keys, &Hint{}) }

// Find is Get with a hint, for many entries in the order of their keys. It changes the hint.
func (t *Table) Find(keys []string, near *Hint) (*Entry, bool) {
	if !t.form.Positions {
		near.key.Keys = keys
		return t.entries.GetHint(&near.key, &near.path)
	}
	at, ok := position(keys)
	if !ok {
		return nil, false
	}
	e, ok := t.entries.GetAt(at)
	if !ok {
		return nil, false
	}
	return e.keyed(uint64(at)), true
}

// All calls f for the entries in order, until it returns false.
func (t *Table) All(f func(*Entry) bool) { t.After(nil, f) }

// After calls f for the entries after the one with these keys, which need not exist, until f returns false.
func (t *Table) After(keys []string, f func(*Entry) bool) {
	switch {
	case !t.form.Positions && keys == nil:
		t.entries.Scan(f)
	case !t.form.Positions:
		t.entries.Ascend(&Entry{Keys: keys}, func(e *Entry) bool { return slices.Equal(e.Keys, keys) || f(e) })
	default:
		from := 0
		if last, ok := position(keys); ok {
			from = last + 1
		}
		first, ok := t.entries.GetAt(from)
		if !ok {
			return
		}
		t.entries.Ascend(first, func(e *Entry) bool {
			from++
			return f(e.keyed(uint64(from - 1)))
		})
	}
}

// Stored calls f for the entries in order, with the keys under which they are stored, until it returns false.
func (t *Table) Stored(f func(*Entry) bool) { t.entries.Scan(f) }

// Compare orders keys in canonical form like the table.
func (t *Table) Compare(a, b []string) int { return t.form.compare(a, b) }

// Set adds an entry, or replaces the one with its keys, of which it may be a version from Get.
func (t *Table) Set(e *Entry) Change {
	c := Change{At: e.Keys}
	if t.form.Positions {
		if old, ok := t.Get(e.Keys); ok {
			version := *e
			version.order, version.serial = old.order, old.serial
			e = version.keyed(uint64(old.order))
		}
	}
	c.Old, _ = t.entries.SetHint(e, &t.last)
	c.New = e
	t.count(c.Old, -1)
	t.count(e, 1)
	return c
}

// Remove removes an entry that Get returned.
func (t *Table) Remove(e *Entry) Change {
	old, _ := t.entries.Delete(e)
	t.count(old, -1)
	return Change{At: e.Keys, Old: old}
}

// Clear removes all entries, the last one first.
func (t *Table) Clear() []Change {
	out := make([]Change, 0, t.Len())
	at := t.Len()
	t.entries.Reverse(func(e *Entry) bool {
		at--
		c := Change{At: e.Keys, Old: e}
		if t.form.Positions {
			c.At = []string{strconv.Itoa(at)}
		}
		out = append(out, c)
		return true
	})
	empty := t.form.New(t.above)
	t.entries, t.used = empty.entries, empty.used
	return out
}

// Used calls f with each value that entries refer to, until it returns false.
func (t *Table) Used(f func(ref string) bool) {
	t.used.Scan(func(ref string, _ int) bool { return f(ref) })
}

// Referrer finds an entry that refers to a value.
func (t *Table) Referrer(ref string) *Entry {
	var found *Entry
	t.All(func(e *Entry) bool {
		if slices.Contains(e.Refs, ref) {
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
	for _, v := range e.Refs {
		n, _ := t.used.Get(v)
		if n += by; n == 0 {
			t.used.Delete(v)
		} else {
			t.used.Set(v, n)
		}
	}
}
