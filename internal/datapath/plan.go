// SPDX-License-Identifier: Apache-2.0

package datapath

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

// linkState is what decides whether packets pass a netdev. When it changes, the netdev and the other end of a pair are
// looked at again.
type linkState struct {
	up    bool
	flaps int
	// mtu is 0 where the kernel is asked.
	mtu int
	// native is true if frames of native XDP may be sent to it.
	native bool
}

// plan says which root program each netdev gets in a new graph.
//
// A root program leads to one component. When components merge, all their roots lead to the
// new one, and nothing is attached anew. When a component splits, each root stays with the
// part that most of its netdevs belong to; the others' netdevs move to another root, each by
// one link update, without a gap.
type plan struct {
	p     *Plane
	parts []*segment
	owner map[string]graph.PortRef
	wants []want
}

// want is a netdev's place in the new graph.
type want struct {
	spot spot
	name string
	kind kind
	mode cube.Type
	port bool // the netdev is the peer of a port
	link linkState
	part *segment
}

func (ch *change) makePlan() *plan {
	pl := &plan{p: ch.p, parts: ch.parts, owner: ch.wiring.Owner}
	for _, c := range ch.parts {
		for _, dev := range c.netdevs {
			pl.addNetdev(ch.g, c, dev)
		}
		for _, dev := range c.outNetdevs {
			pl.addOutNetdev(ch.g, c, dev)
		}
		pl.addShadows(ch.g, c)
	}
	pl.giveRoots()
	return pl
}

func (pl *plan) addNetdev(g *Graph, c *segment, dev *Netdev) {
	if dev.Index == 0 {
		return
	}
	k := kindIngress
	if c.hook == cube.XDP {
		k = kindXDP
	}
	w := want{spot: spot{dev.Index, k}, name: dev.Name, kind: k, part: c, link: linkState{dev.Carrier, dev.Flaps, dev.MTU, c.native}}
	w.mode, w.port = pl.ownerType(g, dev)
	if w.mode == cube.TypeXDPSKB {
		w.kind = kindGeneric
	}
	pl.wants = append(pl.wants, w)
}

func (pl *plan) addOutNetdev(g *Graph, c *segment, dev *Netdev) {
	if dev.Index > 0 {
		pl.wants = append(pl.wants, want{
			spot: spot{dev.Index, kindEgress}, name: dev.Name, kind: kindEgress, part: c, mode: g.Cubes[dev.Tcubes[0]].Type,
		})
	}
}

// ownerType is the type of the cube that a netdev leads to, and whether that is by a port.
func (pl *plan) ownerType(g *Graph, dev *Netdev) (typ cube.Type, port bool) {
	if ref, ok := pl.owner[dev.Name]; ok {
		return g.Cubes[ref.ID].Type, true
	}
	return g.Cubes[dev.Tcubes[0]].Type, false
}

// giveRoots hands each root that is in use to the component with most of its netdevs.
func (pl *plan) giveRoots() {
	votes := map[*root]map[*segment]int{}
	for _, w := range pl.wants {
		a := pl.p.attached[w.spot]
		if a == nil || a.root.kind != w.kind {
			continue
		}
		if votes[a.root] == nil {
			votes[a.root] = map[*segment]int{}
		}
		votes[a.root][w.part]++
	}
	roots := make([]*root, 0, len(votes))
	for r := range votes {
		roots = append(roots, r)
	}
	slices.SortFunc(roots, func(a, b *root) int { return cmp.Compare(a.id, b.id) })
	for _, r := range roots {
		var best *segment
		for c, n := range votes[r] {
			if best == nil || n > votes[r][best] || n == votes[r][best] && c.ids[0] < best.ids[0] {
				best = c
			}
		}
		best.roots[r.kind] = append(best.roots[r.kind], r)
	}
}

// makeRoots makes a root for each component that needs one and has none.
func (pl *plan) makeRoots(u *undo.Stack) error {
	for _, w := range pl.wants {
		if len(w.part.roots[w.kind]) > 0 {
			continue
		}
		r, err := pl.p.newRoot(w.kind, w.part.gen.progs[w.kind.program()])
		if err != nil {
			return err
		}
		r.into = w.part.gen
		w.part.roots[w.kind] = []*root{r}
		pl.p.roots[r] = true
		u.Push(func() error {
			delete(pl.p.roots, r)
			return pl.p.collect.OrLater(r.remove)
		})
	}
	return nil
}

