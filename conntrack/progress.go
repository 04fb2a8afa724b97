// SPDX-License-Identifier: Apache-2.0

package conntrack

// Progress is struct pcn_ct_progress: how far a connection has got, without its windows. The zero value is none.
type Progress struct {
	State   Phase
	Steps   uint8
	Timeout Timeout
	Flags   uint8
}

// Members of Flags.
const (
	flagOpener    = 0x01
	flagSeenReply = 0x02
	flagPending   = 0x04
	flagSynSide   = 0x08
	flagReset     = 0x10 // side 0 has sent an RST; shifted by one: side 1
)

// Members of Steps, of side 0; shifted by one for side 1. They say what a segment does, too, as do the last two.
const (
	sentSYN  = 0x01
	synAcked = 0x04
	sentFIN  = 0x10
	finAcked = 0x40

	resumes = 0x100 // sends data after its FIN
	resets  = 0x200
)

// Replied reports whether the side that did not open the connection has sent a packet.
func (p *Progress) Replied() bool { return p.Flags&flagSeenReply != 0 }

// valid records a valid packet of a side, and returns its class.
func (p *Progress) valid(from uint8) Class {
	if p.Flags&flagOpener != from {
		p.Flags |= flagSeenReply
	}
	if p.Replied() {
		return Established
	}
	return New
}

// phase is the state that the steps lead to.
func (p *Progress) phase() Phase {
	const fins, finsAcked, syns, synsAcked = sentFIN * 3, finAcked * 3, sentSYN * 3, synAcked * 3
	switch {
	case p.Flags&(flagReset*3) != 0:
		return Closed
	case p.Steps&fins == fins && p.Steps&finsAcked == finsAcked:
		return TimeWait
	case p.Steps&fins == fins:
		return LastAck
	case p.Steps&fins != 0 && p.Steps&finsAcked != 0:
		return CloseWait
	case p.Steps&fins != 0:
		return FinWait
	case p.Steps&syns != syns:
		return SynSent
	case p.Steps&synsAcked == synsAcked:
		return Open
	case p.Steps&synsAcked != 0:
		return SynRecv
	}
	return SynSent2
}

// proceed is a TCP segment of a side that does something. A side that acknowledges a SYN has sent its own.
func (p *Progress) proceed(from uint8, does uint16) Class {
	if p.State == None {
		p.Flags |= from * flagOpener
	}
	if does&resumes != 0 {
		p.Steps &^= (sentFIN | finAcked) << from
	}
	if does&synAcked != 0 {
		p.Steps |= sentSYN * 3
	}
	if does&resets != 0 {
		p.Flags |= flagReset << from
	}
	p.Steps |= uint8(does)&(sentSYN|sentFIN)<<from | uint8(does)&(synAcked|finAcked)<<(1-from)
	p.State, p.Timeout = p.phase(), TCPSynSent
	if p.State >= SynRecv {
		p.Timeout = TCPSynRecv + Timeout(p.State-SynRecv)
	}
	return p.valid(from)
}

// packet is one of a protocol without states.
func (p *Progress) packet(from uint8, timeout, replied Timeout) Class {
	if p.State == None {
		p.Flags = from * flagOpener
	}
	class := p.valid(from)
	p.State, p.Timeout = Unreplied, timeout
	if class != New {
		p.State, p.Timeout = Replied, replied
	}
	return class
}

// IP protocols.
const (
	protoICMP, protoTCP, protoUDP, protoICMPv6 = 1, 6, 17, 58
)

// Follow changes the progress by a packet of a side, 0 or 1, of an IP protocol, and returns its class. It goes by the
// flags of TCP segments alone: pcn_ct_follow says what follows from that.
func (p *Progress) Follow(from, protocol uint8, flags Flag) Class {
	from &= 1
	switch protocol {
	case protoTCP:
		return p.tcp(from, flags)
	case protoUDP:
		return p.packet(from, UDP, UDPStream)
	case protoICMP, protoICMPv6:
		return p.packet(from, ICMP, ICMP)
	}
	return p.packet(from, Other, Other)
}

// tcp is a segment by its flags.
func (p *Progress) tcp(from uint8, flags Flag) Class {
	if flags&RST != 0 {
		if p.State == None {
			return Invalid
		}
		return p.proceed(from, resets)
	}
	if flags&(SYN|ACK) == SYN && p.State >= LastAck {
		*p = Progress{} // the next connection of the same ends
	}
	p.Flags &^= flagReset << from
	does := uint16(0)
	if flags&SYN != 0 {
		does |= sentSYN
	}
	if flags&FIN != 0 {
		does |= sentFIN
	}
	if flags&ACK != 0 {
		does |= synAcked
		if p.Steps&(sentFIN<<(1-from)) != 0 {
			does |= finAcked
		}
	}
	return p.proceed(from, does)
}
