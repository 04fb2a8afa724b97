// SPDX-License-Identifier: Apache-2.0

// Converts a path and a body into libyang nodes outside the tree. All errors of the body itself are found here, before
// the tree is touched.

package yang

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/polycube/polycube/internal/fault"
)

// maxFaults is how many errors of one body are reported.
const maxFaults = 16

// fragment is a new data node with its descendants. The entries of a list or leaf-list are the kids of a fragment that
// has no ref.
type fragment struct {
	node  *Node
	ref   ref
	keys  []string
	kids  []*fragment
	moved bool
	// gone unsets the node; it has no ref.
	gone bool
	// exact removes the other entries of the list.
	exact bool
}

// builder builds fragments until the context ends. Its tops must be freed when the edit is over.
type builder struct {
	ctx context.Context
	// trusted marks a body of the daemon itself: its lists may have any length.
	trusted bool
	// merges says that null, and an empty text for a leaf that cannot be empty, unset a member (RFC 7396).
	merges bool
	// words marks a body that was typed in words.
	words bool
	tops  []*fragment
	errs  []*Error
}

// refs calls f with every node that has no parent in the fragment.
func (b *builder) refs(f func(*fragment)) {
	for _, top := range b.tops {
		if top.ref != nil {
			f(top)
			continue
		}
		for _, entry := range top.kids {
			f(entry)
		}
	}
}

// free frees the nodes that did not become part of the tree.
func (b *builder) free() {
	b.refs(func(f *fragment) {
		if !f.moved {
			freeTree(f.ref)
		}
	})
	b.tops = nil
}

// fault records an error about the node at p.
func (b *builder) fault(tag Tag, p Path, format string, args ...any) {
	if len(b.errs) < maxFaults {
		b.errs = append(b.errs, fault.At(tag, p, format, args...))
	}
}

// memberFault records an error about a member of the node at p; the message names the member itself.
func (b *builder) memberFault(tag Tag, p Path, name, format string, args ...any) {
	if len(b.errs) < maxFaults {
		e := fault.At(tag, p, format, args...)
		e.Path = p.With(name).String()
		b.errs = append(b.errs, e)
	}
}

// attach puts f below parent, or among the tops.
func (b *builder) attach(parent, f *fragment) {
	if parent == nil {
		b.tops = append(b.tops, f)
	} else {
		parent.kids = append(parent.kids, f)
	}
}

func (f *fragment) native() ref {
	if f == nil {
		return nil
	}
	return f.ref
}

// step creates the node of one step of a path: a container or a list entry. The path p leads to its parent.
func (b *builder) step(parent *fragment, n *Node, p Path, keys []string) *fragment {
	if n.kind == List {
		list := &fragment{node: n}
		b.attach(parent, list)
		entry := b.entry(parent, n, p, keys)
		if entry != nil {
			list.kids = append(list.kids, entry)
		}
		return entry
	}
	made, err := newInner(parent.native(), n)
	if err != nil {
		b.fault(InvalidValue, p.With(n.name), "%v", err)
		return nil
	}
	f := &fragment{node: n, ref: made}
	b.attach(parent, f)
	return f
}

// entry creates a list entry with its keys; the caller inserts it into its list.
func (b *builder) entry(parent *fragment, n *Node, p Path, keys []string) *fragment {
	words := make([]string, len(keys))
	for i, k := range n.keys {
		text, err := k.word(keys[i])
		if err != nil {
			b.fault(InvalidValue, p.With(n.name), "%s: %v", k.name, err)
			return nil
		}
		words[i] = text
	}
	made, err := newList(parent.native(), n, words)
	if err != nil {
		b.keyFault(n, p, words, err)
		return nil
	}
	return &fragment{node: n, ref: made, keys: entryKeys(made, n)}
}

// keyFault finds the key that libyang refused.
func (b *builder) keyFault(n *Node, p Path, words []string, err error) {
	for i, k := range n.keys {
		if _, bad := canonical(k, words[i]); bad != nil {
			b.memberFault(InvalidValue, p.With(n.name), k.name, "%s: %s", k.name, k.reason(words[i], bad))
			return
		}
	}
	b.fault(InvalidValue, p.With(n.name), "%v", err)
}

