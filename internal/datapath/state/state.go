// SPDX-License-Identifier: Apache-2.0

// Package state holds the kernel objects of cubes: the objects that services registered, the maps with
// what is in them, and what is saved of programs for the next daemon. It carries the state of a cube
// from one layout or size to another, and from one daemon to the next.
package state

import (
	"log/slog"
	"sync"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/internal/datapath/collect"
	"github.com/polycube/polycube/internal/datapath/counters"
	"github.com/polycube/polycube/internal/datapath/graph"
	"github.com/polycube/polycube/internal/datapath/link"
)

// State is the kernel objects of all cubes: what services declare, the maps and what is saved of programs. The lock of the
// Plane guards it, since a change looks at it from beginning to end.
type State struct {
	dir     string // of the Plane's pins
	log     *slog.Logger
	collect *collect.Collector
	floods  floodOwners
	fates   *counters.Fates
	// inGraph tells whether a cube is in the graph in use.
	inGraph func(graph.CubeID) bool

	types sync.Map // by cube: its type, for those who must not wait for a change

	mu       sync.Locker // of the Plane; it guards what follows
	services map[string]*Service
	given    map[source]*link.Object // at run time, by their bytes
	byID     map[graph.CubeID]*Instance
	commons  *commons
	retained map[string]bool // UUIDs of cubes that are not open and not forgotten
	// savedAt is where a cube has an object pinned.
	savedAt map[*link.Object]string
}

// floodOwners are told which cubes can have sets of ports to flood to.
type floodOwners interface {
	SetOwner(id graph.CubeID, name string, typ cube.Type, egress bool)
	RemoveOwner(id graph.CubeID)
	Forget(id graph.CubeID) error
}

// Options says with what a State works.
type Options struct {
	Dir       string
	Logger    *slog.Logger
	Collector *collect.Collector
	Floods    floodOwners
	Fates     *counters.Fates
	// InGraph tells whether a cube is in the graph in use.
	InGraph func(graph.CubeID) bool
	// Lock guards the State: that of the Plane.
	Lock sync.Locker
}

// New makes one without cubes.
func New(s Options) *State {
	return &State{
		dir: s.Dir, log: s.Logger, collect: s.Collector, floods: s.Floods, fates: s.Fates, inGraph: s.InGraph, mu: s.Lock,
		services: map[string]*Service{}, given: map[source]*link.Object{}, byID: map[graph.CubeID]*Instance{},
		commons: &commons{s.Dir, map[string]*common{}}, retained: map[string]bool{}, savedAt: map[*link.Object]string{},
	}
}

// Close lets go of all cubes; the pins stay.
func (cs *State) Close() {
	for _, in := range cs.byID {
		cs.discard(in)
	}
}

// Cube returns a cube that is open, nil if there is none of the number.
func (cs *State) Cube(id graph.CubeID) *Instance { return cs.byID[id] }

// Used tells what a segment uses of a cube in addition to the graph; false if it is not open.
func (cs *State) Used(id graph.CubeID) (UsedCube, bool) {
	in := cs.byID[id]
	if in == nil {
		return UsedCube{}, false
	}
	return in.Used(), true
}

// TypeOf is the type of a cube that is open. It does not wait for a change.
func (cs *State) TypeOf(id graph.CubeID) (cube.Type, bool) {
	typ, ok := cs.types.Load(id)
	if !ok {
		return "", false
	}
	return typ.(cube.Type), true
}

// Cubes are what callers of a Plane do with cubes, each call with the lock.
type Cubes struct{ state *State }

// NewCubes gives access to a State.
func NewCubes(s *State) *Cubes { return &Cubes{s} }

// UsedCube is what a segment was described by, beside the graph.
type UsedCube struct {
	in      *Instance
	objects [2]*link.Object
	frozen  bool
	// taken counts up when other maps take the place of the cube's; until then its node says so.
	taken int
}

// Used tells what a segment uses of the cube in addition to the graph.
func (in *Instance) Used() UsedCube {
	return UsedCube{in, [2]*link.Object{in.objects[cube.TC], in.objects[cube.XDP]}, in.frozen, in.taken}
}

// SameObjects tells whether two cubes consist of the same objects.
func (u UsedCube) SameObjects(o UsedCube) bool { return u.objects == o.objects }
