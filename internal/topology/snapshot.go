// SPDX-License-Identifier: Apache-2.0

package topology

// A world is data and knows no code. Readers and transactions need both at one moment: what the cubes are, and whose code
// runs them.

import (
	"fmt"
	"maps"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/internal/datapath"
	"github.com/polycube/polycube/internal/topology/unit"
	"github.com/polycube/polycube/internal/topology/world"
)

// AbsentError is a request that names what does not exist.
type AbsentError = world.AbsentError

// snapshot is a world with the units that run its cubes. A published one is never changed.
type snapshot struct {
	world.World
	// units are by the name of their cube; each cube has one.
	units map[string]*unit.Unit
}

func newSnapshot() *snapshot { return &snapshot{World: world.New(), units: map[string]*unit.Unit{}} }

// clone is a snapshot that can be changed; its records are still shared.
func (s *snapshot) clone() *snapshot {
	return &snapshot{World: s.World.Clone(), units: maps.Clone(s.units)}
}

// graph derives the data plane's desired state.
func (s *snapshot) graph() *datapath.Graph { return s.World.Graph(s) }

// ProgramsOf returns the programs of a cube that differ from its service's.
func (s *snapshot) ProgramsOf(name string) map[cube.ProgramSlot]cube.Program {
	if u := s.units[name]; u != nil {
		return u.Chosen()
	}
	return nil
}

// find returns a cube and its unit; an empty service is any.
func (s *snapshot) find(serviceName, name string) (*world.Cube, *unit.Unit, error) {
	rec := s.Cubes[name]
	if rec == nil {
		return nil, nil, fmt.Errorf("cube %.80s: %w", name, s.Missing(name))
	}
	if serviceName != "" && rec.Service != serviceName {
		return nil, nil, fmt.Errorf("%s is a %s, there is no %s of that name: %w", name, rec.Service, serviceName, cube.ErrNotFound)
	}
	return rec, s.units[name], nil
}
