// SPDX-License-Identifier: Apache-2.0

// Which operations are refused, and the effect of the others.

package model

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
)

// ErrRefused is why an operation is refused.
var ErrRefused = errors.New("refused")

func refuse(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrRefused, fmt.Sprintf(format, args...))
}

// Service returns the service of the cube that an operation is about, "" if there is none.
func (w *World) Service(o Op) string {
	name := o.Cube
	if o.At != "" {
		name, _ = place(o.At)
	}
	if c := w.Cubes[name]; c != nil {
		return c.Service
	}
	return ""
}

// Apply executes an operation, or leaves the world unchanged and returns an ErrRefused. Operations on devices and on
// the daemon cannot be refused.
func (w *World) Apply(o Op) error {
	switch {
	case o.OnDaemon():
		w.daemon(o)
		return nil
	case o.OnNetdev():
		w.netdev(o)
		return nil
	case w.Down:
		return refuse("no daemon runs")
	}
	next := w.Clone()
	if err := next.change(o); err != nil {
		return err
	}
	next.forget(w)
	*w = *next
	return nil
}

func (w *World) change(o Op) error {
	switch o.Verb {
	case AddCube:
		return w.addCube(o)
	case DelCube:
		return w.delCube(o)
	case AddPort, DelPort:
		return w.changePorts(o)
	case Connect:
		return w.connect(o)
	case Disconnect:
		return w.disconnect(o)
	case SetPeer:
		return w.setPeer(o.At, o.To)
	case Attach:
		return w.attach(o)
	case Detach:
		return w.detach(o)
	case Set:
		return w.set(o)
	case SetAction, DelAction:
		return w.action(o)
	default:
		return w.database(o)
	}
}

func (w *World) addCube(o Op) error {
	if w.Cubes[o.Cube] != nil {
		return refuse("%s exists", o.Cube)
	}
	c := &Cube{Name: o.Cube, Service: o.To, Type: o.Value, Loglevel: "INFO"}
	switch o.To {
	case Bridge:
		c.Fixed, c.Learned, c.Aging = map[string]string{}, map[string]string{}, 300
	case Forwarder:
		c.Actions = map[string]Action{}
	case Hello:
		c.Action = "DROP"
	case Transparent:
		c.Ingress, c.Egress = "PASS", "PASS"
	}
	w.Cubes[o.Cube] = c
	return nil
}

func (w *World) delCube(o Op) error {
	c := w.Cubes[o.Cube]
	if c == nil {
		return refuse("no %s", o.Cube)
	}
	for _, p := range slices.Clone(c.Ports) {
		w.dropPort(c, p)
	}
	if at := w.chain(c.Parent); at != nil {
		*at = slices.DeleteFunc(*at, func(t string) bool { return t == o.Cube })
	}
	delete(w.Cubes, o.Cube)
	return nil
}

// dropPort removes a port: its transparent cubes are detached, and the far side's peer is empty.
func (w *World) dropPort(c *Cube, p *Port) {
	for _, t := range p.Tcubes {
		w.Cubes[t].Parent = ""
	}
	me := c.Name + ":" + p.Name
	for _, far := range w.Cubes {
		for _, q := range far.Ports {
			if q.Peer == me {
				q.Peer = ""
			}
		}
	}
	c.Ports = slices.DeleteFunc(c.Ports, func(q *Port) bool { return q == p })
}

func (w *World) changePorts(o Op) error {
	c, p := w.port(o.At)
	_, name := place(o.At)
	switch {
	case c == nil || !c.Standard():
		return refuse("%s has no ports", o.At)
	case o.Verb == AddPort && p != nil, o.Verb == DelPort && p == nil:
		return refuse("%s: there is one, or none", o.At)
	case o.Verb == AddPort && c.Service == Hello && len(c.Ports) == 2:
		return refuse("%s has two ports", c.Name)
	case o.Verb == AddPort:
		c.Ports = append(c.Ports, &Port{Name: name})
		return nil
	}
	for in, a := range c.Actions {
		if in == name || a.Out == name {
			return refuse("an action names %s", o.At)
		}
	}
	if slices.Contains(slices.Collect(maps.Values(c.Fixed)), name) {
		return refuse("an entry names %s", o.At)
	}
	w.dropPort(c, p)
	return nil
}

