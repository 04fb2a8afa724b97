// SPDX-License-Identifier: Apache-2.0

package world

// A stored configuration as one document: the entries of large lists are put where they belong.

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/polycube/polycube/internal/yang"
)

// Whole is the configuration of a stored cube including the entries of the lists that pick selects. root is the model, nil if
// it is not known: lists in entries of other lists are then members of the cube, named by their paths.
func (s *Stored) Whole(root *yang.Node, pick func(list string) bool) (json.RawMessage, error) {
	if s.Entries == nil || !slices.ContainsFunc(slices.Collect(maps.Keys(s.Entries.ByList)), pick) {
		return s.Config, nil
	}
	object, err := DecodeObject(s.Config)
	if err != nil {
		return nil, err
	}
	a := &assembly{object: object, root: root, entries: map[string]map[string]any{}}
	lists := slices.DeleteFunc(slices.Sorted(maps.Keys(s.Entries.ByList)), func(list string) bool { return !pick(list) })
	for _, list := range lists {
		outer := slices.ContainsFunc(lists, func(other string) bool { return strings.HasPrefix(other, list+"/") })
		for _, e := range s.Entries.ByList[list] {
			if err := a.add(list, e, outer); err != nil {
				return nil, err
			}
		}
	}
	return json.Marshal(object)
}

// assembly is a document that is being put together.
type assembly struct {
	object map[string]any
	root   *yang.Node
	// entries are those of lists on the paths of others, by the paths of the lists and all keys.
	entries map[string]map[string]any
}

// add adds an entry of a list; outer says that there are lists in its entries.
func (a *assembly) add(list string, e StoredEntry, outer bool) error {
	at, name := a.holder(list, e.Keys)
	entries, _ := at[name].([]any)
	if !outer {
		at[name] = append(entries, json.RawMessage(e.Text))
		return nil
	}
	entry, err := DecodeObject([]byte(e.Text))
	if err != nil {
		return err
	}
	a.entries[entryID(list, e.Keys)] = entry
	at[name] = append(entries, entry)
	return nil
}

func entryID(list string, keys []string) string { return fmt.Sprintf("%s\x00%q", list, keys) }

// holder returns the object that has a list, below list entries with some keys, and the list's name in it.
func (a *assembly) holder(list string, keys []string) (at map[string]any, name string) {
	at = a.object
	words := strings.Split(list, "/")
	node, used := a.root, 0
	for i, word := range words[:len(words)-1] {
		if node != nil {
			node = node.Child(word)
		}
		entries, isList := at[word].([]any)
		if node == nil && isList || node != nil && node.Kind() == yang.List && used+len(node.Keys()) > len(keys) {
			return a.object, list
		}
		if node != nil && node.Kind() == yang.List {
			above := keys[:used:used]
			used += len(node.Keys())
			at = a.entry(node, at, entries, above, keys[used-len(node.Keys()):used], strings.Join(words[:i+1], "/"))
			continue
		}
		below, ok := at[word].(map[string]any)
		if !ok {
			below = map[string]any{}
			at[word] = below
		}
		at = below
	}
	return at, words[len(words)-1]
}

// entry returns the entry of a list with some keys, which is added if there is none.
func (a *assembly) entry(list *yang.Node, at map[string]any, entries []any, above, keys []string, path string) map[string]any {
	id := entryID(path, slices.Concat(above, keys))
	if e := a.entries[id]; e != nil {
		return e
	}
	for _, e := range entries {
		if object, ok := e.(map[string]any); ok {
			own := make([]string, len(list.Keys()))
			for i, k := range list.Keys() {
				own[i] = fmt.Sprint(object[k.Name()])
			}
			a.entries[entryID(path, slices.Concat(above, own))] = object
		}
	}
	if e := a.entries[id]; e != nil {
		return e
	}
	object := map[string]any{}
	for i, k := range list.Keys() {
		object[k.Name()] = keys[i]
	}
	a.entries[id] = object
	at[list.Name()] = append(entries, object)
	return object
}
