// SPDX-License-Identifier: Apache-2.0

// Package tables derives from the graph the rows that programs look up, and writes them: the ingress of netdevs, the
// egress of ports and the members of floods.
package tables

import (
	"errors"
	"maps"
	"slices"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/internal/datapath/abi"
	"github.com/polycube/polycube/internal/datapath/bpfmap"
	"github.com/polycube/polycube/internal/datapath/framework"
	"github.com/polycube/polycube/internal/datapath/graph"
	"github.com/polycube/polycube/internal/datapath/link"
	"github.com/polycube/polycube/internal/datapath/undo"
)

// Rows are the part of the graph that concerns netdevs, as data that programs look up: netdevs come and go without a
// relink.
type Rows struct {
	Entries    map[uint32]abi.Entry  // by ifindex
	OutEntries map[uint32]abi.Entry  // by ifindex
	Exits      map[uint32]abi.Exit   // by exitKey
	Devices    map[uint32]uint32     // the exits of XDP cubes: exitKey to ifindex
	Shadows    map[uint32]uint32     // the ports of shadow cubes: exitKey to ifindex
	Floods     map[uint32]*abi.Flood // by cube
	Ways       map[uint32][]Way      // XDP cubes: contents of the group in the flood row
	Stacks     map[uint32]abi.Stack  // by cube
	Parents    map[uint32]abi.Parent // by transparent cube
}

func newRows() *Rows {
	return &Rows{
		Entries: map[uint32]abi.Entry{}, OutEntries: map[uint32]abi.Entry{}, Exits: map[uint32]abi.Exit{}, Shadows: map[uint32]uint32{},
		Devices: map[uint32]uint32{}, Floods: map[uint32]*abi.Flood{}, Ways: map[uint32][]Way{},
		Stacks: map[uint32]abi.Stack{}, Parents: map[uint32]abi.Parent{},
	}
}

// Tables are the maps that hold the rows, and the rows of the current graph.
type Tables struct {
	maps map[string]*ebpf.Map // by name
	from Origin
	now  *Rows
}

// Origin is the input, in addition to the graph, from which rows are derived.
type Origin struct {
	Tap  int // of the slow path at TC
	Loop framework.Loop
	// ThroughEgress reports whether copies of a cube's floods must pass its egress program.
	ThroughEgress func(*graph.Node) bool
}

// Open reads the rows an earlier daemon wrote.
func Open(maps map[string]*ebpf.Map, from Origin) (*Tables, error) {
	t := &Tables{maps: maps, from: from}
	var err error
	t.now, err = t.read()
	return t, err
}

// InUse returns the rows of the current graph.
func (t *Tables) InUse() *Rows { return t.now }

// SendsTo reports whether an exit leads to a netdev.
func (t *Tables) SendsTo(ifindex uint32) bool {
	for _, e := range t.now.Exits {
		if e.Ifindex == ifindex {
			return true
		}
	}
	return false
}

// Use makes rows the rows of the current graph.
func (t *Tables) Use(now *Rows) { t.now = now }

// Derive derives the rows from the graph. Flood rows are large: those of cubes that are not stale are taken from the
// current tables.
func (t *Tables) Derive(w *graph.Wiring, s graph.Stale) *Rows { return t.now.next(w, s, t.from) }

// next are the rows of a new graph; these are the rows in use.
func (t *Rows) next(w *graph.Wiring, s graph.Stale, from Origin) *Rows {
	g := w.Graph
	now := newRows()
	for id, n := range g.Cubes {
		if !s.Has(id) {
			now.keep(t, w, n)
			continue
		}
		row := &abi.Flood{}
		if n.Type.Hook() == cube.TC {
			row.Tap = uint32(from.Tap)
		}
		for _, index := range slices.Sorted(maps.Keys(n.Ports)) {
			now.addPort(w, n, n.Ports[index], row)
		}
		if n.Ports == nil {
			now.addParent(w, id)
			now.addOutputs(w, n)
			continue
		}
		if n.Type.Hook() == cube.XDP {
			if ways := broadcast(row, uint32(from.Loop.Exit(n.Type)), from.ThroughEgress(n)); len(ways) > 0 {
				now.Ways[uint32(id)] = ways
			}
		}
		now.addShadow(n)
		now.Floods[uint32(id)] = t.sameFlood(uint32(id), row, now.Ways[uint32(id)])
	}
	for _, dev := range g.Netdevs {
		if n := len(dev.Tcubes); n > 0 && dev.Index > 0 {
			e := now.Entries[uint32(dev.Index)] // the port's, if the netdev is a peer
			if e.Cube == 0 {
				e.Slot = link.NoSlot
			}
			e.Cube = uint16(dev.Tcubes[0])
			now.Entries[uint32(dev.Index)] = e
			now.OutEntries[uint32(dev.Index)] = abi.Entry{Cube: uint16(dev.Tcubes[n-1])}
			now.addOwnExits(w, dev)
		}
	}
	return now
}

