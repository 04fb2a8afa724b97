// SPDX-License-Identifier: Apache-2.0

package n4

// What senders can take from others. N4 has no authentication, so without Config.Allowed anyone who reaches the socket can set up
// associations.

import (
	"net/netip"
	"slices"

	"github.com/wmnsk/go-pfcp/ie"
	"github.com/wmnsk/go-pfcp/message"

	"github.com/polycube/polycube/internal/n4/rules"
)

const (
	// maxPeers is the number of associations, those of Config.Peers excepted.
	maxPeers = 1024
	// maxOfSender is the number of associations from an IPv4 address, or from an IPv6 prefix of 64 bits.
	maxOfSender = 16
)

// sender returns the prefix that counts as one sender: an IPv4 address, or the /64 of an IPv6 address, since hosts can use any address of their /64.
func sender(a netip.Addr) netip.Prefix {
	bits := a.BitLen()
	if a.Is6() {
		bits = 64
	}
	p, _ := a.Prefix(bits) // the length fits
	return p
}

// configured reports whether an address is that of one of Config.Peers.
func (s *endpoint) configured(a netip.Addr) bool {
	return slices.ContainsFunc(s.config.Peers, func(p netip.AddrPort) bool { return p.Addr() == a })
}

// admit finds room for an association of a new node. If there are too many, the oldest one of an SMF that has not answered a
// heartbeat (yet, or any more) and has no session ends.
func (s *associations) admit(from netip.Addr) error {
	same := 0
	var idle *peer
	for _, p := range s.peers {
		if sender(p.Addr) == sender(from) {
			same++
		}
		answers := !p.down && p.answered.After(p.Since)
		if !answers && len(s.sessions.byNode[p.Node]) == 0 && (idle == nil || p.Since.Before(idle.Since)) {
			idle = p
		}
	}
	switch {
	case same >= maxOfSender:
		return &rules.RefusalError{Cause: ie.CauseNoResourcesAvailable, Why: "too many associations from the address"}
	case len(s.peers) < maxPeers || s.configured(from):
		return nil
	case idle == nil:
		return &rules.RefusalError{Cause: ie.CauseNoResourcesAvailable, Why: "too many associations"}
	}
	s.log.Warn("N4 association ends: others need its place", "node", idle.Node, "peer", idle.Addr)
	s.dissolve(idle.Node)
	return nil
}

// countStranger counts a message from an address that has no association. What sets up one, and heartbeats, are no messages of
// strangers.
func (s *transactions) countStranger(from netip.Addr, m *incoming, err error) {
	if s.known(from) {
		return
	}
	if err == nil && m != nil && (m.kind == message.MsgTypeHeartbeatRequest || m.kind == message.MsgTypeAssociationSetupRequest) {
		return
	}
	s.counters.strangers++
}

// known reports whether an address has an association or sessions, or is configured.
func (s *transactions) known(a netip.Addr) bool { return s.senders[a] > 0 || s.configured(a) }

// senders counts the associations and sessions of addresses.
type senders map[netip.Addr]int

func (s senders) add(a netip.Addr) { s[a]++ }

func (s senders) remove(a netip.Addr) {
	if s[a]--; s[a] <= 0 {
		delete(s, a)
	}
}
