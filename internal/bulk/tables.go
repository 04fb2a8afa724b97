// SPDX-License-Identifier: Apache-2.0

package bulk

import (
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"

	"github.com/tidwall/btree"
)

// Tables are the tables of a configuration; nil of one that is not known. They are copied in constant time, as each edit
// of a configuration makes a copy, and there may be ten thousand of them.
type Tables struct {
	forms map[string]*Form
	by    *btree.Map[string, *Table] // by list, and the keys above it: idOf
}

// idOf identifies a table.
func idOf(list string, above []string) string {
	if len(above) == 0 {
		return list + "\x00"
	}
	return fmt.Sprintf("%s\x00%q", list, above)
}

// NewTables returns the empty tables of a model.
func NewTables(forms map[string]*Form) *Tables {
	return &Tables{forms: forms, by: &btree.Map[string, *Table]{}}
}

// Clone returns a copy, whose tables can be replaced.
func (ts *Tables) Clone() *Tables { return &Tables{ts.forms, ts.by.Copy()} }

// At returns the table of a list below the entries with some keys, an empty one if it has no entries.
func (ts *Tables) At(list string, above []string) *Table {
	if t, ok := ts.by.Get(idOf(list, above)); ok {
		return t
	}
	return ts.forms[list].New(above)
}

// Put replaces a table.
func (ts *Tables) Put(t *Table) { ts.by.Set(idOf(t.form.List, t.above), t) }

// Drop removes a table, which then has no entries.
func (ts *Tables) Drop(t *Table) { ts.by.Delete(idOf(t.form.List, t.above)) }

// Of returns the tables of a list that have entries, in the order of the keys above them.
func (ts *Tables) Of(list string) []*Table {
	if ts == nil {
		return nil
	}
	var out []*Table
	ts.by.Ascend(list+"\x00", func(at string, t *Table) bool {
		if !strings.HasPrefix(at, list+"\x00") {
			return false
		}
		if t.Len() > 0 {
			out = append(out, t)
		}
		return true
	})
	slices.SortFunc(out, func(a, b *Table) int { return slices.Compare(a.above, b.above) })
	return out
}

// Below returns the tables of a list that have entries, below list entries with some keys: all keys above the list, or the
// first ones.
func (ts *Tables) Below(list string, keys []string) []*Table {
	if len(keys) == 0 {
		return ts.Of(list)
	}
	var out []*Table
	first := strings.TrimSuffix(idOf(list, keys), "]")
	ts.by.Ascend(first, func(at string, t *Table) bool {
		is := strings.HasPrefix(at, first)
		if is && t.Len() > 0 {
			out = append(out, t)
		}
		return is
	})
	slices.SortFunc(out, func(a, b *Table) int { return slices.Compare(a.above, b.above) })
	return out
}

// Has reports whether a list has entries.
func (ts *Tables) Has(list string) (has bool) {
	ts.by.Ascend(list+"\x00", func(at string, t *Table) bool {
		has = strings.HasPrefix(at, list+"\x00") && t.Len() > 0
		return !has && strings.HasPrefix(at, list+"\x00")
	})
	return has
}

// Each iterates over the tables that have entries, with their lists, in order.
func (ts *Tables) Each() iter.Seq2[string, *Table] {
	return func(yield func(string, *Table) bool) {
		if ts == nil {
			return
		}
		for _, list := range slices.Sorted(maps.Keys(ts.forms)) {
			for _, t := range ts.Of(list) {
				if !yield(list, t) {
					return
				}
			}
		}
	}
}

// Len returns the number of all entries.
func (ts *Tables) Len() (n int) {
	if ts == nil {
		return 0
	}
	ts.by.Scan(func(_ string, t *Table) bool {
		n += t.Len()
		return true
	})
	return n
}
