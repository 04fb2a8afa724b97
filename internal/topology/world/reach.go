// SPDX-License-Identifier: Apache-2.0

package world

// What a transaction can affect. Of a thousand cubes it changes a few, and affects those linked to them; everything
// derived from the others is kept. To find out, each cube is looked at once and, if a link, a chain or a netdev
// differs, each port.

import (
	"cmp"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/polycube/polycube/internal/datapath"
)

// Reach is what a transaction can affect.
type Reach struct {
	// All is set if anything may differ.
	All bool
	// Changed are the cubes whose records differ, Near the cubes linked to one of them.
	Changed, Near map[string]bool
	// Wired is set when ports, links, chains or netdevs differ.
	Wired bool
}

// ReachFrom compares a world under construction, in its present state, with the previous one. all is set if nothing
// derived from the previous one can be kept.
func (w *World) ReachFrom(old *World, all bool) *Reach {
	r := &Reach{All: all, Changed: map[string]bool{}, Near: map[string]bool{}}
	if !maps.Equal(old.Broken, w.Broken) {
		r.All = true
	}
	for name, rec := range w.Cubes {
		if was := old.Cubes[name]; was != rec {
			r.Changed[name] = true
			r.Wired = r.Wired || !rec.wiredLike(was)
		}
	}
	for name := range old.Cubes {
		if w.Cubes[name] == nil {
			r.Changed[name], r.Wired = true, true
		}
	}
	devices := map[string]bool{}
	for _, name := range w.ChainsChanged(old) {
		devices[name] = true
	}
	if w.ownLinks && !maps.Equal(old.Links, w.Links) {
		for _, links := range []map[string]Link{old.Links, w.Links} {
			for name := range links {
				if old.Links[name] != w.Links[name] {
					devices[name] = true
				}
			}
		}
	}
	maps.Copy(r.Near, r.Changed)
	if r.Wired = r.Wired || r.All || len(devices) > 0; r.Wired {
		r.spread(old, w, devices)
	}
	return r
}

// spread finds what is linked to changed cubes.
func (r *Reach) spread(old, w *World, devices map[string]bool) {
	for name := range r.Changed {
		for _, rec := range []*Cube{old.Cubes[name], w.Cubes[name]} {
			for _, p := range rec.PortsOf() {
				if far, _, ok := strings.Cut(p.Peer, ":"); ok {
					r.Near[far] = true
				}
			}
			for _, o := range rec.outputsOf() {
				if far, _, ok := strings.Cut(o.To, ":"); ok {
					r.Near[far] = true
				}
			}
		}
	}
	for name, rec := range w.Cubes {
		if r.Near[name] {
			continue
		}
		for _, p := range rec.Ports {
			far, _, isCube := strings.Cut(p.Peer, ":")
			if isCube && r.Changed[far] || !isCube && devices[p.Peer] {
				r.Near[name] = true
				break
			}
		}
		for _, o := range rec.Outputs {
			far, _, isCube := strings.Cut(o.To, ":")
			if isCube && r.Changed[far] || !isCube && devices[o.To] {
				r.Near[name] = true
				break
			}
		}
	}
}

// wiredLike reports whether two records of a cube are the same to other cubes: its hook, its ports and their links.
func (r *Cube) wiredLike(o *Cube) bool {
	return o != nil && r.ID == o.ID && r.UUID == o.UUID && r.Type == o.Type && r.Shadow == o.Shadow && r.Span == o.Span &&
		r.Parent == o.Parent && slices.Equal(r.Outputs, o.Outputs) && maps.EqualFunc(r.Ports, o.Ports, func(p, q *Port) bool {
		return p.Index == q.Index && p.Slot == q.Slot && p.Peer == q.Peer && p.Outer == q.Outer && p.InnerDown == q.InnerDown &&
			slices.Equal(p.Tcubes, q.Tcubes)
	})
}

// RecordsOf are the existing records with these names, in order of creation.
func (w *World) RecordsOf(names map[string]bool) []*Cube {
	var recs []*Cube
	for name := range names {
		if rec := w.Cubes[name]; rec != nil {
			recs = append(recs, rec)
		}
	}
	slices.SortFunc(recs, func(a, b *Cube) int { return cmp.Compare(a.Seq, b.Seq) })
	return recs
}

// GraphAfter derives the desired state from base, that of the previous world, within the reach of the change.
func (w *World) GraphAfter(old *World, base *datapath.Graph, r *Reach, by Programs) *datapath.Graph {
	g := &datapath.Graph{Cubes: maps.Clone(base.Cubes), Netdevs: base.Netdevs, Host: base.Host, Trace: w.Trace}
	apart := &datapath.Graph{Netdevs: map[string]*datapath.Netdev{}}
	for name := range r.Near {
		if was := old.Cubes[name]; was != nil {
			delete(g.Cubes, was.ID)
		}
	}
	for _, rec := range w.RecordsOf(r.Near) {
		was := base.Cubes[rec.ID]
		node := w.node(rec, by)
		if was != nil && !r.Wired {
			node.Ports, node.Outputs = was.Ports, was.Outputs
		} else {
			w.addPorts(apart, node, rec, was)
		}
		if was != nil && reflect.DeepEqual(was, node) {
			node = was
		}
		g.Cubes[rec.ID] = node
	}
	if r.Wired {
		g.Netdevs, g.Host = w.netdevs(base)
	}
	return g
}

// ChainsChanged are the netdevs whose transparent cubes differ from the previous world.
func (w *World) ChainsChanged(old *World) []string {
	var out []string
	for _, name := range slices.Sorted(maps.Keys(w.Chains)) {
		if !slices.Equal(w.Chains[name], old.Chains[name]) {
			out = append(out, name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(old.Chains)) {
		if _, still := w.Chains[name]; !still {
			out = append(out, name)
		}
	}
	return out
}

// netdevs derives the netdevs of the graph, and what is at the host's stack. What did not change is taken from base.
func (w *World) netdevs(base *datapath.Graph) (map[string]*datapath.Netdev, *datapath.Host) {
	g := &datapath.Graph{Netdevs: map[string]*datapath.Netdev{}}
	w.addChains(g)
	for _, rec := range w.AllRunning() {
		for _, p := range rec.Ports {
			if p.Peer == "" || strings.Contains(p.Peer, ":") {
				continue
			}
			if _, whole := w.ChainIDs(p.Tcubes); whole {
				w.peer(g, rec, p)
			}
		}
		w.outputs(g, rec)
	}
	for name, dev := range g.Netdevs {
		if was := base.Netdevs[name]; was != nil && reflect.DeepEqual(was, dev) {
			g.Netdevs[name] = was
		}
	}
	if g.Host.Same(base.Host) {
		g.Host = base.Host
	}
	return g.Netdevs, g.Host
}
