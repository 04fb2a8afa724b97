// SPDX-License-Identifier: Apache-2.0

package datapath

import (
	"errors"

	"github.com/polycube/polycube/internal/datapath/abi"
	"github.com/polycube/polycube/internal/datapath/bpfmap"
)

// What an earlier daemon left in the tables, read at start.

// read reads what an earlier daemon wrote, so that the first commit changes what differs
// and clears what is gone.
func (t *tables) read() (*rows, error) {
	now := newRows()
	floods := map[uint32]abi.Flood{}
	err := errors.Join(
		bpfmap.ReadArray(t.maps[abi.MapEntries], now.entries),
		bpfmap.ReadHash(t.maps[abi.MapFar], now.entries),
		bpfmap.ReadHash(t.maps[abi.MapOutEntries], now.outEntries),
		bpfmap.ReadArray(t.maps[abi.MapExits], now.exits),
		bpfmap.ReadHash(t.maps[abi.MapShadows], now.shadows),
		bpfmap.ReadHash(t.maps[abi.MapFloods], floods),
	)
	for id, row := range floods {
		now.floods[id] = &row
	}
	for key, e := range now.exits {
		now.devices[key] = e.Ifindex
	}
	return now, err
}
