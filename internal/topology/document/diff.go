// SPDX-License-Identifier: Apache-2.0

package document

// The difference between two configurations, cube by cube and node by node: shown to users before a change, and in the
// history as the effect of a change.

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"

	"github.com/polycube/polycube/internal/yang"
)

// What happens to a cube or a node.
const (
	Added    = "add"
	Deleted  = "delete"
	Changed  = "change"
	Replaced = "replace" // a cube is deleted and re-created: what it learned is lost
	Reorder  = "order"   // of a list: Old and New are the keys
)

// Difference is the difference between two configurations.
type Difference struct {
	Cubes   []CubeDifference   `json:"cubes,omitempty"`
	Netdevs []NetdevDifference `json:"netdevs,omitempty"`
}

// Empty reports whether both are the same.
func (d *Difference) Empty() bool { return len(d.Cubes)+len(d.Netdevs) == 0 }

// CubeDifference is the difference in one cube.
type CubeDifference struct {
	Name    string `json:"name"`
	Service string `json:"service-name"`
	// Action is Added, Deleted, Changed or Replaced.
	Action string `json:"action"`
	// Reason says why a cube is replaced.
	Reason  string             `json:"reason,omitempty"`
	Changes []ChangeDifference `json:"changes,omitempty"`
}

// ChangeDifference is one node that differs. A list entry that was added or deleted is one difference, with everything
// in it.
type ChangeDifference struct {
	// Path is the node as a URL path below the cube.
	Path string `json:"path"`
	// Action is Added, Deleted, Changed or Reorder.
	Action string          `json:"action"`
	Old    json.RawMessage `json:"old,omitempty"`
	New    json.RawMessage `json:"new,omitempty"`
}

// NetdevDifference is a netdev with other transparent cubes, or with the same in another order.
type NetdevDifference struct {
	Name string   `json:"name"`
	Old  []string `json:"old"`
	New  []string `json:"new"`
}

// CompareCubes returns the difference of one cube, nil if there is none. A nil image means that the cube does not
// exist.
func CompareCubes(name string, before, after *Image, reason string) *CubeDifference {
	if before.Same(after) && reason == "" {
		return nil
	}
	var d differ
	out := &CubeDifference{Name: name}
	switch {
	case before == nil:
		out.Action, out.Service = Added, after.Service
		d.object(after.root, nil, map[string]any{}, after.Object)
	case after == nil:
		out.Action, out.Service = Deleted, before.Service
		d.object(before.root, nil, before.Object, map[string]any{})
	default:
		out.Action, out.Service, out.Reason = Changed, after.Service, reason
		root := after.root
		if reason != "" {
			out.Action = Replaced
		}
		if before.Service != after.Service {
			root = nil // no model has both
		}
		d.object(root, nil, before.Object, after.Object)
	}
	out.Changes = d.changes
	return out
}

// CompareChains returns the netdevs whose transparent cubes differ.
func CompareChains(before, after map[string][]string) []NetdevDifference {
	names := maps.Clone(before)
	if names == nil {
		names = map[string][]string{}
	}
	maps.Copy(names, after)
	var out []NetdevDifference
	for _, name := range slices.SortedFunc(maps.Keys(names), CompareNatural) {
		if !slices.Equal(before[name], after[name]) {
			out = append(out, NetdevDifference{Name: name, Old: append([]string{}, before[name]...), New: append([]string{}, after[name]...)})
		}
	}
	return out
}

// differ collects differences.
type differ struct{ changes []ChangeDifference }

func (d *differ) note(path yang.Path, action string, before, after any) {
	c := ChangeDifference{Path: path.String(), Action: action}
	if before != nil {
		c.Old = Encode(before)
	}
	if after != nil {
		c.New = Encode(after)
	}
	d.changes = append(d.changes, c)
}

// below is a path extended by a step, sharing no memory.
func below(path yang.Path, name string, keys ...string) yang.Path {
	return append(slices.Clip(path), yang.Step{Name: name, Keys: keys})
}