func (w *World) connect(o Op) error {
	for _, at := range []string{o.At, o.To} {
		far := o.To
		if at == o.To {
			far = o.At
		}
		if w.Netdevs[at] != nil {
			continue
		}
		_, p := w.port(at)
		if p == nil {
			return refuse("no port %s", at)
		}
		if p.Peer != "" && p.Peer != far {
			return refuse("%s has a peer", at)
		}
		if p.Peer == "" {
			w.leaveBehind(at, far)
		}
	}
	if err := w.setPeer(o.At, o.To); err != nil {
		return err
	}
	if w.Netdevs[o.To] != nil {
		return nil
	}
	return w.setPeer(o.To, o.At)
}

func (w *World) disconnect(o Op) error {
	_, p := w.port(o.At)
	_, far := w.port(o.To)
	mine := p != nil && p.Peer == o.To
	theirs := far != nil && far.Peer == o.At
	if p == nil || far == nil && w.Netdevs[o.To] == nil || !mine && !theirs {
		return refuse("%s and %s are not connected", o.At, o.To)
	}
	if mine {
		p.Peer = ""
	}
	if theirs {
		far.Peer = ""
	}
	return nil
}

// setPeer gives a port another peer, or none.
func (w *World) setPeer(at, peer string) error {
	c, p := w.port(at)
	if p == nil {
		return refuse("no port %s", at)
	}
	if p.Peer == peer {
		return nil
	}
	if err := w.checkPeer(c, at, peer); err != nil {
		return err
	}
	p.Peer = peer
	w.leaveBehind(at, peer)
	return nil
}

// leaveBehind clears the peer of ports that name a port which gets another peer.
func (w *World) leaveBehind(at, peer string) {
	for _, other := range w.Cubes {
		for _, q := range other.Ports {
			if peer != "" && q.Peer == at && other.Name+":"+q.Name != peer {
				q.Peer = ""
			}
		}
	}
}

func (w *World) checkPeer(c *Cube, at, peer string) error {
	if peer == "" {
		return nil
	}
	if peer == at {
		return refuse("%s is its own peer", at)
	}
	if holder := w.Holder(peer); holder != "" && holder != at {
		return refuse("%s is the peer of %s", peer, holder)
	}
	if n := w.Netdevs[peer]; n != nil {
		if !n.Present || !n.Up {
			return refuse("%s is not there or not up", peer)
		}
		if len(n.Chain) > 0 && Hook(w.Cubes[n.Chain[0]].Type) != Hook(c.Type) {
			return refuse("%s has cubes of another hook", peer)
		}
		return nil
	}
	far, q := w.port(peer)
	switch {
	case q == nil:
		return refuse("no port %s", peer)
	case Hook(far.Type) != Hook(c.Type):
		return refuse("%s and %s are of two hooks", at, peer)
	case q.Peer != "" && q.Peer != at:
		return refuse("%s has a peer", peer)
	}
	return nil
}

func (w *World) attach(o Op) error {
	c, at := w.Cubes[o.Cube], w.chain(o.To)
	n := w.Netdevs[o.To]
	switch {
	case c == nil || c.Standard():
		return refuse("%s is no transparent cube", o.Cube)
	case c.Parent != "":
		return refuse("%s is attached", o.Cube)
	case at == nil || n != nil && !n.Present:
		return refuse("no place %s", o.To)
	}
	if hook := w.hookAt(o.To); hook != "" && hook != Hook(c.Type) {
		return refuse("%s is of another hook than %s", o.Cube, o.To)
	}
	i := 0
	if o.Value == "last" {
		i = len(*at)
	}
	*at = slices.Insert(*at, i, o.Cube)
	c.Parent = o.To
	return nil
}

