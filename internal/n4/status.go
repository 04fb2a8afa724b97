// SPDX-License-Identifier: Apache-2.0

package n4

// What the server shows about itself.

import (
	"cmp"
	"maps"
	"net/netip"
	"slices"
	"sync/atomic"
	"time"
)

// Status is a snapshot.
type Status struct {
	Address  netip.AddrPort
	Recovery time.Time
	Peers    []PeerStatus
	// Sessions is the number of sessions, Addresses that of addresses of devices, GuaranteedUp and GuaranteedDown the sums
	// of guaranteed bit rates in kbit/s.
	Sessions, Addresses          int
	GuaranteedUp, GuaranteedDown uint64
	// Pending is the number of own requests that wait for a response.
	Pending int
	// Requests are those of SMFs that were answered, Asked own ones; a Cause of 0 is no response.
	Requests, Asked []MessageCount
	// Repeated are requests that were received again, Malformed messages that were not parsed, Strangers messages from addresses
	// without an association that did not set up one (heartbeats excepted), Unexpected responses to no request, Lost messages that found the inbox full, Unsent messages that the socket refused, Panics errors of decoders.
	Repeated, Malformed, Strangers, Unexpected, Lost, Unsent, Panics, Notices uint64
}

// PeerStatus is an SMF.
type PeerStatus struct {
	Node     string
	Address  netip.Addr
	Up       bool
	Since    time.Time
	Sessions int
	// Heartbeat is when it last sent or answered one.
	Heartbeat time.Time
}

// MessageCount is the number of requests of a type that were answered with a cause.
type MessageCount struct {
	Message string
	Cause   uint8
	Count   uint64
}

type result struct {
	message string
	cause   uint8
}

// counters are those of messages. The reader writes lost, the owner of the state all others.
type counters struct {
	requests, asked                                                     map[result]uint64
	repeated, malformed, strangers, unexpected, unsent, panics, notices uint64
	lost                                                                atomic.Uint64
}

func newCounters() counters {
	return counters{requests: map[result]uint64{}, asked: map[result]uint64{}}
}

func counts(of map[result]uint64) []MessageCount {
	list := make([]MessageCount, 0, len(of))
	for key, count := range maps.All(of) {
		list = append(list, MessageCount{key.message, key.cause, count})
	}
	slices.SortFunc(list, func(a, b MessageCount) int {
		return cmp.Or(cmp.Compare(a.Message, b.Message), cmp.Compare(a.Cause, b.Cause))
	})
	return list
}

// Status returns a snapshot, once Run has begun.
func (s *Server) Status() (Status, error) {
	var is Status
	err := s.do(func() {
		c := &s.counters
		is = Status{
			Address: s.Addr(), Recovery: s.recovery, Sessions: len(s.sessions.byNumber), Addresses: len(s.resources.addresses),
			GuaranteedUp: s.resources.gbr.Up, GuaranteedDown: s.resources.gbr.Down, Pending: len(s.requests),
			Requests: counts(c.requests), Asked: counts(c.asked), Repeated: c.repeated, Malformed: c.malformed, Strangers: c.strangers, Unexpected: c.unexpected,
			Lost: c.lost.Load(), Unsent: c.unsent, Panics: c.panics, Notices: c.notices,
		}
		for _, p := range s.peers {
			is.Peers = append(is.Peers, PeerStatus{p.Node, p.Addr, !p.down, p.Since, len(s.sessions.byNode[p.Node]), p.answered})
		}
	})
	slices.SortFunc(is.Peers, func(a, b PeerStatus) int { return cmp.Compare(a.Node, b.Node) })
	return is, err
}
