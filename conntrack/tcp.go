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

// only is the result of the methods below for a segment that does nothing but what they have done: its class. Others are
// what proceed takes.
func only(c Class) uint16 { return onlyClass | uint16(c) }

const onlyClass = 0x1000

// limit is the timeout that limits the one of the state.
func (s *State) limit(o Options) Timeout {
	switch {
	case o.MaxRetrans > 0 && s.Retrans >= o.MaxRetrans:
		return TCPMaxRetrans
	case s.State > SynRecv && (after(s.Side[0].End, s.Side[1].Ack) || after(s.Side[1].End, s.Side[0].Ack)):
		return TCPUnacknowledged
	}
	return Unlimited
}

func (s *State) retransmitted() { s.Retrans = uint8(min(int(s.Retrans)+1, 255)) }

// begin starts a connection with a SYN.
func (s *State) begin(from uint8, p *Segment) {
	*s = State{Syn: p.Seq, SynWindow: p.Window, SynScale: p.Scale, State: SynSent, Flags: from | from*flagSynSide, Steps: sentSYN << from}
	s.Side[from].End = p.Seq + 1 + p.Length
	s.Side[from].Window = max(uint32(p.Window), 1)
}

// join is the other side's first SYN.
func (s *State) join(from uint8, p *Segment) (does uint16) {
	me, peer := &s.Side[from], &s.Side[1-from]
	*me = Side{End: p.Seq + 1 + p.Length, Ack: s.Syn, Limit: peer.End, Window: max(uint32(p.Window), 1)}
	does = sentSYN
	if p.has(ACK) {
		me.Ack, me.Limit = p.Ack, p.Ack
		does |= synAcked
	}
	me.Limit += me.Window
	peer.Ack, peer.Limit = p.Seq, p.Seq+1+peer.Window
	if p.Scale != NoScale && s.SynScale != NoScale {
		s.Scale[from], s.Scale[1-from] = min(p.Scale, 14), min(s.SynScale, 14)
	}
	s.Retrans = 0
	return does
}

// syn is a SYN without ACK.
func (s *State) syn(from uint8, p *Segment) (does uint16) {
	me := &s.Side[from]
	known := s.State != None && s.State < TimeWait
	same := p.Seq == s.Syn && from == s.Flags&flagSynSide/flagSynSide && s.Flags&flagPending == 0
	switch {
	case s.State == SynSent && from != s.Opener():
		return s.join(from, p)
	case known && (same || s.State < Open && from != s.Opener() && p.end() == me.End):
		s.retransmitted() // by either side
	case s.State == None, s.State == SynSent, s.State == Closed, s.State == TimeWait && !after(me.End, p.Seq):
		s.begin(from, p)
	default:
		s.Syn, s.SynWindow, s.SynScale = p.Seq, p.Window, p.Scale
		s.Flags = s.Flags&^flagSynSide | flagPending | from*flagSynSide
		return only(New)
	}
	return 0
}

// pickUp is the first segment seen of a connection that was open before.
func (s *State) pickUp(from uint8, p *Segment, o Options) (does uint16) {
	if !o.PickUp || p.has(SYN|RST|FIN) {
		return only(Invalid)
	}
	window := max(uint32(p.Window)<<14, 1)
	s.Side[from] = Side{End: p.end(), Ack: p.Ack, Limit: p.Ack + window, Window: window}
	s.Side[1-from] = Side{End: p.Ack, Ack: p.Seq, Limit: p.Seq + 1<<30, Window: 1 << 30}
	s.Scale = [2]uint8{14, 14}
	s.Steps = synAcked << from
	return synAcked
}

// beforeReply is a segment other than a SYN before the other side has sent one.
func (s *State) beforeReply(from uint8, p *Segment) (does uint16) {
	answers := p.has(ACK) && p.Ack != s.Syn && p.Ack-s.Syn <= s.Side[s.Opener()].End-s.Syn
	opener := from == s.Opener()
	switch {
	case opener && p.has(RST) && p.Seq != s.Side[from].End:
		return 0
	case p.has(RST) && (opener || answers):
		return resets
	case !opener && answers && p.synAck():
		return s.join(from, p)
	case opener || p.has(SYN|FIN|RST):
		return only(Invalid)
	}
	return only(Established)
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

// rst is an RST after the first answer. What it acknowledges, if it does, must have been sent.
func (s *State) rst(from uint8, p *Segment) (does uint16) {
	me, peer := &s.Side[from], &s.Side[1-from]
	switch {
	case p.has(ACK) && after(p.Ack, peer.End):
		return only(Invalid)
	case p.Seq == peer.Ack || p.Seq == me.End:
		return resets
	case after(peer.Ack, p.Seq) || after(p.Seq, peer.Limit):
		return only(Invalid)
	}
	return 0
}

// advance is what a valid segment opens, acknowledges and closes.
func (s *State) advance(from uint8, p *Segment, o Options) (does uint16) {
	me, peer := &s.Side[from], &s.Side[1-from]
	window, end := uint32(p.Window), p.end()
	if !p.has(SYN) {
		window <<= s.Scale[from]
	}
	if after(p.Ack, me.Ack) {
		does |= synAcked
		s.Retrans, me.Ack = 0, p.Ack
	}
	if after(end, me.End) {
		if !o.Liberal {
			does |= resumes
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
		does |= sentFIN
	}
	if s.Steps&(sentFIN<<(1-from)) != 0 && !after(peer.End, me.Ack) {
		does |= finAcked
	}
	return does
}

// validFlags are the combinations of SYN, FIN, RST and ACK that RFC 9293 knows.
var validFlags = map[Flag]bool{SYN: true, RST: true, ACK: true, SYN | ACK: true, RST | ACK: true, FIN | ACK: true}

// judge applies a segment to the windows, and returns what it does, or only its class.
func (s *State) judge(from uint8, p *Segment, o Options) (does uint16) {
	switch {
	case !validFlags[p.Flags&(SYN|FIN|RST|ACK)]:
		return only(Invalid)
	case p.has(SYN) && !p.has(ACK):
		return s.syn(from, p)
	case s.State == None:
		return s.pickUp(from, p, o)
	case p.synAck() && s.Flags&flagPending != 0 && from != s.Flags&flagSynSide/flagSynSide && p.Ack == s.Syn+1:
		s.begin(1-from, &Segment{Seq: s.Syn, Window: s.SynWindow, Scale: s.SynScale})
	}
	switch {
	case s.Steps&(sentSYN<<(1-s.Opener())) == 0:
		return s.beforeReply(from, p)
	case p.has(RST):
		return s.rst(from, p)
	case !o.Liberal && !s.fits(from, p):
		return only(Invalid)
	case !o.Liberal && s.late(from, p):
		return 0
	}
	return s.advance(from, p, o)
}

// TCP changes the state of a TCP connection by a segment of a side, 0 or 1, and returns its class. Nothing changes if
// it is Invalid.
func (s *State) TCP(from uint8, p Segment, o Options) Class {
	from &= 1
	does := s.judge(from, &p, o)
	if does&onlyClass != 0 {
		return Class(does &^ onlyClass)
	}
	progress := s.Progress()
	class := progress.proceed(from, does)
	s.set(progress)
	s.Cap = s.limit(o)
	return class
}
