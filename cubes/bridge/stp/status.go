// SPDX-License-Identifier: Apache-2.0

package stp

// What an instance tells about itself.

// Status is of an instance.
type Status struct {
	ID, Root BridgeID
	// RootCost is that of the way to the root, RootPort the key of the port that leads there; IsRoot when there is none.
	RootCost uint32
	RootPort int
	IsRoot   bool
	// Times in force, the root's: seconds.
	HelloTime, MaxAge, ForwardDelay uint16
	// Changes of the topology seen, and the seconds since the last one.
	Changes, SinceChange uint64
	// Changing says that some port still tells of a change.
	Changing bool
	// Stalled counts events whose work was cut off; it stays 0.
	Stalled uint64
}

// PortStatus is of a port in an instance.
type PortStatus struct {
	ID    PortID
	Role  Role
	State State
	// What the best bridge on the link says, or this one.
	Root     BridgeID
	Cost     uint32
	Bridge   BridgeID
	Designee PortID
	// OperEdge: no bridge was heard; OperPointToPoint: one neighbour at most; RSTP: the neighbour understands it.
	OperEdge, OperPointToPoint, RSTP bool
	Counters
}

// Status returns what there is to know about the instance.
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

// PortStatus returns what there is to know about a port, and false if there is no such.
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
