// SPDX-License-Identifier: Apache-2.0

package netdevs

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/internal/datapath/abi"
	"github.com/polycube/polycube/internal/datapath/bpfmap"
	"github.com/polycube/polycube/internal/datapath/graph"
	"github.com/polycube/polycube/internal/datapath/undo"
)

// linkState determines whether packets pass a netdev. When it changes, the netdev and the other end of a pair are
// checked again.
type linkState struct {
	up    bool
	flaps int
	// mtu is 0 if the kernel is asked.
	mtu int
	// native is true if frames of native XDP may be sent to it.
	native bool
}

// Plan assigns a root program to each netdev in a new graph.
//
// A root program leads to one component. When components merge, all their roots lead to the new one, and nothing is
// reattached. When a component splits, each root stays with the part that has most of its netdevs; the others' netdevs
// move to another root, each by one link update, without a gap.
type Plan struct {
	n     *Netdevs
	parts []Segment
	wants []want
	// outputs are other netdevs to which cubes at native XDP redirect packets.
	outputs []want
}

// Segment contains the properties of a segment that a plan needs.
type Segment struct {
	IDs []graph.CubeID
	// Netdevs are those whose received packets enter here, OutNetdevs those whose sent packets do.
	Netdevs, OutNetdevs []*graph.Netdev
	Hook                cube.Hook
	// Native is true if a cube of its connected part of the graph is of type XDP_DRV.
	Native   bool
	Programs programs
	Entrance *Entrance
}

// want is a netdev's attachment in the new graph.
type want struct {
	spot spot
	name string
	kind kind
	mode cube.Type
	port bool // the netdev is the peer of a port
	link linkState
	part *Segment
	// instead is where programs at the host's stack are attached if the netdev cannot have them at XDP, "" for all others.
	instead kind
}

// Plan assigns root programs to the netdevs of a graph with these segments.
func (n *Netdevs) Plan(w *graph.Wiring, parts []Segment) *Plan {
	n.mu.Lock()
	defer n.mu.Unlock()
	pl := &Plan{n: n, parts: parts}
	for i := range parts {
		c := &parts[i]
		for _, dev := range c.Netdevs {
			pl.addNetdev(w, c, dev)
		}
		for _, dev := range c.OutNetdevs {
			pl.addOutNetdev(w.Graph, c, dev)
		}
		pl.addShadows(w.Graph, c)
	}
	pl.addHost(w.Graph.Host)
	pl.giveRoots()
	pl.addOutputs(w)
	return pl
}

func (pl *Plan) addNetdev(wired *graph.Wiring, c *Segment, dev *graph.Netdev) {
	if dev.Index == 0 {
		return
	}
	k := kindIngress
	if c.Hook == cube.XDP {
		k = kindXDP
	}
	w := want{spot: spot{dev.Index, k}, name: dev.Name, kind: k, part: c, link: linkState{dev.Carrier, dev.Flaps, dev.MTU, c.Native}}
	w.mode, w.port = ownerType(wired, dev)
	if w.mode == cube.TypeXDPSKB {
		w.kind = kindGeneric
	}
	pl.wants = append(pl.wants, w)
}

func (pl *Plan) addOutNetdev(g *graph.Graph, c *Segment, dev *graph.Netdev) {
	if dev.Index > 0 {
		pl.wants = append(pl.wants, want{
			spot: spot{dev.Index, kindEgress}, name: dev.Name, kind: kindEgress, part: c, mode: g.Cubes[dev.Tcubes[0]].Type,
		})
	}
}

// ownerType returns the type of the cube that a netdev leads to, and whether that is through a port.
func ownerType(w *graph.Wiring, dev *graph.Netdev) (typ cube.Type, port bool) {
	if ref, ok := w.Owner[dev.Name]; ok {
		return w.Graph.Cubes[ref.ID].Type, true
	}
	return w.Graph.Cubes[dev.Tcubes[0]].Type, false
}