// keep copies the current rows of a cube that is not stale.
func (t *Rows) keep(was *Rows, w *graph.Wiring, n *graph.Node) {
	for _, p := range n.Ports {
		if dev := w.Graph.Netdevs[p.Peer.Netdev]; p.Peer.Netdev != "" && dev != nil && dev.Index > 0 {
			t.addEntry(w, n, p, dev)
		}
		key := abi.ExitKey(n.ID, p.Index)
		keepRow(t.Exits, was.Exits, key)
		keepRow(t.Devices, was.Devices, key)
	}
	for _, o := range n.Outputs {
		key := abi.ExitKey(n.ID, o.Number)
		keepRow(t.Exits, was.Exits, key)
		keepRow(t.Devices, was.Devices, key)
	}
	t.addShadow(n)
	keepRow(t.Floods, was.Floods, uint32(n.ID))
	keepRow(t.Ways, was.Ways, uint32(n.ID))
	keepRow(t.Stacks, was.Stacks, uint32(n.ID))
	keepRow(t.Parents, was.Parents, uint32(n.ID))
}

// addEntry adds the row of a netdev that is the peer of a port.
func (t *Rows) addEntry(w *graph.Wiring, n *graph.Node, p *graph.Port, dev *graph.Netdev) {
	pg, place := abi.SlotAddress(p.Slot)
	first := n.ID
	if x := w.ApartOn(p); x != 0 {
		first = x
	}
	t.Entries[uint32(dev.Index)] = abi.Entry{Cube: uint16(first), Port: p.Index, Page: pg, Slot: place}
}

// addParent adds the row of a transparent cube that is set apart.
func (t *Rows) addParent(w *graph.Wiring, id graph.CubeID) {
	if at := w.Stack[id]; w.Apart[id] {
		t.Parents[uint32(id)] = abi.Parent{Cube: uint16(at.Port.ID), Port: at.Port.Port.Index}
	}
}

// sameFlood returns the current flood row of a cube if the new one, which has no group yet, is otherwise equal. If not,
// it returns the new one, with the group of the current row if that is still right.
func (t *Rows) sameFlood(id uint32, row *abi.Flood, ways []Way) *abi.Flood {
	was := t.Floods[id]
	if was == nil || !slices.Equal(t.Ways[id], ways) {
		return row
	}
	if len(ways) > 0 {
		row.Group = was.Group
	}
	if *was == *row {
		return was
	}
	return row
}

func keepRow[V any](now, was map[uint32]V, key uint32) {
	if row, ok := was[key]; ok {
		now[key] = row
	}
}

// broadcast fills in an XDP cube's flood row except for its group, and returns the contents of that group. loop is the
// end of the loop through which the cube sends.
func broadcast(row *abi.Flood, loop uint32, egress bool) []Way {
	var ways []Way
	if egress {
		for port := range row.SimplePorts.All {
			ways = append(ways, Way{loop, ByLoop, port})
		}
	} else {
		for _, e := range row.Exit[:row.Count] {
			ways = append(ways, Way{Ifindex: e.Ifindex})
		}
	}
	for port := range row.ComplexPorts.All {
		ways = append(ways, Way{loop, ByLoop, port})
	}
	for _, w := range ways {
		if w.Kind == ByLoop {
			row.Copies++
		}
	}
	return ways
}

