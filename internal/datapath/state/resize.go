// SPDX-License-Identifier: Apache-2.0

package state

// A map's number of entries is fixed when it is created. To change it under traffic, another map is created, the entries
// are copied, and the cube is linked again with the new map.

import (
	"fmt"
	"maps"
	"slices"

	"github.com/cilium/ebpf"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/cube/origins"
	"github.com/polycube/polycube/internal/datapath/bpfmap"
	"github.com/polycube/polycube/internal/datapath/graph"
)

// ResizeMaps changes the number of entries of some of a cube's private maps. The next graph that is committed, with another
// Node.Maps, uses the new maps. undo returns to the old ones; it does nothing once such a graph was in use. undo is nil if
// no size differs.
func (c *Cubes) ResizeMaps(id graph.CubeID, sizes map[string]uint32) (undo func() error, err error) {
	cs := c.state
	cs.mu.Lock()
	defer cs.mu.Unlock()
	in := cs.byID[id]
	if in == nil || in.frozen {
		return nil, fmt.Errorf("cube %d: %w", id, cube.ErrNotFound)
	}
	was := resizing{in: in, taken: in.taken, maps: maps.Clone(in.maps), declared: maps.Clone(in.declared),
		origins: maps.Clone(in.origins), sizes: in.spec.MapSizes, moves: in.moves, late: in.late, olds: in.olds}
	in.spec.MapSizes = maps.Clone(in.spec.MapSizes)
	if in.spec.MapSizes == nil {
		in.spec.MapSizes = map[string]uint32{}
	}
	changed := false
	for _, name := range slices.Sorted(maps.Keys(sizes)) {
		fresh, err := in.resize(name, sizes[name])
		if err != nil {
			was.back()
			return nil, fmt.Errorf("cube %s: %w", in.spec.Name, err)
		}
		changed = changed || fresh
	}
	if !changed {
		was.back()
		return nil, nil
	}
	return func() error {
		cs.mu.Lock()
		defer cs.mu.Unlock()
		if in.taken == was.taken && cs.byID[id] == in {
			was.back()
		}
		return nil
	}, nil
}

// resizing is the state of an instance before its maps were resized.
type resizing struct {
	in       *Instance
	taken    int
	maps     map[string]*ebpf.Map
	declared map[string]declaration
	origins  map[string]origins.Origin
	sizes    map[string]uint32
	moves    []move
	late     []succession
	olds     []*ebpf.Map
}

// back restores that state.
func (r resizing) back() {
	for name, m := range r.in.maps {
		if m != r.maps[name] {
			_ = m.Close()
		}
	}
	r.in.maps, r.in.declared, r.in.origins, r.in.spec.MapSizes = r.maps, r.declared, r.origins, r.sizes
	r.in.moves, r.in.late, r.in.olds = r.moves, r.late, r.olds
}

// resize creates a successor of a map, and reports whether one was needed.
func (in *Instance) resize(name string, n uint32) (bool, error) {
	d, ok := in.declared[name]
	if !ok {
		return false, fmt.Errorf("map %s: %w", name, cube.ErrNotFound)
	}
	d, err := d.sized(name, n)
	if err != nil {
		return false, err
	}
	m := in.maps[name]
	if n == 0 || m.MaxEntries() == n {
		return false, nil
	}
	spec := d.spec.Copy()
	spec.Pinning = ebpf.PinNone
	next, err := bpfmap.New(spec)
	if err != nil {
		return false, fmt.Errorf("create map %s: %w", name, err)
	}
	late := succession{name: name, was: m, now: next, copied: bpfmap.Image{}}
	if err := bpfmap.Copy(m, next, late.copied); err != nil {
		_ = next.Close()
		return false, fmt.Errorf("resize map %s to %d entries from %d: %w", name, n, m.MaxEntries(), err)
	}
	in.maps[name], in.declared[name], in.spec.MapSizes[name] = next, d, n
	in.moves = append(slices.Clip(in.moves), move{path: in.pin(name), now: next})
	in.late = append(slices.Clip(in.late), late)
	in.origins[name] = origins.Resized
	in.olds = append(slices.Clip(in.olds), m)
	return true, nil
}

// sized returns the declaration with another number of entries; 0 leaves it unchanged.
func (d declaration) sized(name string, n uint32) (declaration, error) {
	if d.scope != private {
		return d, fmt.Errorf("map %s: a shared map always has its declared size: %w", name, cube.ErrInvalid)
	}
	if n == 0 {
		return d, nil
	}
	d.spec = d.spec.Copy()
	d.spec.MaxEntries = n
	if err := checkSpec(d.spec); err != nil {
		return d, fmt.Errorf("map %s: %w", name, err)
	}
	return d, nil
}
