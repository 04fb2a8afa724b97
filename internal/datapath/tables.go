// SPDX-License-Identifier: Apache-2.0

package datapath

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/internal/datapath/link"
)

// tables is what the graph says about netdevs: data that programs look up, so that netdevs
// come and go without a relink.
type tables struct {
	entries    map[uint32]entry     // by ifindex
	outEntries map[uint32]entry     // by ifindex
	exits      map[uint32]exit      // by exitKey
	devices    map[uint32]uint32    // the exits of XDP cubes: exitKey to ifindex
	shadows    map[uint32]uint32    // the ports of shadow cubes: exitKey to ifindex
	floods     map[uint32]*flood    // by cube
	broadcasts map[uint32]netdevSet // XDP cubes: the netdevs of the flood row
}

// netdevSet holds ifindexes, then zeros.
type netdevSet [link.MaxPorts]uint32

func newTables() *tables {
	return &tables{
		entries: map[uint32]entry{}, outEntries: map[uint32]entry{}, exits: map[uint32]exit{}, shadows: map[uint32]uint32{},
		devices: map[uint32]uint32{}, floods: map[uint32]*flood{}, broadcasts: map[uint32]netdevSet{},
	}
}

// tablesOf derives the tables from the graph. The flood rows, which are large, stay those of the
// present tables for cubes that are not stale.
func (p *Plane) tablesOf(w *wiring, s stale) *tables {
	g := w.g
	t := newTables()
	for id, n := range g.Cubes {
		if !s.has(id) {
			t.keep(p.tables, w, n)
			continue
		}
		row := &flood{Tap: uint32(p.opts.Taps[n.Type.Hook()])}
		if n.Type.Hook() == cube.XDP {
			row.Tap = uint32(p.opts.Loop.exit(n.Type))
		}
		for _, index := range slices.Sorted(maps.Keys(n.Ports)) {
			t.addPort(w, n, n.Ports[index], row)
		}
		if n.Ports == nil {
			continue
		}
		if n.Type.Hook() == cube.XDP {
			if set := p.broadcast(row, p.cubes[id] != nil && p.cubes[id].throughEgress(n)); set[0] != 0 {
				t.broadcasts[uint32(id)] = set
			}
		}
		t.addShadow(n)
		if was := p.tables.floods[uint32(id)]; was != nil && *was == *row {
			row = was
		}
		t.floods[uint32(id)] = row
	}
	for _, dev := range g.Netdevs {
		if n := len(dev.Tcubes); n > 0 && dev.Index > 0 {
			e := t.entries[uint32(dev.Index)] // the port's, if the netdev is a peer
			if e.Cube == 0 {
				e.Slot = link.NoSlot
			}
			e.Cube = uint16(dev.Tcubes[0])
			t.entries[uint32(dev.Index)] = e
			t.outEntries[uint32(dev.Index)] = entry{Cube: uint16(dev.Tcubes[n-1])}
		}
	}
	return t
}

