// SPDX-License-Identifier: Apache-2.0

package topology

// A netdev can go at any moment, also between the look at it and the step that needs it. Then the
// change is made without it, as if it had gone just after: its port is down until it is back.

import (
	"errors"
	"maps"
	"slices"

	"github.com/polycube/polycube/internal/datapath"
	"github.com/polycube/polycube/internal/topology/unit"
	"github.com/polycube/polycube/internal/topology/world"
)

// maxGone bounds how often a transaction states the graph without netdevs that have gone meanwhile.
const maxGone = 8

// commitStanding commits the graph, without the netdevs that turn out to have gone.
func (x *execution) commitStanding(change Change) error {
	var err error
	if change != nil {
		err = unit.Guard(change.Commit)
	}
	for range maxGone {
		if !x.leaveOut(err) {
			break
		}
		if change, err = x.prepareStanding(); err == nil && change != nil {
			err = unit.Guard(change.Commit)
		}
	}
	return err
}

// prepareStanding prepares the graph, without the netdevs that turn out to have gone.
func (x *execution) prepareStanding() (Change, error) {
	for tries := 0; ; tries++ {
		x.graph = x.nextGraph()
		change, err := x.prepareGraph()
		if tries == maxGone || !x.leaveOut(err) {
			return change, err
		}
	}
}

// leaveOut takes the netdevs that an error says have gone out of the next world; false if there are none.
func (x *execution) leaveOut(err error) bool {
	var g *datapath.GoneError
	if !errors.As(err, &g) {
		return false
	}
	links := map[string]world.Link{}
	for name, index := range g.Netdevs {
		if l := x.next.Links[name]; l.Index == index {
			links[name] = world.Link{Gone: world.Deleted, Flaps: l.Flaps}
		}
	}
	x.next.SetLinks(links)
	x.lost = append(x.lost, slices.Sorted(maps.Keys(links))...)
	x.extent = nil // it reaches the ports of these netdevs, too
	return len(links) > 0
}

// tellOfLost tells of the netdevs that the transaction found gone, before their events come.
func (c *committed) tellOfLost() {
	for _, name := range c.lost {
		c.events.Netdev(name, c.old.Links[name], c.next.Links[name])
	}
	c.events.PortsOn(c.lost, c.old, c.next)
}
