// SPDX-License-Identifier: Apache-2.0

package datapath

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/cilium/ebpf"
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

// readArray collects the rows of a mapped array that are not zero.
func readArray[V comparable](m *ebpf.Map, into map[uint32]V) error {
	memory, err := m.Memory()
	if err != nil {
		return fmt.Errorf("reading table %s: %w", m, err)
	}
	rows, size := make([]byte, memory.Size()), int(m.ValueSize())
	if _, err := memory.ReadAt(rows, 0); err != nil {
		return fmt.Errorf("reading table %s: %w", m, err)
	}
	for key := range m.MaxEntries() {
		row := rows[int(key)*size:][:size]
		if binary.NativeEndian.Uint64(row) == 0 { // rows have 8 bytes, see TestABI
			continue
		}
		var v V
		if _, err := binary.Decode(row, binary.NativeEndian, &v); err != nil {
			return fmt.Errorf("table %s, row %d: %w", m, key, err)
		}
		into[key] = v
	}
	return nil
}

func readHash[V any](m *ebpf.Map, into map[uint32]V) error {
	var k uint32
	var v V
	it := m.Iterate()
	for it.Next(&k, &v) {
		into[k] = v
	}
	if err := it.Err(); err != nil {
		return fmt.Errorf("reading table %s: %w", m, err)
	}
	return nil
}