// giveRoots assigns each root in use to the component with most of its netdevs.
func (pl *Plan) giveRoots() {
	votes := map[*root]map[*Segment]int{}
	for _, w := range pl.wants {
		a := pl.n.attached[w.spot]
		if a == nil || a.root.kind != w.kind {
			continue
		}
		if votes[a.root] == nil {
			votes[a.root] = map[*Segment]int{}
		}
		votes[a.root][w.part]++
	}
	roots := make([]*root, 0, len(votes))
	for r := range votes {
		roots = append(roots, r)
	}
	slices.SortFunc(roots, func(a, b *root) int { return cmp.Compare(a.id, b.id) })
	for _, r := range roots {
		var best *Segment
		for c, n := range votes[r] {
			if best == nil || n > votes[r][best] || n == votes[r][best] && c.IDs[0] < best.IDs[0] {
				best = c
			}
		}
		best.Entrance.roots[r.kind] = append(best.Entrance.roots[r.kind], r)
	}
}

// MakeRoots creates a root for each component that needs one and has none.
func (pl *Plan) MakeRoots(u *undo.Stack) error {
	pl.n.mu.Lock()
	defer pl.n.mu.Unlock()
	for _, w := range pl.wants {
		if err := pl.makeRoot(u, w.part, w.kind); err != nil {
			return err
		}
		if w.instead != "" && pl.n.attached[w.spot] == nil {
			if err := pl.makeRoot(u, w.part, w.instead); err != nil {
				return err
			}
		}
	}
	return nil
}

// makeRoot creates a root of a kind for a component that has none.
func (pl *Plan) makeRoot(u *undo.Stack, part *Segment, k kind) error {
	if len(part.Entrance.roots[k]) > 0 {
		return nil
	}
	r, err := pl.n.newRoot(k, k.of(part.Programs))
	if err != nil {
		return err
	}
	r.into = part.Programs
	part.Entrance.roots[k] = []*root{r}
	pl.n.roots[r] = true
	u.Push(pl.n.locked(func() error {
		delete(pl.n.roots, r)
		return pl.n.collect.OrLater(r.remove)
	}))
	return nil
}

// Attach attaches roots to netdevs that have none, and makes those of ports promiscuous.
func (pl *Plan) Attach(u *undo.Stack) error {
	pl.n.mu.Lock()
	defer pl.n.mu.Unlock()
	u.Push(pl.n.locked(pl.n.tellIngress))
	for i := range pl.wants {
		w := &pl.wants[i]
		a := pl.n.attached[w.spot]
		if a == nil || a.mode != "" && a.mode != w.mode && w.spot.place == kindXDP {
			if err := pl.n.reattachOr(u, w); err != nil {
				return err
			}
			a = pl.n.attached[w.spot]
		} else if a.link != w.link {
			if err := pl.n.readyForXDP(u, *w); err != nil {
				return err
			}
		}
		a.mode, a.link = w.mode, w.link
		if w.port && !a.port {
			if err := pl.n.promiscOn(u, *w); err != nil {
				return err
			}
			a.port = true
		}
	}
	if err := pl.n.tellIngress(); err != nil {
		return err
	}
	return pl.prepareOutputs(u)
}

// reattach attaches a netdev. One that changes between generic and native XDP is detached first, because the kernel
// allows only one of the two.
func (n *Netdevs) reattach(u *undo.Stack, w want) error {
	if old := n.attached[w.spot]; old != nil {
		if err := old.hold.detach(); err != nil {
			return fmt.Errorf("detach from %s: %w", w.name, err)
		}
		delete(n.attached, w.spot)
		u.Push(n.locked(func() error {
			a, err := n.put(w.name, old.spot, old.mode, old.root)
			if err == nil {
				n.attached[w.spot] = a
			}
			return err
		}))
	}
	if err := n.foreign(w.name, w.spot); err != nil {
		return err
	}
	if text := n.mtuNote(w); text != "" {
		return fmt.Errorf("attach to %s: %s: %w", w.name, text, cube.ErrUnsupported)
	}
	if err := n.readyForXDP(u, w); err != nil {
		return err
	}
	if err := n.markGeneric(u, w); err != nil {
		return err
	}
	if err := n.attach(u, w); err != nil {
		return err
	}
	n.attachedNative(w)
	return nil
}

