// SPDX-License-Identifier: Apache-2.0

// Package pdusession writes the PDU sessions of a user plane function (UPF) into the tables of cube `upf`, and reads what
// their packets have used. The terms are those of 3GPP TS 29.244 where it has one: a Rule is a PDR with its FAR, a Meter a
// QER, a Usage a URR.
package pdusession

import (
	"fmt"
	"net/netip"
	"time"

	"github.com/polycube/polycube/gtppath"
	"github.com/polycube/polycube/sdf"
)

// Limits of a session.
const (
	MaxRules      = 32 // of a session
	MaxFlows      = 32 // of the rules of a tunnel, or of a device's addresses, together
	MaxRuleMeters = 3  // of a rule
	MaxRuleUsages = 3  // of a rule
	MaxURL        = 1022
)

// Session is a PDU session of a device.
type Session struct {
	// IPv4 and IPv6 are the addresses of the device: at least one of them is valid. IPv6 has 64 bits.
	IPv4 netip.Addr
	IPv6 netip.Prefix
	// Routes are networks behind the device (framed routes): their addresses are as its own.
	Routes []netip.Prefix
	// Rules are in order of their precedence: a packet has the first one that matches.
	Rules  []Rule
	Meters []Meter
	Usages []Usage
}

// Rule says which packets it is for, and what happens to them.
type Rule struct {
	// ID is unique in its session, as those of meters and usages are.
	ID uint16
	// TEID is that of the tunnel that packets come in. 0: packets to the address of the device. Instance is the network
	// instance of the local addresses of that tunnel; "" for those without a name.
	TEID     uint32
	Instance string
	// FromNetwork: the tunnel comes from the core (N9), so its packets are for the device. Only with TEID.
	FromNetwork bool
	// Flows are those of the packets, seen from the device; none: all packets.
	Flows []sdf.Flow
	// Forward is what happens to them. Meters and Usages are the IDs of what limits and counts them.
	Forward Forward
	Meters  []uint32
	Usages  []uint32
}

// Action is what happens to a packet.
type Action uint8

// The actions. Those that wait are sent when the action becomes Pass, before newer ones; when it becomes Drop, or the rule is
// removed, they are dropped.
const (
	Drop Action = iota
	Pass
	Wait
)

// Forward is what happens to the packets of a rule.
type Forward struct {
	Action Action
	// Notify: the first packet that waits makes a Notice.
	Notify bool
	// Peer is the other end of the tunnel that packets enter, TEID and QFI what they have there; a QFI of 0 is none. Without
	// Peer packets enter no tunnel. Instance is the network instance of the local address that they are sent from.
	Peer     netip.Addr
	Instance string
	TEID     uint32
	QFI      uint8
	// DSCP is that of the outer header, if Mark is set; otherwise it is that of the packet.
	Mark bool
	DSCP uint8
	// Guaranteed: packets have a guaranteed rate, and the queue of the cube for these, if there is one.
	Guaranteed bool
	// Redirect is the URL that HTTP requests are redirected to: the cube answers packets to port 80, and drops all others. It is
	// for packets from the device that pass without a tunnel. Empty: packets are forwarded.
	Redirect string
}

// Meter limits rates. Both directions are open or closed, and have a rate.
type Meter struct {
	ID       uint32
	Up, Down Rate
}

// Rate is that of a direction.
type Rate struct {
	// Closed drops all packets.
	Closed bool
	// Limited: BitsPerSecond is the limit of the IP packets of devices.
	Limited       bool
	BitsPerSecond uint64
}

// Usage counts the packets of rules.
type Usage struct {
	ID uint32
	// Threshold makes a Notice when so much has been counted, once until it is changed. Packets beyond Quota are dropped,
	// the first one with a Notice. Start makes one of the first packet.
	Threshold, Quota Volume
	Start            bool
}

// Volume is a number of bytes of IP packets, in both directions together and in each; 0 for no limit. It is
// compared with Counts, which are never reset.
type Volume struct{ Total, Up, Down uint64 }

// Counts are the packets that a usage has counted since it was created. Bytes are those of IP packets.
type Counts struct {
	Up, Down               uint64 // bytes
	UpPackets, DownPackets uint64
	// First and Last are when the first and the last packet passed (CLOCK_MONOTONIC, in steps of 100 ms); 0: none has.
	First, Last time.Duration
}

// Rows are where a session is in the tables. They are kept by the caller, on disk, too: with them, another process finds the
// session again.
type Rows struct {
	IPv4 netip.Addr   `json:",omitzero"`
	IPv6 netip.Prefix `json:",omitzero"`
	// Block is the first of Size rows of rules. Meters, Usages, Queues and Redirects have the rows of each ID (for queues and
	// redirects that of the rule).
	Block, Size uint32
	Meters      map[uint32]uint32 `json:",omitempty"`
	Usages      map[uint32]uint32 `json:",omitempty"`
	Queues      map[uint16]uint32 `json:",omitempty"`
	Redirects   map[uint16]uint32 `json:",omitempty"`
	// Tunnels are by TEID and network instance. Device is for packets to the addresses, if there are rules for them.
	Tunnels map[TunnelKey]Way `json:",omitempty"`
	Device  *Way              `json:",omitempty"`
	// Routes are the networks behind the device.
	Routes []netip.Prefix `json:",omitempty"`
	// Number is that of the session, which it keeps and no other one has.
	Number uint32
	// Peers are the other ends of tunnels that packets enter.
	Peers []netip.Addr `json:",omitempty"`
}

// TunnelKey is a TEID, and above it the number of its network instance (gtppath.Instance).
type TunnelKey uint64

func keyOfTunnel(instance string, teid uint32) TunnelKey {
	return TunnelKey(gtppath.Instance(instance))<<32 | TunnelKey(teid)
}

// split returns the key of the tables.
func (k TunnelKey) split() gtppath.Tunnel {
	return gtppath.Tunnel{TEID: uint32(k), Instance: uint32(k >> 32)}
}

func (k TunnelKey) String() string {
	if t := k.split(); t.Instance != 0 {
		return fmt.Sprintf("TEID %d of network instance %#x", t.TEID, t.Instance)
	}
	return fmt.Sprintf("TEID %d", uint32(k))
}

// Way is how packets find their rule.
type Way struct {
	// Rule is the row of their only rule. If there are several or the rule has flows, these are in the row List, and Rule is
	// the first row of the session.
	Rule        uint32
	List        uint32 `json:",omitempty"`
	FromNetwork bool   `json:",omitempty"`
}

// NoticeKind is the kind of a Notice.
type NoticeKind uint32

// The kinds.
const (
	_                NoticeKind = iota
	Waiting                     // the first packet of Rule waits
	ThresholdReached            // of Usage
	QuotaReached                // of Usage
	Started                     // the first packet of Usage
	ErrorIndication             // Peer does not know TEID
	PathDown                    // Peer does not answer
)

// Notice is something that a packet has caused.
type Notice struct {
	Kind NoticeKind
	// Block is that of Rows at the time, and Rule the index of the rule in Session.Rules.
	Block, Rule uint32
	// Usage is the row of the usage.
	Usage uint32
	// DSCP is that of the packet that waits.
	DSCP uint8
	Peer netip.Addr
	TEID uint32
}
