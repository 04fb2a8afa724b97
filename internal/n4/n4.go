// SPDX-License-Identifier: Apache-2.0

// Package n4 is the control plane of a user plane function (UPF): the PFCP server of 3GPP TS 29.244, to which session
// management functions (SMFs) send the rules of PDU sessions. It keeps sessions in a file, and has a data plane forward
// by them.
//
// One goroutine owns all state. It takes all messages that wait, carries their changes out as one batch of the data plane
// and one transaction of the file, and then answers. So no answer promises what a crash could lose.
//
// A session belongs to the association of the SMF that has established it: only the address of that association, and that
// of the session's CP F-SEID, can change it. N4 has no authentication (TS 33.501 leaves that to the network), so
// Config.Allowed should name the SMFs. No sender can take all associations, or have the requests of others forgotten. An SMF that does not answer heartbeats is reported as down; its sessions are kept
// until it releases its association, sets up a new one, or has a new recovery time stamp.
//
// Sessions that end with an association, or with a set of sessions (FQ-CSID), are removed in batches, between which other messages are answered. The SMF gets its response
// when all are gone, and its requests for sessions are refused until then.
//
// What would change what happens to packets and is not supported, is refused: package rules has the lists. These IEs are
// ignored: the averaging window and the correlation ID of QERs, the number of packets that a BAR suggests to buffer, the
// inactivity detection time and the linked URRs of a URR, 3GPP interface types, and what names a subscriber. PFD management
// is answered with cause 76. There is no load or overload control, and no bundling of messages.
package n4

import (
	"cmp"
	"log/slog"
	"net/netip"
	"time"

	"github.com/polycube/polycube/internal/n4/rules"
	"github.com/polycube/polycube/pdusession"
)

// Types of the rules that callers need.
type (
	// Locals are the local addresses of tunnels.
	Locals = rules.Locals
	// Local is one of them.
	Local = rules.Local
	// EndMarker is a message for the remote end of a tunnel.
	EndMarker = rules.EndMarker
)

// DataPlane is where sessions take effect. Its methods are called by one goroutine, which also takes notices: they must not
// wait for Server.Notice.
type DataPlane interface {
	// Begin starts a batch of changes.
	Begin() Batch
	// Counts returns what a usage has counted, by its row in Rows.Usages.
	Counts(row uint32) (pdusession.Counts, error)
	// Arm sets the limits of a usage, which are absolute.
	Arm(row uint32, threshold, quota pdusession.Volume) error
	// Seen returns when the last packet of a session passed (CLOCK_MONOTONIC); 0: none has.
	Seen(rows *pdusession.Rows) (time.Duration, error)
	// EndMarker sends an end marker into a tunnel.
	EndMarker(m EndMarker) error
	// Locals returns the addresses of this end of tunnels.
	Locals() Locals
}

// Batch is a number of changes that take effect together.
type Batch interface {
	// Put installs a session, or replaces the one in was; that takes effect with the next packets, for each direction as
	// a whole. The result is a new Rows, was stays unchanged. A usage or meter whose ID is in both keeps its row and
	// counts. An error changes nothing; it wraps cube.ErrFull if there is no room.
	Put(was *pdusession.Rows, s *pdusession.Session) (*pdusession.Rows, error)
	Remove(rows *pdusession.Rows) error
	// Commit returns once no packet uses what was replaced or removed, and frees it. The result has the last counts of
	// usages that were removed, by row. After an error all is as before Begin.
	Commit() (final map[uint32]pdusession.Counts, err error)
}

// Port is that of PFCP.
const Port = 8805

// Config is the configuration of a server. Zero values have the defaults that are given.
type Config struct {
	// Address is where requests are received: by default port 8805 of all addresses. If it is unspecified, responses have
	// the address that the route to the SMF has.
	Address netip.AddrPort
	// PeerPort is the port of SMFs to which requests are sent (8805), other than those in Peers.
	PeerPort uint16
	// NodeID is an IP address or a domain name: by default the address that SMFs send to.
	NodeID string
	// Peers are SMFs that an association is set up with. Others may set up one themselves, from an address of Allowed;
	// empty: from any.
	Peers   []netip.AddrPort
	Allowed []netip.Prefix
	// Instances are the network instances; empty: any.
	Instances []string
	Pools     []Pool
	// GuaranteedKbps is the maximum sum of guaranteed bit rates of each direction; 0: no limit.
	GuaranteedKbps uint64
	// T1 is the time between retransmissions of a request (3 s), N1 their number (3), Heartbeat the time between
	// heartbeats of each SMF (30 s), and between attempts to set up an association.
	T1        time.Duration
	N1        int
	Heartbeat time.Duration
	// Store is the path of the file with the sessions.
	Store string
	Log   *slog.Logger
}

// Pool is a range of addresses of devices: an IPv4 prefix, or an IPv6 one with /64 prefixes in it.
type Pool struct {
	// Instance is the network instance it is for; empty: any.
	Instance string
	Prefix   netip.Prefix
}

// withDefaults returns a configuration without zero values.
func (c Config) withDefaults() Config {
	if !c.Address.Addr().IsValid() {
		c.Address = netip.AddrPortFrom(netip.IPv6Unspecified(), cmp.Or(c.Address.Port(), Port))
	}
	if c.PeerPort == 0 {
		c.PeerPort = Port
	}
	if c.T1 == 0 {
		c.T1 = 3 * time.Second
	}
	if c.N1 == 0 {
		c.N1 = 3
	}
	if c.Heartbeat == 0 {
		c.Heartbeat = 30 * time.Second
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	return c
}
