// SPDX-License-Identifier: Apache-2.0

package datapath

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"

	"github.com/cilium/ebpf"
	"github.com/vishvananda/netlink"
)

// frameworkFates are the labels of enum pcn_reason below PCN_REASON_FIRST.
var frameworkFates = []Fate{
	{Name: "unspecified", Drop: true},
	{Name: "pass"},
	{Name: "slowpath"},
	{Name: "flood"},
	{Name: "no-peer", Drop: true},
	{Name: "bad-port", Drop: true},
	{Name: "bad-verdict", Drop: true},
	{Name: "hop-limit", Drop: true},
	{Name: "slowpath-shed", Drop: true},
	{Name: "no-program", Drop: true},
	{Name: "malformed", Drop: true},
	{Name: "copy-failed", Drop: true},
}

const firstReason = 32 // PCN_REASON_FIRST

// Fates returns how packets ended in a cube, other than forwarded, those that occurred and
// all that the service knows. Cube 0 is the framework itself.
func (p *Plane) Fates(id CubeID) ([]Fate, error) {
	var perCPU []fates
	if err := p.fw.maps[mapFates].Lookup(uint32(id), &perCPU); err != nil {
		return nil, fmt.Errorf("fates of cube %d: %w", id, err)
	}
	out := append([]Fate(nil), frameworkFates...)
	p.mu.Lock()
	in := p.cubes[id]
	p.mu.Unlock()
	var own []string
	if in != nil {
		own = in.objects[in.spec.Type.Hook()].Reasons
	}
	for _, name := range own {
		out = append(out, Fate{Name: name, Drop: true})
	}
	for _, f := range perCPU {
		for at, n := range f.Count {
			out[fateIndex(at, len(own))].Packets += n
		}
	}
	return out, nil
}

// fateIndex is the place of a counter in what Fates returns: reasons without a label, of the
// framework's or of own ones, are unspecified drops.
func fateIndex(reason, own int) int {
	switch {
	case reason < len(frameworkFates):
		return reason
	case reason >= firstReason && reason < firstReason+own:
		return len(frameworkFates) + reason - firstReason
	}
	return 0
}

// Status tells how a cube's programs run.
func (p *Plane) Status(id CubeID) CubeStatus {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range p.parts {
		for _, other := range c.ids {
			if other == id {
				return CubeStatus{Mode: c.gen.mode.String(), Reason: c.note, Instructions: c.gen.insns}
			}
		}
	}
	return CubeStatus{}
}

// needFrags tells whether a netdev's frames may not fit one buffer at XDP.
func (p *Plane) needFrags(devs []*Netdev) bool {
	mtu := p.opts.MTU
	if mtu == nil {
		mtu = kernelMTU
	}
	limit := os.Getpagesize() - 640 // headroom, shared info and Ethernet header
	for _, d := range devs {
		if d.Index == 0 {
			continue
		}
		if n, err := mtu(d.Index); err == nil && n > limit {
			return true
		}
	}
	return false
}

func kernelMTU(ifindex int) (int, error) {
	l, err := netlink.LinkByIndex(ifindex)
	if err != nil {
		return 0, fmt.Errorf("netdev %d: %w", ifindex, err)
	}
	return l.Attrs().MTU, nil
}

// readTables reads what an earlier daemon wrote, so that the first commit changes what differs
// and clears what is gone.
func (p *Plane) readTables() (*tables, error) {
	t := newTables()
	err := errors.Join(
		readArray(p.fw.maps[mapEntries], t.entries),
		readHash(p.fw.maps[mapFar], t.entries),
		readHash(p.fw.maps[mapOutEntries], t.outEntries),
		readArray(p.fw.maps[mapExits], t.exits),
		readHash(p.fw.maps[mapFloods], t.floods),
	)
	for key, e := range t.exits {
		t.devices[key] = e.Ifindex
	}
	var id, inner uint32
	it := p.fw.maps[mapBroadcasts].Iterate()
	for it.Next(&id, &inner) {
		t.broadcasts[id] = netdevSet{}
	}
	return t, errors.Join(err, it.Err())
}

// readArray collects the rows of a mapped array that are not zero.
func readArray[V comparable](m *ebpf.Map, into map[uint32]V) error {
	memory, err := m.Memory()
	if err != nil {
		return fmt.Errorf("reading table %s: %w", m, err)
	}
	rows, size := make([]byte, memory.Size()), int(m.ValueSize())
	if _, err := memory.ReadAt(rows, 0); err != nil {
		return fmt.Errorf("reading table %s: %w", m, err)
	}
	for key := range m.MaxEntries() {
		row := rows[int(key)*size:][:size]
		if binary.NativeEndian.Uint64(row) == 0 { // rows have 8 bytes, see TestABI
			continue
		}
		var v V
		if _, err := binary.Decode(row, binary.NativeEndian, &v); err != nil {
			return fmt.Errorf("table %s, row %d: %w", m, key, err)
		}
		into[key] = v
	}
	return nil
}

func readHash[V any](m *ebpf.Map, into map[uint32]V) error {
	var k uint32
	var v V
	it := m.Iterate()
	for it.Next(&k, &v) {
		into[k] = v
	}
	if err := it.Err(); err != nil {
		return fmt.Errorf("reading table %s: %w", m, err)
	}
	return nil
}