func (t *Rows) addPort(w *graph.Wiring, n *graph.Node, p *graph.Port, row *abi.Flood) {
	pg, place := abi.SlotAddress(p.Slot)
	dev := w.Graph.Netdevs[p.Peer.Netdev]
	netdev := p.Peer.Netdev != "" && dev != nil && dev.Index > 0
	if netdev {
		t.addEntry(w, n, p, dev)
	}
	chain := false
	if netdev = netdev && !dev.Down; netdev {
		chain = t.addExit(n, p, dev)
	}
	if x := w.ApartOn(p); x != 0 {
		stack := t.Stacks[uint32(n.ID)]
		stack.Tcube[p.Index] = uint16(x)
		t.Stacks[uint32(n.ID)] = stack
	}
	if peer := w.PeerOf(n.ID, p); peer != nil && (w.Apart[n.ID] || w.Apart[p.Peer.Cube]) {
		t.Exits[abi.ExitKey(n.ID, p.Index)] = abi.ExitToCube(p.Peer.Cube, peer.Index, pg, place)
	}
	switch {
	case len(p.Tcubes) > 0 || w.PeerOf(n.ID, p) != nil || chain:
		row.Complex++
		row.ComplexPorts.Add(p.Index)
	case netdev:
		row.Exit[row.Count] = abi.FloodExit{Ifindex: uint32(dev.Index), Port: p.Index, Page: pg, Slot: place}
		row.SimplePorts.Add(p.Index)
		row.Count++
	}
}

// addExit adds the exit of a port to a netdev that is up, and reports whether packets pass egress programs there.
func (t *Rows) addExit(n *graph.Node, p *graph.Port, dev *graph.Netdev) bool {
	key := abi.ExitKey(n.ID, p.Index)
	pg, place := abi.SlotAddress(p.Slot)
	if out := outermost(n, dev); out != 0 {
		t.Exits[key] = abi.ExitThroughEgress(out, pg, place)
		return true
	}
	t.Exits[key] = abi.Exit{Ifindex: uint32(dev.Index), Page: pg, Slot: place}
	if n.Type.Hook() == cube.XDP {
		t.Devices[key] = uint32(dev.Index)
	}
	return false
}

// WriteExits adds the rows that programs need to send to netdevs, except for new ones that lead through egress programs.
// enters reports whether the programs in use know a cube as one on a netdev.
func (t *Tables) WriteExits(u *undo.Stack, now *Rows, enters func(graph.CubeID) bool) error {
	old := t.now
	return errors.Join(
		bpfmap.Write(u, bpfmap.ArraySetter[abi.Exit](t.maps[abi.MapExits]), old.Exits, now.Exits, func(was, is abi.Exit) bool {
			return known(was, is, enters)
		}),
		bpfmap.Write(u, t.setDevice, old.Devices, now.Devices, nil),
		bpfmap.Write(u, bpfmap.HashSetter[uint32](t.maps[abi.MapShadows]), old.Shadows, now.Shadows, nil),
		bpfmap.Write(u, t.setFlood, old.Floods, now.Floods, nil),
		bpfmap.Write(u, bpfmap.ArraySetter[abi.Parent](t.maps[abi.MapParents]), old.Parents, now.Parents, nil),
		bpfmap.Write(u, bpfmap.ArraySetter[abi.Stack](t.maps[abi.MapStacks]), old.Stacks, both(old.Stacks, now.Stacks), nil),
	)
}

// WriteEgressExits adds the rows that WriteExits left out, once the programs are in use that know the cubes.
func (t *Tables) WriteEgressExits(u *undo.Stack, now *Rows, enters func(graph.CubeID) bool) error {
	return bpfmap.Write(u, bpfmap.ArraySetter[abi.Exit](t.maps[abi.MapExits]), t.now.Exits, now.Exits, func(was, is abi.Exit) bool {
		return !known(was, is, enters)
	})
}

// known reports whether an exit can be changed while the programs in use run: they know the cubes through which it leads.
func known(was, is abi.Exit, enters func(graph.CubeID) bool) bool {
	to, from := is.Egress(), was.Egress()
	return to == 0 || enters(to) && (from == 0 || enters(from))
}

