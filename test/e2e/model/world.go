// SPDX-License-Identifier: Apache-2.0

// Package model is a reference model: a graph of cubes, which changes of it are refused, and where a frame that enters
// it ends. It has no side effects, is small and slow, and is independent of the daemon's implementation, so that random
// operations on a real daemon can be compared with it.
package model

import (
	"maps"
	"slices"
	"strings"
)

// The services that the model knows.
const (
	Bridge      = "simplebridge"
	Forwarder   = "simpleforwarder"
	Hello       = "helloworld"
	Transparent = "transparenthelloworld"
)

// World is the state of a machine: its cubes, its network devices, and whether the daemon runs.
type World struct {
	Cubes   map[string]*Cube
	Netdevs map[string]*Netdev
	// Down is true while no daemon runs.
	Down bool
}

// Netdev is a network device with a host behind it.
type Netdev struct {
	Name string
	// MAC is the address of the host.
	MAC string
	// Present and Up are the state of the device; a host sends only when both hold.
	Present, Up bool
	// Chain are its transparent cubes, in ingress order.
	Chain []string
	// Touched is true once it was changed while no daemon runs: until the next one starts, nothing is promised of it.
	Touched bool
}

// Cube is an instance of a service.
type Cube struct {
	Name, Service, Type string
	// Loglevel is the leaf; only a level that compiles other code in or out matters.
	Loglevel string
	// Ports in the order in which they were made.
	Ports []*Port
	// Parent is where a transparent cube is attached, "" for nowhere.
	Parent string
	// Action of a helloworld; Ingress and Egress of a transparenthelloworld.
	Action, Ingress, Egress string
	// Actions of a simpleforwarder, by port.
	Actions map[string]Action
	// Fixed and Learned are the addresses that a simplebridge knows, with their ports.
	Fixed, Learned map[string]string
	// Aging is the leaf fdb/aging-time.
	Aging int
}

// Action is an entry of a simpleforwarder.
type Action struct{ Verb, Out string }

// Port is a port of a standard cube.
type Port struct {
	Name, Peer string
	// Tcubes are its transparent cubes, the first next to the cube.
	Tcubes []string
}

// New creates a world of existing network devices that are up.
func New(netdevs ...Netdev) *World {
	w := &World{Cubes: map[string]*Cube{}, Netdevs: map[string]*Netdev{}}
	for _, n := range netdevs {
		n.Present, n.Up = true, true
		w.Netdevs[n.Name] = &n
	}
	return w
}

// Clone is a copy that shares nothing.
func (w *World) Clone() *World {
	c := &World{Cubes: map[string]*Cube{}, Netdevs: map[string]*Netdev{}, Down: w.Down}
	for name, n := range w.Netdevs {
		d := *n
		d.Chain = slices.Clone(n.Chain)
		c.Netdevs[name] = &d
	}
	for name, q := range w.Cubes {
		d := *q
		d.Ports = nil
		for _, p := range q.Ports {
			d.Ports = append(d.Ports, &Port{p.Name, p.Peer, slices.Clone(p.Tcubes)})
		}
		d.Actions, d.Fixed, d.Learned = maps.Clone(q.Actions), maps.Clone(q.Fixed), maps.Clone(q.Learned)
		c.Cubes[name] = &d
	}
	return c
}

// Names are the cubes, sorted.
func (w *World) Names() []string { return slices.Sorted(maps.Keys(w.Cubes)) }

// Devices are the network devices, sorted.
func (w *World) Devices() []string { return slices.Sorted(maps.Keys(w.Netdevs)) }

// Hook is the family of hooks that a type belongs to.
func Hook(kind string) string {
	kind, _, _ = strings.Cut(kind, "_")
	return kind
}

// Standard distinguishes cubes with ports from transparent ones.
func (c *Cube) Standard() bool { return c.Service != Transparent }

// Port returns a port by name, or nil.
func (c *Cube) Port(name string) *Port {
	for _, p := range c.Ports {
		if p.Name == name {
			return p
		}
	}
	return nil
}

// place splits cube:port; port is "" for a network device.
func place(at string) (cube, port string) {
	cube, port, _ = strings.Cut(at, ":")
	return cube, port
}

// port returns the port at a place like cube:port.
func (w *World) port(at string) (*Cube, *Port) {
	name, port := place(at)
	c := w.Cubes[name]
	if c == nil || port == "" {
		return nil, nil
	}
	return c, c.Port(port)
}

// Holder returns the port whose peer is the network device, "" for none.
func (w *World) Holder(netdev string) string {
	for _, name := range w.Names() {
		for _, p := range w.Cubes[name].Ports {
			if p.Peer == netdev {
				return name + ":" + p.Name
			}
		}
	}
	return ""
}

// Linked reports whether packets can cross between a port and its peer.
func (w *World) Linked(c *Cube, p *Port) bool {
	if p.Peer == "" {
		return false
	}
	if n := w.Netdevs[p.Peer]; n != nil {
		return n.Present && n.Up
	}
	_, far := w.port(p.Peer)
	return far != nil && far.Peer == c.Name+":"+p.Name
}

// chain returns the list of transparent cubes at a place, nil if the place does not exist.
func (w *World) chain(at string) *[]string {
	if n := w.Netdevs[at]; n != nil {
		return &n.Chain
	}
	if _, p := w.port(at); p != nil {
		return &p.Tcubes
	}
	return nil
}

// hookAt is the family of hooks at a place, "" where any will do.
func (w *World) hookAt(at string) string {
	if c, _ := w.port(at); c != nil {
		return Hook(c.Type)
	}
	n := w.Netdevs[at]
	if n == nil {
		return ""
	}
	if c, _ := w.port(w.Holder(at)); c != nil {
		return Hook(c.Type)
	}
	if len(n.Chain) > 0 {
		return Hook(w.Cubes[n.Chain[0]].Type)
	}
	return ""
}
