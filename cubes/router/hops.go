// SPDX-License-Identifier: Apache-2.0

package router

// Next hops: routes with the same destination share one entry. An entry is written before a route refers to it and not
// changed as long as one does.

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/cube/table"
	"github.com/polycube/polycube/inet"
)

// target is the destination of a route.
type target struct {
	kind uint16
	port uint16 // unicast
	// gateway is the zero Addr if the destination itself is on the link.
	gateway netip.Addr
}

// hop is a next hop in use.
type hop struct {
	target
	refs  int
	entry hopEntry
	group []uint32 // for multipath: its members, in ascending order
	// detour says that other members replace those on ports that are down.
	detour bool
}

// link contains the values that next hops copy from the port.
type link struct {
	mac inet.MAC
	mtu uint32
}

// hops manages the maps `next_hops` and `groups`.
type hops struct {
	entries  table.Table[uint32, hopEntry]
	groups   table.Table[uint32, groupEntry]
	hops     map[uint32]*hop
	byTarget map[target]uint32
	byGroup  map[string]uint32
	hopIDs   ids
	groupIDs ids
	// link returns a port's values, and resolve the MAC address of a known neighbour.
	link    func(port uint16) link
	resolve func(addr netip.Addr, port uint16) (inet.MAC, bool)
	// wanted is called when gateways become used or unused.
	wanted func(addr netip.Addr, port uint16, want bool)
}

func newHops(t tables) *hops {
	return &hops{
		hops: map[uint32]*hop{}, byTarget: map[target]uint32{}, byGroup: map[string]uint32{},
		entries: t.hops, groups: t.groups,
		hopIDs:   ids{what: "next hops", next: hopFirst, now: time.Now},
		groupIDs: ids{what: "groups of next hops", now: time.Now},
		link:     func(uint16) link { return link{} },
		resolve:  func(netip.Addr, uint16) (inet.MAC, bool) { return 0, false },
		wanted:   func(netip.Addr, uint16, bool) {},
	}
}

// begin writes the next hops that every router has, and adopts entries of a previous run of the cube that routes refer
// to.
func (h *hops) begin(used map[uint32]int) error {
	entries, err := h.entries.Map()
	if err != nil {
		return err
	}
	groupEntries, err := h.groups.Map()
	if err != nil {
		return err
	}
	h.hopIDs.limit, h.groupIDs.limit = entries.MaxEntries(), groupEntries.MaxEntries()
	for id, kind := range map[uint32]uint16{hopLocal: kindLocal, hopBroadcast: kindBroadcast, hopBlackhole: kindBlackhole, hopUnreachable: kindUnreachable, hopProhibit: kindProhibit} {
		if err := h.entries.Set(id, hopEntry{Kind: kind}); err != nil {
			return err
		}
	}
	ids, groups := map[uint32]bool{}, map[uint32]bool{}
	for id, refs := range used {
		if id < hopFirst {
			continue
		}
		if err := h.adopt(id, refs, ids, groups); err != nil {
			return err
		}
	}
	h.hopIDs.claim(ids)
	h.groupIDs.claim(groups)
	return nil
}

// adopt adopts a next hop, and the members of its group.
func (h *hops) adopt(id uint32, refs int, ids, groups map[uint32]bool) error {
	if is := h.hops[id]; is != nil {
		is.refs += refs
		return nil
	}
	e, _, err := h.entries.Get(id)
	if err != nil {
		return err
	}
	is := &hop{target: target{kind: e.Kind, port: e.Port, gateway: addrOf(e.Gateway)}, refs: refs, entry: e}
	h.hops[id], ids[id] = is, true
	if e.Kind != kindMultipath {
		h.byTarget[is.target] = id
		if is.gateway.IsValid() {
			h.wanted(is.gateway, is.port, true)
		}
		return nil
	}
	g, _, err := h.groups.Get(e.Group)
	if err != nil {
		return err
	}
	is.group, groups[e.Group] = slices.Clone(g.Member[:min(e.Members, groupMax)]), true
	h.byGroup[groupKey(is.group)] = id
	for _, member := range is.group {
		if err := h.adopt(member, 1, ids, groups); err != nil {
			return err
		}
	}
	return nil
}

func groupKey(members []uint32) string {
	var b []byte
	for _, m := range members {
		b = binary.NativeEndian.AppendUint32(b, m)
	}
	return string(b)
}

// acquire returns the index of the next hop for all of the targets, and adds a reference to it.
func (h *hops) acquire(targets []target) (uint32, error) {
	switch {
	case len(targets) == 0:
		return hopNone, nil
	case len(targets) == 1:
		return h.single(targets[0])
	case len(targets) > groupMax:
		return 0, fmt.Errorf("%d next hops of equal cost, the maximum is %d: %w", len(targets), groupMax, cube.ErrFull)
	}
	members := make([]uint32, 0, len(targets))
	release := func() {
		for _, m := range members {
			h.release(m)
		}
	}
	for _, t := range targets {
		id, err := h.single(t)
		if err != nil {
			release()
			return 0, err
		}
		members = append(members, id)
	}
	slices.Sort(members)
	if id, ok := h.byGroup[groupKey(members)]; ok {
		release() // the group references them
		h.hops[id].refs++
		return id, nil
	}
	id, err := h.makeGroup(members)
	if err != nil {
		release()
	}
	return id, err
}

