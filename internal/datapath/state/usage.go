// SPDX-License-Identifier: Apache-2.0

package state

import (
	"fmt"
	"maps"
	"slices"

	"github.com/cilium/ebpf"

	"github.com/polycube/polycube/internal/datapath/bpfmap"
	"github.com/polycube/polycube/internal/datapath/graph"
)

// How full maps are: for measurements, at a bounded cost.

// MapUsage is how full one of a cube's maps is.
type MapUsage struct {
	// Name is the map's C name, Type the kernel's name of its type.
	Name, Type string
	MaxEntries uint32
	// Entries is how many it has, -1 for a map whose entries are all there always, such as an array. Of a map that has
	// more than MaxCounted, that many were counted.
	Entries int
	// Bytes is the memory that it takes in the kernel, 0 if the kernel does not say.
	Bytes uint64
}

// MapUsage looks at a cube's maps, in order of their names. Shared ones are those of every cube that has them. One that
// cannot be read is left out.
func (c *Cubes) MapUsage(id graph.CubeID) []MapUsage {
	cs := c.state
	var out []MapUsage
	for _, m := range cs.heldMaps(id) {
		if u, err := usageOf(m.m, m.name); err == nil {
			out = append(out, u)
		}
		_ = m.m.Close()
	}
	return out
}

type heldMap struct {
	name string
	m    *ebpf.Map
}

// heldMaps are descriptors of one's own for a cube's maps: the cube may go while they are read.
func (cs *State) heldMaps(id graph.CubeID) []heldMap {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	in := cs.byID[id]
	if in == nil {
		return nil
	}
	out := make([]heldMap, 0, len(in.maps))
	for _, name := range slices.Sorted(maps.Keys(in.maps)) {
		if own, err := in.maps[name].Clone(); err == nil {
			out = append(out, heldMap{name, own})
		}
	}
	return out
}

func usageOf(m *ebpf.Map, name string) (MapUsage, error) {
	info, err := m.Info()
	if err != nil {
		return MapUsage{}, fmt.Errorf("map %s: %w", name, err)
	}
	u := MapUsage{Name: name, Type: m.Type().String(), MaxEntries: m.MaxEntries(), Entries: -1}
	if u.Bytes, _ = info.Memlock(); u.Bytes == 0 && m.Type() == ebpf.RingBuf {
		u.Bytes = uint64(m.MaxEntries()) // before Linux 6.4, the kernel multiplies by the size of an entry, of which there is none
	}
	if u.Entries, err = bpfmap.Count(m); err != nil {
		return MapUsage{}, fmt.Errorf("map %s: count its entries: %w", name, err)
	}
	return u, nil
}