// attach attaches a root of its component to a netdev.
func (n *Netdevs) attach(u *undo.Stack, w want) error {
	a, err := n.put(w.name, w.spot, w.mode, w.part.Entrance.roots[w.kind][0])
	if err != nil {
		return err
	}
	n.attached[w.spot] = a
	u.Push(n.locked(func() error {
		delete(n.attached, w.spot)
		err := a.hold.detach()
		if err != nil {
			n.unpinLater(w.spot, err)
		}
		return err
	}))
	return nil
}

// markGeneric records whether a netdev has generic XDP, for packets that are passed to its stack.
func (n *Netdevs) markGeneric(u *undo.Stack, w want) error {
	if w.spot.place != kindXDP {
		return nil
	}
	set := bpfmap.HashSetter[uint32](n.fw.Maps[abi.MapGeneric])
	ifindex, yes := uint32(w.spot.ifindex), uint32(1)
	if w.kind != kindGeneric {
		return set(ifindex, nil)
	}
	u.Push(func() error { return set(ifindex, nil) })
	return set(ifindex, &yes)
}

// Move updates netdevs whose root leads to another component now.
func (pl *Plan) Move(u *undo.Stack) error {
	pl.n.mu.Lock()
	defer pl.n.mu.Unlock()
	for _, w := range pl.wants {
		a := pl.n.attached[w.spot]
		if slices.Contains(w.part.Entrance.roots[w.kind], a.root) {
			continue
		}
		was, now := a.root, w.part.Entrance.roots[w.kind][0]
		if err := a.hold.update(now); err != nil {
			return fmt.Errorf("move %s to another root program: %w", w.name, err)
		}
		a.root = now
		u.Push(pl.n.locked(func() error {
			a.root = was
			return a.hold.update(was)
		}))
	}
	return nil
}

// DetachUnused detaches roots from netdevs that the new graph does not have, and removes the roots without netdevs.
func (pl *Plan) DetachUnused() {
	n := pl.n
	n.mu.Lock()
	defer n.mu.Unlock()
	wanted := map[spot]bool{}
	for _, w := range pl.wants {
		wanted[w.spot] = true
	}
	for s, a := range n.attached {
		if wanted[s] {
			continue
		}
		if err := a.hold.detach(); err != nil {
			n.log.Warn("detach from a netdev", "ifindex", s.ifindex, "err", err)
			n.unpinLater(s, err)
		}
		if err := n.undoForXDP(s); err != nil {
			n.log.Warn("offloads stay as XDP required them", "ifindex", s.ifindex, "err", err)
		}
		if err := n.promiscOff(s); err != nil {
			n.log.Warn("netdev stays promiscuous", "ifindex", s.ifindex, "err", err)
		}
		if a.root.kind == kindGeneric {
			if err := bpfmap.HashSetter[uint32](n.fw.Maps[abi.MapGeneric])(uint32(s.ifindex), nil); err != nil {
				n.log.Warn("remove the state of a netdev", "ifindex", s.ifindex, "err", err)
			}
		}
		delete(n.attached, s)
		if s.place == kindXDP {
			delete(n.outputs, s.ifindex)
		}
	}
	if err := n.tellIngress(); err != nil {
		n.log.Warn("the table of netdevs with programs at TC ingress", "err", err)
	}
	pl.releaseOutputs()
	used := map[*root]bool{}
	for _, a := range n.attached {
		used[a.root] = true
	}
	for r := range n.roots {
		if !used[r] {
			delete(n.roots, r)
			n.collect.Unpin(r.remove)
		}
	}
	for _, c := range pl.parts {
		for k := range c.Entrance.roots {
			c.Entrance.roots[k] = slices.DeleteFunc(c.Entrance.roots[k], func(r *root) bool { return !used[r] })
		}
	}
}

// addShadows adds root programs for the outer ends.
func (pl *Plan) addShadows(g *graph.Graph, c *Segment) {
	for _, id := range c.IDs {
		n := g.Cubes[id]
		if n.Shadow == nil {
			continue
		}
		for index, ifindex := range n.Shadow.Ends {
			if p := n.Ports[index]; p != nil && ifindex > 0 {
				pl.wants = append(pl.wants, want{spot: spot{ifindex, kindIngress}, kind: kindIngress, part: c, mode: cube.TypeTC,
					name: fmt.Sprintf("the namespace's end of %s:%s", n.Name, p.Name)})
			}
		}
	}
}
