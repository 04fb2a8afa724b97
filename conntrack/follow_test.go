// SPDX-License-Identifier: Apache-2.0

package conntrack

import (
	"testing"

	"github.com/polycube/polycube/test/pkt"
)

// experimental is a protocol number for experiments (RFC 3692).
const experimental = 253

// TestFollowing: connections of which only the flags are known.
func TestFollowing(t *testing.T) {
	type segment struct {
		from  uint8
		flags Flag
		class Class
		state Phase
	}
	opened := []segment{{0, SYN, New, SynSent}, {1, SYN | ACK, Established, SynRecv}, {0, ACK, Established, Open}}
	after := func(more ...segment) []segment { return append(opened[:3:3], more...) }
	for name, segments := range map[string][]segment{
		"opened and closed": after(
			segment{0, FIN | ACK, Established, FinWait}, segment{1, ACK, Established, CloseWait},
			segment{1, FIN | ACK, Established, LastAck}, segment{0, ACK, Established, TimeWait},
			segment{1, SYN, New, SynSent}, segment{0, SYN | ACK, Established, SynRecv}),
		"closed by both at once": after(
			segment{0, FIN | ACK, Established, FinWait}, segment{1, FIN | ACK, Established, LastAck}, segment{0, ACK, Established, TimeWait}),
		"simultaneous open": {{0, SYN, New, SynSent}, {1, SYN, Established, SynSent2},
			{0, SYN | ACK, Established, SynRecv}, {1, SYN | ACK, Established, Open}},
		"open before, seen from both sides":  {{1, ACK, New, SynRecv}, {1, ACK, New, SynRecv}, {0, ACK, Established, Open}},
		"closed before anybody has answered": {{0, SYN, New, SynSent}, {0, FIN | ACK, New, FinWait}},
		"refused, and tried again":           {{0, SYN, New, SynSent}, {1, RST | ACK, Established, Closed}, {0, SYN, New, SynSent}},
		"RFC 7857, 2.2: an RST whose side continues to send was forged": after(
			segment{1, RST, Established, Closed}, segment{1, ACK, Established, Open}),
		"an RST, and what was on its way": after(
			segment{1, RST, Established, Closed}, segment{0, ACK, Established, Closed}, segment{0, RST, Established, Closed},
			segment{1, ACK, Established, Closed}, segment{0, ACK, Established, Open}),
		"an RST of no connection": {{0, RST, Invalid, None}, {1, RST | ACK, Invalid, None}},
	} {
		var p Progress
		for i, s := range segments {
			if class := p.Follow(s.from, pkt.ProtoTCP, s.flags); class != s.class || p.State != s.state {
				t.Errorf("%s: segment %d is %v in %v, want %v in %v", name, i, class, p.State, s.class, s.state)
				break
			}
			if p.Replied() != (s.class == Established) {
				t.Errorf("%s: segment %d: replied is %v", name, i, p.Replied())
			}
		}
	}
}

// TestFollowingOtherProtocols: the states and timeouts are those of the functions with a state.
func TestFollowingOtherProtocols(t *testing.T) {
	for protocol, with := range map[uint8]func(s *State, from uint8, i int) Class{
		pkt.ProtoUDP:  func(s *State, from uint8, _ int) Class { return s.UDP(from) },
		pkt.ProtoICMP: func(s *State, from uint8, i int) Class { return s.ICMP(from, i != 2) },
		protoICMPv6:   func(s *State, from uint8, i int) Class { return s.ICMP(from, i != 2) },
		experimental:  func(s *State, from uint8, _ int) Class { return s.Other(from) },
	} {
		var p Progress
		var s State
		for i, from := range []uint8{1, 1, 0, 1} {
			if got, want := p.Follow(from, protocol, 0), with(&s, from, i); got != want || p != s.Progress() {
				t.Errorf("protocol %d, packet %d: %v and %+v, want %v and %+v", protocol, i, got, p, want, s.Progress())
			}
		}
	}
}
