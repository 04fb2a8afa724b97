// SPDX-License-Identifier: Apache-2.0

package topology

// How far a transaction reaches. Of a thousand cubes it changes a few, and has to do with those that they are linked to;
// what is derived of the others stays. The answer costs a look at each cube and, if a link, a chain or a netdev is
// another, at each port.

import (
	"cmp"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/polycube/polycube/internal/datapath"
)

// reach is what a transaction can have an effect on.
type reach struct {
	// all is set where anything may be different.
	all bool
	// changed are the cubes whose records differ, near those that have to do with one of them.
	changed, near map[string]bool
	// wired is set when ports, links, chains or netdevs differ.
	wired bool
}

// reachOf compares a world that is being made, as far as it is made, with the one before. all is set where what is derived
// of the old one is no help.
func (w *world) reachOf(old *world, all bool) *reach {
	r := &reach{all: all, changed: map[string]bool{}, near: map[string]bool{}}
	if !maps.Equal(old.broken, w.broken) {
		r.all = true
	}
	for name, rec := range w.cubes {
		if was := old.cubes[name]; was != rec {
			r.changed[name] = true
			r.wired = r.wired || !rec.wiredLike(was)
		}
	}
	for name := range old.cubes {
		if w.cubes[name] == nil {
			r.changed[name], r.wired = true, true
		}
	}
	devices := map[string]bool{}
	for _, name := range w.chainsChanged(old) {
		devices[name] = true
	}
	if !maps.Equal(old.links, w.links) {
		for _, links := range []map[string]link{old.links, w.links} {
			for name := range links {
				if old.links[name] != w.links[name] {
					devices[name] = true
				}
			}
		}
	}
	maps.Copy(r.near, r.changed)
	if r.wired = r.wired || r.all || len(devices) > 0; r.wired {
		r.spread(old, w, devices)
	}
	return r
}

// spread finds what is linked to what changed.
func (r *reach) spread(old, w *world, devices map[string]bool) {
	for name := range r.changed {
		for _, rec := range []*record{old.cubes[name], w.cubes[name]} {
			for _, p := range rec.portsOf() {
				if far, _, ok := strings.Cut(p.peer, ":"); ok {
					r.near[far] = true
				}
			}
		}
	}
	for name, rec := range w.cubes {
		if r.near[name] {
			continue
		}
		for _, p := range rec.ports {
			far, _, isCube := strings.Cut(p.peer, ":")
			if isCube && r.changed[far] || !isCube && devices[p.peer] {
				r.near[name] = true
				break
			}
		}
	}
}

// wiredLike tells that two records of a cube are the same to others: its hook, its ports and what they are linked to.
func (r *record) wiredLike(o *record) bool {
	return o != nil && r.id == o.id && r.uuid == o.uuid && r.typ == o.typ && r.shadow == o.shadow && r.span == o.span &&
		r.parent == o.parent && maps.EqualFunc(r.ports, o.ports, func(p, q *port) bool {
		return p.index == q.index && p.slot == q.slot && p.peer == q.peer && p.outer == q.outer && p.innerDown == q.innerDown &&
			slices.Equal(p.tcubes, q.tcubes)
	})
}

// recordsOf are the records with these names that are there, by creation.
func (w *world) recordsOf(names map[string]bool) []*record {
	var recs []*record
	for name := range names {
		if rec := w.cubes[name]; rec != nil {
			recs = append(recs, rec)
		}
	}
	slices.SortFunc(recs, func(a, b *record) int { return cmp.Compare(a.seq, b.seq) })
	return recs
}

// graphAfter derives the desired state from that of the world before, base, within the reach of what changed.
func (w *world) graphAfter(old *world, base *datapath.Graph, r *reach, by programmer) *datapath.Graph {
	g := &datapath.Graph{Cubes: maps.Clone(base.Cubes), Netdevs: base.Netdevs, Trace: w.trace}
	apart := &datapath.Graph{Netdevs: map[string]*datapath.Netdev{}}
	for name := range r.near {
		if was := old.cubes[name]; was != nil {
			delete(g.Cubes, was.id)
		}
	}
	for _, rec := range w.recordsOf(r.near) {
		node := w.node(apart, rec, by)
		if was := base.Cubes[rec.id]; was != nil && reflect.DeepEqual(was, node) {
			node = was
		}
		g.Cubes[rec.id] = node
	}
	if r.wired {
		g.Netdevs = w.netdevs(base)
	}
	return g
}

// chainsChanged are the netdevs whose transparent cubes are others than in the world before.
func (w *world) chainsChanged(old *world) []string {
	var out []string
	for _, name := range slices.Sorted(maps.Keys(w.chains)) {
		if !slices.Equal(w.chains[name], old.chains[name]) {
			out = append(out, name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(old.chains)) {
		if _, still := w.chains[name]; !still {
			out = append(out, name)
		}
	}
	return out
}

// netdevs derives those of the graph. The ones that are as they were in base are taken from there.
func (w *world) netdevs(base *datapath.Graph) map[string]*datapath.Netdev {
	g := &datapath.Graph{Netdevs: map[string]*datapath.Netdev{}}
	for name, chain := range w.chains {
		ids, _ := w.chainIDs(chain)
		w.addNetdev(g, name).Tcubes = ids
	}
	for _, rec := range w.allRunning() {
		for _, p := range rec.ports {
			if p.peer == "" || strings.Contains(p.peer, ":") {
				continue
			}
			if _, whole := w.chainIDs(p.tcubes); whole {
				w.peer(g, rec, p)
			}
		}
	}
	for name, dev := range g.Netdevs {
		if was := base.Netdevs[name]; was != nil && reflect.DeepEqual(was, dev) {
			g.Netdevs[name] = was
		}
	}
	return g.Netdevs
}