// entryKeys reads the keys of an entry in canonical form.
func entryKeys(entry ref, n *Node) []string {
	keys := make([]string, 0, len(n.keys))
	for c := firstChild(entry); c != nil && len(keys) < len(n.keys); c = nextSibling(c) {
		keys = append(keys, termValue(c))
	}
	return keys
}

// object creates the members of v in f, whose path is p.
func (b *builder) object(f *fragment, n *Node, p Path, v value) {
	switch {
	case v.kind != objectValue && b.words && n.kind == Container:
		b.noValue(n, p)
		return
	case v.kind != objectValue:
		b.fault(InvalidValue, p, "%s is given, but an object is required", v.kind)
		return
	}
	chosen := make(map[schemaRef]*Node)
	for _, m := range v.members {
		child := n.Child(m.name)
		switch {
		case child == nil || child.kind == Action:
			names, sentence := memberNames(n)
			none := fault.Unknown(m.name, names, "unknown member %q%s", fault.Shorten(m.name), sentence)
			if none.Near == nil {
				none.Near = n.inside(m.name, true)
			}
			b.memberFault(InvalidValue, p, fault.Shorten(m.name), "%v", none)
		case !child.config && !child.inOutput:
			b.memberFault(InvalidValue, p, m.name, "%s is read-only", m.name)
		case child.key:
			b.sameKey(f, child, p, m.value)
		default:
			if m.value.kind != arrayValue || len(m.value.items) > 0 { // a list without entries does not exist
				b.exclusive(chosen, child, p)
			}
			b.member(f, child, p, m.value)
		}
	}
}

// noValue refuses a value for a container, and names its members.
func (b *builder) noValue(n *Node, p Path) {
	names, _ := memberNames(n)
	none := &fault.UnknownError{Sentence: "it has no value of its own, only members: " + strings.Join(names, ", "), Given: n.name}
	for _, name := range names[:min(len(names), maxInside)] {
		none.Near = append(none.Near, n.name+"."+name)
	}
	b.fault(InvalidValue, p, "%v", none)
}

// exclusive refuses two cases of one choice in one body: libyang would silently drop a case that is already in the tree.
func (b *builder) exclusive(chosen map[schemaRef]*Node, n *Node, p Path) {
	for _, a := range n.cases {
		other := chosen[a.choice]
		if other == nil {
			chosen[a.choice] = n
		} else if !slices.Contains(other.cases, a) {
			b.memberFault(InvalidValue, p, n.name, "%s and %s are mutually exclusive", other.name, n.name)
		}
	}
}

// memberNames lists the valid members instead of an unknown one.
func memberNames(n *Node) (names []string, sentence string) {
	for _, c := range n.children {
		if c.kind != Action && (c.config || c.inOutput) && !c.key {
			names = append(names, c.name)
		}
	}
	if len(names) == 0 {
		return nil, ", there are no members here"
	}
	return names, ", valid members are " + strings.Join(names, ", ")
}

// sameKey checks a key that is repeated in a body.
func (b *builder) sameKey(f *fragment, key *Node, p Path, v value) {
	want := f.keys[slices.Index(f.node.keys, key)]
	if v.kind == stringValue && v.text == want {
		return
	}
	text, err := key.scalar(v)
	if err != nil {
		b.fault(InvalidValue, p.With(key.name), "%v", err)
		return
	}
	if text == want {
		return
	}
	if got, err := canonical(key, text); err != nil || got != want {
		b.memberFault(InvalidValue, p, key.name, "%s is %q in the body but %q in the path", key.name, fault.Shorten(text),
			fault.Shorten(want))
	}
}

// unsets reports whether a value unsets a member.
func (b *builder) unsets(n *Node, v value) bool {
	switch {
	case !b.merges || n.typ.Base == "empty":
		return false
	case v.kind == nullValue:
		return true
	case v.empty():
		return n.kind == List || !n.takes("")
	}
	return n.kind == Leaf && v.kind == stringValue && v.text == "" && !n.takes("")
}

