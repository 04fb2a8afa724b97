// SPDX-License-Identifier: Apache-2.0

package topology

// What cubes are told of the links of their ports.

import (
	"github.com/polycube/polycube/internal/topology/unit"
	"github.com/polycube/polycube/internal/topology/world"
)

// notify tells cubes what the transaction changed around them. They hear of it by their mailbox, when the transaction is
// over: a cube's code may want one of its own. What ports are connected to comes after the links that ceased to work and
// before those that work from now on: no link is used with what is known of another.
func (c *committed) notify() {
	var working []func()
	if c.reach().Wired {
		working = c.notifyPorts()
	}
	c.neighbours.Tell()
	for _, tell := range working {
		tell()
	}
}

// notifyPorts tells cubes what changed of their ports, but that links work from now on: that it returns.
func (c *committed) notifyPorts() (working []func()) {
	for _, rec := range c.reached() {
		u := c.next.Units[rec.Name]
		for _, p := range rec.PortsByIndex() {
			if c.notifyPort(u, rec, p) {
				changed := u.Instance().LinkChanged
				working = append(working, func() { c.news.Tell(u, "LinkChanged", func() { changed(p.Name, true) }) })
			}
		}
	}
	return working
}

// notifyPort tells a cube what changed of a port, but that its link works from now on: that it returns.
func (c *committed) notifyPort(u *unit.Unit, rec *world.Cube, p *world.Port) (works bool) {
	var was *world.Port
	old := c.before(rec.Name)
	if old != nil {
		was = old.Ports[p.Name]
	}
	// A port that a start finds down may have been up when the last daemon ended, and what was learned then is still there.
	found := c.restoring && (old == nil || c.successor(u) != nil)
	up := c.next.Linked(rec, p)
	is := u.Instance()
	if is.PortChanged != nil && (found || up != (was != nil && c.old.Linked(old, was))) {
		c.news.Tell(u, "PortChanged", func() { is.PortChanged(p.Name, up) })
	}
	if is.LinkChanged == nil {
		return false
	}
	works = c.next.Works(rec, p)
	worked := was != nil && c.old.Works(old, was)
	flapped := works && worked && c.next.Flaps(p) != c.old.Flaps(was)
	if flapped || !works && (found || worked) {
		c.news.Tell(u, "LinkChanged", func() { is.LinkChanged(p.Name, false) })
	}
	return works && (found || flapped || !worked)
}
