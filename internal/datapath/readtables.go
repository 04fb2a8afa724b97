// SPDX-License-Identifier: Apache-2.0

package datapath

import (
	"errors"
)

// What an earlier daemon left in the tables, read at start.

// readTables reads what an earlier daemon wrote, so that the first commit changes what differs
// and clears what is gone.
func (p *Plane) readTables() (*tables, error) {
	t := newTables()
	floods := map[uint32]flood{}
	err := errors.Join(
		readArray(p.fw.maps[mapEntries], t.entries),
		readHash(p.fw.maps[mapFar], t.entries),
		readHash(p.fw.maps[mapOutEntries], t.outEntries),
		readArray(p.fw.maps[mapExits], t.exits),
		readHash(p.fw.maps[mapShadows], t.shadows),
		readHash(p.fw.maps[mapFloods], floods),
	)
	for id, row := range floods {
		t.floods[id] = &row
	}
	for key, e := range t.exits {
		t.devices[key] = e.Ifindex
	}
	return t, err
}
