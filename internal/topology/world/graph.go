// SPDX-License-Identifier: Apache-2.0

package world

// From the world to the data plane's desired state.

import (
	"cmp"
	"maps"
	"slices"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/internal/datapath"
)

// Programs knows which programs cubes have selected.
type Programs interface {
	// ProgramsOf returns the programs of a cube that differ from its service's; nil if none do.
	ProgramsOf(name string) map[cube.ProgramSlot]cube.Program
}

// Graph derives the desired state. It includes cubes that could not be restored as long as their previous programs run.
// References of a restored configuration to missing objects (another broken cube, a netdev) are left unlinked: a port
// whose filter is missing passes nothing rather than everything.
func (w *World) Graph(by Programs) *datapath.Graph {
	g := &datapath.Graph{Cubes: make(map[datapath.CubeID]*datapath.Node, len(w.Cubes)), Netdevs: map[string]*datapath.Netdev{}, Trace: w.Trace}
	w.addChains(g)
	for _, rec := range w.AllRunning() {
		n := w.node(rec, by)
		w.addPorts(g, n, rec, nil)
		g.Cubes[rec.ID] = n
	}
	return g
}

// node derives a cube's node, without its ports.
func (w *World) node(rec *Cube, by Programs) *datapath.Node {
	n := &datapath.Node{ID: rec.ID, Name: rec.Name, Type: rec.Type, LogLevel: rec.LogLevel, Constants: maps.Clone(rec.Constants),
		Maps: rec.Maps, Programs: by.ProgramsOf(rec.Name)}
	if !rec.Transparent {
		n.Shadow = rec.shadowNode()
	}
	return n
}

// addPorts derives the ports, or the outputs, of a cube's node. was is the previous node, with which it shares unchanged ports, or nil.
func (w *World) addPorts(g *datapath.Graph, n *datapath.Node, rec *Cube, was *datapath.Node) {
	if rec.Transparent {
		n.Outputs = w.outputs(g, rec)
		return
	}
	n.Ports = make(map[uint16]*datapath.Port, len(rec.Ports))
	for _, p := range rec.Ports {
		tcubes, whole := w.ChainIDs(p.Tcubes)
		dp := &datapath.Port{Index: p.Index, Name: p.Name, Slot: p.Slot, Tcubes: tcubes}
		if whole {
			dp.Peer = w.peer(g, rec, p)
		}
		if was != nil && was.Ports[p.Index] != nil && dp.Same(was.Ports[p.Index]) {
			dp = was.Ports[p.Index]
		}
		n.Ports[p.Index] = dp
	}
}

// peer translates a port's peer; a link between cubes exists once both sides name each other.
func (w *World) peer(g *datapath.Graph, rec *Cube, p *Port) datapath.Peer {
	if p.Peer == "" {
		return datapath.Peer{}
	}
	at, err := ParsePlace(p.Peer)
	if err != nil {
		return datapath.Peer{}
	}
	if at.Netdev != "" {
		if _, whole := w.ChainIDs(w.Chains[at.Netdev]); !whole || Unfit(w.Links[at.Netdev]) != "" {
			return datapath.Peer{}
		}
		w.addNetdev(g, at.Netdev)
		return datapath.Peer{Netdev: at.Netdev}
	}
	far, other := w.runningPort(at)
	if other == nil || other.Peer != (Place{Cube: rec.Name, Port: p.Name}).String() {
		return datapath.Peer{}
	}
	return datapath.Peer{Cube: far.ID, Port: other.Index}
}

func (w *World) addNetdev(g *datapath.Graph, name string) *datapath.Netdev {
	n := g.Netdevs[name]
	if n == nil {
		n = &datapath.Netdev{Name: name}
		if l := w.Links[name]; l.Refused == "" && !l.Bare {
			n.Index, n.MTU, n.Down, n.Carrier, n.Flaps = l.Index, l.MTU, l.Index != 0 && !l.Up, l.Carrier, l.Flaps
		}
		g.Netdevs[name] = n
	}
	return n
}

// addChains adds the transparent cubes of netdevs and of the host's stack.
func (w *World) addChains(g *datapath.Graph) {
	for name, chain := range w.Chains {
		ids, _ := w.ChainIDs(chain)
		if name != HostStack {
			w.addNetdev(g, name).Tcubes = ids
		} else if len(ids) > 0 {
			g.Host = &datapath.Host{Tcubes: ids, Netdevs: w.hostNetdevs()}
		}
	}
}

// hostNetdevs are the netdevs that lead to the host's stack, by index: not those that lead into the namespace of a cube, or
// to another netdev.
func (w *World) hostNetdevs() []datapath.HostNetdev {
	shadows := map[int]bool{}
	for _, rec := range w.AllRunning() {
		for _, p := range rec.Ports {
			shadows[p.Outer] = true
		}
	}
	var out []datapath.HostNetdev
	for name, l := range w.Links {
		if l.Index != 0 && l.Refused == "" && !l.Bare && !l.enslaved && !shadows[l.Index] {
			out = append(out, datapath.HostNetdev{Index: l.Index, Name: name})
		}
	}
	slices.SortFunc(out, func(a, b datapath.HostNetdev) int { return cmp.Compare(a.Index, b.Index) })
	return out
}

// ChainIDs translates a chain; whole is false if one of its cubes does not exist.
func (w *World) ChainIDs(chain []string) (ids []datapath.CubeID, whole bool) {
	whole = true
	for _, name := range chain {
		if rec := w.Running(name); rec != nil {
			ids = append(ids, rec.ID)
		} else {
			whole = false
		}
	}
	return slices.Clip(ids), whole
}
