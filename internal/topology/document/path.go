// SPDX-License-Identifier: Apache-2.0

package document

// Following a path through layers of configuration and state.

import (
	"fmt"
	"slices"
	"strings"

	"github.com/polycube/polycube/internal/topology/world"
	"github.com/polycube/polycube/internal/yang"
)

// entryOf finds an entry of a table, whose keys may be spelled as a user types them.
func entryOf(list *yang.Node, table *world.Rows, keys []string) (map[string]any, error) {
	e, ok := table.Get(keys)
	if !ok {
		canonical, err := list.CanonicalKeys(keys)
		if err != nil {
			return nil, err
		}
		if e, ok = table.Get(canonical); !ok {
			return nil, nil
		}
	}
	return table.Decode(e)
}

// NodeAt finds the node of a path.
func NodeAt(schema *yang.Schema, path yang.Path) (*yang.Node, error) {
	node := schema.Root()
	for i, step := range path {
		if node = node.Child(step.Name); node == nil {
			return nil, &yang.Error{Tag: yang.BadElement, Path: path[:i+1].String(),
				Message: fmt.Sprintf("%s: no such node", path[:i+1].Words())}
		}
	}
	return node, nil
}

// Follow follows a path through the layers and keeps those that have the node.
func Follow(node *yang.Node, path yang.Path, layers []any) ([]any, error) {
	for i, step := range path {
		node = node.Child(step.Name)
		layers = membersOf(layers, step.Name)
		if len(step.Keys) == 0 {
			continue
		}
		if node.Kind() == yang.LeafList {
			layers = slices.DeleteFunc(layers, func(l any) bool { return !holds(l, step.Keys[0]) })
		} else {
			var err error
			if layers, err = EntriesAt(node, layers, step.Keys); err != nil {
				return nil, err
			}
		}
		if len(layers) == 0 {
			return nil, &yang.Error{Tag: yang.DataMissing, Path: path[:i+1].String(), Message: path[:i+1].Words() + ": not found"}
		}
	}
	return layers, nil
}

// membersOf returns a member from each layer that has it.
func membersOf(layers []any, name string) []any {
	var out []any
	for _, l := range layers {
		if object, ok := l.(map[string]any); ok {
			if v, ok := object[name]; ok && v != nil {
				out = append(out, v)
			}
		}
	}
	return out
}

// EntriesAt returns a list entry from each layer that has it.
func EntriesAt(list *yang.Node, layers []any, keys []string) ([]any, error) {
	var out []any
	for _, l := range layers {
		if table, ok := l.(*world.Rows); ok {
			e, err := entryOf(list, table, keys)
			if err != nil {
				return nil, err
			}
			if e != nil {
				out = append(out, e)
			}
			continue
		}
		array, _ := l.([]any)
		for _, entry := range array {
			if sameKeys(list, KeysOf(list, entry), keys) {
				out = append(out, entry)
			}
		}
	}
	return out, nil
}

// sameKeys compares keys as the model does: enums ignore case.
func sameKeys(list *yang.Node, a, b []string) bool {
	for i, k := range list.Keys() {
		if a[i] != b[i] && (len(k.Type().Enums) == 0 || !strings.EqualFold(a[i], b[i])) {
			return false
		}
	}
	return true
}

// KeysOf returns the values of an entry's keys as text.
func KeysOf(list *yang.Node, entry any) []string {
	object, _ := entry.(map[string]any)
	keys := make([]string, 0, len(list.Keys()))
	for _, k := range list.Keys() {
		keys = append(keys, fmt.Sprint(object[k.Name()]))
	}
	return keys
}

// holds reports whether a leaf-list contains a value.
func holds(values any, value string) bool {
	array, _ := values.([]any)
	return slices.ContainsFunc(array, func(v any) bool { return fmt.Sprint(v) == value })
}