func (h *hops) single(t target) (uint32, error) {
	switch t.kind {
	case kindLocal:
		return hopLocal, nil
	case kindBroadcast:
		return hopBroadcast, nil
	case kindBlackhole:
		return hopBlackhole, nil
	case kindUnreachable:
		return hopUnreachable, nil
	case kindProhibit:
		return hopProhibit, nil
	}
	if id, ok := h.byTarget[t]; ok {
		h.hops[id].refs++
		return id, nil
	}
	id, err := h.hopIDs.take()
	if err != nil {
		return 0, err
	}
	l := h.link(t.port)
	e := hopEntry{From: l.mac, Mtu: l.mtu, Port: t.port, Kind: t.kind}
	if t.gateway.IsValid() {
		e.Gateway = inet.AddressOf(t.gateway)
		e.To, _ = h.resolve(t.gateway, t.port)
	}
	if err := h.entries.Set(id, e); err != nil {
		h.hopIDs.give(id)
		return 0, err
	}
	h.hops[id], h.byTarget[t] = &hop{target: t, refs: 1, entry: e}, id
	if t.gateway.IsValid() {
		h.wanted(t.gateway, t.port, true)
	}
	return id, nil
}

// makeGroup writes a group, and acquires its members.
func (h *hops) makeGroup(members []uint32) (uint32, error) {
	group, err := h.groupIDs.take()
	if err != nil {
		return 0, err
	}
	id, err := h.hopIDs.take()
	if err != nil {
		h.groupIDs.give(group)
		return 0, err
	}
	var g groupEntry
	copy(g.Member[:], members)
	e := hopEntry{Kind: kindMultipath, Group: group, Members: uint32(len(members))}
	if err = h.groups.Set(group, g); err == nil {
		err = h.entries.Set(id, e)
	}
	if err != nil {
		h.groupIDs.give(group)
		h.hopIDs.give(id)
		return 0, err
	}
	h.hops[id] = &hop{target: target{kind: kindMultipath}, refs: 1, entry: e, group: slices.Clone(members)}
	h.byGroup[groupKey(members)] = id
	return id, nil
}

// release removes a reference to a next hop.
func (h *hops) release(id uint32) {
	is := h.hops[id]
	if is == nil {
		return // one that every router has
	}
	if is.refs--; is.refs > 0 {
		return
	}
	delete(h.hops, id)
	h.hopIDs.give(id)
	if is.kind != kindMultipath {
		delete(h.byTarget, is.target)
		if is.gateway.IsValid() {
			h.wanted(is.gateway, is.port, false)
		}
		return
	}
	delete(h.byGroup, groupKey(is.group))
	h.groupIDs.give(is.entry.Group)
	for _, m := range is.group {
		h.release(m)
	}
}

// resolved writes the MAC address of a gateway, or that it is unknown. It does nothing for a neighbour that no route
// uses.
func (h *hops) resolved(addr netip.Addr, port uint16, to inet.MAC, ok bool) error {
	id, there := h.byTarget[target{kind: kindUnicast, port: port, gateway: addr.WithZone("")}]
	if !there {
		return nil
	}
	is := h.hops[id]
	if !ok {
		to = 0
	}
	if is.entry.To == to {
		return nil
	}
	is.entry.To = to
	return h.entries.Set(id, is.entry)
}

// linkChanged writes a port's MAC address and MTU to its next hops.
func (h *hops) linkChanged(port uint16) error {
	l := h.link(port)
	for id, is := range h.hops {
		if is.kind != kindUnicast || is.port != port || is.entry.From == l.mac && is.entry.Mtu == l.mtu {
			continue
		}
		is.entry.From, is.entry.Mtu = l.mac, l.mtu
		if err := h.entries.Set(id, is.entry); err != nil {
			return err
		}
	}
	return nil
}

// avoid makes groups send the flows of members on ports that are down through their other members, until routes refer
// to other groups: with many routes, the last one takes a second.
func (h *hops) avoid(down map[uint16]bool) error {
	for _, is := range h.hops {
		if is.kind != kindMultipath {
			continue
		}
		live := slices.DeleteFunc(slices.Clone(is.group), func(m uint32) bool { return down[h.hops[m].port] })
		detour := len(live) > 0 && len(live) < len(is.group)
		if !detour && !is.detour {
			continue
		}
		var g groupEntry
		for i, m := range is.group {
			if g.Member[i] = m; detour && !slices.Contains(live, m) {
				g.Member[i] = live[i%len(live)]
			}
		}
		if err := h.groups.Set(is.entry.Group, g); err != nil {
			return err
		}
		is.detour = detour
	}
	return nil
}

// address returns the gateway of a next hop; false if destinations are on the link.
func (h *hops) address(id uint32) (netip.Addr, bool) {
	is := h.hops[id]
	if is == nil || !is.gateway.IsValid() {
		return netip.Addr{}, false
	}
	return is.gateway, true
}
