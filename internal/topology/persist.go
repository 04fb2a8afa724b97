// SPDX-License-Identifier: Apache-2.0

package topology

// What is stored: a record for each cube and for each netdev with transparent cubes, written when it changes.

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"github.com/polycube/polycube/internal/store"
	"github.com/polycube/polycube/internal/topology/world"
)

// persist writes what changed to the store, as one transaction of its own.
func (x *execution) persist() error {
	recs, err := x.storeRecords()
	recs = append(recs, x.entryRecords()...)
	recs = append(append(recs, x.also...), x.trialRecords(len(recs) > 0)...)
	if err != nil || len(recs) == 0 {
		return err
	}
	x.next.Revision++
	if x.commit == nil {
		return nil
	}
	recs = append(recs, x.changeRecord())
	if err := x.commit(recs); err != nil {
		return fmt.Errorf("write the configuration to disk: %w", err)
	}
	return nil
}

// storeRecords encodes what differs from the store.
func (x *execution) storeRecords() ([]store.Record, error) {
	var recs []store.Record
	for _, rec := range x.next.RecordsOf(x.reach().Changed) {
		blob, err := rec.Encode()
		if err != nil {
			return nil, err
		}
		if len(x.entries[x.next.Units[rec.Name]]) > 0 {
			rec.Revision = x.old.Revision + 1
		}
		if !bytes.Equal(blob, rec.Blob) {
			rec.Blob, rec.Revision = blob, x.old.Revision+1
			recs = append(recs, store.Record{Key: world.CubeKey + rec.Name, Value: blob})
		}
	}
	for _, u := range x.removed {
		if x.next.Cubes[u.Name] == nil {
			recs = append(recs, store.Record{Key: world.CubeKey + u.Name})
		}
	}
	for _, name := range slices.Sorted(maps.Keys(x.old.Broken)) {
		if x.next.Broken[name] == nil && x.next.Cubes[name] == nil {
			recs = append(recs, store.Record{Key: world.CubeKey + name})
		}
	}
	return append(recs, x.chainRecords()...), nil
}

// chainRecords encodes the netdevs whose transparent cubes changed.
func (x *execution) chainRecords() []store.Record {
	var recs []store.Record
	for _, name := range slices.Sorted(maps.Keys(x.old.Chains)) {
		if len(x.next.Chains[name]) == 0 {
			recs = append(recs, store.Record{Key: world.NetdevKey + name})
		}
	}
	for _, name := range slices.Sorted(maps.Keys(x.next.Chains)) {
		if chain := x.next.Chains[name]; !slices.Equal(chain, x.old.Chains[name]) {
			blob, _ := json.Marshal(world.StoredChain{Tcubes: chain}) // strings always marshal
			recs = append(recs, store.Record{Key: world.NetdevKey + name, Value: blob})
		}
	}
	return recs
}
