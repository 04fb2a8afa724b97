// SPDX-License-Identifier: Apache-2.0

package stp

// The expected tree, computed from the whole network at once, which no bridge can do.

import (
	"cmp"
	"math"
)

// offer is what an end advertises on its wire: its distance to the root.
type offer struct {
	cost   uint64
	bridge BridgeID
	port   PortID
}

func (o offer) compare(p offer) int {
	return cmp.Or(cmp.Compare(o.cost, p.cost), cmp.Compare(o.bridge, p.bridge), cmp.Compare(o.port, p.port))
}

// reference returns the roles of all ends of wires that are up.
func (n *network) reference() map[end]Role {
	roots, cost := n.distances()
	roles := map[end]Role{}
	best := map[*wire]end{}
	offerOf := func(e end) offer {
		d := n.nodes[e.node]
		return offer{cost[e.node], d.cfg.ID, d.ids[e.port]}
	}
	for _, w := range n.wires {
		for _, e := range n.live(w) {
			if first, ok := best[w]; !ok || offerOf(e).compare(offerOf(first)) < 0 {
				best[w] = e
			}
		}
	}
	for i, d := range n.nodes {
		var root end
		var through offer
		found := false
		for port, w := range d.wires {
			e := end{i, port}
			b, ok := best[w]
			if !w.up || !d.alive || !ok {
				continue
			}
			switch {
			case b == e:
				roles[e] = DesignatedPort
				continue
			case b.node == i:
				roles[e] = BackupPort
				continue
			}
			roles[e] = AlternatePort
			o := offerOf(b)
			o.cost += uint64(d.costs[port])
			c := o.compare(through)
			if roots[i] != d.cfg.ID && (!found || c < 0 || c == 0 && d.ids[port] < d.ids[root.port]) {
				root, through, found = e, o, true
			}
		}
		if found {
			roles[root] = RootPort
		}
	}
	return roles
}

func (n *network) live(w *wire) (out []end) {
	for _, e := range w.ends {
		if w.up && n.nodes[e.node].alive {
			out = append(out, e)
		}
	}
	return out
}

// distances finds each node's root, the best that it can reach, and the cost of getting there.
func (n *network) distances() ([]BridgeID, []uint64) {
	roots, cost := make([]BridgeID, len(n.nodes)), make([]uint64, len(n.nodes))
	for i, d := range n.nodes {
		roots[i] = d.cfg.ID
	}
	relax := func(try func(from, to end)) {
		for range n.nodes {
			for _, w := range n.wires {
				for _, a := range n.live(w) {
					for _, b := range n.live(w) {
						try(a, b)
					}
				}
			}
		}
	}
	relax(func(a, b end) { roots[b.node] = min(roots[b.node], roots[a.node]) })
	for i, d := range n.nodes {
		if roots[i] != d.cfg.ID {
			cost[i] = math.MaxUint64 / 2
		}
	}
	relax(func(a, b end) { cost[b.node] = min(cost[b.node], cost[a.node]+uint64(n.nodes[b.node].costs[b.port])) })
	return roots, cost
}

// wrong returns where the network differs from the reference.
func (n *network) wrong() (out []string) {
	roots, cost := n.distances()
	for e, want := range n.reference() {
		d := n.nodes[e.node]
		forwards := want == RootPort || want == DesignatedPort
		if is := d.role(e.port); is != want || (d.state[e.port] == Forwarding) != forwards {
			out = append(out, cmpText(e, is, d.state[e.port], want))
		}
		if root, is := d.root(); root != roots[e.node] || uint64(is) != cost[e.node] {
			out = append(out, cmpText(e, root, is, roots[e.node], cost[e.node]))
		}
		if d.classic == nil && d.Status().Stalled != 0 {
			out = append(out, cmpText(e, "stalled", d.Status().Stalled))
		}
	}
	return out
}
