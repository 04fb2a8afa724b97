// SPDX-License-Identifier: Apache-2.0

package announce

// Events of a change of the configuration: what changed, by whom, and which ports went UP or DOWN.

import (
	"fmt"
	"slices"
	"strings"

	"github.com/polycube/polycube/internal/events"
	"github.com/polycube/polycube/internal/topology/history"
	"github.com/polycube/polycube/internal/topology/unit"
	"github.com/polycube/polycube/internal/topology/world"
	"github.com/polycube/polycube/internal/yang"
)

// Edits are the paths that a transaction changed, by cube.
type Edits map[string]*events.Change

// Note adds what an edit changed.
func (e Edits) Note(name string, change *yang.Change) {
	c := e[name]
	if c == nil {
		c = &events.Change{Cube: name}
		e[name] = c
	}
	first, more := change.Diff(events.MaxListed)
	c.More += more
	for _, d := range first {
		if len(c.Paths) >= events.MaxListed {
			c.More++
			continue
		}
		if path := d.Path.String(); !slices.Contains(c.Paths, path) {
			c.Paths = append(c.Paths, path)
		}
	}
}

// Change is a change of the configuration that is in effect.
type Change struct {
	// Old and Next are the worlds before and after it.
	Old, Next *unit.Snapshot
	// Origins are those of the requests that were made together, Edits what they changed.
	Origins []history.Origin
	Edits   Edits
	// Touched are the cubes that were changed, Removed the units of those that were deleted.
	Touched []string
	Removed []*unit.Unit
	// Notes knows what stands in the way of packets; nil when the data plane does not.
	Notes world.Notes
}

// Change announces a change of the configuration.
func (a *Announcer) Change(c Change) {
	if a.events == nil {
		return
	}
	if c.Next.Revision != c.Old.Revision {
		a.events.Add(c.config())
	}
	c.ports(a.Port)
}

// config returns the event that says who changed what.
func (c Change) config() events.Event {
	e := events.Event{Type: events.Config, Revision: c.Next.Revision}
	for _, o := range c.Origins {
		if o.Who == "" {
			o.Who = "polycubed"
		}
		if from := (events.Origin{Who: o.Who, From: o.From, What: o.What}); !slices.Contains(e.Origins, from) && len(e.Origins) < events.MaxListed {
			e.Origins = append(e.Origins, from)
		}
	}
	var all []events.Change
	for _, name := range c.Touched {
		if rec := c.Next.Cubes[name]; rec != nil && rec.Revision == c.Next.Revision {
			is := events.Change{Cube: name, Service: rec.Service, Op: "changed"}
			if c.Next.Before(c.Old, name) == nil {
				is.Op = "created"
			} else if by := c.Edits[name]; by != nil {
				is.Paths, is.More = by.Paths, by.More
			}
			all = append(all, is)
		}
	}
	for _, u := range c.Removed {
		gone := events.Change{Cube: u.Name, Service: u.Service.Info.Name, Op: "deleted"}
		if c.Next.Cubes[u.Name] == nil {
			all = append(all, gone)
		} else { // it was created again
			all = append([]events.Change{gone}, all...)
		}
	}
	for _, name := range c.Next.ChainsChanged(&c.Old.World) {
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
	return e
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

// ports announces the ports that went UP or DOWN. A port's status depends on its own cube and its peer's; ports that go up
// or down with a netdev are announced with the netdev.
func (c Change) ports(tell func(at world.Place, up bool, reason string)) {
	seen := map[world.Place]bool{}
	visit := func(at world.Place) {
		if at.Netdev != "" || seen[at] {
			return
		}
		seen[at] = true
		_, was, _ := c.Old.PortAt(at)
		rec, is, _ := c.Next.PortAt(at)
		if is == nil {
			return // deleted with its cube, which is announced
		}
		up := c.Next.Linked(rec, is)
		if was != nil && c.Old.Linked(c.Old.Cubes[at.Cube], was) != up || was == nil && up {
			tell(at, up, c.Next.Remark(rec, is, c.Notes))
		}
	}
	far := func(p *world.Port) {
		if at, err := world.ParsePlace(p.Peer); p.Peer != "" && err == nil {
			visit(at)
		}
	}
	names := slices.Clone(c.Touched)
	for _, u := range c.Removed {
		names = append(names, u.Name)
	}
	for _, name := range names {
		was, is := c.Old.Cubes[name].PortsOf(), c.Next.Cubes[name].PortsOf()
		for _, p := range is {
			if q := was[p.Name]; q == nil || q.Peer != p.Peer {
				visit(world.Place{Cube: name, Port: p.Name})
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
