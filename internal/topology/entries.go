// SPDX-License-Identifier: Apache-2.0

package topology

// The entries of large lists (`bulk` in the model). They are in tables beside a cube's tree, and each has a record of
// its own in the store, so the cost of a change depends on the size of the change and not of the list.

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/internal/bulk"
	"github.com/polycube/polycube/internal/store"
	"github.com/polycube/polycube/internal/topology/unit"
	"github.com/polycube/polycube/internal/topology/world"
	"github.com/polycube/polycube/internal/yang"
)

// entryChanges are the differences of a cube's entries, each entry once. A cube whose code has no entries yet gets all
// of them.
func (t *txn) entryChanges(u *unit.Unit, rec *world.Cube, fresh bool) []yang.EntryChange {
	if fresh {
		var all []yang.EntryChange
		for _, list := range u.Service.Schema.BulkLists() {
			for _, table := range rec.Tables.Of(list.Path()) {
				table.Stored(func(e *bulk.Entry) bool {
					all = append(all, yang.EntryChange{List: list, Above: table.Above(), Change: bulk.Change{New: e}})
					return true
				})
			}
		}
		return all
	}
	changes := t.entries[u]
	if distinct(changes) {
		return changes
	}
	first := make(map[string]int, len(changes))
	var out []yang.EntryChange
	for _, c := range changes {
		e := c.New
		if e == nil {
			e = c.Old
		}
		id := fmt.Sprintf("%s|%q|%s", c.List.Path(), c.Above, e.Identity())
		if i, ok := first[id]; ok {
			out[i].New = c.New
			continue
		}
		first[id] = len(out)
		out = append(out, c)
	}
	return slices.DeleteFunc(out, func(c yang.EntryChange) bool {
		return c.Old == nil && c.New == nil ||
			c.Old != nil && c.New != nil && c.Old.Saved == c.New.Saved
	})
}

// distinct reports whether no two changes can be of one entry: an entry is added again only after it was removed.
func distinct(changes []yang.EntryChange) bool {
	other := func(c yang.EntryChange) bool { return c.Old != nil }
	if len(changes) > 0 && changes[0].Old != nil {
		other = func(c yang.EntryChange) bool { return c.New != nil }
	}
	return len(changes) < 2 || !slices.ContainsFunc(changes, other)
}

// entryList is changes of entries in the form that a cube's code gets.
func entryList(changes []yang.EntryChange) []cube.EntryChange {
	if len(changes) == 0 {
		return nil
	}
	list := make([]cube.EntryChange, len(changes))
	for i, c := range changes {
		list[i] = cube.EntryChange{Above: c.Above, Old: entryJSON(c.Old), New: entryJSON(c.New)}
		if i > 0 && c.List == changes[i-1].List {
			list[i].List = list[i-1].List
		} else {
			list[i].List = strings.Split(c.List.Path(), "/")
		}
	}
	return list
}

func entryJSON(e *bulk.Entry) json.RawMessage {
	if e == nil {
		return nil
	}
	return json.RawMessage(e.Full)
}

// entryRecords encodes the entries of cubes that differ from the store.
func (x *execution) entryRecords() []store.Record {
	var recs []store.Record
	for _, u := range x.removed {
		if rec := x.old.Cubes[u.Name]; rec != nil && rec.UUID == u.UUID {
			recs = append(recs, world.EntryRecords(rec, nil)...)
		}
	}
	for name, b := range x.old.Broken {
		if x.next.Broken[name] == nil && b.Stored.Entries != nil && (x.next.Cubes[name] == nil || x.next.Cubes[name].UUID != b.Stored.UUID) {
			for _, key := range b.Stored.Entries.Keys {
				recs = append(recs, store.Record{Key: key})
			}
		}
	}
	for _, name := range x.touched {
		u, rec := x.next.Units[name], x.next.Cubes[name]
		switch {
		case rec == nil:
		case u.Restored != nil && x.before(name) == nil:
			recs = append(recs, u.Restored.Moved(u.Service.Schema, rec)...)
		case slices.Contains(x.created, u):
			recs = append(recs, world.EntryRecords(rec, rec)...)
		default:
			recs = append(recs, world.ChangedRecords(rec.UUID, x.entryChanges(u, rec, false))...)
		}
	}
	return recs
}
