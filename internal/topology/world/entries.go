// SPDX-License-Identifier: Apache-2.0

package world

// The entries of large lists (`bulk` in the model) as data: in tables of a cube, and in the store with one record each.

import (
	"encoding/json"
	"net/url"
	"slices"
	"strings"

	"github.com/polycube/polycube/internal/bulk"
	"github.com/polycube/polycube/internal/store"
	"github.com/polycube/polycube/internal/yang"
	"github.com/polycube/polycube/internal/yang/splice"
)

// EntryKey is the prefix of the keys of entries in the store: entry/UUID/LIST|KEY/KEY, each word escaped as in a URL. The
// first keys are those of the lists above.
const EntryKey = "entry/"

// EntryID is the key of an entry in the store.
func EntryID(uuid, list string, above []string, e *bulk.Entry) string {
	keys := make(yang.Path, 0, len(above)+len(e.Keys))
	for _, k := range slices.Concat(above, e.Keys) {
		keys = append(keys, yang.Step{Name: k})
	}
	return EntryKey + uuid + "/" + list + "|" + keys.String()
}

// StoredEntries are the entries of a stored cube, only with what was set.
type StoredEntries struct {
	// ByList has the entries by the path of their list, keys the keys of their records.
	ByList map[string][]StoredEntry
	Keys   []string
}

// StoredEntry is an entry as JSON, with all keys: first those of the lists above.
type StoredEntry struct {
	Keys []string
	Text string
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
		list, words, _ := strings.Cut(rest, "|")
		e := all[uuid]
		if e == nil {
			e = &StoredEntries{ByList: map[string][]StoredEntry{}}
			all[uuid] = e
		}
		e.ByList[list] = append(e.ByList[list], StoredEntry{unescaped(words), string(r.Value)})
		e.Keys = append(e.Keys, r.Key)
	}
	return all
}

// unescaped returns the words of a path, as they were before they were escaped.
func unescaped(path string) []string {
	words := strings.Split(path, "/")
	for i, w := range words {
		if is, err := url.PathUnescape(w); err == nil {
			words[i] = is
		}
	}
	return words
}

// SavedWhole is everything that was set in a cube's configuration.
func (r *Cube) SavedWhole(schema *yang.Schema) (json.RawMessage, error) {
	return splice.Whole(schema, r.Saved, r.Tables, false)
}

// ChangedRecords are the records of changed entries: first those that are deleted, then those that are written.
func ChangedRecords(uuid string, changes []yang.EntryChange) []store.Record {
	var gone []store.Record
	written := make([]store.Record, 0, len(changes))
	for _, c := range changes {
		if c.New == nil || c.Moved() {
			gone = append(gone, store.Record{Key: EntryID(uuid, c.List.Path(), c.Above, c.Old)})
		}
		if c.New != nil {
			written = append(written, store.Record{Key: EntryID(uuid, c.List.Path(), c.Above, c.New), Value: []byte(c.New.Saved)})
		}
	}
	return append(gone, written...)
}

// EntryRecords are the records of all entries of a cube: to be written, or to be deleted if is is nil.
func EntryRecords(rec, is *Cube) []store.Record {
	var recs []store.Record
	for list, table := range rec.Tables.Each() {
		table.Stored(func(e *bulk.Entry) bool {
			r := store.Record{Key: EntryID(rec.UUID, list, table.Above(), e)}
			if is != nil {
				r.Value = []byte(e.Saved)
			}
			recs = append(recs, r)
			return true
		})
	}
	return recs
}

// Moved are the records that change because the model of a restored cube marks other lists as large.
func (e *StoredEntries) Moved(schema *yang.Schema, rec *Cube) []store.Record {
	now := map[string]bool{}
	var recs []store.Record
	for _, list := range schema.BulkLists() {
		now[list.Path()] = true
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
	if rec.Tables.Len() != stored || len(recs) > 0 { // an entry may now have a list that was apart
		recs = append(recs, EntryRecords(rec, rec)...)
	}
	return recs
}