// both are rows with the transparent cubes of two graphs: programs in use go through those of the old one until the others
// are there.
func both(old, now map[uint32]abi.Stack) map[uint32]abi.Stack {
	out := maps.Clone(now)
	for id, was := range old {
		row := out[id]
		for port, t := range was.Tcube {
			if row.Tcube[port] == 0 {
				row.Tcube[port] = t
			}
		}
		out[id] = row
	}
	return out
}

// Clear deletes the rows of netdevs that are no longer in the graph.
func (t *Tables) Clear(now *Rows) error { return errors.Join(t.clearEntries(now), t.clearExits(now)) }

func (t *Tables) clearExits(now *Rows) error {
	old := t.now
	return errors.Join(
		bpfmap.Clear(bpfmap.ArraySetter[abi.Exit](t.maps[abi.MapExits]), old.Exits, now.Exits),
		bpfmap.Clear(t.setDevice, old.Devices, now.Devices),
		bpfmap.Clear(bpfmap.HashSetter[uint32](t.maps[abi.MapShadows]), old.Shadows, now.Shadows),
		bpfmap.Clear(t.setFlood, old.Floods, now.Floods),
		bpfmap.Clear(bpfmap.ArraySetter[abi.Parent](t.maps[abi.MapParents]), old.Parents, now.Parents),
		t.clearStacks(now),
	)
}

// clearStacks removes the transparent cubes of the old graph only from the rows.
func (t *Tables) clearStacks(now *Rows) error {
	set := bpfmap.ArraySetter[abi.Stack](t.maps[abi.MapStacks])
	for id, row := range both(t.now.Stacks, now.Stacks) {
		want := now.Stacks[id]
		if row == want {
			continue
		}
		if err := set(id, &want); err != nil {
			return err
		}
	}
	return nil
}

// WriteEntries adds and changes the rows that say which program handles packets of a netdev. Writing a row twice is
// harmless.
func (t *Tables) WriteEntries(u *undo.Stack, now *Rows, only func(was, now abi.Entry) bool) error {
	old := t.now
	return errors.Join(
		bpfmap.Write(u, t.setEntry, old.Entries, now.Entries, only),
		bpfmap.Write(u, bpfmap.HashSetter[abi.Entry](t.maps[abi.MapOutEntries]), old.OutEntries, now.OutEntries, only),
	)
}

func (t *Tables) clearEntries(now *Rows) error {
	old := t.now
	return errors.Join(
		bpfmap.Clear(t.setEntry, old.Entries, now.Entries),
		bpfmap.Clear(bpfmap.HashSetter[abi.Entry](t.maps[abi.MapOutEntries]), old.OutEntries, now.OutEntries),
	)
}

func (t *Tables) setEntry(ifindex uint32, e *abi.Entry) error {
	if ifindex >= link.Entries {
		return bpfmap.HashSetter[abi.Entry](t.maps[abi.MapFar])(ifindex, e)
	}
	return bpfmap.ArraySetter[abi.Entry](t.maps[abi.MapEntries])(ifindex, e)
}

func (t *Tables) setFlood(id uint32, row **abi.Flood) error {
	set := bpfmap.HashSetter[abi.Flood](t.maps[abi.MapFloods])
	if row == nil {
		return set(id, nil)
	}
	return set(id, *row)
}

// setDevice writes the netdev to which a port of an XDP cube sends. The kernel refuses a netdev that was deleted; the
// event about the deletion is then on its way, so this must not fail other changes.
func (t *Tables) setDevice(key uint32, ifindex *uint32) error {
	err := bpfmap.HashSetter[uint32](t.maps[abi.MapDevices])(key, ifindex)
	if ifindex != nil && errors.Is(err, unix.EINVAL) {
		return nil
	}
	return err
}

// addShadow adds the rows of a cube's namespace.
func (t *Rows) addShadow(n *graph.Node) {
	if n.Shadow == nil {
		return
	}
	for index, ifindex := range n.Shadow.Ends {
		p := n.Ports[index]
		if p == nil || ifindex <= 0 {
			continue
		}
		pg, _ := abi.SlotAddress(p.Slot)
		t.Shadows[abi.ExitKey(n.ID, index)] = uint32(ifindex)
		t.Entries[uint32(ifindex)] = abi.Entry{Cube: uint16(n.ID), Port: link.SentPort(index), Page: pg, Slot: link.NoSlot}
	}
}
