// SPDX-License-Identifier: Apache-2.0

// Entries that differ only in their keys: no constraint of a bulk list joins members of an entry, so libyang has to check
// and complete the other members only once. Of 200,000 addresses on a list of sources, it then sees only the addresses.

package yang

import (
	"slices"
	"strconv"

	"github.com/polycube/polycube/internal/bulk"
	"github.com/polycube/polycube/internal/fault"
)

// maxMoulds limits how many different entries are kept, as clients control them.
const maxMoulds = 64

// mould is an entry that others can be made of, nil until libyang has completed one.
type mould struct{ entry *item }

// moulds maps the non-key members of an entry, as given in a body, to an entry that has them. It is not safe for concurrent use.
type moulds struct {
	bulkPlace
	parent Path
	// none says that the text of an entry depends on its keys in other ways than by their own.
	none bool
	of   map[string]*mould
	buf  []byte
	// near is where the last entry was looked for.
	near bulk.Hint
}

func newMoulds(l bulkPlace) *moulds {
	m := &moulds{bulkPlace: l, parent: l.list.parent.pathTo(l.above...), of: map[string]*mould{}}
	other := func(t Type) bool { return t.Base != "string" }
	for _, k := range l.list.keys {
		m.none = m.none || k.typ.LeafrefPath != "" || slices.ContainsFunc(k.typ.Union, other)
	}
	return m
}

// mould returns that of the entry in a body, nil if it needs none.
func (m *moulds) mould(v value) *mould {
	if m.none {
		return nil
	}
	m.shape(v)
	kept := m.of[string(m.buf)]
	if kept == nil && len(m.of) < maxMoulds {
		kept = &mould{}
		m.of[string(m.buf)] = kept
	}
	return kept
}

// keys returns the keys of element i of a body as the model spells them.
func (m *moulds) keys(i int, v value) ([]string, error) {
	fb := builder{}
	given, ok := fb.keysOf(m.list, m.parent, i, v)
	if !ok {
		return nil, fault.Join(fb.errs)
	}
	if !m.none {
		if keys, err := m.list.CanonicalKeys(given); err == nil {
			return keys, nil
		}
	}
	fresh, err := m.list.schema.newEntry(m.list, m.above, given)
	if err != nil {
		return nil, err
	}
	defer fresh.free()
	return fresh.keys(), nil
}

// entry makes the entry in a body, with keys in canonical form.
func (m *moulds) entry(keys []string, v value, kept *mould) (*bulk.Entry, error) {
	if kept != nil && kept.entry != nil {
		var e *bulk.Entry
		e, m.buf = printEntry(m.list, withKeys(kept.entry, keys), m.buf)
		return e, nil
	}
	fresh, err := m.list.schema.newEntry(m.list, m.above, keys)
	if err != nil {
		return nil, err
	}
	defer fresh.free()
	it, err := fresh.fill(fresh.path(), v)
	if err != nil {
		return nil, err
	}
	if kept != nil {
		kept.entry = it
	}
	return newBulkEntry(m.list, it), nil
}

// withKeys returns an entry with other keys.
func withKeys(entry *item, keys []string) *item {
	out := *entry
	out.kids = slices.Clone(entry.kids)
	for i, kid := range out.kids {
		if kid.node.key {
			key := *kid
			key.text, keys = keys[0], keys[1:]
			out.kids[i] = &key
		}
	}
	return &out
}

// shape leaves in the buffer what is the same for bodies of entries that differ only in their keys.
func (m *moulds) shape(v value) {
	m.buf = m.buf[:0]
	for _, member := range v.members {
		if child := m.list.Child(member.name); child == nil || !child.key {
			m.buf = appendShape(strconv.AppendQuote(m.buf, member.name), member.value)
		}
	}
}

func appendShape(buf []byte, v value) []byte {
	buf = strconv.AppendQuote(strconv.AppendInt(buf, int64(v.kind), 10), v.text)
	for _, m := range v.members {
		buf = appendShape(strconv.AppendQuote(buf, m.name), m.value)
	}
	for _, it := range v.items {
		buf = appendShape(append(buf, ','), it)
	}
	return append(buf, ';')
}
