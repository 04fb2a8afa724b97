// SPDX-License-Identifier: Apache-2.0

package bridge

// The state of spanning trees. They also exist without configuration, so their effective parameters are shown too.

import (
	"maps"
	"slices"
	"strconv"

	"github.com/polycube/polycube/cubes/bridge/stp"
)

// stateSTP is an entry of the list `stp`.
type stateSTP struct {
	VLAN                  uint16 `json:"vlan"`
	Priority              uint16 `json:"priority"`
	ForwardDelay          uint16 `json:"forward-delay"`
	HelloTime             uint16 `json:"hello-time"`
	MaxMessageAge         uint16 `json:"max-message-age"`
	ForceVersion          string `json:"force-version"`
	BridgeID              string `json:"bridge-id"`
	RootID                string `json:"root-id"`
	RootPathCost          uint32 `json:"root-path-cost"`
	RootPort              string `json:"root-port,omitempty"`
	TopologyChange        bool   `json:"topology-change"`
	TopologyChanges       uint64 `json:"topology-changes"`
	TimeSinceChange       uint32 `json:"time-since-topology-change"`
	OperationalHelloTime  uint16 `json:"root-hello-time"`
	OperationalMaxAge     uint16 `json:"root-max-message-age"`
	OperationalForwarding uint16 `json:"root-forward-delay"`
}

// statePortSTP is an entry of the list `stp` of a port.
type statePortSTP struct {
	VLAN             uint16 `json:"vlan"`
	State            string `json:"state"`
	PathCost         uint32 `json:"path-cost"`
	PathCostSource   string `json:"path-cost-source"`
	PortPriority     uint8  `json:"port-priority"`
	Role             string `json:"role"`
	PortID           string `json:"port-id"`
	DesignatedRoot   string `json:"designated-root"`
	DesignatedCost   uint32 `json:"designated-cost"`
	DesignatedBridge string `json:"designated-bridge"`
	DesignatedPort   string `json:"designated-port"`
	OperEdge         bool   `json:"oper-edge"`
	OperVersion      string `json:"oper-version"`
	Transitions      uint64 `json:"forward-transitions"`
	Received         uint64 `json:"bpdus-received"`
	Sent             uint64 `json:"bpdus-sent"`
	Discarded        uint64 `json:"bpdus-discarded"`
}

// asked reports whether a path into a list of trees, with the VLAN at position `at` if it is given, includes a VLAN.
func asked(path []string, at int, vlan uint16) bool {
	return len(path) <= at || path[at] == strconv.Itoa(int(vlan))
}

// state returns the trees that a path includes, in ascending order.
func (s *spanning) state(path []string) (out []stateSTP) {
	for _, vlan := range slices.Sorted(maps.Keys(s.trees)) {
		if !asked(path, 1, vlan) {
			continue
		}
		t := s.trees[vlan]
		is, c := t.Status(), s.b.config.stpOf(vlan)
		e := stateSTP{VLAN: vlan, Priority: c.Priority, ForwardDelay: uint16(c.ForwardDelay), HelloTime: uint16(c.HelloTime),
			MaxMessageAge: uint16(c.MaxMessageAge), ForceVersion: c.ForceVersion.String(),
			BridgeID: is.ID.String(), RootID: is.Root.String(), RootPathCost: is.RootCost, TopologyChange: is.Changing,
			TopologyChanges: is.Changes, TimeSinceChange: uint32(min(is.SinceChange, 1<<32-1)),
			OperationalHelloTime: is.HelloTime, OperationalMaxAge: is.MaxAge, OperationalForwarding: is.ForwardDelay}
		if !is.IsRoot {
			e.RootPort, _ = s.b.env.PortName(uint16(is.RootPort))
		}
		out = append(out, e)
	}
	return out
}

// portState returns the trees of a port that a path includes, in ascending order.
func (s *spanning) portState(p *Port, index uint16, path []string) (out []statePortSTP) {
	for _, vlan := range p.vlans() {
		t := s.trees[vlan]
		if t == nil || !asked(path, 3, vlan) {
			continue
		}
		is, ok := t.PortStatus(int(index))
		if !ok {
			continue
		}
		c := p.stpOf(vlan)
		cost, source := s.pathCost(p.Name, c)
		version := stp.STP
		if is.RSTP {
			version = stp.RSTP
		}
		out = append(out, statePortSTP{VLAN: vlan, State: is.State.String(),
			PathCost: cost, PathCostSource: source.String(), PortPriority: c.PortPriority, Role: is.Role.String(),
			PortID: is.ID.String(), DesignatedRoot: is.Root.String(), DesignatedCost: is.Cost,
			DesignatedBridge: is.Bridge.String(), DesignatedPort: is.Designee.String(), OperEdge: is.OperEdge,
			OperVersion: version.String(), Transitions: is.ForwardTransition, Discarded: is.Discarded,
			Received: is.RxConfig + is.RxRST + is.RxTCN, Sent: is.TxConfig + is.TxRST + is.TxTCN})
	}
	return out
}
