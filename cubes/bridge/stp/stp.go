// SPDX-License-Identifier: Apache-2.0

// Package stp is the spanning tree protocol of one VLAN of a bridge: the Rapid Spanning Tree Protocol of IEEE
// 802.1D-2004, clause 17. Towards neighbours that speak nothing else, and everywhere if ForceVersion says so (17.4), it
// is the Spanning Tree Protocol of 802.1D-1998.
//
// It has no side effects: BPDUs, ports that come up and go down, parameters and seconds go in; BPDUs, port states and
// flushes come out of the Sink, in the same call. It reads no clock and starts no goroutine; one caller at a time. The
// names of variables, conditions and procedures are those of the standard, so that each machine can be compared with
// its figure.
package stp

import (
	"fmt"
	"net"
)

// State is the forwarding state of a port. The numbers are those of 802.1D-1998's MIB minus one.
type State uint8

// The states. A port learns in Learning and above. RSTP has one state, discarding, for the first three.
const (
	Disabled State = iota
	Blocking
	Listening
	Learning
	Forwarding
)

var stateNames = [...]string{"disabled", "blocking", "listening", "learning", "forwarding"}

// String returns the state's name in the model.
func (s State) String() string { return name(stateNames[:], uint8(s)) }

// Role is the role of a port in the tree.
type Role uint8

// The roles of 17.7.
const (
	DisabledPort Role = iota
	RootPort
	DesignatedPort
	AlternatePort
	BackupPort
)

var roleNames = [...]string{"disabled", "root", "designated", "alternate", "backup"}

// String returns the role's name in the model.
func (r Role) String() string { return name(roleNames[:], uint8(r)) }

// Version is the highest version that a bridge may use, ForceProtocolVersion of 17.13.4.
type Version uint8

// The versions, as encoded in BPDUs.
const (
	STP  Version = 0
	RSTP Version = 2
)

// String returns the version's name in the model.
func (v Version) String() string {
	if v == STP {
		return "stp"
	}
	return "rstp"
}

func name(names []string, i uint8) string {
	if int(i) < len(names) {
		return names[i]
	}
	return fmt.Sprintf("%d", i)
}

// BridgeID is the priority in the upper 16 bits and the address in the lower bits; lower is better.
type BridgeID uint64

const addressBits = 48

// MakeBridgeID builds an identifier. All 16 bits of the priority count, as in 802.1D-1998.
func MakeBridgeID(priority uint16, mac net.HardwareAddr) BridgeID {
	id := BridgeID(priority)
	for i := range 6 {
		id <<= 8
		if i < len(mac) {
			id |= BridgeID(mac[i])
		}
	}
	return id
}

// Priority returns the configured part.
func (id BridgeID) Priority() uint16 { return uint16(id >> addressBits) }

func (id BridgeID) address() uint64 { return uint64(id) & (1<<addressBits - 1) }

// MAC returns the address of the bridge.
func (id BridgeID) MAC() net.HardwareAddr {
	mac := make(net.HardwareAddr, 6)
	for i := range mac {
		mac[i] = byte(id >> (8 * (5 - i)))
	}
	return mac
}

// String returns the usual form of a bridge identifier: 8000.02:00:00:00:00:01.
func (id BridgeID) String() string { return fmt.Sprintf("%04x.%s", id.Priority(), id.MAC()) }

// PortID is the priority in the upper and the number in the lower bits; lower is better.
type PortID uint16

// MakePortID builds an identifier: 8 bits each as in 802.1D-1998. A number above 255 uses four bits of the priority, as
// in 802.1D-2004.
func MakePortID(priority uint8, number uint16) PortID {
	if number > 0xff {
		return PortID(priority&0xf0)<<8 | PortID(number&0xfff)
	}
	return PortID(priority)<<8 | PortID(number)
}

// number returns the port number according to 17.6, however its bridge divides the identifier.
func (id PortID) number() uint16 { return uint16(id) & 0xfff }

// String returns the usual form of a port identifier: 8001, in hexadecimal.
func (id PortID) String() string { return fmt.Sprintf("%04x", uint16(id)) }

// Parameters are the parameters of an instance. Times are in seconds.
type Parameters struct {
	ID           BridgeID
	Version      Version
	HelloTime    uint16 // 1 to 10
	MaxAge       uint16 // 6 to 40
	ForwardDelay uint16 // 4 to 30
}

// PointToPoint is adminPointToPointMAC of 6.4.3.
type PointToPoint uint8

// A link counts as point-to-point unless it is configured as shared: cubes' ports have no half duplex.
const (
	Auto PointToPoint = iota
	ForceTrue
	ForceFalse
)

// PortParameters are the parameters of a port in an instance.
type PortParameters struct {
	ID       PortID
	PathCost uint32
	// AdminEdge says that there are no bridges behind the port, AutoEdge that the port detects this.
	AdminEdge, AutoEdge bool
	PointToPoint        PointToPoint
	// RestrictedRole prevents the port from becoming the root port, RestrictedTCN prevents its topology changes
	// from propagating (802.1Q, 13.25): for ports to untrusted networks.
	RestrictedRole, RestrictedTCN bool
}

// Sink receives the outputs of an instance. Ports are identified by the keys passed to AddPort.
type Sink interface {
	// Send transmits a BPDU, starting with its protocol identifier.
	Send(port int, bpdu []byte)
	// SetState applies a state. It is called when the state changes.
	SetState(port int, s State)
	// Flush removes entries learned on the port.
	Flush(port int)
}
