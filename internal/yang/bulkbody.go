// SPDX-License-Identifier: Apache-2.0

// Where bulk lists are, and what a body says about them.

package yang

import (
	"slices"
	"strconv"
)

// bulkPlace is where a bulk list is: below list entries with some keys.
type bulkPlace struct {
	list  *Node
	above []string
}

// path is the path of the list.
func (l bulkPlace) path() Path { return l.list.parent.pathTo(l.above...).With(l.list.name) }

// at is the path of an entry.
func (l bulkPlace) at(keys []string) Path { return entryPath(l.list, l.above, keys) }

// bulkBody is the part of a body about a bulk list.
type bulkBody struct {
	bulkPlace
	body value
}

// cut removes the bulk lists from the body of an edit of the node at p.
func cut(p Path, node *Node, v value) (value, []bulkBody, error) {
	if !node.holdsBulk {
		return v, nil, nil
	}
	above, err := node.schema.KeysAbove(append(slices.Clip(p), Step{}))
	if err != nil {
		return v, nil, err
	}
	if node.kind == List && !p.ToEntry() {
		rest, bodies := cutEntries(node, above, v)
		return rest, bodies, nil
	}
	rest, bodies := node.cutBulk(above, v)
	return rest, bodies, nil
}

// cutBulk removes the bulk lists from the body of n, which is below list entries with some keys.
func (n *Node) cutBulk(above []string, v value) (value, []bulkBody) {
	if v.kind != objectValue {
		return v, nil
	}
	var cut []bulkBody
	rest := value{kind: objectValue}
	for _, m := range v.members {
		child := n.Child(m.name)
		switch {
		case child != nil && child.bulk:
			cut = append(cut, bulkBody{bulkPlace{child, above}, m.value})
			continue
		case child != nil && child.holdsBulk:
			var below []bulkBody
			if child.kind == List {
				m.value, below = cutEntries(child, above, m.value)
			} else {
				m.value, below = child.cutBulk(above, m.value)
			}
			cut = append(cut, below...)
		}
		rest.members = append(rest.members, m)
	}
	return rest, cut
}

// cutEntries is cutBulk for the body of a whole list. Elements without valid keys remain as they are: they are refused.
func cutEntries(n *Node, above []string, v value) (value, []bulkBody) {
	if v.kind != arrayValue {
		return v, nil
	}
	var cut []bulkBody
	rest := v
	rest.items = slices.Clone(v.items)
	fb := &builder{}
	for i, it := range v.items {
		if it.kind != objectValue {
			continue
		}
		keys, ok := fb.keysOf(n, nil, i, it)
		if !ok {
			continue
		}
		keys, err := n.CanonicalKeys(keys)
		if err != nil {
			continue
		}
		var below []bulkBody
		rest.items[i], below = n.cutBulk(slices.Concat(above, keys), it)
		cut = append(cut, below...)
	}
	return rest, cut
}

// inPlace returns the elements of a list of positions in the order of their positions. An element without one has that
// in the array, counted from first.
func inPlace(list *Node, items []value, first int) []value {
	key := list.keys[0].name
	type placed struct {
		at int
		value
	}
	all := make([]placed, len(items))
	for i, it := range items {
		all[i] = placed{first + i, it}
		if it.kind != objectValue {
			continue
		}
		given, ok := it.get(key)
		if !ok {
			all[i].members = append([]member{{key, value{kind: numberValue, text: strconv.Itoa(first + i)}}}, it.members...)
		} else if at, err := strconv.Atoi(given.text); err == nil {
			all[i].at = at
		}
	}
	slices.SortStableFunc(all, func(a, b placed) int { return a.at - b.at })
	out := make([]value, len(all))
	for i, p := range all {
		out[i] = p.value
	}
	return out
}
