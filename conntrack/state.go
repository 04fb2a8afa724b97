// SPDX-License-Identifier: Apache-2.0

package conntrack

// State is struct pcn_ct_state: a connection. The zero value is none.
type State struct {
	Side      [2]Side
	Syn       uint32
	SynWindow uint16
	SynScale  uint8
	_         uint8
	State     Phase
	Steps     uint8
	Timeout   Timeout
	Cap       Timeout
	Scale     [2]uint8
	Retrans   uint8
	Flags     uint8
}

// Side is struct pcn_ct_side: what one side of a connection has sent.
type Side struct{ End, Ack, Limit, Window uint32 }

// Members of Flags and, for side 0, of Steps.
const (
	flagOpener    = 0x01
	flagSeenReply = 0x02
	flagPending   = 0x04
	flagSynSide   = 0x08
	flagReset     = 0x10

	sentSYN  = 0x01
	synAcked = 0x04
	sentFIN  = 0x10
	finAcked = 0x40
)

// Opener is the side that opened the connection, 0 or 1.
func (s *State) Opener() uint8 { return s.Flags & flagOpener }

// valid records a valid packet of a side, and returns its class.
func (s *State) valid(from uint8) Class {
	if s.Opener() != from {
		s.Flags |= flagSeenReply
	}
	if s.Flags&flagSeenReply != 0 {
		return Established
	}
	return New
}

// packet changes the state for protocols without states.
func (s *State) packet(from uint8, timeout, replied Timeout) Class {
	if s.State == None {
		s.Flags = from
	}
	class := s.valid(from)
	s.State, s.Timeout = Unreplied, timeout
	if class != New {
		s.State, s.Timeout = Replied, replied
	}
	return class
}

// UDP changes the state of a UDP session by a packet of a side, 0 or 1, and returns its class.
func (s *State) UDP(from uint8) Class { return s.packet(from&1, UDP, UDPStream) }

// ICMP is the same for ICMP queries: requests and the replies to them.
func (s *State) ICMP(from uint8, request bool) Class {
	from &= 1
	if s.State == None && !request || s.State != None && request != (from == s.Opener()) {
		return Invalid
	}
	return s.packet(from, ICMP, ICMP)
}

// Other is the same for all other protocols.
func (s *State) Other(from uint8) Class { return s.packet(from&1, Other, Other) }
