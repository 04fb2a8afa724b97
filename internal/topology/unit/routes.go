// SPDX-License-Identifier: Apache-2.0

package unit

// Notifications to a shadow cube about routes of its namespace. They do not change the configuration, so no transaction
// carries them: they go through the mailbox, and all that arrive while the cube is busy, even a full routing table, are
// passed in one call.

import (
	"net/netip"
	"sync"

	"github.com/polycube/polycube/cube"
)

// RouteNews are changes of routes that a cube has not been told yet.
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

// Take adds changes to those that wait; a complete listing replaces them. The mailbox of a cube being deleted calls
// forget while it is locked, so no lock of this type may be held when something is posted to it.
func (n *RouteNews) Take(changes []cube.RouteChange, complete bool) {
	if n.add(changes, complete) {
		n.Unit.Post(Task{What: "RoutesChanged", Run: n.tell, Dropped: n.forget})
	}
}

// add reports whether the cube must still be called.
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
