// SPDX-License-Identifier: Apache-2.0

package bulk

import (
	"fmt"
	"iter"
	"maps"
	"slices"
)

// Tables are the tables of a configuration; nil of one that is not known.
type Tables struct {
	forms map[string]*Form
	by    map[id]*Table
}

// id identifies a table: its list, and the keys above it.
type id struct{ list, above string }

func idOf(list string, above []string) id {
	if len(above) == 0 {
		return id{list, ""}
	}
	return id{list, fmt.Sprintf("%q", above)}
}

// NewTables returns the empty tables of a model.
func NewTables(forms map[string]*Form) *Tables { return &Tables{forms, map[id]*Table{}} }

// Clone returns a copy, whose tables can be replaced.
func (ts *Tables) Clone() *Tables { return &Tables{ts.forms, maps.Clone(ts.by)} }

// At returns the table of a list below the entries with some keys, an empty one if it has no entries.
func (ts *Tables) At(list string, above []string) *Table {
	if t := ts.by[idOf(list, above)]; t != nil {
		return t
	}
	return ts.forms[list].New(above)
}

// Put replaces a table.
func (ts *Tables) Put(t *Table) { ts.by[idOf(t.form.List, t.above)] = t }

// Of returns the tables of a list that have entries, in the order of the keys above them.
func (ts *Tables) Of(list string) []*Table {
	if ts == nil {
		return nil
	}
	var out []*Table
	for at, t := range ts.by {
		if at.list == list && t.Len() > 0 {
			out = append(out, t)
		}
	}
	slices.SortFunc(out, func(a, b *Table) int { return slices.Compare(a.above, b.above) })
	return out
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
func (ts *Tables) Len() int {
	if ts == nil {
		return 0
	}
	n := 0
	for _, t := range ts.by {
		n += t.Len()
	}
	return n
}