// keep takes over the rows of a cube that is not stale.
func (t *tables) keep(was *tables, w *wiring, n *Node) {
	for _, p := range n.Ports {
		if dev := w.g.Netdevs[p.Peer.Netdev]; p.Peer.Netdev != "" && dev != nil && dev.Index > 0 {
			pg, place := slotAddress(p.Slot)
			t.entries[uint32(dev.Index)] = entry{Cube: uint16(n.ID), Port: p.Index, Page: pg, Slot: place}
		}
		key := exitKey(n.ID, p.Index)
		keepRow(t.exits, was.exits, key)
		keepRow(t.devices, was.devices, key)
	}
	t.addShadow(n)
	keepRow(t.floods, was.floods, uint32(n.ID))
	keepRow(t.broadcasts, was.broadcasts, uint32(n.ID))
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

// broadcast completes an XDP cube's flood row with the ports whose copies go by the loop, and
// returns the devices of the broadcast: the netdevs, then the loop once for each such port.
func (p *Plane) broadcast(row *flood, egress bool) netdevSet {
	var set netdevSet
	n := 0
	for port := range uint16(link.MaxPorts) {
		word, bit := port/64, uint64(1)<<(port%64)
		if row.ComplexPorts[word]&bit != 0 || egress && row.SimplePorts[word]&bit != 0 {
			row.CopyPort[row.Copies] = port
			row.Copies++
		}
	}
	if !egress {
		for _, e := range row.Exit[:row.Count] {
			set[n] = e.Ifindex
			n++
		}
	}
	for range row.Copies {
		set[n] = row.Tap
		n++
	}
	return set
}

func (t *tables) addPort(w *wiring, n *Node, p *Port, row *flood) {
	pg, place := slotAddress(p.Slot)
	dev := w.g.Netdevs[p.Peer.Netdev]
	netdev := p.Peer.Netdev != "" && dev != nil && dev.Index > 0
	if netdev {
		t.entries[uint32(dev.Index)] = entry{Cube: uint16(n.ID), Port: p.Index, Page: pg, Slot: place}
	}
	if netdev = netdev && !dev.Down; netdev {
		key := exitKey(n.ID, p.Index)
		t.exits[key] = exit{Ifindex: uint32(dev.Index), Page: pg, Slot: place}
		if n.Type.Hook() == cube.XDP {
			t.devices[key] = uint32(dev.Index)
		}
	}
	word, bit := p.Index/64, uint64(1)<<(p.Index%64)
	switch {
	case len(p.Tcubes) > 0 || w.peerOf(n.ID, p) != nil:
		row.Complex++
		row.ComplexPorts[word] |= bit
	case netdev:
		row.Exit[row.Count] = floodExit{Ifindex: uint32(dev.Index), Port: p.Index, Page: pg, Slot: place}
		row.SimplePorts[word] |= bit
		row.Count++
	}
}

// undo is a stack of steps back.
type undo []func() error

func (u *undo) push(f func() error) { *u = append(*u, f) }

// run goes back, last step first.
func (u *undo) run() error {
	var errs []error
	for _, f := range slices.Backward(*u) {
		errs = append(errs, f())
	}
	return errors.Join(errs...)
}

// setter writes one row; a nil value deletes it.
type setter[V comparable] func(key uint32, value *V) error

// write adds and changes rows so that the table holds now, where it may hold old or already
// now. only, if set, chooses among the rows to change.
func write[V comparable](u *undo, set setter[V], old, now map[uint32]V, only func(was, now V) bool) error {
	for k, v := range now {
		was, had := old[k]
		if had && was == v || only != nil && !only(was, v) {
			continue
		}
		if err := set(k, &v); err != nil {
			return err
		}
		if had {
			u.push(func() error { return set(k, &was) })
		} else {
			u.push(func() error { return set(k, nil) })
		}
	}
	return nil
}

// clearRows deletes the rows of old that now lacks.
func clearRows[V comparable](set setter[V], old, now map[uint32]V) error {
	for k := range old {
		if _, keep := now[k]; keep {
			continue
		}
		if err := set(k, nil); err != nil {
			return err
		}
	}
	return nil
}

// writeExits adds what programs need to send to netdevs.
func (p *Plane) writeExits(u *undo, old, now *tables) error {
	return errors.Join(
		write(u, arraySetter[exit](p.fw.maps[mapExits]), old.exits, now.exits, nil),
		write(u, p.setDevice, old.devices, now.devices, nil),
		write(u, hashSetter[uint32](p.fw.maps[mapShadows]), old.shadows, now.shadows, nil),
		write(u, p.setFlood, old.floods, now.floods, nil),
		write(u, p.setBroadcast, old.broadcasts, now.broadcasts, nil),
	)
}

func (p *Plane) clearExits(old, now *tables) error {
	return errors.Join(
		clearRows(arraySetter[exit](p.fw.maps[mapExits]), old.exits, now.exits),
		clearRows(p.setDevice, old.devices, now.devices),
		clearRows(hashSetter[uint32](p.fw.maps[mapShadows]), old.shadows, now.shadows),
		clearRows(p.setFlood, old.floods, now.floods),
		clearRows(p.setBroadcast, old.broadcasts, now.broadcasts),
	)
}

// writeEntries adds and changes where packets from netdevs go. Writing a row twice does no harm.
func (p *Plane) writeEntries(u *undo, old, now *tables, only func(was, now entry) bool) error {
	return errors.Join(
		write(u, p.setEntry, old.entries, now.entries, only),
		write(u, hashSetter[entry](p.fw.maps[mapOutEntries]), old.outEntries, now.outEntries, only),
	)
}

func (p *Plane) clearEntries(old, now *tables) error {
	return errors.Join(
		clearRows(p.setEntry, old.entries, now.entries),
		clearRows(hashSetter[entry](p.fw.maps[mapOutEntries]), old.outEntries, now.outEntries),
	)
}

func (p *Plane) setEntry(ifindex uint32, e *entry) error {
	if ifindex >= link.Entries {
		return hashSetter[entry](p.fw.maps[mapFar])(ifindex, e)
	}
	return arraySetter[entry](p.fw.maps[mapEntries])(ifindex, e)
}

func arraySetter[V comparable](m *ebpf.Map) setter[V] {
	return func(key uint32, value *V) error {
		if value == nil {
			value = new(V)
		}
		if err := m.Put(key, value); err != nil {
			return fmt.Errorf("table %s, row %d: %w", m, key, err)
		}
		return nil
	}
}

func hashSetter[V comparable](m *ebpf.Map) setter[V] {
	return func(key uint32, value *V) error {
		var err error
		if value == nil {
			if err = m.Delete(key); errors.Is(err, ebpf.ErrKeyNotExist) {
				return nil
			}
		} else {
			err = m.Put(key, value)
		}
		if err != nil {
			return fmt.Errorf("table %s, row %d: %w", m, key, err)
		}
		return nil
	}
}

func (p *Plane) setFlood(id uint32, row **flood) error {
	set := hashSetter[flood](p.fw.maps[mapFloods])
	if row == nil {
		return set(id, nil)
	}
	return set(id, *row)
}

// setDevice writes where a port of an XDP cube sends. The kernel takes no netdev that is gone; the
// event that says so is under way then, and must not stand in the way of other changes.
func (p *Plane) setDevice(key uint32, ifindex *uint32) error {
	err := hashSetter[uint32](p.fw.maps[mapDevices])(key, ifindex)
	if ifindex != nil && errors.Is(err, unix.EINVAL) {
		return nil
	}
	return err
}

// setBroadcast replaces the set of netdevs that an XDP cube floods to.
func (p *Plane) setBroadcast(id uint32, set *netdevSet) error {
	outer := p.fw.maps[mapBroadcasts]
	if set == nil {
		return hashSetter[uint32](outer)(id, nil)
	}
	inner, err := ebpf.NewMap(p.fw.objects[cube.XDP].Maps[mapBroadcasts].InnerMap)
	if err != nil {
		return fmt.Errorf("flood set of cube %d: %w", id, err)
	}
	defer func() { _ = inner.Close() }()
	for n, ifindex := range set {
		if ifindex == 0 {
			break
		}
		d := device{Ifindex: ifindex}
		if p.opts.Loop.is(ifindex) {
			d.Program = uint32(p.fw.downs["loop-out"].FD())
		}
		if err := inner.Put(uint32(n), d); errors.Is(err, unix.EINVAL) {
			continue // the netdev is gone, and an event that says so under way
		} else if err != nil {
			return fmt.Errorf("flood set of cube %d, netdev %d: %w", id, ifindex, err)
		}
	}
	if err := outer.Put(id, inner); err != nil {
		return fmt.Errorf("flood set of cube %d: %w", id, err)
	}
	return nil
}
