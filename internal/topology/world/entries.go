// SPDX-License-Identifier: Apache-2.0

package world

// The entries of large lists (`bulk` in the model) as data: in tables of a cube, and in the store with one record each.

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"github.com/polycube/polycube/internal/store"
	"github.com/polycube/polycube/internal/yang"
)

// EntryKey is the prefix of the keys of entries in the store: entry/UUID/LIST|KEY/KEY, each word escaped as in a URL.
const EntryKey = "entry/"

// EntryID is the key of an entry in the store.
func EntryID(uuid string, list *yang.Node, e *yang.Entry) string {
	keys := make(yang.Path, 0, len(e.Keys()))
	for _, k := range e.Keys() {
		keys = append(keys, yang.Step{Name: k})
	}
	return EntryKey + uuid + "/" + list.Path() + "|" + keys.String()
}

// StoredEntries are the entries of a stored cube, only with what was set.
type StoredEntries struct {
	// ByList has the entries by the path of their list, keys the keys of their records.
	ByList map[string][]string
	Keys   []string
}

// ReadEntries collects the entries of the store by the UUID of their cube.
func ReadEntries(state *store.State) map[string]*StoredEntries {
	all := map[string]*StoredEntries{}
	for _, r := range state.Records {
		rest, ok := strings.CutPrefix(r.Key, EntryKey)
		if !ok {
			continue
		}
		uuid, rest, _ := strings.Cut(rest, "/")
		list, _, _ := strings.Cut(rest, "|")
		e := all[uuid]
		if e == nil {
			e = &StoredEntries{ByList: map[string][]string{}}
			all[uuid] = e
		}
		e.ByList[list] = append(e.ByList[list], string(r.Value))
		e.Keys = append(e.Keys, r.Key)
	}
	return all
}

// Whole is the configuration of a stored cube including the entries of the lists that pick selects.
func (s *Stored) Whole(pick func(list string) bool) (json.RawMessage, error) {
	if s.Entries == nil || !slices.ContainsFunc(slices.Collect(maps.Keys(s.Entries.ByList)), pick) {
		return s.Config, nil
	}
	object, err := DecodeObject(s.Config)
	if err != nil {
		return nil, err
	}
	for _, list := range slices.Sorted(maps.Keys(s.Entries.ByList)) {
		if !pick(list) {
			continue
		}
		at, name := holderOf(object, list)
		entries, _ := at[name].([]any)
		for _, text := range s.Entries.ByList[list] {
			entries = append(entries, json.RawMessage(text))
		}
		at[name] = entries
	}
	return json.Marshal(object)
}

// holderOf finds the object that contains the list at a path, and the list's name in it. Missing objects on the path
// are created.
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

// SavedWhole is everything that was set in a cube's configuration.
func (r *Cube) SavedWhole(schema *yang.Schema) (json.RawMessage, error) {
	return schema.Splice(r.Saved, r.Tables, yang.JSONOptions{})
}

// EntryRecord is the record of a changed entry: its new text, or its deletion.
func EntryRecord(uuid string, c yang.EntryChange) store.Record {
	if c.New == nil {
		return store.Record{Key: EntryID(uuid, c.List, c.Old)}
	}
	return store.Record{Key: EntryID(uuid, c.List, c.New), Value: []byte(c.New.JSON(yang.JSONOptions{}))}
}

// EntryRecords are the records of all entries of a cube: to be written, or to be deleted if is is nil.
func EntryRecords(rec, is *Cube) []store.Record {
	var recs []store.Record
	for list, table := range rec.Tables {
		table.All(func(e *yang.Entry) bool {
			r := store.Record{Key: EntryID(rec.UUID, list, e)}
			if is != nil {
				r.Value = []byte(e.JSON(yang.JSONOptions{}))
			}
			recs = append(recs, r)
			return true
		})
	}
	return recs
}

// Moved are the records that change because the model of a restored cube marks other lists as large.
func (e *StoredEntries) Moved(rec *Cube) []store.Record {
	now := map[string]bool{}
	var recs []store.Record
	count := 0
	for list, table := range rec.Tables {
		now[list.Path()] = true
		count += table.Len()
	}
	stored := 0
	for list, texts := range e.ByList {
		if now[list] {
			stored += len(texts)
		}
	}
	for _, key := range e.Keys {
		_, rest, _ := strings.Cut(strings.TrimPrefix(key, EntryKey), "/")
		if list, _, _ := strings.Cut(rest, "|"); !now[list] {
			recs = append(recs, store.Record{Key: key})
		}
	}
	if count != stored {
		recs = append(recs, EntryRecords(rec, rec)...)
	}
	return recs
}

// TableLayer puts a cube's entries where a read expects them.
func (r *Cube) TableLayer() map[string]any {
	layer := map[string]any{}
	for list, table := range r.Tables {
		if table.Len() == 0 {
			continue
		}
		at, name := holderOf(layer, list.Path())
		at[name] = table
	}
	return layer
}
