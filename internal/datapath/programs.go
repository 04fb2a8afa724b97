// SPDX-License-Identifier: Apache-2.0

package datapath

import (
	"cmp"
	"fmt"
	"slices"
	"unsafe"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/internal/datapath/link"
)

// placed is a program of a cube, found in its object.
type placed struct {
	cube.ProgramSlot
	object   *link.Object
	function *link.Function
}

// programsOf returns the programs that a cube consists of at a hook, by direction and index.
func (p *Plane) programsOf(n *Node, h cube.Hook) ([]placed, error) {
	in := p.cubes[n.ID]
	if in == nil {
		return nil, fmt.Errorf("cube %s: %w in the data plane", n.Name, cube.ErrNotFound)
	}
	if in.frozen {
		return in.programs[h], nil
	}
	programs := map[cube.ProgramSlot]cube.Program{
		{Direction: cube.Ingress}: {Function: link.Ingress},
	}
	if in.objects[h].Functions[link.Egress] != nil {
		programs[cube.ProgramSlot{Direction: cube.Egress}] = cube.Program{Function: link.Egress}
	}
	for slot, pr := range n.Programs {
		programs[slot] = pr
	}
	var out []placed
	for slot, pr := range programs {
		if pr.Function == "" {
			continue
		}
		if slot.Index < 0 || slot.Index >= cube.MaxPrograms {
			return nil, fmt.Errorf("cube %s: program %d is not in 0..%d: %w", n.Name, slot.Index, cube.MaxPrograms-1, cube.ErrInvalid)
		}
		o, err := p.objectOf(in, pr, h)
		if err != nil {
			return nil, fmt.Errorf("cube %s: program %d: %w", n.Name, slot.Index, err)
		}
		f := o.Functions[pr.Function]
		if f == nil || !f.IsProgram() {
			return nil, fmt.Errorf("cube %s: program %d: the %s object has no PCN_PROGRAM(%s): %w",
				n.Name, slot.Index, h, pr.Function, cube.ErrNotFound)
		}
		if programs[cube.ProgramSlot{Direction: slot.Direction}].Function != "" { // else nothing leads to it
			out = append(out, placed{slot, o, f})
		}
	}
	slices.SortFunc(out, func(a, b placed) int {
		return cmp.Or(cmp.Compare(a.Direction, b.Direction), cmp.Compare(a.Index, b.Index))
	})
	return out, nil
}

// HasFunction says whether the objects of a service have a function for a hook.
func (p *Plane) HasFunction(service string, h cube.Hook, name string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := p.services[service]
	if s == nil {
		return false
	}
	o := s.objects[h]
	return o != nil && o.Functions[name] != nil
}

// source identifies bytes that nobody changes.
type source struct {
	first *byte
	size  int
}

// objectOf returns the object that a program is in, parsed: the service's or one given at run
// time, whose maps are made for the cube.
func (p *Plane) objectOf(in *instance, pr cube.Program, h cube.Hook) (*link.Object, error) {
	if pr.Objects == nil {
		return in.objects[h], nil
	}
	elf := pr.Objects[h]
	if len(elf) == 0 {
		return nil, fmt.Errorf("no object for %s: %w", h, cube.ErrUnsupported)
	}
	key := source{unsafe.SliceData(elf), len(elf)}
	o := p.given[key]
	if o == nil {
		var err error
		if o, err = link.ParseObject(h, elf); err != nil {
			return nil, err
		}
		p.given[key] = o
	}
	return o, p.addMaps(in, o)
}

// forgetObjects lets go of the objects given at run time that the graph has no use for.
func (p *Plane) forgetObjects(g *Graph) {
	used := map[source]bool{}
	for _, n := range g.Cubes {
		for _, pr := range n.Programs {
			for _, elf := range pr.Objects {
				used[source{unsafe.SliceData(elf), len(elf)}] = true
			}
		}
	}
	for key, o := range p.given {
		if !used[key] {
			delete(p.given, key)
			delete(p.savedAt, o)
			delete(p.heavier, o)
		}
	}
}
