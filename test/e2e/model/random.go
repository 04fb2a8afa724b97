// SPDX-License-Identifier: Apache-2.0

// Random operations that a user might do, most of which make sense.

package model

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
)

// Generator draws operations.
type Generator struct {
	Rand *rand.Rand
	// Types are the types that new cubes get.
	Types []string
	// Limits of a world.
	Standard, Transparent int
	// Building is true while only operations that add to the world are chosen.
	Building bool
}

var standard = []string{Bridge, Bridge, Forwarder, Hello}

type weight struct {
	verb   Verb
	weight int
}

// weights are the frequencies of operations.
var weights = []weight{
	{AddCube, 14}, {DelCube, 2}, {AddPort, 24}, {DelPort, 3}, {Connect, 40}, {Disconnect, 5}, {SetPeer, 2}, {Attach, 10}, {Detach, 6},
	{Set, 16}, {SetAction, 16}, {DelAction, 1}, {AddEntry, 4}, {DelEntry, 4}, {Flush, 2}, {DelNetdev, 2}, {AddNetdev, 20},
	{NetdevDown, 2}, {NetdevUp, 20}, {Kill, 2}, {Stop, 1}, {Start, 60},
}

// Next draws an operation for a world. One of ten of those that will be refused is let through.
func (g *Generator) Next(w *World) Op {
	for {
		o := g.draw(w)
		if o.Cube == nothing || o.At == nothing || o.To == nothing || !w.Sensible(o) {
			continue
		}
		if w.Clone().Apply(o) == nil || g.Rand.IntN(10) == 0 {
			return o
		}
	}
}

// building are the weights of operations that add to a world.
var building = []weight{{AddCube, 14}, {AddPort, 30}, {Connect, 40}, {Attach, 3}, {Set, 6}, {SetAction, 12}}

func (g *Generator) verb() Verb {
	of, sum := weights, 0
	if g.Building {
		of = building
	}
	for _, v := range of {
		sum += v.weight
	}
	n := g.Rand.IntN(sum)
	for _, v := range of {
		if n -= v.weight; n < 0 {
			return v.verb
		}
	}
	return Start
}

// no operation is chosen if there is nothing to choose from.
const nothing = "nothing"

func (g *Generator) one(from []string) string {
	if len(from) == 0 {
		return nothing
	}
	return from[g.Rand.IntN(len(from))]
}

func (g *Generator) draw(w *World) Op {
	o := Op{Verb: g.verb()}
	cubes := w.Names()
	transparent := slices.DeleteFunc(slices.Clone(cubes), func(n string) bool { return w.Cubes[n].Standard() })
	devices := w.Devices()
	switch o.Verb {
	case AddCube:
		return g.addCube(w, o)
	case DelCube:
		o.Cube = g.one(cubes)
	case AddPort:
		o.At = fmt.Sprintf("%s:p%d", g.one(cubes), 1+g.Rand.IntN(4))
	case DelPort:
		o.At = g.one(w.ports())
	case Connect:
		o.At, o.To = g.one(w.free()), g.one(w.free())
		if g.Rand.IntN(2) == 0 {
			o.To = g.one(devices)
		}
	case Disconnect:
		o.At = g.one(w.ports())
		if _, p := w.port(o.At); p != nil {
			o.To = p.Peer
		}
	case SetPeer:
		o.At, o.To = g.one(w.ports()), g.one(append(w.free(), "", g.one(devices)))
	case Attach:
		o.Cube, o.To, o.Value = g.one(transparent), g.one(append(w.ports(), devices...)), g.one([]string{"first", "last"})
	case Detach:
		o.Cube = g.one(transparent)
		if c := w.Cubes[o.Cube]; c != nil {
			o.To = c.Parent
		}
	case DelNetdev, AddNetdev, NetdevDown, NetdevUp:
		o.To = g.one(devices)
	case Kill, Stop, Start:
	default:
		return g.settings(w, o)
	}
	return o
}

