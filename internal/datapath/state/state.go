// SPDX-License-Identifier: Apache-2.0

// Package state keeps what cubes have in the kernel: the objects of services, the maps with their entries, and what is saved
// of programs for the next daemon. It carries entries from one layout or size to another, and from one daemon to the next.
package state

import (
	"crypto/sha256"
	"log/slog"
	"sync"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/internal/datapath/collect"
	"github.com/polycube/polycube/internal/datapath/counters"
	"github.com/polycube/polycube/internal/datapath/graph"
	"github.com/polycube/polycube/internal/datapath/link"
)

// State is what all cubes have in the kernel: the maps that services declare, and what is saved of programs. The lock of the
// Plane guards it, as a change uses it from beginning to end.
type State struct {
	dir     string // of the Plane's pins
	log     *slog.Logger
	collect *collect.Collector
	floods  floodOwners
	fates   *counters.Fates
	// inGraph reports whether a cube is in the graph in use.
	inGraph func(graph.CubeID) bool

	types sync.Map // by cube: its type, for callers that must not wait for a change

	mu       sync.Locker // of the Plane; it guards what follows
	services services
	given    map[source]*link.Object // at run time, by their bytes
	byID     map[graph.CubeID]*Instance
	commons  *commons
	retained map[string]bool // UUIDs of cubes that are not open and not forgotten
	// parsed are the saved objects of restored cubes, nil from the first commit on.
	parsed *savedObjects
	// savedAt are the paths at which objects are pinned.
	savedAt map[*link.Object]string
}

// floodOwners keeps track of the cubes that can have sets of ports to flood to.
type floodOwners interface {
	SetOwner(id graph.CubeID, name string, typ cube.Type, egress bool)
	RemoveOwner(id graph.CubeID)
	Forget(id graph.CubeID) error
}

// Options are what a State needs.
type Options struct {
	Dir       string
	Logger    *slog.Logger
	Collector *collect.Collector
	Floods    floodOwners
	Fates     *counters.Fates
	// InGraph reports whether a cube is in the graph in use.
	InGraph func(graph.CubeID) bool
	// Lock guards the State: that of the Plane.
	Lock sync.Locker
}

// New returns a State without cubes.
func New(s Options) *State {
	return &State{
		dir: s.Dir, log: s.Logger, collect: s.Collector, floods: s.Floods, fates: s.Fates, inGraph: s.InGraph, mu: s.Lock,
		services: services{map[string]*Service{}, map[string]map[cube.Hook][]byte{}}, given: map[source]*link.Object{},
		parsed: &savedObjects{map[[sha256.Size]byte]savedObject{}}, byID: map[graph.CubeID]*Instance{},
		commons: &commons{s.Dir, map[string]*common{}}, retained: map[string]bool{}, savedAt: map[*link.Object]string{},
	}
}

// Close closes all cubes; the pins remain.
func (cs *State) Close() {
	for _, in := range cs.byID {
		cs.discard(in)
	}
}

// Cube returns an open cube, nil if there is none with the number.
func (cs *State) Cube(id graph.CubeID) *Instance { return cs.byID[id] }

// Used returns what a segment uses of a cube in addition to the graph; false if it is not open.
func (cs *State) Used(id graph.CubeID) (UsedCube, bool) {
	in := cs.byID[id]
	if in == nil {
		return UsedCube{}, false
	}
	return in.Used(), true
}

// TypeOf returns the type of an open cube. It does not wait for a change.
func (cs *State) TypeOf(id graph.CubeID) (cube.Type, bool) {
	typ, ok := cs.types.Load(id)
	if !ok {
		return "", false
	}
	return typ.(cube.Type), true
}

// Cubes are the methods for callers of a Plane; each takes the lock.
type Cubes struct{ state *State }

// NewCubes returns them for a State.
func NewCubes(s *State) *Cubes { return &Cubes{s} }

// UsedCube is the part of a cube that the description of a segment uses, in addition to the graph.
type UsedCube struct {
	in      *Instance
	objects [2]*link.Object
	frozen  bool
	// taken increases when successors take over; until then, Node.Maps differs.
	taken int
}

// Used returns what a segment uses of the cube in addition to the graph.
func (in *Instance) Used() UsedCube {
	return UsedCube{in, [2]*link.Object{in.objects[cube.TC], in.objects[cube.XDP]}, in.frozen, in.taken}
}

// SameObjects reports whether two cubes have the same objects.
func (u UsedCube) SameObjects(o UsedCube) bool { return u.objects == o.objects }
