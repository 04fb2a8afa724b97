// SPDX-License-Identifier: Apache-2.0

package conntrack

// Flag is a TCP flag, as in the header.
type Flag uint8

// The flags that change states.
const (
	FIN Flag = 0x01
	SYN Flag = 0x02
	RST Flag = 0x04
	ACK Flag = 0x10
)

// NoScale is the Scale of a segment without a window scale option.
const NoScale = 0xff

// Segment is struct pcn_ct_segment: a TCP segment. Window is that of the header, Length that of the payload.
type Segment struct {
	Seq, Ack, Length uint32
	Window           uint16
	Flags            Flag
	Scale            uint8
}

func (p *Segment) has(f Flag) bool { return p.Flags&f != 0 }

// synAck reports whether the segment has both flags.
func (p *Segment) synAck() bool { return p.has(SYN) && p.has(ACK) }

// end is the sequence number after the segment.
func (p *Segment) end() uint32 { return p.Seq + p.Length + uint32(p.Flags>>1&1) + uint32(p.Flags&1) }

// Options of TCP.
type Options struct {
	// Liberal: segments outside of the windows are valid, except RST.
	Liberal bool
	// PickUp: connections that were open before are tracked from any ACK on.
	PickUp bool
	// MaxRetrans is the number of retransmissions after which TCPMaxRetrans limits the timeout; 0: never.
	MaxRetrans uint8
}

// Bits is the argument of pcn_ct_tcp.
func (o Options) Bits() uint32 {
	bits := uint32(o.MaxRetrans)
	if o.Liberal {
		bits |= 0x100
	}
	if o.PickUp {
		bits |= 0x200
	}
	return bits
}

// after reports whether a sequence number follows another.
func after(a, b uint32) bool { return int32(a-b) > 0 }

// phase is the state that the steps lead to.
func (s *State) phase() Phase {
	const fins, finsAcked, syns, synsAcked = sentFIN * 3, finAcked * 3, sentSYN * 3, synAcked * 3
	switch {
	case s.Flags&flagReset != 0:
		return Closed
	case s.Steps&fins == fins && s.Steps&finsAcked == finsAcked:
		return TimeWait
	case s.Steps&fins == fins:
		return LastAck
	case s.Steps&fins != 0 && s.Steps&finsAcked != 0:
		return CloseWait
	case s.Steps&fins != 0:
		return FinWait
	case s.Steps&syns != syns:
		return SynSent
	case s.Steps&synsAcked == synsAcked:
		return Open
	case s.Steps&synsAcked != 0:
		return SynRecv
	}
	return SynSent2
}

// settle stores the state and the timeouts.
func (s *State) settle(o Options) {
	s.State, s.Timeout = s.phase(), TCPSynSent
	if s.State >= SynRecv {
		s.Timeout = TCPSynRecv + Timeout(s.State-SynRecv)
	}
	switch {
	case o.MaxRetrans > 0 && s.Retrans >= o.MaxRetrans:
		s.Cap = TCPMaxRetrans
	case s.State > SynRecv && (after(s.Side[0].End, s.Side[1].Ack) || after(s.Side[1].End, s.Side[0].Ack)):
		s.Cap = TCPUnacknowledged
	default:
		s.Cap = Unlimited
	}
}

func (s *State) retransmitted() { s.Retrans = uint8(min(int(s.Retrans)+1, 255)) }

// begin starts a connection with a SYN.
func (s *State) begin(from uint8, p *Segment) {
	*s = State{Syn: p.Seq, SynWindow: p.Window, SynScale: p.Scale, Flags: from | from*flagSynSide, Steps: sentSYN << from}
	s.Side[from].End = p.Seq + 1 + p.Length
	s.Side[from].Window = max(uint32(p.Window), 1)
}

// join is the other side's first SYN.
func (s *State) join(from uint8, p *Segment) {
	me, peer := &s.Side[from], &s.Side[1-from]
	*me = Side{End: p.Seq + 1 + p.Length, Ack: s.Syn, Limit: peer.End, Window: max(uint32(p.Window), 1)}
	s.Steps |= sentSYN << from
	if p.has(ACK) {
		me.Ack, me.Limit = p.Ack, p.Ack
		s.Steps |= synAcked << (1 - from)
	}
	me.Limit += me.Window
	peer.Ack, peer.Limit = p.Seq, p.Seq+1+peer.Window
	if p.Scale != NoScale && s.SynScale != NoScale {
		s.Scale[from], s.Scale[1-from] = min(p.Scale, 14), min(s.SynScale, 14)
	}
	s.Retrans = 0
}

// syn is a SYN without ACK.
func (s *State) syn(from uint8, p *Segment, o Options) Class {
	me := &s.Side[from]
	known := s.State != None && s.State < TimeWait
	same := p.Seq == s.Syn && from == s.Flags&flagSynSide/flagSynSide && s.Flags&flagPending == 0
	switch {
	case s.State == SynSent && from != s.Opener():
		s.join(from, p)
	case known && (same || s.State < Open && from != s.Opener() && p.end() == me.End):
		s.retransmitted() // by either side
	case s.State == None, s.State == SynSent, s.State == Closed, s.State == TimeWait && !after(me.End, p.Seq):
		s.begin(from, p)
	default:
		s.Syn, s.SynWindow, s.SynScale = p.Seq, p.Window, p.Scale
		s.Flags = s.Flags&^flagSynSide | flagPending | from*flagSynSide
		return New
	}
	s.settle(o)
	return s.valid(from)
}

