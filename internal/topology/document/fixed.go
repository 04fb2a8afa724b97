// SPDX-License-Identifier: Apache-2.0

package document

// What cannot be changed in a cube after its creation.

import (
	"reflect"

	"github.com/polycube/polycube/internal/yang"
)

// FixedMember finds a node that can be set at creation only and that differs.
func FixedMember(node *yang.Node, path yang.Path, before, after map[string]any) string {
	for _, child := range node.Children() {
		name := child.Name()
		if child.Kind() == yang.Action || !child.Config() || len(path) == 1 && name == "tcubes" || len(path) == 0 && name == "service-name" {
			continue
		}
		at := below(path, name)
		switch child.Kind() {
		case yang.Container:
			x, _ := before[name].(map[string]any)
			y, _ := after[name].(map[string]any)
			if found := FixedMember(child, at, x, y); found != "" {
				return found
			}
		case yang.List:
			olds, keys := EntriesByKey(child, AsList(before[name]))
			news, _ := EntriesByKey(child, AsList(after[name]))
			for _, k := range keys {
				id := keysOfPath(k)
				if news[id] == nil {
					continue
				}
				if found := FixedMember(child, below(path, name, k...), olds[id], news[id]); found != "" {
					return found
				}
			}
		default:
			if child.InitOnly() && !child.IsKey() && !reflect.DeepEqual(before[name], after[name]) {
				return at.Words()
			}
		}
	}
	return ""
}
