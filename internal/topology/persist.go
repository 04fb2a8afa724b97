// SPDX-License-Identifier: Apache-2.0

package topology

// What is stored: a record for each cube and for each netdev with transparent cubes, written when it changes.

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"github.com/polycube/polycube/internal/store"
	"github.com/polycube/polycube/internal/topology/world"
)

// persist writes what changed to the store, as one transaction of its own.
func (t *txn) persist() error {
	recs, err := t.storeRecords()
	recs = append(append(recs, t.entryRecords()...), t.also...)
	if err != nil || len(recs) == 0 {
		return err
	}
	t.next.Revision++
	if t.m.commit == nil {
		return nil
	}
	recs = append(recs, t.changeRecord())
	if err := t.m.commit(recs); err != nil {
		return fmt.Errorf("writing the configuration to disk: %w", err)
	}
	return nil
}

// storeRecords encodes what differs from the store.
func (t *txn) storeRecords() ([]store.Record, error) {
	var recs []store.Record
	for _, rec := range t.next.RecordsOf(t.reach().Changed) {
		blob, err := rec.Encode()
		if err != nil {
			return nil, err
		}
		if len(t.entries[t.next.Units[rec.Name]]) > 0 {
			rec.Revision = t.old.Revision + 1
		}
		if string(blob) != string(rec.Blob) {
			rec.Blob, rec.Revision = blob, t.old.Revision+1
			recs = append(recs, store.Record{Key: world.CubeKey + rec.Name, Value: blob})
		}
	}
	for _, u := range t.removed {
		if t.next.Cubes[u.Name] == nil {
			recs = append(recs, store.Record{Key: world.CubeKey + u.Name})
		}
	}
	for _, name := range slices.Sorted(maps.Keys(t.old.Broken)) {
		if t.next.Broken[name] == nil && t.next.Cubes[name] == nil {
			recs = append(recs, store.Record{Key: world.CubeKey + name})
		}
	}
	return append(recs, t.chainRecords()...), nil
}

// chainRecords encodes the netdevs whose transparent cubes changed.
func (t *txn) chainRecords() []store.Record {
	var recs []store.Record
	for _, name := range slices.Sorted(maps.Keys(t.old.Chains)) {
		if len(t.next.Chains[name]) == 0 {
			recs = append(recs, store.Record{Key: world.NetdevKey + name})
		}
	}
	for _, name := range slices.Sorted(maps.Keys(t.next.Chains)) {
		if chain := t.next.Chains[name]; !slices.Equal(chain, t.old.Chains[name]) {
			blob, _ := json.Marshal(world.StoredChain{Tcubes: chain}) // strings always marshal
			recs = append(recs, store.Record{Key: world.NetdevKey + name, Value: blob})
		}
	}
	return recs
}
