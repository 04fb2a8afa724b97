// SPDX-License-Identifier: Apache-2.0

package state

import (
	"fmt"
	"maps"
	"slices"

	"github.com/cilium/ebpf"

	"github.com/polycube/polycube/internal/datapath/bpfmap"
	"github.com/polycube/polycube/internal/datapath/graph"
	"github.com/polycube/polycube/ring"
)

// How full maps are, for metrics, at a bounded cost.

// MapUsage is how full one of a cube's maps is.
type MapUsage struct {
	// Name is the map's C name, Type the kernel's name of its type.
	Name, Type string
	MaxEntries uint32
	// Entries is the number of entries, -1 for a map whose number is fixed, such as an array. Counting stops at
	// MaxCounted.
	Entries int
	// Bytes is the kernel memory that it uses, 0 if the kernel does not report it.
	Bytes uint64
	// Ring is set for a ring of PCN_RING.
	Ring *RingUsage
}

// RingUsage is what programs did with a ring.
type RingUsage struct {
	// Written and Lost are packets; lost ones found the ring full. Waiting are bytes that were not read yet.
	Written, Lost, Waiting uint64
}

// MapUsage returns how full a cube's maps are, in order of their names. Shared maps are listed for each cube. A map that
// cannot be read is omitted.
func (c *Cubes) MapUsage(id graph.CubeID) []MapUsage {
	cs := c.state
	var out []MapUsage
	held := cs.heldMaps(id)
	for _, m := range held {
		if u, err := usageOf(m.m, m.name); err == nil {
			u.Ring = ringUsage(m, held)
			out = append(out, u)
		}
	}
	for _, m := range held {
		_ = m.m.Close()
	}
	return out
}

// ringUsage reads what programs counted for a ring; nil for another map.
func ringUsage(m heldMap, held []heldMap) *RingUsage {
	counts := slices.IndexFunc(held, func(h heldMap) bool { return h.name == m.name+ring.CountsSuffix })
	if m.m.Type() != ebpf.RingBuf || counts < 0 {
		return nil
	}
	sum, err := ring.Sum(held[counts].m)
	if err != nil {
		return nil
	}
	waiting, err := ring.Waiting(m.m)
	if err != nil {
		return nil
	}
	return &RingUsage{Written: sum.Written, Lost: sum.Lost, Waiting: waiting}
}

type heldMap struct {
	name string
	m    *ebpf.Map
}

// heldMaps are separate descriptors of a cube's maps: the cube may be deleted while they are read.
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
		u.Bytes = uint64(m.MaxEntries()) // before Linux 6.4, the kernel multiplies by the size of an entry, which is 0
	}
	if u.Entries, err = bpfmap.Count(m); err != nil {
		return MapUsage{}, fmt.Errorf("map %s: count its entries: %w", name, err)
	}
	return u, nil
}
