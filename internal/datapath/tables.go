// SPDX-License-Identifier: Apache-2.0

package datapath

import (
	"errors"
	"maps"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/internal/datapath/abi"
	"github.com/polycube/polycube/internal/datapath/bpfmap"
	"github.com/polycube/polycube/internal/datapath/graph"
	"github.com/polycube/polycube/internal/datapath/link"
	"github.com/polycube/polycube/internal/datapath/undo"
)

// tables is what the graph says about netdevs: data that programs look up, so that netdevs
// come and go without a relink.
type tables struct {
	entries    map[uint32]abi.Entry  // by ifindex
	outEntries map[uint32]abi.Entry  // by ifindex
	exits      map[uint32]abi.Exit   // by exitKey
	devices    map[uint32]uint32     // the exits of XDP cubes: exitKey to ifindex
	shadows    map[uint32]uint32     // the ports of shadow cubes: exitKey to ifindex
	floods     map[uint32]*abi.Flood // by cube
	ways       map[uint32][]way      // XDP cubes: what the group of the flood row holds
}

func newTables() *tables {
	return &tables{
		entries: map[uint32]abi.Entry{}, outEntries: map[uint32]abi.Entry{}, exits: map[uint32]abi.Exit{}, shadows: map[uint32]uint32{},
		devices: map[uint32]uint32{}, floods: map[uint32]*abi.Flood{}, ways: map[uint32][]way{},
	}
}

// tablesOf derives the tables from the graph. The flood rows, which are large, stay those of the
// present tables for cubes that are not stale.
func (p *Plane) tablesOf(w *graph.Wiring, s graph.Stale) *tables {
	g := w.Graph
	t := newTables()
	for id, n := range g.Cubes {
		if !s.Has(id) {
			t.keep(p.tables, w, n)
			continue
		}
		row := &abi.Flood{}
		if n.Type.Hook() == cube.TC {
			row.Tap = uint32(p.opts.Taps[cube.TC])
		}
		for _, index := range slices.Sorted(maps.Keys(n.Ports)) {
			t.addPort(w, n, n.Ports[index], row)
		}
		if n.Ports == nil {
			continue
		}
		if n.Type.Hook() == cube.XDP {
			if ways := p.broadcast(row, n.Type, p.cubes[id] != nil && p.cubes[id].throughEgress(n)); len(ways) > 0 {
				t.ways[uint32(id)] = ways
			}
		}
		t.addShadow(n)
		t.floods[uint32(id)] = p.tables.sameFlood(uint32(id), row, t.ways[uint32(id)])
	}
	for _, dev := range g.Netdevs {
		if n := len(dev.Tcubes); n > 0 && dev.Index > 0 {
			e := t.entries[uint32(dev.Index)] // the port's, if the netdev is a peer
			if e.Cube == 0 {
				e.Slot = link.NoSlot
			}
			e.Cube = uint16(dev.Tcubes[0])
			t.entries[uint32(dev.Index)] = e
			t.outEntries[uint32(dev.Index)] = abi.Entry{Cube: uint16(dev.Tcubes[n-1])}
		}
	}
	return t
}

// keep takes over the rows of a cube that is not stale.
func (t *tables) keep(was *tables, w *graph.Wiring, n *Node) {
	for _, p := range n.Ports {
		if dev := w.Graph.Netdevs[p.Peer.Netdev]; p.Peer.Netdev != "" && dev != nil && dev.Index > 0 {
			pg, place := abi.SlotAddress(p.Slot)
			t.entries[uint32(dev.Index)] = abi.Entry{Cube: uint16(n.ID), Port: p.Index, Page: pg, Slot: place}
		}
		key := abi.ExitKey(n.ID, p.Index)
		keepRow(t.exits, was.exits, key)
		keepRow(t.devices, was.devices, key)
	}
	t.addShadow(n)
	keepRow(t.floods, was.floods, uint32(n.ID))
	keepRow(t.ways, was.ways, uint32(n.ID))
}