func (w *World) detach(o Op) error {
	c := w.Cubes[o.Cube]
	if c == nil || c.Parent == "" || c.Parent != o.To {
		return refuse("%s is not attached to %s", o.Cube, o.To)
	}
	at := w.chain(o.To)
	*at = slices.DeleteFunc(*at, func(t string) bool { return t == o.Cube })
	c.Parent = ""
	return nil
}

func (w *World) set(o Op) error {
	c := w.Cubes[o.Cube]
	if c == nil {
		return refuse("no %s", o.Cube)
	}
	switch {
	case o.To == "loglevel":
		c.Loglevel = o.Value
	case o.To == "action" && c.Service == Hello:
		c.Action = o.Value
	case o.To == "ingress-action" && c.Service == Transparent:
		c.Ingress = o.Value
	case o.To == "egress-action" && c.Service == Transparent:
		c.Egress = o.Value
	case o.To == agingTime && c.Service == Bridge:
		c.Aging, _ = strconv.Atoi(o.Value) // operations hold numbers only
	default:
		return refuse("%s has no %s", o.Cube, o.To)
	}
	return nil
}

func (w *World) action(o Op) error {
	c, p := w.port(o.At)
	_, name := place(o.At)
	if p == nil || c.Service != Forwarder {
		return refuse("%s: no such port of a forwarder", o.At)
	}
	if o.Verb == DelAction {
		if _, ok := c.Actions[name]; !ok {
			return refuse("%s has no action", o.At)
		}
		delete(c.Actions, name)
		return nil
	}
	if o.To != "" && c.Port(o.To) == nil || o.To == "" && o.Value == "FORWARD" {
		return refuse("no port to send to")
	}
	c.Actions[name] = Action{o.Value, o.To}
	return nil
}

// database changes the learned addresses of a bridge.
func (w *World) database(o Op) error {
	name := o.Cube
	if o.Verb == AddEntry {
		name, _ = place(o.At)
	}
	c := w.Cubes[name]
	if c == nil || c.Service != Bridge {
		return refuse("%s is no bridge", name)
	}
	switch o.Verb {
	case Flush:
		clear(c.Fixed)
		clear(c.Learned)
	case AddEntry:
		_, p := w.port(o.At)
		if p == nil || c.Fixed[o.Value] != "" {
			return refuse("no port %s, or an entry is there", o.At)
		}
		c.Fixed[o.Value] = p.Name
		delete(c.Learned, o.Value)
	default:
		if c.Fixed[o.Value]+c.Learned[o.Value] == "" {
			return refuse("no entry %s", o.Value)
		}
		delete(c.Fixed, o.Value)
		delete(c.Learned, o.Value)
	}
	return nil
}

// forget removes addresses learned on ports that are gone or have no peer any more; was is the previous world.
func (w *World) forget(was *World) {
	for _, c := range w.Cubes {
		old := was.Cubes[c.Name]
		maps.DeleteFunc(c.Learned, func(_, name string) bool {
			p := c.Port(name)
			return p == nil || !w.Linked(c, p) && old != nil && old.Port(name) != nil && was.Linked(old, old.Port(name))
		})
	}
}

func (w *World) netdev(o Op) {
	was := w.Clone()
	n := w.Netdevs[o.To]
	n.Present = n.Present && o.Verb != DelNetdev || o.Verb == AddNetdev
	n.Up = n.Present && (o.Verb == AddNetdev || o.Verb == NetdevUp || n.Up && o.Verb != NetdevDown)
	if w.Down {
		n.Touched = true
		return // not noticed before the next daemon starts
	}
	w.forget(was)
}

func (w *World) daemon(o Op) {
	w.Down = o.Verb != Start
	if w.Down {
		return
	}
	// Devices deleted while no daemon ran are gone for the bridges too.
	was := w.Clone()
	for _, n := range w.Netdevs {
		if n.Touched {
			was.Netdevs[n.Name].Present, was.Netdevs[n.Name].Up = true, true
			n.Touched = false
		}
	}
	w.forget(was)
}
