// SPDX-License-Identifier: Apache-2.0

package unit

// A world is data and contains no code. Readers and transactions need both from the same point in time: which cubes
// exist, and which units run them.

import (
	"fmt"
	"maps"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/internal/datapath"
	"github.com/polycube/polycube/internal/topology/world"
)

// Snapshot is a world with the units that run its cubes. A published snapshot is never changed.
type Snapshot struct {
	world.World
	// Units are by the name of their cube; each cube has one.
	Units map[string]*Unit
}

// NewSnapshot returns an empty snapshot.
func NewSnapshot() *Snapshot { return &Snapshot{World: world.New(), Units: map[string]*Unit{}} }

// Clone is a snapshot that can be changed; it shares the records.
func (s *Snapshot) Clone() *Snapshot {
	return &Snapshot{World: s.World.Clone(), Units: maps.Clone(s.Units)}
}

// Graph derives the data plane's desired state.
func (s *Snapshot) Graph() *datapath.Graph { return s.World.Graph(s) }

// ProgramsOf returns the programs of a cube that differ from its service's.
func (s *Snapshot) ProgramsOf(name string) map[cube.ProgramSlot]cube.Program {
	if u := s.Units[name]; u != nil {
		return u.Chosen()
	}
	return nil
}

// Find returns a cube and its unit; an empty service matches any.
func (s *Snapshot) Find(serviceName, name string) (*world.Cube, *Unit, error) {
	rec := s.Cubes[name]
	if rec == nil {
		return nil, nil, fmt.Errorf("cube %.80s: %w", name, s.Missing(name))
	}
	if serviceName != "" && rec.Service != serviceName {
		return nil, nil, fmt.Errorf("%s is a %s, no %s has that name: %w", name, rec.Service, serviceName, cube.ErrNotFound)
	}
	return rec, s.Units[name], nil
}

// Before returns the record that a cube had in an earlier snapshot, nil if the cube is new; another one may have had its
// name.
func (s *Snapshot) Before(old *Snapshot, name string) *world.Cube {
	if u := s.Units[name]; u != nil && u != old.Units[name] {
		return nil
	}
	return old.Cubes[name]
}
