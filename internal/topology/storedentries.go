// SPDX-License-Identifier: Apache-2.0

package topology

// The entries of large lists (`bulk` in the model) as data: in tables of a cube, and in the store with a record each.

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"github.com/polycube/polycube/internal/store"
	"github.com/polycube/polycube/internal/yang"
)

// entryKey begins the keys of entries in the store: entry/UUID/LIST|KEY/KEY, each word escaped as in a URL.
const entryKey = "entry/"

// entryID is the key of an entry in the store.
func entryID(uuid string, list *yang.Node, e *yang.Entry) string {
	keys := make(yang.Path, 0, len(e.Keys()))
	for _, k := range e.Keys() {
		keys = append(keys, yang.Step{Name: k})
	}
	return entryKey + uuid + "/" + list.Path() + "|" + keys.String()
}

// storedEntries are the entries of a stored cube, as they were set.
type storedEntries struct {
	// byList has them by the path of the list, keys those of the records.
	byList map[string][]string
	keys   []string
}

// readEntries collects the entries of the store by the UUID of their cube.
func readEntries(state *store.State) map[string]*storedEntries {
	all := map[string]*storedEntries{}
	for _, r := range state.Records {
		rest, ok := strings.CutPrefix(r.Key, entryKey)
		if !ok {
			continue
		}
		uuid, rest, _ := strings.Cut(rest, "/")
		list, _, _ := strings.Cut(rest, "|")
		e := all[uuid]
		if e == nil {
			e = &storedEntries{byList: map[string][]string{}}
			all[uuid] = e
		}
		e.byList[list] = append(e.byList[list], string(r.Value))
		e.keys = append(e.keys, r.Key)
	}
	return all
}

// whole is the configuration of a stored cube with the entries of the lists that pick names.
func (s *stored) whole(pick func(list string) bool) (json.RawMessage, error) {
	if s.entries == nil || !slices.ContainsFunc(slices.Collect(maps.Keys(s.entries.byList)), pick) {
		return s.Config, nil
	}
	object, err := decodeObject(s.Config)
	if err != nil {
		return nil, err
	}
	for _, list := range slices.Sorted(maps.Keys(s.entries.byList)) {
		if !pick(list) {
			continue
		}
		at, name := holderOf(object, list)
		entries, _ := at[name].([]any)
		for _, text := range s.entries.byList[list] {
			entries = append(entries, json.RawMessage(text))
		}
		at[name] = entries
	}
	return json.Marshal(object)
}

// holderOf finds the object that has the list at a path, and the list's name there. Objects on the way are made.
func holderOf(object map[string]any, list string) (map[string]any, string) {
	words := strings.Split(list, "/")
	for _, word := range words[:len(words)-1] {
		below, ok := object[word].(map[string]any)
		if !ok {
			below = map[string]any{}
			object[word] = below
		}
		object = below
	}
	return object, words[len(words)-1]
}

// savedWhole is all that was set of a cube's configuration.
func (r *record) savedWhole(schema *yang.Schema) (json.RawMessage, error) {
	return schema.Splice(r.saved, r.tables, yang.JSONOptions{})
}

func entryRecord(uuid string, c yang.EntryChange) store.Record {
	if c.New == nil {
		return store.Record{Key: entryID(uuid, c.List, c.Old)}
	}
	return store.Record{Key: entryID(uuid, c.List, c.New), Value: []byte(c.New.JSON(yang.JSONOptions{}))}
}

// allEntries are the records of all entries of a cube: to be written, or deleted when is is nil.
func allEntries(rec, is *record) []store.Record {
	var recs []store.Record
	for list, table := range rec.tables {
		table.All(func(e *yang.Entry) bool {
			r := store.Record{Key: entryID(rec.uuid, list, e)}
			if is != nil {
				r.Value = []byte(e.JSON(yang.JSONOptions{}))
			}
			recs = append(recs, r)
			return true
		})
	}
	return recs
}

// moved are the records that change because the model of a restored cube marks other lists.
func (e *storedEntries) moved(rec *record) []store.Record {
	now := map[string]bool{}
	var recs []store.Record
	count := 0
	for list, table := range rec.tables {
		now[list.Path()] = true
		count += table.Len()
	}
	stored := 0
	for list, texts := range e.byList {
		if now[list] {
			stored += len(texts)
		}
	}
	for _, key := range e.keys {
		_, rest, _ := strings.Cut(strings.TrimPrefix(key, entryKey), "/")
		if list, _, _ := strings.Cut(rest, "|"); !now[list] {
			recs = append(recs, store.Record{Key: key})
		}
	}
	if count != stored {
		recs = append(recs, allEntries(rec, rec)...)
	}
	return recs
}

// tableLayer has a cube's entries where a read looks for them.
func (r *record) tableLayer() map[string]any {
	layer := map[string]any{}
	for list, table := range r.tables {
		if table.Len() == 0 {
			continue
		}
		at, name := holderOf(layer, list.Path())
		at[name] = table
	}
	return layer
}