// pickUp is the first segment seen of a connection that was open before.
func (s *State) pickUp(from uint8, p *Segment, o Options) Class {
	if !o.PickUp || p.has(SYN|RST|FIN) {
		return Invalid
	}
	window := max(uint32(p.Window)<<14, 1)
	s.Side[from] = Side{End: p.end(), Ack: p.Ack, Limit: p.Ack + window, Window: window}
	s.Side[1-from] = Side{End: p.Ack, Ack: p.Seq, Limit: p.Seq + 1<<30, Window: 1 << 30}
	s.Scale = [2]uint8{14, 14}
	s.Flags, s.Steps = from, (sentSYN|synAcked)*3
	s.settle(o)
	return s.valid(from)
}

// beforeReply is a segment other than a SYN before the other side has sent one.
func (s *State) beforeReply(from uint8, p *Segment, o Options) Class {
	answers := p.has(ACK) && p.Ack != s.Syn && p.Ack-s.Syn <= s.Side[s.Opener()].End-s.Syn
	switch {
	case from == s.Opener():
		if !p.has(RST) {
			return Invalid
		}
		if p.Seq == s.Side[from].End {
			s.Flags |= flagReset
		}
	case p.has(RST):
		if !answers {
			return Invalid
		}
		s.Flags |= flagReset
	case p.synAck() && answers:
		s.join(from, p)
	case p.has(SYN | FIN):
		return Invalid
	default:
		return Established
	}
	s.settle(o)
	return s.valid(from)
}

// fits reports whether a segment begins where the other side allows, and acknowledges only what it has sent.
func (s *State) fits(from uint8, p *Segment) bool {
	peer := &s.Side[1-from]
	return !after(p.Seq, peer.Limit) && !after(p.Ack, peer.End)
}

// late reports whether a segment is older than the windows.
func (s *State) late(from uint8, p *Segment) bool {
	me, peer := &s.Side[from], &s.Side[1-from]
	return after(me.End-peer.Window, p.Seq) || after(peer.End-max(me.Window, 66000), p.Ack)
}

// rst is an RST after the first answer.
func (s *State) rst(from uint8, p *Segment, o Options) Class {
	me, peer := &s.Side[from], &s.Side[1-from]
	switch {
	case p.Seq == peer.Ack || p.Seq == me.End:
		s.Flags |= flagReset
	case after(peer.Ack, p.Seq) || after(p.Seq, peer.Limit):
		return Invalid
	}
	s.settle(o)
	return s.valid(from)
}

// advance is what a valid segment opens, acknowledges and closes.
func (s *State) advance(from uint8, p *Segment, o Options) {
	me, peer := &s.Side[from], &s.Side[1-from]
	window, end := uint32(p.Window), p.end()
	if !p.has(SYN) {
		window <<= s.Scale[from]
	}
	if after(p.Ack, me.Ack) {
		s.Steps |= synAcked << (1 - from)
		s.Retrans, me.Ack = 0, p.Ack
	}
	if after(end, me.End) {
		if !o.Liberal {
			s.Steps &^= (sentFIN | finAcked) << from
		}
		me.End = end
	} else if end != p.Seq && after(me.End, peer.Ack) {
		s.retransmitted()
	}
	window = max(window, 1)
	if limit := p.Ack + window; after(limit, me.Limit) {
		me.Limit = limit
	}
	me.Window = max(me.Window, window)
	if p.has(FIN) && (end == me.End || o.Liberal) {
		s.Steps |= sentFIN << from
	}
	if s.Steps&(sentFIN<<(1-from)) != 0 && !after(peer.End, me.Ack) {
		s.Steps |= finAcked << (1 - from)
	}
}

// validFlags are the combinations of SYN, FIN, RST and ACK that RFC 9293 knows.
var validFlags = map[Flag]bool{SYN: true, RST: true, ACK: true, SYN | ACK: true, RST | ACK: true, FIN | ACK: true}

// TCP changes the state of a TCP connection by a segment of a side, 0 or 1, and returns its class. Nothing changes if
// it is Invalid.
func (s *State) TCP(from uint8, p Segment, o Options) Class {
	from &= 1
	switch {
	case !validFlags[p.Flags&(SYN|FIN|RST|ACK)]:
		return Invalid
	case p.has(SYN) && !p.has(ACK):
		return s.syn(from, &p, o)
	case s.State == None:
		return s.pickUp(from, &p, o)
	case p.synAck() && s.Flags&flagPending != 0 && from != s.Flags&flagSynSide/flagSynSide && p.Ack == s.Syn+1:
		s.begin(1-from, &Segment{Seq: s.Syn, Window: s.SynWindow, Scale: s.SynScale})
	}
	switch {
	case s.Steps&(sentSYN<<(1-s.Opener())) == 0:
		return s.beforeReply(from, &p, o)
	case p.has(RST):
		return s.rst(from, &p, o)
	case !o.Liberal && !s.fits(from, &p):
		return Invalid
	case !o.Liberal && s.late(from, &p):
		return s.valid(from)
	}
	s.advance(from, &p, o)
	s.settle(o)
	return s.valid(from)
}
