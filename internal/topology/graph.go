// SPDX-License-Identifier: Apache-2.0

package topology

// From the world to the data plane's desired state.

import (
	"maps"
	"slices"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/internal/datapath"
)

// programmer knows the programs that cubes have chosen.
type programmer interface {
	// ProgramsOf returns those of a cube that differ from its service's; nil is none.
	ProgramsOf(name string) map[cube.ProgramSlot]cube.Program
}

// graph derives the desired state. Cubes that could not be restored are in it as long as they go on with the programs
// that they had. What a restored configuration names and is not there (another broken cube, a missing netdev) is left
// unlinked: a port whose filter is gone passes nothing rather than everything.
func (w *world) graph(by programmer) *datapath.Graph {
	g := &datapath.Graph{Cubes: make(map[datapath.CubeID]*datapath.Node, len(w.cubes)), Netdevs: map[string]*datapath.Netdev{}, Trace: w.trace}
	for name, chain := range w.chains {
		ids, _ := w.chainIDs(chain)
		w.addNetdev(g, name).Tcubes = ids
	}
	for _, rec := range w.allRunning() {
		g.Cubes[rec.id] = w.node(g, rec, by)
	}
	return g
}

func (w *world) node(g *datapath.Graph, rec *record, by programmer) *datapath.Node {
	n := &datapath.Node{ID: rec.id, Name: rec.name, Type: rec.typ, LogLevel: rec.level, Constants: maps.Clone(rec.constants),
		Maps: rec.maps, Programs: by.ProgramsOf(rec.name)}
	if rec.transparent {
		return n
	}
	n.Shadow = rec.shadowNode()
	n.Ports = make(map[uint16]*datapath.Port, len(rec.ports))
	for _, p := range rec.ports {
		tcubes, whole := w.chainIDs(p.tcubes)
		dp := &datapath.Port{Index: p.index, Name: p.name, Slot: p.slot, Tcubes: tcubes}
		if whole {
			dp.Peer = w.peer(g, rec, p)
		}
		n.Ports[p.index] = dp
	}
	return n
}

// peer translates a port's peer; a cube-to-cube link exists once both sides name each other.
func (w *world) peer(g *datapath.Graph, rec *record, p *port) datapath.Peer {
	if p.peer == "" {
		return datapath.Peer{}
	}
	at, err := parsePlace(p.peer)
	if err != nil {
		return datapath.Peer{}
	}
	if at.netdev != "" {
		if _, whole := w.chainIDs(w.chains[at.netdev]); !whole || unfit(w.links[at.netdev]) != "" {
			return datapath.Peer{}
		}
		w.addNetdev(g, at.netdev)
		return datapath.Peer{Netdev: at.netdev}
	}
	far, other := w.runningPort(at)
	if other == nil || other.peer != (place{cube: rec.name, port: p.name}).String() {
		return datapath.Peer{}
	}
	return datapath.Peer{Cube: far.id, Port: other.index}
}

func (w *world) addNetdev(g *datapath.Graph, name string) *datapath.Netdev {
	n := g.Netdevs[name]
	if n == nil {
		n = &datapath.Netdev{Name: name}
		if l := w.links[name]; l.refused == "" && !l.bare {
			n.Index, n.MTU, n.Down, n.Carrier, n.Flaps = l.index, l.mtu, l.index != 0 && !l.up, l.carrier, l.flaps
		}
		g.Netdevs[name] = n
	}
	return n
}

// chainIDs translates a chain; whole is false when one of its cubes is not there.
func (w *world) chainIDs(chain []string) (ids []datapath.CubeID, whole bool) {
	whole = true
	for _, name := range chain {
		if rec := w.running(name); rec != nil {
			ids = append(ids, rec.id)
		} else {
			whole = false
		}
	}
	return slices.Clip(ids), whole
}
