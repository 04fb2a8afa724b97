// SPDX-License-Identifier: Apache-2.0

// Where a frame ends, step by step according to docs/guide/how-it-works.md.

package model

import "slices"

// Broadcast is the address of everybody.
const Broadcast = "ff:ff:ff:ff:ff:ff"

// Outcome is the result of frames. Passing the same one to several walks sums them.
type Outcome struct {
	// Arrive counts the copies that reach the host behind a network device, by device.
	Arrive map[string]int
	// Fates counts packets by cube and fate.
	Fates map[string]map[string]int
	// Rx and Tx count packets by port, cube:port.
	Rx, Tx map[string]int
	// Vague are cubes whose counters are not guaranteed, Loose the devices whose hosts may receive more than Arrive
	// says.
	Vague, Loose map[string]bool
	// Detours counts packets that went through user space.
	Detours int
}

// NewOutcome is one of nothing.
func NewOutcome() *Outcome {
	return &Outcome{Arrive: map[string]int{}, Fates: map[string]map[string]int{}, Rx: map[string]int{}, Tx: map[string]int{},
		Vague: map[string]bool{}, Loose: map[string]bool{}}
}

func (o *Outcome) fate(cube, name string) {
	if o.Fates[cube] == nil {
		o.Fates[cube] = map[string]int{}
	}
	o.Fates[cube][name]++
}

// walk is the path of one frame.
type walk struct {
	w        *World
	o        *Outcome
	src, dst string
}

// FromHost sends a frame from the host behind a network device, and updates the learned addresses of bridges.
func (w *World) FromHost(netdev, dst string, o *Outcome) {
	n := w.Netdevs[netdev]
	if !n.Present || !n.Up {
		return
	}
	f := walk{w, o, n.MAC, dst}
	holder := w.Holder(netdev)
	if holder != "" {
		o.Rx[holder]++
	}
	for _, t := range n.Chain {
		if !f.transparent(t, "ingress") {
			return
		}
	}
	switch c, p := w.port(holder); {
	case c != nil:
		f.enter(c, p)
	case len(n.Chain) > 0:
		o.fate(n.Chain[len(n.Chain)-1], "pass")
	}
}

// FromStack sends a frame of the machine itself out of a network device.
func (w *World) FromStack(netdev, src, dst string, o *Outcome) {
	n := w.Netdevs[netdev]
	if n.Present && n.Up {
		f := walk{w, o, src, dst}
		f.wire(n)
	}
}

// transparent passes a frame through a transparent cube and reports whether it continues.
func (f *walk) transparent(name, direction string) bool {
	c := f.w.Cubes[name]
	action := c.Ingress
	if direction == "egress" {
		action = c.Egress
	}
	switch action {
	case "DROP":
		f.o.fate(name, direction+"-drop")
		return false
	case "SLOWPATH":
		f.o.fate(name, "slowpath")
		f.o.Detours++
	}
	return true
}

// enter passes a frame to a port from outside.
func (f *walk) enter(c *Cube, p *Port) {
	for _, t := range slices.Backward(p.Tcubes) {
		if !f.transparent(t, "ingress") {
			return
		}
	}
	switch c.Service {
	case Bridge:
		f.bridge(c, p)
	case Forwarder:
		f.forward(c, p)
	case Hello:
		f.hello(c, p)
	}
}

func (f *walk) bridge(c *Cube, in *Port) {
	if c.Fixed[f.src] == "" {
		c.Learned[f.src] = in.Name
	}
	to := c.Fixed[f.dst]
	if to == "" {
		to = c.Learned[f.dst]
	}
	switch {
	case f.dst == Broadcast || to == "":
		f.flood(c, in)
	case to == in.Name:
		f.o.fate(c.Name, "same-port")
	default:
		f.leave(c, c.Port(to))
	}
}

// flood copies a frame to every other port that leads anywhere, be it only to a transparent cube.
func (f *walk) flood(c *Cube, in *Port) {
	var to []*Port
	for _, p := range c.Ports {
		n := f.w.Netdevs[p.Peer]
		if p != in && (len(p.Tcubes) > 0 || n != nil && n.Touched || f.w.Linked(c, p)) {
			to = append(to, p)
		}
	}
	if len(to) == 0 {
		f.o.fate(c.Name, "no-peer")
		return
	}
	f.o.fate(c.Name, "flood")
	for _, p := range to {
		f.leave(c, p)
	}
}

func (f *walk) forward(c *Cube, in *Port) {
	a := c.Actions[in.Name]
	switch a.Verb {
	case "FORWARD":
		f.leave(c, c.Port(a.Out))
	case "DROP":
		f.o.fate(c.Name, "action-drop")
	case "SLOWPATH":
		f.o.fate(c.Name, "slowpath")
		f.o.Detours++
	default:
		f.o.fate(c.Name, "no-action")
	}
}

func (f *walk) hello(c *Cube, in *Port) {
	switch c.Action {
	case "DROP":
		f.o.fate(c.Name, "action-drop")
		return
	case "SLOWPATH":
		f.o.fate(c.Name, "slowpath")
		f.o.Detours++
		return
	}
	for _, p := range c.Ports {
		if p != in {
			f.leave(c, p)
			return
		}
	}
	f.o.fate(c.Name, "no-other-port")
}

// leave sends a frame out of a port.
func (f *walk) leave(c *Cube, p *Port) {
	for _, t := range p.Tcubes {
		if !f.transparent(t, "egress") {
			return
		}
	}
	me := c.Name + ":" + p.Name
	if n := f.w.Netdevs[p.Peer]; n != nil {
		if n.Touched {
			f.o.Vague[c.Name], f.o.Loose[n.Name] = true, true
			return
		}
		if !f.w.Linked(c, p) {
			f.o.fate(c.Name, "no-peer")
			return
		}
		f.o.Tx[me]++
		f.wire(n)
		return
	}
	if !f.w.Linked(c, p) {
		f.o.fate(c.Name, "no-peer")
		return
	}
	f.o.Tx[me]++
	f.o.Rx[p.Peer]++
	f.enter(f.w.port(p.Peer))
}

// wire passes a frame through the transparent cubes of a network device to its host.
func (f *walk) wire(n *Netdev) {
	for _, t := range slices.Backward(n.Chain) {
		if !f.transparent(t, "egress") {
			return
		}
	}
	if len(n.Chain) > 0 {
		f.o.fate(n.Chain[0], "pass")
	}
	f.o.Arrive[n.Name]++
}
