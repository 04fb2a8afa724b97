// SPDX-License-Identifier: Apache-2.0

package state

// A map's number of entries is fixed when it is made. To change it while packets go by is to make
// another map, copy the entries and link the cube anew with that one.

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

// ResizeMaps gives some of a cube's own maps another number of entries: the next graph that is
// committed, whose Node.Maps is another one, uses the new maps. undo returns to the old ones; once
// such a graph was in use it does nothing, and the maps stay as large as they are. undo is nil
// when all sizes are as they were.
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

// resizing is what an instance was before its maps got other sizes.
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

// back makes the instance what it was.
func (r resizing) back() {
	for name, m := range r.in.maps {
		if m != r.maps[name] {
			_ = m.Close()
		}
	}
	r.in.maps, r.in.declared, r.in.origins, r.in.spec.MapSizes = r.maps, r.declared, r.origins, r.sizes
	r.in.moves, r.in.late, r.in.olds = r.moves, r.late, r.olds
}

// resize makes a successor of a map; it reports whether one was needed.
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

// sized is the declaration with another number of entries; 0 leaves it as it is.
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
