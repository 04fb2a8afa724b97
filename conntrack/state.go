// SPDX-License-Identifier: Apache-2.0

package conntrack

// State is struct pcn_ct_state: a connection. The zero value is none.
type State struct {
	Side      [2]Side
	Syn       uint32
	SynWindow uint16
	SynScale  uint8
	_         uint8
	State     Phase // of Progress, as are Steps, Timeout and Flags
	Steps     uint8
	Timeout   Timeout
	Cap       Timeout
	Scale     [2]uint8
	Retrans   uint8
	Flags     uint8
}

// Side is struct pcn_ct_side: what one side of a connection has sent.
type Side struct{ End, Ack, Limit, Window uint32 }

// Opener is the side that opened the connection, 0 or 1.
func (s *State) Opener() uint8 { return s.Flags & flagOpener }

// Progress is how far the connection has got.
func (s *State) Progress() Progress { return Progress{s.State, s.Steps, s.Timeout, s.Flags} }

// set is pcn_ct_store_progress.
func (s *State) set(p Progress) {
	s.State, s.Steps, s.Timeout, s.Flags = p.State, p.Steps, p.Timeout, p.Flags
}

// packet changes the state for protocols without states.
func (s *State) packet(from uint8, timeout, replied Timeout) Class {
	p := s.Progress()
	class := p.packet(from, timeout, replied)
	s.set(p)
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
