// SPDX-License-Identifier: Apache-2.0

package datapath

import (
	"errors"
	"maps"
	"slices"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/internal/datapath/abi"
	"github.com/polycube/polycube/internal/datapath/bpfmap"
	"github.com/polycube/polycube/internal/datapath/graph"
	"github.com/polycube/polycube/internal/datapath/link"
	"github.com/polycube/polycube/internal/datapath/undo"
)

// rows is what the graph says about netdevs: data that programs look up, so that netdevs
// come and go without a relink.
type rows struct {
	entries    map[uint32]abi.Entry  // by ifindex
	outEntries map[uint32]abi.Entry  // by ifindex
	exits      map[uint32]abi.Exit   // by exitKey
	devices    map[uint32]uint32     // the exits of XDP cubes: exitKey to ifindex
	shadows    map[uint32]uint32     // the ports of shadow cubes: exitKey to ifindex
	floods     map[uint32]*abi.Flood // by cube
	ways       map[uint32][]way      // XDP cubes: what the group of the flood row holds
}

func newRows() *rows {
	return &rows{
		entries: map[uint32]abi.Entry{}, outEntries: map[uint32]abi.Entry{}, exits: map[uint32]abi.Exit{}, shadows: map[uint32]uint32{},
		devices: map[uint32]uint32{}, floods: map[uint32]*abi.Flood{}, ways: map[uint32][]way{},
	}
}

// tables are the maps that the rows stand in, and the rows of the graph in use.
type tables struct {
	maps map[string]*ebpf.Map // by name
	from origin
	now  *rows
}

// origin is what rows are derived from besides the graph.
type origin struct {
	tap  int // of the slow path at TC
	loop Loop
	// throughEgress tells whether the copies of a cube's floods must pass its egress program.
	throughEgress func(*Node) bool
}

// openTables reads what an earlier daemon wrote.
func openTables(maps map[string]*ebpf.Map, from origin) (*tables, error) {
	t := &tables{maps: maps, from: from}
	var err error
	t.now, err = t.read()
	return t, err
}

// inUse are the rows of the graph in use.
func (t *tables) inUse() *rows { return t.now }

// use makes rows those of the graph in use.
func (t *tables) use(now *rows) { t.now = now }

// derive derives the rows from the graph. The flood rows, which are large, stay those of the
// present tables for cubes that are not stale.
func (t *tables) derive(w *graph.Wiring, s graph.Stale) *rows { return t.now.next(w, s, t.from) }

// next are the rows of a graph, where these are those in use.
func (t *rows) next(w *graph.Wiring, s graph.Stale, from origin) *rows {
	g := w.Graph
	now := newRows()
	for id, n := range g.Cubes {
		if !s.Has(id) {
			now.keep(t, w, n)
			continue
		}
		row := &abi.Flood{}
		if n.Type.Hook() == cube.TC {
			row.Tap = uint32(from.tap)
		}
		for _, index := range slices.Sorted(maps.Keys(n.Ports)) {
			now.addPort(w, n, n.Ports[index], row)
		}
		if n.Ports == nil {
			continue
		}
		if n.Type.Hook() == cube.XDP {
			if ways := broadcast(row, uint32(from.loop.Exit(n.Type)), from.throughEgress(n)); len(ways) > 0 {
				now.ways[uint32(id)] = ways
			}
		}
		now.addShadow(n)
		now.floods[uint32(id)] = t.sameFlood(uint32(id), row, now.ways[uint32(id)])
	}
	for _, dev := range g.Netdevs {
		if n := len(dev.Tcubes); n > 0 && dev.Index > 0 {
			e := now.entries[uint32(dev.Index)] // the port's, if the netdev is a peer
			if e.Cube == 0 {
				e.Slot = link.NoSlot
			}
			e.Cube = uint16(dev.Tcubes[0])
			now.entries[uint32(dev.Index)] = e
			now.outEntries[uint32(dev.Index)] = abi.Entry{Cube: uint16(dev.Tcubes[n-1])}
		}
	}
	return now
}