// sameFlood returns a cube's row of these tables where the new one, which has no group yet, says the same, or else the new
// one, with the group of the old one where that still holds.
func (t *tables) sameFlood(id uint32, row *abi.Flood, ways []way) *abi.Flood {
	was := t.floods[id]
	if was == nil || !slices.Equal(t.ways[id], ways) {
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

// throughEgress tells whether the copies of a cube's floods must pass its egress program; n may be nil.
func (in *instance) throughEgress(n *Node) bool {
	if n != nil {
		if p, named := n.Programs[cube.ProgramSlot{Direction: cube.Egress}]; named {
			return p.Function != ""
		}
	}
	o := in.objects[in.spec.Type.Hook()]
	return o != nil && o.Functions[link.Egress] != nil
}

// broadcast completes an XDP cube's flood row but for its group, and returns what that holds.
func (p *Plane) broadcast(row *abi.Flood, typ cube.Type, egress bool) []way {
	var ways []way
	loop := uint32(p.opts.Loop.Exit(typ))
	if egress {
		for port := range row.SimplePorts.All {
			ways = append(ways, way{loop, byLoop, port})
		}
	} else {
		for _, e := range row.Exit[:row.Count] {
			ways = append(ways, way{ifindex: e.Ifindex})
		}
	}
	for port := range row.ComplexPorts.All {
		ways = append(ways, way{loop, byLoop, port})
	}
	for _, w := range ways {
		if w.kind == byLoop {
			row.Copies++
		}
	}
	return ways
}

func (t *tables) addPort(w *graph.Wiring, n *Node, p *Port, row *abi.Flood) {
	pg, place := abi.SlotAddress(p.Slot)
	dev := w.Graph.Netdevs[p.Peer.Netdev]
	netdev := p.Peer.Netdev != "" && dev != nil && dev.Index > 0
	if netdev {
		t.entries[uint32(dev.Index)] = abi.Entry{Cube: uint16(n.ID), Port: p.Index, Page: pg, Slot: place}
	}
	if netdev = netdev && !dev.Down; netdev {
		key := abi.ExitKey(n.ID, p.Index)
		t.exits[key] = abi.Exit{Ifindex: uint32(dev.Index), Page: pg, Slot: place}
		if n.Type.Hook() == cube.XDP {
			t.devices[key] = uint32(dev.Index)
		}
	}
	switch {
	case len(p.Tcubes) > 0 || w.PeerOf(n.ID, p) != nil:
		row.Complex++
		row.ComplexPorts.Add(p.Index)
	case netdev:
		row.Exit[row.Count] = abi.FloodExit{Ifindex: uint32(dev.Index), Port: p.Index, Page: pg, Slot: place}
		row.SimplePorts.Add(p.Index)
		row.Count++
	}
}

// writeExits adds what programs need to send to netdevs. p.sets.mu is held.
func (p *Plane) writeExits(u *undo.Stack, old, now *tables) error {
	if err := p.groupFloods(old, now); err != nil {
		return err
	}
	return errors.Join(
		bpfmap.Write(u, bpfmap.ArraySetter[abi.Exit](p.fw.Maps[abi.MapExits]), old.exits, now.exits, nil),
		bpfmap.Write(u, p.setDevice, old.devices, now.devices, nil),
		bpfmap.Write(u, bpfmap.HashSetter[uint32](p.fw.Maps[abi.MapShadows]), old.shadows, now.shadows, nil),
		bpfmap.Write(u, p.setFlood, old.floods, now.floods, nil),
	)
}

func (p *Plane) clearExits(old, now *tables) error {
	return errors.Join(
		bpfmap.Clear(bpfmap.ArraySetter[abi.Exit](p.fw.Maps[abi.MapExits]), old.exits, now.exits),
		bpfmap.Clear(p.setDevice, old.devices, now.devices),
		bpfmap.Clear(bpfmap.HashSetter[uint32](p.fw.Maps[abi.MapShadows]), old.shadows, now.shadows),
		bpfmap.Clear(p.setFlood, old.floods, now.floods),
	)
}

// writeEntries adds and changes where packets from netdevs go. Writing a row twice does no harm.
func (p *Plane) writeEntries(u *undo.Stack, old, now *tables, only func(was, now abi.Entry) bool) error {
	return errors.Join(
		bpfmap.Write(u, p.setEntry, old.entries, now.entries, only),
		bpfmap.Write(u, bpfmap.HashSetter[abi.Entry](p.fw.Maps[abi.MapOutEntries]), old.outEntries, now.outEntries, only),
	)
}

func (p *Plane) clearEntries(old, now *tables) error {
	return errors.Join(
		bpfmap.Clear(p.setEntry, old.entries, now.entries),
		bpfmap.Clear(bpfmap.HashSetter[abi.Entry](p.fw.Maps[abi.MapOutEntries]), old.outEntries, now.outEntries),
	)
}

func (p *Plane) setEntry(ifindex uint32, e *abi.Entry) error {
	if ifindex >= link.Entries {
		return bpfmap.HashSetter[abi.Entry](p.fw.Maps[abi.MapFar])(ifindex, e)
	}
	return bpfmap.ArraySetter[abi.Entry](p.fw.Maps[abi.MapEntries])(ifindex, e)
}

func (p *Plane) setFlood(id uint32, row **abi.Flood) error {
	set := bpfmap.HashSetter[abi.Flood](p.fw.Maps[abi.MapFloods])
	if row == nil {
		return set(id, nil)
	}
	return set(id, *row)
}

// setDevice writes where a port of an XDP cube sends. The kernel takes no netdev that is gone; the
// event that says so is under way then, and must not stand in the way of other changes.
func (p *Plane) setDevice(key uint32, ifindex *uint32) error {
	err := bpfmap.HashSetter[uint32](p.fw.Maps[abi.MapDevices])(key, ifindex)
	if ifindex != nil && errors.Is(err, unix.EINVAL) {
		return nil
	}
	return err
}
