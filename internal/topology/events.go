// SPDX-License-Identifier: Apache-2.0

package topology

// What others may want to know of what happened: told once, when it has. The cost follows the size of the change: only
// ports that the change can concern are looked at.

import (
	"fmt"
	"slices"
	"strings"

	"github.com/polycube/polycube/internal/events"
	"github.com/polycube/polycube/internal/topology/read"
	"github.com/polycube/polycube/internal/topology/world"
	"github.com/polycube/polycube/internal/yang"
)

// Events is what the manager tells of; nil when nobody keeps it.
func (m *Manager) Events() *events.Log { return m.events }

// edits are the paths that a transaction changed, by cube.
type edits map[string]*events.Change

// note takes in what an edit changed.
func (e edits) note(name string, change *yang.Change) {
	c := e[name]
	if c == nil {
		c = &events.Change{Cube: name}
		e[name] = c
	}
	for _, d := range change.Diff() {
		if len(c.Paths) >= events.MaxListed {
			c.More++
			continue
		}
		if path := d.Path.String(); !slices.Contains(c.Paths, path) {
			c.Paths = append(c.Paths, path)
		}
	}
}

// announce tells of a transaction that is in effect.
func (c *committed) announce() {
	if c.m.events == nil || c.restoring {
		return
	}
	if c.next.Revision != c.old.Revision {
		c.announceConfig()
	}
	c.announcePorts()
}

// announceConfig tells who changed what of the configuration.
func (c *committed) announceConfig() {
	e := events.Event{Type: events.Config, Revision: c.next.Revision}
	for _, o := range c.origins {
		if o.Who == "" {
			o.Who = "polycubed"
		}
		if from := (events.Origin{Who: o.Who, From: o.From, What: o.What}); !slices.Contains(e.Origins, from) && len(e.Origins) < events.MaxListed {
			e.Origins = append(e.Origins, from)
		}
	}
	var all []events.Change
	for _, name := range c.touched {
		if rec := c.next.Cubes[name]; rec != nil && rec.Revision == c.next.Revision {
			is := events.Change{Cube: name, Service: rec.Service, Op: "changed"}
			if c.before(name) == nil {
				is.Op = "created"
			} else if by := c.edits[name]; by != nil {
				is.Paths, is.More = by.Paths, by.More
			}
			all = append(all, is)
		}
	}
	for _, u := range c.removed {
		gone := events.Change{Cube: u.Name, Service: u.Service.Info.Name, Op: "deleted"}
		if c.next.Cubes[u.Name] == nil {
			all = append(all, gone)
		} else { // it was made anew
			all = append([]events.Change{gone}, all...)
		}
	}
	for _, name := range c.next.ChainsChanged(&c.old.World) {
		all = append(all, events.Change{Netdev: name, Op: "changed", Paths: []string{"tcubes"}})
	}
	names := make([]string, 0, len(all))
	for _, is := range all {
		names = append(names, is.Cube)
	}
	e.About(names)
	e.Changes = all[:min(len(all), events.MaxListed)]
	e.More = len(all) - len(e.Changes)
	e.Message = configMessage(e, len(all))
	c.m.events.Add(e)
}

func configMessage(e events.Event, n int) string {
	what := fmt.Sprintf("%d cubes changed", n)
	switch {
	case n == 0:
		what = "the configuration changed"
	case n == 1 && e.Changes[0].Netdev != "":
		what = "the cubes on " + e.Changes[0].Netdev + " changed"
	case n == 1:
		what = e.Changes[0].Cube + " " + e.Changes[0].Op
		if len(e.Changes[0].Paths) > 0 {
			what += ": " + strings.Join(e.Changes[0].Paths[:min(3, len(e.Changes[0].Paths))], ", ")
		}
	}
	who := make([]string, 0, 1)
	for _, o := range e.Origins {
		if !slices.Contains(who, o.Who) {
			who = append(who, o.Who)
		}
	}
	if len(who) > 0 {
		what += ", by " + strings.Join(who[:min(3, len(who))], ", ")
	}
	return what
}

// announcePorts tells of the ports that are UP or DOWN now and were not. A port's status depends on its own cube and its
// peer's; what netdevs have to do with it is told with them.
func (c *committed) announcePorts() {
	seen := map[world.Place]bool{}
	look := func(at world.Place) {
		if at.Netdev != "" || seen[at] {
			return
		}
		seen[at] = true
		_, was, _ := c.old.PortAt(at)
		rec, is, _ := c.next.PortAt(at)
		if is == nil {
			return // it went with its cube, which is told
		}
		up := c.next.Linked(rec, is)
		if was != nil && c.old.Linked(c.old.Cubes[at.Cube], was) != up || was == nil && up {
			c.m.tellPort(at, up, c.next.Remark(rec, is, c.m.notes))
		}
	}
	far := func(p *world.Port) {
		if at, err := world.ParsePlace(p.Peer); p.Peer != "" && err == nil {
			look(at)
		}
	}
	names := slices.Clone(c.touched)
	for _, u := range c.removed {
		names = append(names, u.Name)
	}
	for _, name := range names {
		was, is := c.old.Cubes[name].PortsOf(), c.next.Cubes[name].PortsOf()
		for _, p := range is {
			if q := was[p.Name]; q == nil || q.Peer != p.Peer {
				look(world.Place{Cube: name, Port: p.Name})
				far(p)
			}
		}
		for _, q := range was {
			if p := is[q.Name]; p == nil || p.Peer != q.Peer {
				far(q)
			}
		}
	}
}

// tellPort tells that a port went UP or DOWN.
func (m *Manager) tellPort(at world.Place, up bool, reason string) {
	e := events.Event{Type: events.Port, Cube: at.Cube, Port: at.Port, State: read.UpOrDown(up), Reason: reason, Message: at.String() + " is " + read.UpOrDown(up)}
	if reason != "" {
		e.Message += ": " + reason
	}
	m.events.Add(e)
}

// TellCube tells that a cube is in another state: degraded, broken, restored, adopted.
func (m *Manager) TellCube(name, service, state, reason string) {
	message := name + " is " + state
	if reason != "" {
		message += ": " + reason
	}
	m.events.Add(events.Event{Type: events.Cube, Cube: name, Service: service, State: state, Reason: reason, Message: message})
}

// TellService tells that a service was registered, updated or removed, is lost, or came back.
func (m *Manager) TellService(name, state, reason string) {
	message := "service " + name + " " + state
	if reason != "" {
		message += ": " + reason
	}
	m.events.Add(events.Event{Type: events.Service, Service: name, State: state, Reason: reason, Message: message})
}

// tellNetdev tells of a device that came, went, or was switched.
func (m *Manager) tellNetdev(name string, was, is world.Link) {
	var state, reason string
	switch {
	case was.Index == 0 && is.Index != 0:
		state = "appeared"
	case was.Index != 0 && is.Index == 0:
		state, reason = "went", is.Gone
	case was.Index != is.Index:
		state = "replaced"
	case was.Up && !is.Up:
		state = "down"
	case !was.Up && is.Up:
		state = "up"
	default:
		return
	}
	message := "netdev " + name + " " + state
	if state == "up" || state == "down" {
		message = "netdev " + name + " is " + state
	}
	if reason != "" {
		message += ": " + reason
	}
	m.events.Add(events.Event{Type: events.Netdev, Netdev: name, State: state, Reason: reason, Message: message})
}
