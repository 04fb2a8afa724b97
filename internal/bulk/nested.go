// SPDX-License-Identifier: Apache-2.0

package bulk

// Lists in the entries of other lists, which have tables of their own: a service of a load balancer has servers. The text of
// an entry does not have them.

import (
	"slices"

	"github.com/polycube/polycube/internal/jsonscan"
)

// Inner is a list in the entries of another one.
type Inner struct {
	Name string
	// List is its path in the model.
	List string
	// Before are the members of an entry that come before it in the model.
	Before map[string]bool
}

// In returns the tables of the lists in an entry that have entries, by the names of the lists.
func (ts *Tables) In(t *Table, e *Entry) map[string]*Table {
	var in map[string]*Table
	for _, inner := range t.form.Inner {
		table, ok := ts.by.Get(idOf(inner.List, slices.Concat(t.above, e.Keys)))
		if !ok || table.Len() == 0 {
			continue
		}
		if in == nil {
			in = map[string]*Table{}
		}
		in[inner.Name] = table
	}
	return in
}

// Append appends the text of an entry of a table with the lists in it; full is with defaults.
func (ts *Tables) Append(buf []byte, t *Table, e *Entry, full bool) []byte {
	text := e.Saved
	if full {
		text = e.Full
	}
	in := ts.In(t, e)
	if in == nil {
		return append(buf, text...)
	}
	members, _ := jsonscan.ReadObject([]byte(text)) // it was printed by us
	names := members.Names()
	begin := len(buf)
	buf = append(buf, '{')
	name := func(name string) {
		if len(buf) > begin+1 {
			buf = append(buf, ',')
		}
		buf = append(jsonscan.AppendString(buf, name), ':')
	}
	upTo := func(before map[string]bool) {
		for len(names) > 0 && (before == nil || before[names[0]]) {
			value, _ := members.Get(names[0])
			name(names[0])
			buf = append(buf, value...)
			names = names[1:]
		}
	}
	for _, inner := range t.form.Inner {
		if table := in[inner.Name]; table != nil {
			upTo(inner.Before)
			name(inner.Name)
			buf = ts.AppendAll(buf, table, full)
		}
	}
	upTo(nil)
	return append(buf, '}')
}

// AppendAll appends the entries of a table as an array.
func (ts *Tables) AppendAll(buf []byte, t *Table, full bool) []byte {
	buf = append(buf, '[')
	comma := false
	t.All(func(e *Entry) bool {
		if comma {
			buf = append(buf, ',')
		}
		comma = true
		buf = ts.Append(buf, t, e, full)
		return true
	})
	return append(buf, ']')
}