// attach puts roots on netdevs that have none, and makes those of ports promiscuous.
func (pl *plan) attach(u *undo.Stack) error {
	for _, w := range pl.wants {
		a := pl.p.attached[w.spot]
		if a == nil || a.mode != "" && a.mode != w.mode && w.spot.place == kindXDP {
			if err := pl.p.attachAnew(u, w); err != nil {
				return err
			}
			a = pl.p.attached[w.spot]
		} else if a.link != w.link {
			if err := pl.p.readyForXDP(u, w); err != nil {
				return err
			}
		}
		a.mode, a.link = w.mode, w.link
		if w.port && !a.port {
			if err := pl.p.promiscOn(u, w); err != nil {
				return err
			}
			a.port = true
		}
	}
	return nil
}

// attachAnew attaches a netdev. One that changes between generic and native XDP is detached
// first, since the kernel holds one of the two.
func (p *Plane) attachAnew(u *undo.Stack, w want) error {
	r := w.part.roots[w.kind][0]
	if old := p.attached[w.spot]; old != nil {
		if err := old.hold.detach(); err != nil {
			return fmt.Errorf("detaching from %s: %w", w.name, err)
		}
		delete(p.attached, w.spot)
		u.Push(func() error {
			a, err := p.attach(w.name, old.spot, old.mode, old.root)
			if err == nil {
				p.attached[w.spot] = a
			}
			return err
		})
	}
	if err := p.foreign(w.name, w.spot); err != nil {
		return err
	}
	if text := p.mtuNote(w); text != "" {
		return fmt.Errorf("attaching to %s: %s: %w", w.name, text, cube.ErrUnsupported)
	}
	if err := p.readyForXDP(u, w); err != nil {
		return err
	}
	if err := p.markGeneric(u, w); err != nil {
		return err
	}
	a, err := p.attach(w.name, w.spot, w.mode, r)
	if err != nil {
		return err
	}
	p.attached[w.spot] = a
	u.Push(func() error {
		delete(p.attached, w.spot)
		err := a.hold.detach()
		if err != nil {
			p.unpinLater(w.spot, err)
		}
		return err
	})
	return nil
}

// markGeneric notes whether a netdev has generic XDP, for packets that are passed to its stack.
func (p *Plane) markGeneric(u *undo.Stack, w want) error {
	if w.spot.place != kindXDP {
		return nil
	}
	set := bpfmap.HashSetter[uint32](p.fw.maps[abi.MapGeneric])
	ifindex, yes := uint32(w.spot.ifindex), uint32(1)
	if w.kind != kindGeneric {
		return set(ifindex, nil)
	}
	u.Push(func() error { return set(ifindex, nil) })
	return set(ifindex, &yes)
}

// move updates netdevs whose root leads to another component now.
func (pl *plan) move(u *undo.Stack) error {
	for _, w := range pl.wants {
		a := pl.p.attached[w.spot]
		if slices.Contains(w.part.roots[w.kind], a.root) {
			continue
		}
		was, now := a.root, w.part.roots[w.kind][0]
		if err := a.hold.update(now); err != nil {
			return fmt.Errorf("moving %s to another root program: %w", w.name, err)
		}
		a.root = now
		u.Push(func() error {
			a.root = was
			return a.hold.update(was)
		})
	}
	return nil
}

// detachUnused takes roots off netdevs that the new graph does not have, and removes the roots
// that no netdev has any more.
func (pl *plan) detachUnused() {
	p := pl.p
	wanted := map[spot]bool{}
	for _, w := range pl.wants {
		wanted[w.spot] = true
	}
	for s, a := range p.attached {
		if wanted[s] {
			continue
		}
		if err := a.hold.detach(); err != nil {
			p.log.Warn("detaching from a netdev", "ifindex", s.ifindex, "err", err)
			p.unpinLater(s, err)
		}
		if err := p.undoForXDP(s); err != nil {
			p.log.Warn("leaving offloads as XDP needed them", "ifindex", s.ifindex, "err", err)
		}
		if err := p.promiscOff(s); err != nil {
			p.log.Warn("leaving a netdev promiscuous", "ifindex", s.ifindex, "err", err)
		}
		if a.root.kind == kindGeneric {
			if err := bpfmap.HashSetter[uint32](p.fw.maps[abi.MapGeneric])(uint32(s.ifindex), nil); err != nil {
				p.log.Warn("forgetting a netdev", "ifindex", s.ifindex, "err", err)
			}
		}
		delete(p.attached, s)
	}
	used := map[*root]bool{}
	for _, a := range p.attached {
		used[a.root] = true
	}
	for r := range p.roots {
		if !used[r] {
			delete(p.roots, r)
			p.collect.Unpin(r.remove)
		}
	}
	for _, c := range pl.parts {
		for k := range c.roots {
			c.roots[k] = slices.DeleteFunc(c.roots[k], func(r *root) bool { return !used[r] })
		}
	}
}
