// SPDX-License-Identifier: Apache-2.0

package unit

// The routes of a shadow cube's namespace on their way to the cube. They are no change of configuration, so no transaction
// carries them: they come by the mailbox, as what a full table of routes may bring while the cube is busy comes in one
// call.

import (
	"net/netip"
	"sync"

	"github.com/polycube/polycube/cube"
)

// RouteNews are changes of routes that a cube has not heard of.
type RouteNews struct {
	Unit *Unit
	// Changed is the cube's function.
	Changed func(changes []cube.RouteChange, complete bool)

	mu       sync.Mutex
	changes  map[routeID]cube.RouteChange
	complete bool
	posted   bool
}

type routeID struct {
	prefix netip.Prefix
	metric uint32
}

// Take adds changes to those that wait; a complete listing takes their place. The mailbox of a cube that goes calls forget
// while it is locked: nothing of ours may be locked when it is given something.
func (n *RouteNews) Take(changes []cube.RouteChange, complete bool) {
	if n.add(changes, complete) {
		n.Unit.Post(Task{What: "RoutesChanged", Run: n.tell, Dropped: n.forget})
	}
}

// add tells whether the cube has yet to be called.
func (n *RouteNews) add(changes []cube.RouteChange, complete bool) (call bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.changes == nil || complete {
		n.changes = make(map[routeID]cube.RouteChange, len(changes))
	}
	n.complete = n.complete || complete
	for _, c := range changes {
		n.changes[routeID{c.Prefix, c.Metric}] = c
	}
	call = !n.posted
	n.posted = true
	return call
}

// tell runs in the cube's turn.
func (n *RouteNews) tell() {
	n.mu.Lock()
	list := make([]cube.RouteChange, 0, len(n.changes))
	for _, c := range n.changes {
		list = append(list, c)
	}
	complete := n.complete
	n.changes, n.complete, n.posted = nil, false, false
	n.mu.Unlock()
	n.Changed(list, complete)
}

// forget is for a cube whose code is not called any more.
func (n *RouteNews) forget() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.changes, n.posted = nil, false
}
