// SPDX-License-Identifier: Apache-2.0

package pbforwarder

// Indexes of counters. A rule keeps its index as long as it exists, whatever other rules are added and removed; a map
// tells the next daemon which rule has which index.

import (
	"fmt"
	"slices"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/cube/table"
	"github.com/polycube/polycube/inet"
)

type places struct {
	counters table.PerCPU[uint32, inet.Count]
	names    table.Table[uint32, uint64] // id plus 1 by index; 0: free
	// unused are free, the next one last. left are those assigned by a previous daemon, by id.
	unused []uint32
	left   map[uint32]uint32
	// fresh are taken and not yet reset; writes are pending changes of names.
	fresh  []uint32
	writes map[uint32]uint64
}

func newPlaces(env cube.Env) *places {
	return &places{counters: table.NewPerCPU[uint32, inet.Count](env, "counters"), names: table.New[uint32, uint64](env, "places"),
		writes: map[uint32]uint64{}}
}

// load reads the indexes that a previous daemon assigned to rules.
func (p *places) load(size uint32) error {
	p.left = map[uint32]uint32{}
	used := make([]bool, size)
	var err error
	for place, id := range p.names.All(&err) {
		if id != 0 && place < size {
			p.left[uint32(id-1)], used[place] = place, true
		}
	}
	if err != nil {
		return err
	}
	p.unused = p.unused[:0]
	for place := int(size) - 1; place >= 0; place-- {
		if !used[place] {
			p.unused = append(p.unused, uint32(place))
		}
	}
	return nil
}

// take assigns an index to a rule: its previous one, or a free one.
func (p *places) take(id uint32) (uint32, error) {
	if place, ok := p.left[id]; ok {
		delete(p.left, id)
		return place, nil
	}
	if len(p.unused) == 0 {
		return 0, fmt.Errorf("no free counters: %w", cube.ErrFull)
	}
	last := len(p.unused) - 1
	place := p.unused[last]
	p.unused = p.unused[:last]
	p.fresh = append(p.fresh, place)
	p.writes[place] = uint64(id) + 1
	return place, nil
}

// free returns an index. Its counters stay until another rule takes it.
func (p *places) free(place uint32) {
	p.unused = append(p.unused, place)
	p.writes[place] = 0
}

// claim takes back an index that was freed.
func (p *places) claim(place, id uint32) {
	if i := slices.Index(p.unused, place); i >= 0 {
		p.unused = slices.Delete(p.unused, i, i+1)
	}
	p.writes[place] = uint64(id) + 1
}

// reset sets the counters of newly assigned indexes to zero, before their rules are in effect.
func (p *places) reset() error {
	_, err := p.counters.SetAll(p.fresh, inet.Count{})
	p.fresh = p.fresh[:0]
	return err
}

// abandon frees the indexes of rules that no longer exist.
func (p *places) abandon() {
	for _, place := range p.left {
		p.free(place)
	}
	p.left = nil
}

// flush writes the assignment of indexes to the map.
func (p *places) flush() error {
	keys := make([]uint32, 0, len(p.writes))
	ids := make([]uint64, 0, len(p.writes))
	for place, id := range p.writes {
		keys, ids = append(keys, place), append(ids, id)
	}
	if _, err := p.names.SetAll(keys, ids); err != nil {
		return err
	}
	clear(p.writes)
	return nil
}
