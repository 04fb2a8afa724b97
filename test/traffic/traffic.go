// SPDX-License-Identifier: Apache-2.0

// Package traffic makes random traffic for tests that compare cubes with Linux: TCP connections, UDP and ICMP exchanges,
// ICMP errors about packets of them, and packets on their own, all at once.
package traffic

import (
	"encoding/binary"
	"math/rand/v2"
	"net/netip"

	"github.com/polycube/polycube/conntrack"
	"github.com/polycube/polycube/test/pkt"
	"github.com/polycube/polycube/test/rulesets"
	"github.com/polycube/polycube/test/talk"
)

// Packet is an IP packet from one side. The sides are the chains: what side 0 sends comes in.
type Packet struct {
	From     uint8
	Protocol uint8
	IP       []byte
	What     string // for humans
	// Conn is the TCP connection that the packet is a segment of; nil for all else.
	Conn    *Connection
	Segment conntrack.Segment
	Of      uint8             // the side of the connection that sends it
	Ends    [2]netip.AddrPort // its sender and its receiver
}

// Connection is a TCP connection, as our tracking without a kernel sees it.
type Connection struct {
	State  conntrack.State
	Picked bool // it was open before
	Ended  bool // the states differ from now on
	old    *edge
	talk   *talk.Talk
}

// exchange is an exchange of packets between two hosts. Its side 0 is the side of the traffic that `first` says.
type exchange struct {
	hosts    [2]netip.Addr
	ports    [2]uint16
	protocol uint8
	dscp     uint8
	flags    uint8
	first    uint8
	steps    int
	queries  bool // echo requests and replies
	conn     *Connection
}

// Source is a source of packets that depends on the seed alone.
type Source struct {
	*rand.Rand
	headers   *rulesets.Packets
	exchanges []*exchange
	sent      []Packet // packets that errors may be about
	known     map[[2]netip.AddrPort]bool
	id        uint32
}

// New returns traffic that matches rules.
func New(rules []rulesets.Rule, seed uint64) *Source {
	t := &Source{Rand: rand.New(rand.NewPCG(seed, 11)), known: map[[2]netip.AddrPort]bool{}} //nolint:gosec // it has to repeat
	t.Follow(rules, seed)
	return t
}

// Follow begins exchanges that match other rules from now on.
func (t *Source) Follow(rules []rulesets.Rule, seed uint64) {
	t.headers = rulesets.NewPackets(rules, 1, seed)
}

// Number is a number for a packet that is sent besides the others.
func (t *Source) Number() uint32 {
	t.id++
	return t.id
}

// Next is the next packet.
func (t *Source) Next() Packet {
	for {
		for len(t.exchanges) < 12 {
			if e := t.begin(); e != nil {
				t.exchanges = append(t.exchanges, e)
			}
		}
		n := t.IntN(len(t.exchanges))
		e := t.exchanges[n]
		if e.steps--; e.steps < 0 || e.conn != nil && e.conn.Ended {
			t.exchanges = append(t.exchanges[:n], t.exchanges[n+1:]...)
			continue
		}
		var p Packet
		if about := t.IntN(300); about < len(t.sent) && (t.sent[about].Conn == nil || !t.sent[about].Conn.Ended) {
			p = t.icmpError(t.sent[about])
		} else {
			p = t.of(e)
			t.sent = append(t.sent[max(0, len(t.sent)-30):], p)
		}
		return p
	}
}

