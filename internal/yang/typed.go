// SPDX-License-Identifier: Apache-2.0

// Bodies typed in words. A command line has one word for each member, so the values of a list are separated by commas:
// a leaf-list, or a list whose entries have only one key.

package yang

import (
	"context"
	"fmt"
	"strings"

	"github.com/polycube/polycube/internal/fault"
)

// EditWords is Edit with a body typed in words. A merge gives a list exactly the values in the word, as for a
// leaf-list: it is one value. Lists whose entries have more than a key cannot be set in this way.
func (t *Tree) EditWords(ctx context.Context, op Op, p Path, body []byte) (*Change, error) {
	return t.edit(ctx, op, p, body, editMode{words: true})
}

// InputWords is ParseInput with a body typed in words.
func (t *Tree) InputWords(p Path, body []byte) ([]byte, error) {
	return t.operation(p, body, false, true)
}

// several reports whether one word can stand for several entries of the node.
func (n *Node) several() bool {
	return n != nil && (n.kind == LeafList || n.kind == List && len(n.keys) == 1)
}

// Bare reports whether the node is a list whose entries have only a key: a set of values, like a leaf-list.
func (n *Node) Bare() bool {
	if n.kind != List || len(n.keys) != 1 || !n.config || n.bulk {
		return false
	}
	for _, c := range n.children {
		if c.config && !c.key {
			return false
		}
	}
	return true
}

// split returns the array that a word stands for.
func (n *Node) split(word value) (value, error) {
	if word.kind == nullValue {
		return word, nil
	}
	out := value{kind: arrayValue, typed: true}
	add := func(v value) {
		if n.kind == List {
			v = value{kind: objectValue, members: []member{{n.keys[0].name, v}}}
		}
		out.items = append(out.items, v)
	}
	if word.kind != stringValue || !strings.Contains(word.text, ",") {
		add(word)
		return out, nil
	}
	for part := range strings.SplitSeq(word.text, ",") {
		if part = strings.TrimSpace(part); part == "" {
			return value{}, fmt.Errorf("%s: %q has an empty value between commas", n.name, fault.Shorten(word.text))
		}
		if len(out.items) == n.most() {
			return value{}, fmt.Errorf("%s: more than %d entries", n.name, n.most())
		}
		add(value{kind: stringValue, text: part})
	}
	return out, nil
}

// empty reports whether the word was empty.
func (v value) empty() bool {
	if !v.typed || len(v.items) != 1 {
		return false
	}
	only := v.items[0]
	if only.kind == objectValue {
		only = only.members[0].value
	}
	return only.kind == stringValue && only.text == ""
}