// keep takes over the rows of a cube that is not stale.
func (t *rows) keep(was *rows, w *graph.Wiring, n *Node) {
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
func (t *rows) sameFlood(id uint32, row *abi.Flood, ways []way) *abi.Flood {
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

// broadcast completes an XDP cube's flood row but for its group, and returns what that holds. loop is the end of the loop
// out of which the cube sends.
func broadcast(row *abi.Flood, loop uint32, egress bool) []way {
	var ways []way
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

func (t *rows) addPort(w *graph.Wiring, n *Node, p *Port, row *abi.Flood) {
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

// writeExits adds what programs need to send to netdevs.
func (t *tables) writeExits(u *undo.Stack, now *rows) error {
	old := t.now
	return errors.Join(
		bpfmap.Write(u, bpfmap.ArraySetter[abi.Exit](t.maps[abi.MapExits]), old.exits, now.exits, nil),
		bpfmap.Write(u, t.setDevice, old.devices, now.devices, nil),
		bpfmap.Write(u, bpfmap.HashSetter[uint32](t.maps[abi.MapShadows]), old.shadows, now.shadows, nil),
		bpfmap.Write(u, t.setFlood, old.floods, now.floods, nil),
	)
}

// clear deletes the rows of netdevs that the graph does not have any more.
func (t *tables) clear(now *rows) error { return errors.Join(t.clearEntries(now), t.clearExits(now)) }

func (t *tables) clearExits(now *rows) error {
	old := t.now
	return errors.Join(
		bpfmap.Clear(bpfmap.ArraySetter[abi.Exit](t.maps[abi.MapExits]), old.exits, now.exits),
		bpfmap.Clear(t.setDevice, old.devices, now.devices),
		bpfmap.Clear(bpfmap.HashSetter[uint32](t.maps[abi.MapShadows]), old.shadows, now.shadows),
		bpfmap.Clear(t.setFlood, old.floods, now.floods),
	)
}

// writeEntries adds and changes where packets from netdevs go. Writing a row twice does no harm.
func (t *tables) writeEntries(u *undo.Stack, now *rows, only func(was, now abi.Entry) bool) error {
	old := t.now
	return errors.Join(
		bpfmap.Write(u, t.setEntry, old.entries, now.entries, only),
		bpfmap.Write(u, bpfmap.HashSetter[abi.Entry](t.maps[abi.MapOutEntries]), old.outEntries, now.outEntries, only),
	)
}

func (t *tables) clearEntries(now *rows) error {
	old := t.now
	return errors.Join(
		bpfmap.Clear(t.setEntry, old.entries, now.entries),
		bpfmap.Clear(bpfmap.HashSetter[abi.Entry](t.maps[abi.MapOutEntries]), old.outEntries, now.outEntries),
	)
}

func (t *tables) setEntry(ifindex uint32, e *abi.Entry) error {
	if ifindex >= link.Entries {
		return bpfmap.HashSetter[abi.Entry](t.maps[abi.MapFar])(ifindex, e)
	}
	return bpfmap.ArraySetter[abi.Entry](t.maps[abi.MapEntries])(ifindex, e)
}

func (t *tables) setFlood(id uint32, row **abi.Flood) error {
	set := bpfmap.HashSetter[abi.Flood](t.maps[abi.MapFloods])
	if row == nil {
		return set(id, nil)
	}
	return set(id, *row)
}

// setDevice writes where a port of an XDP cube sends. The kernel takes no netdev that is gone; the
// event that says so is under way then, and must not stand in the way of other changes.
func (t *tables) setDevice(key uint32, ifindex *uint32) error {
	err := bpfmap.HashSetter[uint32](t.maps[abi.MapDevices])(key, ifindex)
	if ifindex != nil && errors.Is(err, unix.EINVAL) {
		return nil
	}
	return err
}

// addShadow adds the rows of a cube's namespace.
func (t *rows) addShadow(n *Node) {
	if n.Shadow == nil {
		return
	}
	for index, ifindex := range n.Shadow.Ends {
		p := n.Ports[index]
		if p == nil || ifindex <= 0 {
			continue
		}
		pg, _ := abi.SlotAddress(p.Slot)
		t.shadows[abi.ExitKey(n.ID, index)] = uint32(ifindex)
		t.entries[uint32(ifindex)] = abi.Entry{Cube: uint16(n.ID), Port: link.SentPort(index), Page: pg, Slot: link.NoSlot}
	}
}
