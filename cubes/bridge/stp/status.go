// SPDX-License-Identifier: Apache-2.0

package stp

// The status of an instance.

// Status is the status of an instance.
type Status struct {
	ID, Root BridgeID
	// RootCost is the cost of the path to the root, RootPort the key of the port that leads there; IsRoot if there
	// is none.
	RootCost uint32
	RootPort int
	IsRoot   bool
	// Times in effect, from the root, in seconds.
	HelloTime, MaxAge, ForwardDelay uint16
	// Number of topology changes, and the seconds since the last one.
	Changes, SinceChange uint64
	// Changing says that a port is still announcing a change.
	Changing bool
	// Stalled counts events whose processing was cut off; it should stay 0.
	Stalled uint64
}

// PortStatus is the status of a port in an instance.
type PortStatus struct {
	ID    PortID
	Role  Role
	State State
	// The information of the best bridge on the link, or of this one.
	Root     BridgeID
	Cost     uint32
	Bridge   BridgeID
	Designee PortID
	// OperEdge: no other bridge was seen; OperPointToPoint: at most one neighbour; RSTP: the neighbour supports it.
	OperEdge, OperPointToPoint, RSTP bool
	Counters
}

// Status returns the status of the instance.
func (b *Bridge) Status() Status {
	s := Status{ID: b.cfg.ID, Root: b.root.Root, RootCost: b.root.Cost, IsRoot: b.rootPort == nil,
		HelloTime: b.rootTimes.HelloTime, MaxAge: b.rootTimes.MaxAge, ForwardDelay: b.rootTimes.ForwardDelay,
		Changes: b.changes, SinceChange: b.sinceChange, Stalled: b.stalled}
	if b.rootPort != nil {
		s.RootPort = b.rootPort.key
	}
	for _, p := range b.ports {
		s.Changing = s.Changing || p.tcWhile != 0
	}
	return s
}

// PortStatus returns the status of a port, and false if it does not exist.
func (b *Bridge) PortStatus(key int) (PortStatus, bool) {
	p := b.by[key]
	if p == nil {
		return PortStatus{}, false
	}
	v := p.portPriority
	if p.info != infoReceived {
		v = p.designatedPriority
	}
	return PortStatus{ID: p.cfg.ID, Role: p.role, State: p.shown, Root: v.Root, Cost: v.Cost, Bridge: v.Bridge, Designee: v.Port,
		OperEdge: p.operEdge, OperPointToPoint: p.operPointToPoint(), RSTP: p.sendRSTP, Counters: p.count}, true
}
