// SPDX-License-Identifier: Apache-2.0

package tables

import (
	"errors"

	"github.com/polycube/polycube/internal/datapath/abi"
	"github.com/polycube/polycube/internal/datapath/bpfmap"
)

// What an earlier daemon left in the tables, read at start.

// read reads the rows an earlier daemon wrote, so that the first commit writes only rows that differ and deletes stale
// ones.
func (t *Tables) read() (*Rows, error) {
	now := newRows()
	floods := map[uint32]abi.Flood{}
	err := errors.Join(
		bpfmap.ReadArray(t.maps[abi.MapEntries], now.Entries),
		bpfmap.ReadHash(t.maps[abi.MapFar], now.Entries),
		bpfmap.ReadHash(t.maps[abi.MapOutEntries], now.OutEntries),
		bpfmap.ReadArray(t.maps[abi.MapExits], now.Exits),
		bpfmap.ReadArray(t.maps[abi.MapStacks], now.Stacks),
		bpfmap.ReadArray(t.maps[abi.MapParents], now.Parents),
		bpfmap.ReadHash(t.maps[abi.MapShadows], now.Shadows),
		bpfmap.ReadHash(t.maps[abi.MapFloods], floods),
	)
	for id, row := range floods {
		now.Floods[id] = &row
	}
	for key, e := range now.Exits {
		if !e.IsCube() {
			now.Devices[key] = e.Ifindex
		}
	}
	return now, err
}