// begin begins an exchange; nil if a router does not forward its packets.
func (t *Source) begin() *exchange {
	h := t.headers.Headers()
	e := &exchange{
		hosts: [2]netip.Addr{h.Src, h.Dst}, ports: [2]uint16{h.SrcPort, h.DstPort}, protocol: h.Protocol, dscp: h.DSCP, flags: h.Flags,
		first: uint8(t.IntN(2)), steps: 1,
	}
	if !forwarded(h.Src) || !forwarded(h.Dst) || h.Src == h.Dst || special[h.Protocol] {
		return nil
	}
	if e.protocol == pkt.ProtoICMP && h.Src.Is6() || e.protocol == pkt.ProtoICMPv6 && h.Src.Is4() {
		return nil // it has a meaning for us and for the kernel that no host gives to it
	}
	switch e.protocol {
	case pkt.ProtoTCP:
		ends := [2]netip.AddrPort{netip.AddrPortFrom(e.hosts[0], e.ports[0]), netip.AddrPortFrom(e.hosts[1], e.ports[1])}
		if t.known[ends] || t.known[[2]netip.AddrPort{ends[1], ends[0]}] || e.ports[0] == 0 || e.ports[1] == 0 {
			return nil
		}
		t.known[ends] = true
		e.conn = &Connection{}
		if t.IntN(4) > 0 {
			e.steps = 4 + t.IntN(30)
			e.conn.talk = talk.New(t.Rand)
		}
	case pkt.ProtoUDP:
		if e.ports[0] == 0 || e.ports[1] == 0 {
			return nil
		}
		e.steps = 1 + t.IntN(6)
	case pkt.ProtoICMP, pkt.ProtoICMPv6:
		if t.IntN(2) == 0 { // queries
			e.steps, e.queries = 1+t.IntN(6), true
		} else if kind := uint8(e.ports[0] >> 8); e.protocol == pkt.ProtoICMPv6 && !knownICMPv6[kind] || e.protocol == pkt.ProtoICMP && !knownICMP[kind] {
			return nil
		}
	default:
		e.steps = 1 + t.IntN(4)
	}
	return e
}

// special are protocols that nf_conntrack tracks in ways of their own, and we like any other: SCTP, DCCP, GRE, and
// UDP-Lite, whose checksum covers a part; extension headers of IPv6, and "no next header", which has no connection in
// Linux.
var special = map[uint8]bool{132: true, 33: true, 47: true, 136: true, 0: true, 43: true, 44: true, 51: true, 59: true, 60: true, 135: true, 139: true, 140: true}

// knownICMP are the queries, replies and errors that are tracked. All other types are UNTRACKED here, and INVALID in
// Linux.
var knownICMP = map[uint8]bool{0: true, 3: true, 4: true, 5: true, 8: true, 11: true, 12: true, 13: true, 14: true, 15: true, 16: true, 17: true, 18: true}

// knownICMPv6 are the same of ICMPv6, and those of listener discovery, which are UNTRACKED for both. Neighbour discovery
// passes the firewall, and does not pass a router.
var knownICMPv6 = map[uint8]bool{1: true, 2: true, 3: true, 4: true, 128: true, 129: true, 130: true, 131: true, 132: true, 143: true}

// forwarded reports whether a router forwards packets from and to an address.
func forwarded(a netip.Addr) bool {
	if a.Is4() {
		first := a.As4()[0]
		return first > 0 && first < 224 && !a.IsLoopback() && !a.IsLinkLocalUnicast()
	}
	return a.IsGlobalUnicast() && !a.Is4In6()
}

// of is the next packet of an exchange.
func (t *Source) of(e *exchange) Packet {
	side := uint8(0)
	if e.steps > 0 {
		side = uint8(t.IntN(2))
	}
	p := Packet{Conn: e.conn, Protocol: e.protocol, What: "packet"}
	ports := e.ports
	if e.conn != nil && e.conn.talk != nil {
		side, p.Segment = e.conn.talk.Next()
		p.What = e.conn.talk.Kind
	} else if e.conn != nil {
		p.Segment = conntrack.Segment{Seq: t.Uint32(), Ack: t.Uint32(), Window: uint16(t.IntN(65536)), Flags: conntrack.Flag(e.flags), Scale: conntrack.NoScale}
		p.What = "segment"
	}
	p.Of, p.From = side, side^e.first
	from, to := e.hosts[side], e.hosts[1-side]
	if side == 1 {
		ports = [2]uint16{ports[1], ports[0]}
	}
	p.Ends = [2]netip.AddrPort{netip.AddrPortFrom(from, ports[0]), netip.AddrPortFrom(to, ports[1])}
	var payload []byte
	switch e.protocol {
	case pkt.ProtoTCP:
		payload = talk.Bytes(p.Segment, ports)
		if e.conn.talk == nil {
			payload[13] = e.flags
		}
	case pkt.ProtoUDP:
		payload = pkt.UDPDatagram(from.String(), to.String(), ports[0], ports[1], make([]byte, t.IntN(30)))
	case pkt.ProtoICMP, pkt.ProtoICMPv6:
		payload = t.icmp(e, side)
		p.What = "ICMP"
	default:
		payload = make([]byte, 8+t.IntN(30))
	}
	p.IP = t.packet(from, to, e.protocol, payload, e.dscp)
	return p
}

