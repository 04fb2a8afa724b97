// SPDX-License-Identifier: Apache-2.0

package topology

// A world is data and knows no code. Readers and transactions need both at one moment: what the cubes are, and whose code
// runs them.

import (
	"fmt"
	"maps"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/internal/datapath"
)

// snapshot is a world with the units that run its cubes. A published one is never changed.
type snapshot struct {
	world
	// units are by the name of their cube; each cube has one.
	units map[string]*unit
}

func newSnapshot() *snapshot { return &snapshot{world: newWorld(), units: map[string]*unit{}} }

// clone is a snapshot that can be changed; its records are still shared.
func (s *snapshot) clone() *snapshot {
	return &snapshot{world: s.world.clone(), units: maps.Clone(s.units)}
}

// graph derives the data plane's desired state.
func (s *snapshot) graph() *datapath.Graph { return s.world.graph(s) }

// ProgramsOf returns the programs of a cube that differ from its service's.
func (s *snapshot) ProgramsOf(name string) map[cube.ProgramSlot]cube.Program {
	if u := s.units[name]; u != nil {
		return u.programsOf()
	}
	return nil
}

// find returns a cube and its unit; an empty service is any.
func (s *snapshot) find(serviceName, name string) (*record, *unit, error) {
	rec := s.cubes[name]
	if rec == nil {
		return nil, nil, fmt.Errorf("cube %.80s: %w", name, s.missing(name))
	}
	if serviceName != "" && rec.service != serviceName {
		return nil, nil, fmt.Errorf("%s is a %s, there is no %s of that name: %w", name, rec.service, serviceName, cube.ErrNotFound)
	}
	return rec, s.units[name], nil
}