// member creates one member of the node at p.
func (b *builder) member(parent *fragment, n *Node, p Path, v value) {
	if b.unsets(n, v) {
		b.attach(parent, &fragment{node: n, gone: true})
		return
	}
	switch n.kind {
	case Leaf:
		b.leaf(parent, n, p.With(n.name), v)
	case LeafList:
		b.leafList(parent, n, p.With(n.name), v)
	case List:
		b.list(parent, n, p, v)
	case Container:
		if f := b.step(parent, n, p, nil); f != nil {
			b.object(f, n, p.With(n.name), v)
		}
	case Action: // object refuses it as a member
	}
}

// term creates a leaf or leaf-list node and attaches it to nothing.
func (b *builder) term(parent *fragment, n *Node, p Path, v value) *fragment {
	text, err := n.scalar(v)
	if err != nil {
		b.fault(InvalidValue, p, "%v", err)
		return nil
	}
	if n.name == "service-name" && n.parent == n.schema.root && text != n.schema.info.Name {
		b.fault(InvalidValue, p, "%q is not the service of this cube, which is %s", fault.Shorten(text), n.schema.info.Name)
		return nil
	}
	made, err := newTerm(parent.native(), n, text)
	if err != nil {
		b.fault(InvalidValue, p, "%s", n.reason(text, err))
		return nil
	}
	return &fragment{node: n, ref: made}
}

func (b *builder) leaf(parent *fragment, n *Node, p Path, v value) {
	if f := b.term(parent, n, p, v); f != nil {
		b.attach(parent, f)
	}
}

func (b *builder) leafList(parent *fragment, n *Node, p Path, v value) {
	list := &fragment{node: n}
	b.attach(parent, list)
	if v.kind != arrayValue {
		b.fault(InvalidValue, p, "%s is given, but an array is required", v.kind)
		return
	}
	seen := make(map[string]bool)
	for _, it := range v.items {
		f := b.term(parent, n, p, it)
		if f == nil {
			continue
		}
		list.kids = append(list.kids, f)
		f.keys = []string{termValue(f.ref)}
		if n.config && seen[f.keys[0]] {
			b.fault(InvalidValue, p, "%q is given twice", fault.Shorten(f.keys[0]))
		}
		seen[f.keys[0]] = true
	}
}

// list creates the entries of the list n, a member of the node at p.
func (b *builder) list(parent *fragment, n *Node, p Path, v value) {
	list := &fragment{node: n, exact: v.typed && b.merges}
	b.attach(parent, list)
	switch {
	case v.kind != arrayValue:
		b.fault(InvalidValue, p.With(n.name), "%s is given, but an array of objects is required", v.kind)
		return
	case list.exact && !n.Bare():
		b.fault(InvalidValue, p.With(n.name), "its entries have more than a %s: change them one at a time", n.keys[0].name)
		return
	}
	seen := make(map[string]bool)
	for i, it := range v.items {
		if err := b.ctx.Err(); err != nil {
			b.fault(InvalidValue, p.With(n.name), "element %d: %v", i, err)
			return
		}
		if it.kind != objectValue {
			b.fault(InvalidValue, p.With(n.name), "element %d is %s, but must be an object", i, it.kind)
			continue
		}
		keys, ok := b.keysOf(n, p, i, it)
		if !ok {
			continue
		}
		entry := b.entry(parent, n, p, keys)
		if entry == nil {
			continue
		}
		list.kids = append(list.kids, entry)
		at := p.With(n.name, entry.keys...)
		if id := fmt.Sprintf("%q", entry.keys); seen[id] && len(entry.keys) > 0 {
			b.fault(InvalidValue, at, "is given twice")
		} else {
			seen[id] = true
		}
		b.object(entry, n, at, it)
	}
}

// keysOf reads the keys of element i of the body of a list.
func (b *builder) keysOf(n *Node, p Path, i int, v value) ([]string, bool) {
	keys := make([]string, 0, len(n.keys))
	for _, k := range n.keys {
		given, ok := v.get(k.name)
		if !ok {
			b.memberFault(MissingAttribute, p.With(n.name), k.name, "element %d has no %s, which is a key", i, k.name)
			return nil, false
		}
		text, err := k.scalar(given)
		if err != nil {
			b.fault(InvalidValue, p.With(n.name).With(k.name), "%v", err)
			return nil, false
		}
		keys = append(keys, text)
	}
	return keys, true
}
