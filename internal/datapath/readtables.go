// SPDX-License-Identifier: Apache-2.0

package datapath

import (
	"errors"

	"github.com/polycube/polycube/internal/datapath/abi"
	"github.com/polycube/polycube/internal/datapath/bpfmap"
)

// What an earlier daemon left in the tables, read at start.

// readTables reads what an earlier daemon wrote, so that the first commit changes what differs
// and clears what is gone.
func (p *Plane) readTables() (*tables, error) {
	t := newTables()
	floods := map[uint32]abi.Flood{}
	err := errors.Join(
		bpfmap.ReadArray(p.fw.Maps[abi.MapEntries], t.entries),
		bpfmap.ReadHash(p.fw.Maps[abi.MapFar], t.entries),
		bpfmap.ReadHash(p.fw.Maps[abi.MapOutEntries], t.outEntries),
		bpfmap.ReadArray(p.fw.Maps[abi.MapExits], t.exits),
		bpfmap.ReadHash(p.fw.Maps[abi.MapShadows], t.shadows),
		bpfmap.ReadHash(p.fw.Maps[abi.MapFloods], floods),
	)
	for id, row := range floods {
		t.floods[id] = &row
	}
	for key, e := range t.exits {
		t.devices[key] = e.Ifindex
	}
	return t, err
}
