// SPDX-License-Identifier: Apache-2.0

package state

import (
	"cmp"
	"fmt"
	"slices"
	"unsafe"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/internal/datapath/graph"
	"github.com/polycube/polycube/internal/datapath/link"
)

// Program is a program of a cube, found in its object.
type Program struct {
	cube.ProgramSlot
	Object   *link.Object
	Function *link.Function
}

// ProgramsOf returns the programs that a cube consists of at a hook, by direction and index.
func (cs *State) ProgramsOf(n *graph.Node, h cube.Hook) ([]Program, error) {
	in := cs.byID[n.ID]
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
	var out []Program
	for slot, pr := range programs {
		if pr.Function == "" {
			continue
		}
		if slot.Index < 0 || slot.Index >= cube.MaxPrograms {
			return nil, fmt.Errorf("cube %s: program %d is not in 0..%d: %w", n.Name, slot.Index, cube.MaxPrograms-1, cube.ErrInvalid)
		}
		o, err := cs.objectOf(in, pr, h)
		if err != nil {
			return nil, fmt.Errorf("cube %s: program %d: %w", n.Name, slot.Index, err)
		}
		f := o.Functions[pr.Function]
		if f == nil || !f.IsProgram() {
			return nil, fmt.Errorf("cube %s: program %d: the %s object has no PCN_PROGRAM(%s): %w",
				n.Name, slot.Index, h, pr.Function, cube.ErrNotFound)
		}
		if programs[cube.ProgramSlot{Direction: slot.Direction}].Function != "" { // otherwise nothing leads to it
			out = append(out, Program{slot, o, f})
		}
	}
	slices.SortFunc(out, func(a, b Program) int {
		return cmp.Or(cmp.Compare(a.Direction, b.Direction), cmp.Compare(a.Index, b.Index))
	})
	return out, nil
}

// HasFunction reports whether the objects of a service have a function for a hook.
func (c *Cubes) HasFunction(service string, h cube.Hook, name string) bool {
	cs := c.state
	cs.mu.Lock()
	defer cs.mu.Unlock()
	s, err := cs.services.get(service)
	if err != nil || s == nil {
		return false
	}
	o := s.objects[h]
	return o != nil && o.Functions[name] != nil
}

// source identifies bytes that do not change.
type source struct {
	first *byte
	size  int
}

func sourceOf(elf []byte) source { return source{unsafe.SliceData(elf), len(elf)} }

// objectOf returns the parsed object of a program: the service's, or one given at run time, whose maps it creates for the
// cube.
func (cs *State) objectOf(in *Instance, pr cube.Program, h cube.Hook) (*link.Object, error) {
	if pr.Objects == nil {
		return in.objects[h], nil
	}
	elf := pr.Objects[h]
	if len(elf) == 0 {
		return nil, fmt.Errorf("no object for %s: %w", h, cube.ErrUnsupported)
	}
	key := sourceOf(elf)
	o := cs.given[key]
	if o == nil {
		var err error
		if o, err = link.ParseObject(h, elf); err != nil {
			return nil, err
		}
		cs.given[key] = o
	}
	return o, cs.addMaps(in, o, pr.Transient)
}

// ForgetObjects drops the objects given at run time that the graph does not use, and returns them.
func (cs *State) ForgetObjects(g *graph.Graph) (gone []*link.Object) {
	used := map[source]bool{}
	for _, n := range g.Cubes {
		for _, pr := range n.Programs {
			for _, elf := range pr.Objects {
				used[sourceOf(elf)] = true
			}
		}
	}
	for key, o := range cs.given {
		if !used[key] {
			delete(cs.given, key)
			delete(cs.savedAt, o)
			gone = append(gone, o)
		}
	}
	return gone
}

// CubeReasons returns the labels of a cube's reasons for drops, which begin at link.ReasonFirst, and for calls of its slow
// path. Lower numbers are those of FrameworkReasons.
func (c *Cubes) CubeReasons(id graph.CubeID) (drops, slowpath []string) {
	cs := c.state
	cs.mu.Lock()
	defer cs.mu.Unlock()
	if in := cs.byID[id]; in != nil {
		if o := in.objects[in.spec.Type.Hook()]; o != nil {
			return o.Reasons, o.SlowpathReasons
		}
	}
	return nil, nil
}