// object compares the members of two objects in the order of the model, or of their names without one.
func (d *differ) object(node *yang.Node, path yang.Path, before, after map[string]any) {
	if node != nil {
		for _, child := range node.Children() {
			if child.Kind() != yang.Action {
				d.member(child, path, child.Name(), before[child.Name()], after[child.Name()])
			}
		}
		return
	}
	names := maps.Clone(before)
	maps.Copy(names, after)
	for _, name := range slices.Sorted(maps.Keys(names)) {
		d.member(nil, path, name, before[name], after[name])
	}
}

// member compares a member that may be absent on either side.
func (d *differ) member(node *yang.Node, path yang.Path, name string, before, after any) {
	at := below(path, name)
	x, oldObject := before.(map[string]any)
	y, newObject := after.(map[string]any)
	switch {
	case node != nil && node.Kind() == yang.List:
		d.list(node, path, AsList(before), AsList(after))
	case (oldObject || newObject) && (node == nil || !node.Presence() || oldObject == newObject) && (before == nil || oldObject) && (after == nil || newObject):
		d.object(node, at, orEmpty(x), orEmpty(y))
	case before == nil && after == nil, reflect.DeepEqual(before, after):
	case before == nil:
		d.note(at, Added, nil, after)
	case after == nil:
		d.note(at, Deleted, before, nil)
	default:
		d.note(at, Changed, before, after)
	}
}

// AsList returns a decoded value as a list, nil if it is not a list.
func AsList(v any) []any {
	list, _ := v.([]any)
	return list
}

func orEmpty(object map[string]any) map[string]any {
	if object == nil {
		return map[string]any{}
	}
	return object
}

// list compares entries by their keys: first those deleted, then the others in their new order.
func (d *differ) list(list *yang.Node, path yang.Path, before, after []any) {
	olds, oldKeys := EntriesByKey(list, before)
	news, newKeys := EntriesByKey(list, after)
	for _, keys := range oldKeys {
		if id := keysOfPath(keys); news[id] == nil {
			d.note(below(path, list.Name(), keys...), Deleted, withoutKeys(list, olds[id]), nil)
		}
	}
	for _, keys := range newKeys {
		id := keysOfPath(keys)
		at := below(path, list.Name(), keys...)
		if olds[id] == nil {
			d.note(at, Added, nil, withoutKeys(list, news[id]))
		} else if !reflect.DeepEqual(olds[id], news[id]) {
			d.object(list, at, olds[id], news[id])
		}
	}
	if list.UserOrdered() {
		d.order(list, path, common(oldKeys, news), common(newKeys, olds))
	}
}

// order records that entries present on both sides are in another order.
func (d *differ) order(list *yang.Node, path yang.Path, before, after [][]string) {
	if !slices.EqualFunc(before, after, func(a, b []string) bool { return slices.Equal(a, b) }) {
		d.note(below(path, list.Name()), Reorder, before, after)
	}
}

// common are the keys of entries that the other side has too.
func common(keys [][]string, other map[string]map[string]any) [][]string {
	return slices.DeleteFunc(slices.Clone(keys), func(k []string) bool { return other[keysOfPath(k)] == nil })
}

// EntriesByKey indexes the entries of a list by one string for all keys; keys are in the order of the entries.
func EntriesByKey(list *yang.Node, entries []any) (byKey map[string]map[string]any, keys [][]string) {
	byKey = make(map[string]map[string]any, len(entries))
	for _, entry := range entries {
		if e, ok := entry.(map[string]any); ok {
			k := KeysOf(list, e)
			byKey[keysOfPath(k)] = e
			keys = append(keys, k)
		}
	}
	return byKey, keys
}

// keysOfPath joins keys to one string, whatever bytes they contain.
func keysOfPath(keys []string) string {
	if len(keys) == 1 {
		return keys[0]
	}
	return fmt.Sprintf("%q", keys)
}

// withoutKeys is an entry without the members that are in its path.
func withoutKeys(list *yang.Node, entry map[string]any) map[string]any {
	rest := maps.Clone(entry)
	for _, k := range list.Keys() {
		delete(rest, k.Name())
	}
	return rest
}
