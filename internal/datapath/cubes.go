// SPDX-License-Identifier: Apache-2.0

package datapath

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/internal/datapath/link"
)

// instance is a cube's part of the fast path: the parsed objects of its service and its maps.
type instance struct {
	spec    Spec
	objects map[cube.Hook]*link.Object
	maps    map[string]*ebpf.Map
	dir     string // where the maps are pinned
}

// CheckObject parses a service's objects, so that a bad one is refused when the service is
// registered, and remembers them for the cubes to come.
func (p *Plane) CheckObject(service string, objects map[cube.Hook][]byte) error {
	parsed := map[cube.Hook]*link.Object{}
	for h, elf := range objects {
		o, err := link.ParseObject(h, elf)
		if err != nil {
			return fmt.Errorf("service %s, %s object: %w", service, h, err)
		}
		if o.Functions[link.Ingress] == nil {
			return fmt.Errorf("service %s, %s object: no PCN_INGRESS program: %w", service, h, cube.ErrInvalid)
		}
		parsed[h] = o
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.services[service] = parsed
	return nil
}

// CreateCube makes the cube's maps, or reopens those that an earlier daemon left pinned.
func (p *Plane) CreateCube(spec Spec) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if spec.ID == 0 || spec.ID > MaxCubeID {
		return fmt.Errorf("cube %s: id %d is not in 1..%d: %w", spec.Name, spec.ID, MaxCubeID, cube.ErrInvalid)
	}
	if other := p.cubes[spec.ID]; other != nil {
		return fmt.Errorf("cube %s: id %d belongs to %s: %w", spec.Name, spec.ID, other.spec.Name, cube.ErrExists)
	}
	objects := p.services[spec.Service]
	if objects[spec.Type.Hook()] == nil {
		return fmt.Errorf("cube %s: service %s has no programs for %s: %w", spec.Name, spec.Service, spec.Type, cube.ErrUnsupported)
	}
	if spec.Transparent {
		for h, o := range objects {
			if o.Functions[link.Egress] == nil {
				return fmt.Errorf("cube %s: the transparent service %s has no %s egress program: %w",
					spec.Name, spec.Service, h, cube.ErrInvalid)
			}
		}
	}
	in := &instance{
		spec: spec, objects: objects, maps: map[string]*ebpf.Map{},
		dir: filepath.Join(p.dir("cubes"), spec.UUID),
	}
	reopened, err := in.openMaps()
	if err != nil {
		return err
	}
	if !reopened {
		if err := p.fw.maps[mapFates].Put(uint32(spec.ID), make([]fates, ebpf.MustPossibleCPU())); err != nil {
			return errors.Join(fmt.Errorf("cube %s: clearing counters: %w", spec.Name, err), in.remove())
		}
	}
	p.cubes[spec.ID] = in
	return nil
}

// openMaps fills in.maps; it reports whether the maps were there already.
func (in *instance) openMaps() (reopened bool, err error) {
	if _, err := os.Stat(in.dir); err == nil {
		reopened = true
	} else if err := ensureDir(in.dir); err != nil {
		return false, err
	}
	for h, o := range in.objects {
		if h != in.spec.Type.Hook() && !(in.spec.Transparent && h == cube.TC) {
			continue
		}
		for name, spec := range o.Maps {
			if in.maps[name] != nil {
				continue
			}
			s := spec.Copy()
			if n := in.spec.MapSizes[name]; n != 0 {
				s.MaxEntries = n
			}
			m, err := openMap(filepath.Join(in.dir, strings.ReplaceAll(name, ".", "_")), s) // bpffs takes no dots
			if err != nil {
				if !reopened {
					err = errors.Join(err, in.remove())
				}
				return false, fmt.Errorf("cube %s: %w", in.spec.Name, err)
			}
			in.maps[name] = m
		}
	}
	for name := range in.spec.MapSizes {
		if in.maps[name] == nil {
			return false, errors.Join(
				fmt.Errorf("cube %s: map %s: %w", in.spec.Name, name, cube.ErrNotFound), in.remove())
		}
	}
	return reopened, nil
}

// addMaps makes the maps of an object given at run time that the cube does not have yet. They
// stay as long as the cube, so that what comes back finds its state.
func (in *instance) addMaps(o *link.Object) error {
	for name, spec := range o.Maps {
		if m := in.maps[name]; m != nil {
			if err := spec.Compatible(m); err != nil {
				return fmt.Errorf("map %s has another layout in the cube: %w", name, err)
			}
			continue
		}
		m, err := openMap(filepath.Join(in.dir, strings.ReplaceAll(name, ".", "_")), spec)
		if err != nil {
			return err
		}
		in.maps[name] = m
	}
	return nil
}

// remove closes the maps and takes their pins away.
func (in *instance) remove() error {
	in.close()
	if err := os.RemoveAll(in.dir); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("cube %s: removing maps: %w", in.spec.Name, err)
	}
	return nil
}

func (in *instance) close() {
	for _, m := range in.maps {
		_ = m.Close()
	}
}

// linkMaps are the maps that the linker binds.
func (in *instance) linkMaps() map[string]asm.FDer {
	out := make(map[string]asm.FDer, len(in.maps))
	for name, m := range in.maps {
		out[name] = m
	}
	return out
}

// DeleteCube removes the cube's maps. The cube must not be in the committed graph any more.
func (p *Plane) DeleteCube(id CubeID) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	in := p.cubes[id]
	if in == nil {
		return fmt.Errorf("cube %d: %w", id, cube.ErrNotFound)
	}
	if p.graph != nil && p.graph.Cubes[id] != nil {
		return fmt.Errorf("cube %s is still in the graph: %w", in.spec.Name, cube.ErrInUse)
	}
	delete(p.cubes, id)
	return in.remove()
}

// Map returns one of the cube's maps.
func (p *Plane) Map(id CubeID, name string) (*ebpf.Map, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	in := p.cubes[id]
	if in == nil {
		return nil, fmt.Errorf("cube %d: %w", id, cube.ErrNotFound)
	}
	m := in.maps[name]
	if m == nil {
		return nil, fmt.Errorf("cube %s: map %s: %w", in.spec.Name, name, cube.ErrNotFound)
	}
	return m, nil
}
