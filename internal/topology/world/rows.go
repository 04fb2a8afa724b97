// SPDX-License-Identifier: Apache-2.0

package world

// Entries of large lists (`bulk` in the model) as readers see them.

import (
	"encoding/json"
	"strings"

	"github.com/polycube/polycube/internal/bulk"
	"github.com/polycube/polycube/internal/yang"
)

// Rows are the entries of a large list, which may have large lists themselves.
type Rows struct {
	*bulk.Table
	// All are the tables of the cube.
	All *bulk.Tables
}

// Text returns an entry with everything in it, with defaults.
func (r *Rows) Text(e *bulk.Entry) json.RawMessage { return r.All.Append(nil, r.Table, e, true) }

// Decode returns an entry as an object, in which large lists are Rows.
func (r *Rows) Decode(e *bulk.Entry) (map[string]any, error) {
	object, err := DecodeObject([]byte(e.Full))
	if err != nil {
		return nil, err
	}
	for name, table := range r.All.In(r.Table, e) {
		object[name] = &Rows{table, r.All}
	}
	return object, nil
}

// TableLayer puts a cube's entries where a read expects them.
func (r *Cube) TableLayer(schema *yang.Schema) map[string]any {
	layer := map[string]any{}
	for _, list := range schema.BulkLists() {
		ancestors := list.Ancestors()
		if n := len(ancestors); n > 0 && ancestors[n-1].Bulk() {
			continue // Rows have it
		}
		for _, table := range r.Tables.Of(list.Path()) {
			keys := table.Above()
			at, name := holderOf(layer, strings.Split(list.Path(), "/"), func(depth int, entries []any) (map[string]any, []any) {
				above := ancestors[depth-1]
				if above.Kind() != yang.List {
					return nil, nil
				}
				own := keys[:len(above.Keys())]
				keys = keys[len(own):]
				return entryWith(above, entries, own)
			})
			at[name] = &Rows{table, r.Tables}
		}
	}
	return layer
}

// holderOf finds the object that contains the list at a path, and the list's name in it. Missing objects on the path
// are created. entry finds or creates the entry of a list on the path, given by its number of words; nil if there are none.
func holderOf(object map[string]any, words []string, entry func(depth int, entries []any) (map[string]any, []any)) (map[string]any, string) {
	for i, word := range words[:len(words)-1] {
		entries, _ := object[word].([]any)
		if below, all := entry(i+1, entries); below != nil {
			object[word] = all
			object = below
			continue
		}
		below, ok := object[word].(map[string]any)
		if !ok {
			below = map[string]any{}
			object[word] = below
		}
		object = below
	}
	return object, words[len(words)-1]
}

// entryWith finds the entry of a list with some keys, or adds it.
func entryWith(list *yang.Node, entries []any, keys []string) (map[string]any, []any) {
	for _, e := range entries {
		object, _ := e.(map[string]any)
		same := true
		for i, k := range list.Keys() {
			same = same && object[k.Name()] == keys[i]
		}
		if same {
			return object, entries
		}
	}
	object := map[string]any{}
	for i, k := range list.Keys() {
		object[k.Name()] = keys[i]
	}
	return object, append(entries, object)
}