func (g *Generator) addCube(w *World, o Op) Op {
	o.Value = g.one(g.Types)
	free := func(prefix string, n int) string {
		for i := 1; i <= n; i++ {
			if name := fmt.Sprintf("%s%d", prefix, i); w.Cubes[name] == nil {
				return name
			}
		}
		return prefix + "1" // one that exists: refused
	}
	if g.Rand.IntN(3) == 0 {
		o.To, o.Cube = Transparent, free("t", g.Transparent)
		return o
	}
	o.To, o.Cube = g.one(standard), free("c", g.Standard)
	return o
}

// settings draws leaves and entries.
func (g *Generator) settings(w *World, o Op) Op {
	name := g.one(w.Names())
	c := w.Cubes[name]
	if c == nil {
		o.Cube = nothing
		return o
	}
	at := fmt.Sprintf("%s:p%d", name, 1+g.Rand.IntN(4))
	mac := w.Netdevs[g.one(w.Devices())].MAC
	switch o.Verb {
	case Set:
		o.Cube = name
		return g.leaf(c, o)
	case SetAction:
		o.At, o.Value = at, g.one([]string{"FORWARD", "FORWARD", "FORWARD", "FORWARD", "FORWARD", "DROP", "SLOWPATH"})
		if o.Value == "FORWARD" {
			o.To = fmt.Sprintf("p%d", 1+g.Rand.IntN(4))
		}
	case DelAction:
		o.At = at
	case DelEntry:
		o.Cube, o.Value = name, g.one(append(slices.Sorted(maps.Keys(c.Fixed)), mac))
	case AddEntry:
		o.At, o.Value = at, mac
	default:
		o.Cube, o.Value = name, mac
	}
	return o
}

func (g *Generator) leaf(c *Cube, o Op) Op {
	o.To, o.Value = "loglevel", g.one([]string{"INFO", "DEBUG", "TRACE"})
	if g.Rand.IntN(4) == 0 {
		return o
	}
	switch c.Service {
	case Bridge:
		o.To, o.Value = agingTime, g.one([]string{"0", "600", "3600"})
	case Hello:
		o.To, o.Value = "action", g.one([]string{"FORWARD", "FORWARD", "FORWARD", "FORWARD", "DROP", "SLOWPATH"})
	case Transparent:
		o.To = g.one([]string{"ingress-action", "egress-action"})
		o.Value = g.one([]string{"PASS", "PASS", "PASS", "PASS", "SLOWPATH", "DROP"})
	}
	return o
}

// ports lists all of them as places.
func (w *World) ports() (out []string) {
	for _, name := range w.Names() {
		for _, p := range w.Cubes[name].Ports {
			out = append(out, name+":"+p.Name)
		}
	}
	return out
}

// free lists the ports without a peer.
func (w *World) free() []string {
	return slices.DeleteFunc(w.ports(), func(at string) bool { _, p := w.port(at); return p.Peer != "" })
}

// Sensible reports whether an operation is possible in a world, and leads to a world in which every frame has one path:
// without loops of cubes, where frames would circulate until the hop limit, on paths that depend on how cubes are
// linked.
func (w *World) Sensible(o Op) bool {
	if o.OnDaemon() {
		return w.Down == (o.Verb == Start)
	}
	if o.OnNetdev() {
		n := w.Netdevs[o.To]
		return n.Present == (o.Verb != AddNetdev) && (o.Verb != NetdevUp || !n.Up) && (o.Verb != NetdevDown || n.Up)
	}
	if w.Down {
		return false
	}
	if o.Verb == SetAction {
		_, port := place(o.At)
		return o.To != port
	}
	next := w.Clone()
	return next.Apply(o) != nil || !next.loops()
}

// loops reports whether links between cubes, including those that only one side names, form a loop.
func (w *World) loops() bool {
	group := map[string]string{}
	var find func(string) string
	find = func(name string) string {
		if group[name] == "" || group[name] == name {
			return name
		}
		return find(group[name])
	}
	seen := map[[2]string]bool{}
	for _, at := range w.ports() {
		_, p := w.port(at)
		if p.Peer == "" || w.Netdevs[p.Peer] != nil || seen[[2]string{p.Peer, at}] {
			continue
		}
		seen[[2]string{at, p.Peer}] = true
		one, _ := place(at)
		other, _ := place(p.Peer)
		if find(one) == find(other) {
			return true
		}
		group[find(one)] = find(other)
	}
	return false
}
