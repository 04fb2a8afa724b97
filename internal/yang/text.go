// SPDX-License-Identifier: Apache-2.0

// The text of a whole configuration, which is needed after each edit: members that an edit did not reach are not printed
// again.

package yang

import "github.com/polycube/polycube/internal/jsonscan"

// Text is a whole configuration as JSON objects, without the entries of bulk lists.
type Text struct {
	// Full has all leaves, Saved omits those with their default value.
	Full, Saved []byte
	members     []memberText
}

// memberText is a member of a configuration, with its value in Full and in Saved; nil where it is omitted.
type memberText struct {
	node        *Node
	full, saved []byte
}

// Member returns the value of a member of Full, nil if there is none.
func (x *Text) Member(name string) []byte {
	for _, m := range x.members {
		if m.node.name == name {
			return m.full
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

// printed are the members of the last Text, nil if none can be used again; those in stale cannot.
type printed struct {
	members []memberText
	stale   map[*Node]bool
}

// Text prints the configuration. The text must not be changed.
func (t *Tree) Text() (*Text, error) {
	if t.broken != nil {
		return nil, t.broken
	}
	x := &Text{members: make([]memberText, len(t.schema.root.children))}
	size := 0
	for _, m := range t.printed.members {
		size += len(m.full) + 32
	}
	full, saved := jsonscan.NewWriter(size), jsonscan.NewWriter(size)
	for i, n := range t.schema.root.children {
		m := memberText{node: n}
		if t.printed.members != nil && !t.printed.stale[n] {
			m = t.printed.members[i]
		} else if n.config && n.kind != Action {
			at, err := t.find(Path{{Name: n.name}})
			if err != nil {
				return nil, err
			}
			items, err := t.read(at, allInstances)
			if err != nil {
				return nil, err
			}
			m.full, m.saved = printMember(items, true), printMember(items, false)
		}
		x.members[i] = m
		full.Add(n.name, m.full)
		saved.Add(n.name, m.saved)
	}
	x.Full, x.Saved = full.Bytes(), saved.Bytes()
	t.printed = printed{x.members, make(map[*Node]bool)}
	return x, nil
}

// printMember returns the value of a member, nil if it is omitted.
func printMember(items []*item, defaults bool) []byte {
	p := &printer{defaults: defaults}
	if len(items) > 0 && p.shown(items[0]) {
		p.group(items)
	}
	return p.buf
}

// reached notes which members an edit of the node at p, or its validation, can have changed.
func (pr *printed) reached(t *Tree, p Path, touches []touch) {
	if len(p) == 0 || !t.created || pr.members == nil {
		pr.members = nil
		return
	}
	pr.stale[t.schema.root.Child(p[0].Name)] = true
	for _, c := range touches {
		pr.stale[t.schema.root.Child(c.path[0].Name)] = true
	}
}