// icmp is a query, a reply, or any message. Both ports together are the identifier.
func (t *Source) icmp(e *exchange, side uint8) []byte {
	kind, code := uint8(e.ports[0]>>8), uint8(e.ports[0])
	if e.queries {
		kind, code = map[bool]uint8{true: 8, false: 0}[side == 0 == (t.IntN(8) > 0)], 0
		if e.protocol == pkt.ProtoICMPv6 {
			kind = map[uint8]uint8{8: 128, 0: 129}[kind]
		}
	}
	id := uint32(e.ports[0])
	if t.IntN(12) == 0 {
		id++
	}
	return binary.BigEndian.AppendUint32([]byte{kind, code, 0, 0}, id<<16|uint32(t.IntN(100)))
}

// icmpError is an error about a packet, from its receiver or a router: some of them are wrong.
func (t *Source) icmpError(about Packet) Packet {
	p := Packet{From: 1 - about.From, What: "ICMP error about a " + about.What}
	six := about.IP[0]>>4 == 6
	at, length, least := 12, 4, 28
	kinds := [][2]uint8{{3, 0}, {3, 1}, {3, 3}, {3, 4}, {3, 13}, {11, 0}, {12, 0}, {4, 0}, {5, 1}}
	if six {
		at, length, least = 8, 16, 48
		kinds = [][2]uint8{{1, 0}, {1, 1}, {1, 3}, {1, 4}, {2, 0}, {3, 0}, {4, 1}}
	}
	address := func(at int) netip.Addr {
		a, _ := netip.AddrFromSlice(about.IP[at : at+length])
		return a
	}
	to, from := address(at), address(at+length)
	if t.IntN(3) == 0 {
		from = map[bool]netip.Addr{false: netip.MustParseAddr("198.51.100.1"), true: netip.MustParseAddr("2001:db8:ffff::1")}[six]
	}
	switch t.IntN(16) {
	case 0:
		p.What += ", to another host"
		to = to.Next()
	case 1:
		p.What += ", from the sender's side"
		p.From = about.From
	case 2:
		p.What += ", to the receiver"
		from, to = to, from
	}
	if !forwarded(to) || !forwarded(from) {
		from, to = address(at+length), address(at)
	}
	inner := about.IP[:min(len(about.IP), least+t.IntN(60))]
	kind := kinds[t.IntN(len(kinds))]
	payload := append([]byte{kind[0], kind[1], 0, 0, 0, 0, 0, 0}, inner...)
	p.Protocol = map[bool]uint8{false: pkt.ProtoICMP, true: pkt.ProtoICMPv6}[six]
	p.IP = t.packet(from, to, p.Protocol, payload, uint8(t.IntN(64)))
	return p
}

// packet is an IP packet, with all checksums. Some of IPv6 have an extension header.
func (t *Source) packet(from, to netip.Addr, protocol uint8, payload []byte, dscp uint8) []byte {
	t.id++
	if at, there := map[uint8]int{pkt.ProtoTCP: 16, pkt.ProtoUDP: 6, pkt.ProtoICMP: 2, pkt.ProtoICMPv6: 2}[protocol]; there {
		payload[at], payload[at+1] = 0, 0
		var pseudo []byte
		if protocol != pkt.ProtoICMP {
			pseudo = pkt.PseudoHeader(from.String(), to.String(), protocol, len(payload))
		}
		binary.BigEndian.PutUint16(payload[at:], ^pkt.Sum(pseudo, payload))
	}
	if from.Is4() {
		h := pkt.IPv4Header{From: from.String(), To: to.String(), Protocol: protocol, TTL: 64, TOS: dscp << 2, ID: uint16(t.id)}
		if t.IntN(16) == 0 {
			h.Options = []byte{1, 1, 1, 0}
		}
		return h.Packet(payload)
	}
	h := pkt.IPv6Header{From: from.String(), To: to.String(), Next: protocol, HopLimit: 64, Class: dscp << 2}
	if t.IntN(8) == 0 {
		h.Next = 60 // destination options
		payload = append(pkt.IPv6Extension(protocol), payload...)
	}
	b := h.Packet(payload)
	b[1] |= byte(t.id >> 16 & 0xf)
	binary.BigEndian.PutUint16(b[2:], uint16(t.id))
	return b
}

// Number is the number of a packet: the ID of IPv4, the flow label of IPv6.
func Number(ip []byte) uint32 {
	if ip[0]>>4 == 6 {
		return binary.BigEndian.Uint32(ip) & 0xfffff
	}
	return uint32(binary.BigEndian.Uint16(ip[4:]))
}
