// SPDX-License-Identifier: Apache-2.0

// Package stp is the spanning tree protocol of one VLAN of a bridge: the Rapid Spanning Tree Protocol of IEEE 802.1D-2004,
// clause 17, which is the Spanning Tree Protocol of 802.1D-1998 towards neighbours that speak no other, and altogether
// where ForceVersion says so (17.4).
//
// It is pure: BPDUs, ports that come up and go down, parameters and seconds go in, BPDUs, port states and flushes come out
// of the Sink, in the same call. It reads no clock and starts no goroutine; one caller at a time. The names of variables,
// conditions and procedures are those of the standard, so that each machine can be read beside its figure.
package stp

import (
	"fmt"
	"net"
)

// State is what a port does with frames. The numbers are those of 802.1D-1998's MIB less one.
type State uint8

// The states. A port learns from Learning on. RSTP has one state, discarding, for the first three.
const (
	Disabled State = iota
	Blocking
	Listening
	Learning
	Forwarding
)

var stateNames = [...]string{"disabled", "blocking", "listening", "learning", "forwarding"}

// String is the state's name in the model.
func (s State) String() string { return name(stateNames[:], uint8(s)) }

// Role is what a port is in the tree.
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

// String is the role's name in the model.
func (r Role) String() string { return name(roleNames[:], uint8(r)) }

// Version is what a bridge may speak at most, ForceProtocolVersion of 17.13.4.
type Version uint8

// The versions, as they stand in BPDUs.
const (
	STP  Version = 0
	RSTP Version = 2
)

// String is the version's name in the model.
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

// BridgeID is the priority in the upper 16 bits and the address below; the lower is the better.
type BridgeID uint64

const addressBits = 48

// MakeBridgeID puts an identifier together. All 16 bits of the priority count, as in 802.1D-1998.
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

// Priority is the configured part.
func (id BridgeID) Priority() uint16 { return uint16(id >> addressBits) }

func (id BridgeID) address() uint64 { return uint64(id) & (1<<addressBits - 1) }

// MAC is the address of the bridge.
func (id BridgeID) MAC() net.HardwareAddr {
	mac := make(net.HardwareAddr, 6)
	for i := range mac {
		mac[i] = byte(id >> (8 * (5 - i)))
	}
	return mac
}

// String is the form that bridges are shown in: 8000.02:00:00:00:00:01.
func (id BridgeID) String() string { return fmt.Sprintf("%04x.%s", id.Priority(), id.MAC()) }

// PortID is the priority in the upper and the number in the lower bits; the lower is the better.
type PortID uint16

// MakePortID puts an identifier together: 8 bits each as in 802.1D-1998. A number above 255 takes four bits of the
// priority, as in 802.1D-2004.
func MakePortID(priority uint8, number uint16) PortID {
	if number > 0xff {
		return PortID(priority&0xf0)<<8 | PortID(number&0xfff)
	}
	return PortID(priority)<<8 | PortID(number)
}

// number is what 17.6 takes for the number of a port, in whatever way its bridge divides the identifier.
func (id PortID) number() uint16 { return uint16(id) & 0xfff }

// String is the form that ports are shown in: 8001, in hexadecimal.
func (id PortID) String() string { return fmt.Sprintf("%04x", uint16(id)) }

// Parameters are those of an instance. Times are in seconds.
type Parameters struct {
	ID           BridgeID
	Version      Version
	HelloTime    uint16 // 1 to 10
	MaxAge       uint16 // 6 to 40
	ForwardDelay uint16 // 4 to 30
}

// PointToPoint is adminPointToPointMAC of 6.4.3.
type PointToPoint uint8

// A link is taken for point-to-point unless it is forced to be shared: cubes' ports have no half duplex.
const (
	Auto PointToPoint = iota
	ForceTrue
	ForceFalse
)

// PortParameters are those of a port in an instance.
type PortParameters struct {
	ID       PortID
	PathCost uint32
	// AdminEdge says that there are no bridges behind the port, AutoEdge that it is to find that out.
	AdminEdge, AutoEdge bool
	PointToPoint        PointToPoint
	// RestrictedRole keeps the port from becoming the root port, RestrictedTCN its topology changes from spreading
	// (802.1Q, 13.25): for ports to networks that are not to be trusted.
	RestrictedRole, RestrictedTCN bool
}

// Sink takes what an instance asks for. Ports are the keys that AddPort was called with.
type Sink interface {
	// Send transmits a BPDU, beginning with its protocol identifier.
	Send(port int, bpdu []byte)
	// SetState brings a state into force. It is called when the state changes.
	SetState(port int, s State)
	// Flush forgets what was learned from the port.
	Flush(port int)
}
