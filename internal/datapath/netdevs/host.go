// SPDX-License-Identifier: Apache-2.0

package netdevs

import (
	"slices"

	"github.com/vishvananda/netlink"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/internal/datapath/graph"
	"github.com/polycube/polycube/internal/datapath/undo"
)

// Programs at the host's stack are on all netdevs. Those of cubes at XDP get received packets at XDP where they can, and at TC
// on a netdev whose XDP hook has another program, or whose driver has none: on each netdev at one of the two.

// addHost adds the root programs of cubes at the host's stack.
func (pl *Plan) addHost(h *graph.Host) {
	if h == nil {
		clear(pl.n.withoutXDP) // the next ones try again
		return
	}
	in, out := pl.partOf(h.Tcubes[0]), pl.partOf(h.Tcubes[len(h.Tcubes)-1])
	taken, there := map[spot]bool{}, map[int]bool{}
	for _, w := range pl.wants {
		taken[w.spot] = true
	}
	for _, dev := range h.Netdevs {
		if pl.n.helpers[dev.Index] {
			continue
		}
		there[dev.Index] = true
		at := func(k kind, part *Segment) want {
			return want{spot: spot{dev.Index, k}, name: dev.Name, kind: k, part: part, mode: cube.TypeTC}
		}
		received := at(kindHostIn, in)
		if in.Hook == cube.XDP && !taken[spot{dev.Index, kindXDP}] && pl.n.takesXDP(dev.Index) {
			received = at(kindXDP, in)
			received.mode, received.instead, received.link = cube.TypeXDPDRV, kindHostIn, linkState{native: true} // for answers
		}
		pl.wants = append(pl.wants, received, at(kindHostOut, out))
	}
	for index := range pl.n.withoutXDP {
		if !there[index] {
			delete(pl.n.withoutXDP, index)
		}
	}
}

// partOf is the segment of a cube.
func (pl *Plan) partOf(id graph.CubeID) *Segment {
	return &pl.parts[slices.IndexFunc(pl.parts, func(c Segment) bool { return slices.Contains(c.IDs, id) })]
}

// takesXDP reports whether a netdev has a program of ours at native XDP, or may get one. One at generic XDP goes first: the kernel
// allows only one of the two.
func (n *Netdevs) takesXDP(ifindex int) bool {
	if a := n.attached[spot{ifindex, kindXDP}]; a != nil {
		return a.mode == cube.TypeXDPDRV
	}
	if n.withoutXDP[ifindex] {
		return false
	}
	l, err := netlink.LinkByIndex(ifindex)
	return err == nil && (l.Attrs().Xdp == nil || !l.Attrs().Xdp.Attached)
}

// reattachOr attaches a netdev, one that refuses programs at the host's stack at XDP instead at TC. It is prepared for XDP once
// it has accepted the program.
func (n *Netdevs) reattachOr(u *undo.Stack, w *want) error {
	if w.instead == "" || n.attached[w.spot] != nil {
		return n.reattach(u, *w)
	}
	err := n.attach(u, *w)
	if err == nil {
		return n.readyForXDP(u, *w)
	}
	n.log.Info("packets of this netdev meet the cubes at the host at TC", "netdev", w.name, "reason", err)
	n.withoutXDP[w.spot.ifindex] = true
	w.kind, w.spot.place, w.mode, w.link, w.instead = w.instead, w.instead, cube.TypeTC, linkState{}, ""
	if n.attached[w.spot] != nil {
		return nil
	}
	return n.reattach(u, *w)
}
