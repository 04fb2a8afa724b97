// SPDX-License-Identifier: Apache-2.0

package topology

// What is stored: a record for each cube and for each netdev with transparent cubes, written when it changes.

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"github.com/polycube/polycube/internal/store"
)

// persist writes what changed to the store, as one transaction of its own.
func (t *txn) persist() error {
	recs, err := t.storeRecords()
	recs = append(append(recs, t.entryRecords()...), t.also...)
	if err != nil || len(recs) == 0 {
		return err
	}
	t.next.revision++
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
	for _, rec := range t.next.recordsOf(t.reach().changed) {
		blob, err := rec.encode()
		if err != nil {
			return nil, err
		}
		if len(t.entries[t.next.units[rec.name]]) > 0 {
			rec.revision = t.old.revision + 1
		}
		if string(blob) != string(rec.blob) {
			rec.blob, rec.revision = blob, t.old.revision+1
			recs = append(recs, store.Record{Key: cubeKey + rec.name, Value: blob})
		}
	}
	for _, u := range t.removed {
		if t.next.cubes[u.name] == nil {
			recs = append(recs, store.Record{Key: cubeKey + u.name})
		}
	}
	for _, name := range slices.Sorted(maps.Keys(t.old.broken)) {
		if t.next.broken[name] == nil && t.next.cubes[name] == nil {
			recs = append(recs, store.Record{Key: cubeKey + name})
		}
	}
	return append(recs, t.chainRecords()...), nil
}

// chainRecords encodes the netdevs whose transparent cubes changed.
func (t *txn) chainRecords() []store.Record {
	var recs []store.Record
	for _, name := range slices.Sorted(maps.Keys(t.old.chains)) {
		if len(t.next.chains[name]) == 0 {
			recs = append(recs, store.Record{Key: netdevKey + name})
		}
	}
	for _, name := range slices.Sorted(maps.Keys(t.next.chains)) {
		if chain := t.next.chains[name]; !slices.Equal(chain, t.old.chains[name]) {
			blob, _ := json.Marshal(storedChain{Tcubes: chain}) // strings always marshal
			recs = append(recs, store.Record{Key: netdevKey + name, Value: blob})
		}
	}
	return recs
}
