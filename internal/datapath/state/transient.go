// SPDX-License-Identifier: Apache-2.0

package state

// Maps of objects given at run time that exist only as long as a program uses them.

import (
	"errors"
	"fmt"

	"github.com/polycube/polycube/internal/datapath/bpfmap"
	"github.com/polycube/polycube/internal/datapath/graph"
)

// isService reports whether the cube's service declares a map.
func (in *Instance) isService(name string) bool {
	for _, o := range in.objects {
		if o.Maps[name] != nil {
			return true
		}
	}
	return false
}

// Sweep removes transient maps that no program of a graph uses.
func Sweep(cs *State, g *graph.Graph) error {
	var errs []error
	for id, in := range cs.byID {
		if len(in.transient) == 0 {
			continue
		}
		used := map[string]bool{}
		if n := g.Cubes[id]; n != nil {
			for _, pr := range n.Programs {
				for _, elf := range pr.Objects {
					if o := cs.given[sourceOf(elf)]; o != nil {
						for name := range o.Maps {
							used[name] = true
						}
					}
				}
			}
		}
		for name := range in.transient {
			if !used[name] {
				errs = append(errs, in.removeMap(name))
			}
		}
	}
	return errors.Join(errs...)
}

// removeMap removes a private map of an object given at run time.
func (in *Instance) removeMap(name string) error {
	m := in.maps[name]
	delete(in.transient, name)
	delete(in.maps, name)
	delete(in.origins, name)
	delete(in.declared, name)
	err := bpfmap.RemovePin(in.pin(name))
	if m != nil {
		err = errors.Join(err, m.Close())
	}
	if err != nil {
		return fmt.Errorf("cube %s: remove map %s: %w", in.spec.Name, name, err)
	}
	return nil
}
