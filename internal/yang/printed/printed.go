// SPDX-License-Identifier: Apache-2.0

// Package printed keeps the text of a configuration, which is needed after each edit. What an edit did not reach is not
// printed again: members, and the entries of lists.
package printed

import (
	"slices"
	"strings"

	"github.com/polycube/polycube/internal/jsonscan"
)

// Member is a member of a configuration.
type Member struct {
	Name string
	// List says that its value is an array of entries with keys.
	List bool
}

// Value is a value as JSON: Full has all leaves, Saved omits those with their default value. Nil is omitted.
type Value struct{ Full, Saved []byte }

// Source prints the members of a configuration, which are numbered in order.
type Source interface {
	Members() []Member
	// Value prints a member that is no list.
	Value(i int) (Value, error)
	// Entries calls f with each entry of a list.
	Entries(i int, f func(keys []string, v Value)) error
	// Entry prints an entry that exists.
	Entry(i int, keys []string) (Value, error)
}

// Text is a whole configuration as JSON objects. It is never changed.
type Text struct {
	Value
	members []member
}

// member is the text of a member.
type member struct {
	Member
	Value
	entries []entry
}

// entry is an entry of a list, with where it is in the values of its member.
type entry struct {
	id          string
	full, saved span
}

type span struct{ from, to int }

// Member returns the value of a member of Full, nil if there is none.
func (x *Text) Member(name string) []byte {
	for _, m := range x.members {
		if m.Name == name {
			return m.Full
		}
	}
	return nil
}

// Only returns an object with some members of Full.
func (x *Text) Only(names ...string) []byte {
	w := jsonscan.NewWriter(0)
	for _, name := range names {
		w.Add(name, x.Member(name))
	}
	return w.Bytes()
}

// Printer has the last text, and what has changed since. The zero value has none.
type Printer struct {
	text  *Text
	stale map[int]*stale
}

// stale is what has changed of a member: all of it, or some entries of a list.
type stale struct {
	whole bool
	keys  map[string][]string
	// moved are the entries that are no longer at their place, added those that are now at the end, in order.
	moved map[string]bool
	added []string
}

// Forget drops the text.
func (p *Printer) Forget() { *p = Printer{} }

// Member notes that a member may have changed as a whole.
func (p *Printer) Member(i int) {
	if p.text != nil {
		p.of(i).whole = true
	}
}

// Entry notes that an entry of a list may have changed.
func (p *Printer) Entry(i int, keys []string) {
	if p.text != nil {
		p.of(i).keys[id(keys)] = keys
	}
}

// Added notes that an entry was added at the end of a list.
func (p *Printer) Added(i int, keys []string) {
	if p.text != nil {
		p.Removed(i, keys)
		s := p.of(i)
		s.added = append(s.added, id(keys))
	}
}

// Removed notes that an entry was removed from a list.
func (p *Printer) Removed(i int, keys []string) {
	if p.text == nil {
		return
	}
	p.Entry(i, keys)
	s, is := p.of(i), id(keys)
	if s.moved[is] { // it may have been added since
		s.added = slices.DeleteFunc(s.added, func(other string) bool { return other == is })
	}
	s.moved[is] = true
}

func (p *Printer) of(i int) *stale {
	if p.stale[i] == nil {
		p.stale[i] = &stale{keys: map[string][]string{}, moved: map[string]bool{}}
	}
	return p.stale[i]
}

// id identifies an entry among those of its list. No key contains a NUL byte.
func id(keys []string) string { return strings.Join(keys, "\x00") }

// Text returns the text of the source. It is the last one if nothing has changed.
func (p *Printer) Text(s Source) (*Text, error) {
	last := p.text
	if last != nil && len(p.stale) == 0 {
		return last, nil
	}
	members := s.Members()
	x := &Text{members: make([]member, len(members))}
	size := 0
	for i, m := range members {
		var is *member
		var err error
		switch {
		case last != nil && p.stale[i] == nil:
			is = &last.members[i]
		case last != nil && m.List && !p.stale[i].whole:
			is, err = last.members[i].with(s, i, p.stale[i])
		default:
			is, err = print(s, i)
		}
		if err != nil {
			return nil, err
		}
		x.members[i] = *is
		size += len(m.Name) + len(is.Full) + 4
	}
	full, saved := jsonscan.NewWriter(size+1), jsonscan.NewWriter(size+1)
	for _, m := range x.members {
		full.Add(m.Name, m.Full)
		saved.Add(m.Name, m.Saved)
	}
	x.Full, x.Saved = full.Bytes(), saved.Bytes()
	*p = Printer{x, map[int]*stale{}}
	return x, nil
}

// print prints a member.
func print(s Source, i int) (*member, error) {
	is := &member{Member: s.Members()[i]}
	var err error
	if is.List {
		err = s.Entries(i, func(keys []string, v Value) { is.add(id(keys), v) })
		is.end()
	} else {
		is.Value, err = s.Value(i)
	}
	return is, err
}

// with returns a list after changes.
func (m *member) with(s Source, i int, changed *stale) (*member, error) {
	is := &member{Member: m.Member, entries: make([]entry, 0, len(m.entries)+len(changed.added))}
	is.Full, is.Saved = make([]byte, 0, len(m.Full)+256), make([]byte, 0, len(m.Saved)+256)
	for _, e := range m.entries {
		keys, reached := changed.keys[e.id]
		switch {
		case !reached:
			is.add(e.id, Value{m.Full[e.full.from:e.full.to], m.Saved[e.saved.from:e.saved.to]})
		case !changed.moved[e.id]:
			v, err := s.Entry(i, keys)
			if err != nil {
				return nil, err
			}
			is.add(e.id, v)
		}
	}
	for _, added := range changed.added {
		v, err := s.Entry(i, changed.keys[added])
		if err != nil {
			return nil, err
		}
		is.add(added, v)
	}
	is.end()
	return is, nil
}

// add adds an entry to a list that is being printed.
func (m *member) add(id string, v Value) {
	put := func(buf, text []byte) ([]byte, span) {
		if len(m.entries) == 0 {
			buf = append(buf, '[')
		} else {
			buf = append(buf, ',')
		}
		return append(buf, text...), span{len(buf), len(buf) + len(text)}
	}
	e := entry{id: id}
	m.Full, e.full = put(m.Full, v.Full)
	m.Saved, e.saved = put(m.Saved, v.Saved)
	m.entries = append(m.entries, e)
}

// end ends a list. One without entries is omitted.
func (m *member) end() {
	if len(m.entries) == 0 {
		m.Value = Value{}
		return
	}
	m.Full, m.Saved = append(m.Full, ']'), append(m.Saved, ']')
}
