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

// deleted is how a netdev has gone, as far as that is known without its event.
const deleted = "it was deleted or moved to another namespace"

// commitStanding commits the graph, without the netdevs that turn out to have gone.
func (t *txn) commitStanding(change Change) error {
	var err error
	if change != nil {
		err = unit.Guard(change.Commit)
	}
	for range maxGone {
		if !t.leaveOut(err) {
			break
		}
		if change, err = t.prepareStanding(); err == nil && change != nil {
			err = unit.Guard(change.Commit)
		}
	}
	return err
}

// prepareStanding prepares the graph, without the netdevs that turn out to have gone.
func (t *txn) prepareStanding() (Change, error) {
	for tries := 0; ; tries++ {
		t.graph = t.nextGraph()
		change, err := t.prepareGraph()
		if tries == maxGone || !t.leaveOut(err) {
			return change, err
		}
	}
}

// leaveOut takes the netdevs that an error says have gone out of the next world; false if there are none.
func (t *txn) leaveOut(err error) bool {
	var g *datapath.GoneError
	if !errors.As(err, &g) {
		return false
	}
	links := map[string]world.Link{}
	for name, index := range g.Netdevs {
		if l := t.next.Links[name]; l.Index == index {
			links[name] = world.Link{Gone: deleted, Flaps: l.Flaps}
		}
	}
	t.next.SetLinks(links)
	t.lost = append(t.lost, slices.Sorted(maps.Keys(links))...)
	t.extent = nil // it reaches the ports of these netdevs, too
	return len(links) > 0
}

// tellOfLost tells of the netdevs that the transaction found gone, before their events come.
func (t *txn) tellOfLost() {
	for _, name := range t.lost {
		t.m.tellNetdev(name, t.old.Links[name], t.next.Links[name])
	}
	t.m.tellOfNetdevs(t.old, t.lost)
}
