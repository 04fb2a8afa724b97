// SPDX-License-Identifier: Apache-2.0

package rulesets

// Packets that match rules, on their boundaries, just outside them, and anywhere.

import (
	"encoding/binary"
	"math/rand/v2"
	"net/netip"

	"github.com/polycube/polycube/test/pkt"
)

// Packet is a frame and the index of its ingress port.
type Packet struct {
	InPort uint16
	Frame  []byte
}

// Packets creates packets for rules. Port indexes are below ports.
type Packets struct {
	*rand.Rand
	rules []Rule
	ports int
}

// NewPackets creates a source of packets, which depend on the seed alone.
func NewPackets(rules []Rule, ports int, seed uint64) *Packets {
	return &Packets{rand.New(rand.NewPCG(seed, 7)), rules, ports} //nolint:gosec // it has to repeat
}

// headers are the fields of a packet.
type headers struct {
	src, dst         netip.Addr
	protocol         uint8
	sport, dport     uint16 // of ICMP, the first is the type and the code
	dscp, flags      uint8
	etherType        uint16 // 0: that of IP
	smac, dmac       [6]byte
	vlan             int // -1: none
	inPort           uint16
	fragment, extend bool
	options          bool
}

// Next returns a packet for a randomly chosen rule, with some of its fields moved to the boundary of another rule, or
// away.
func (p *Packets) Next() Packet {
	h := p.next()
	return p.build(&h)
}

// Headers are those of a packet that Next would return, of a connection: without what is below and in between.
type Headers struct {
	Src, Dst         netip.Addr
	Protocol         uint8
	SrcPort, DstPort uint16 // of ICMP, the first is the type and the code
	DSCP, Flags      uint8
}

// Headers returns the headers of a packet as Next chooses them.
func (p *Packets) Headers() Headers {
	h := p.next()
	return Headers{h.src, h.dst, h.protocol, h.sport, h.dport, h.dscp, h.flags}
}

func (p *Packets) next() headers {
	h := p.random()
	if len(p.rules) > 0 {
		for range 1 + p.IntN(3) {
			p.into(&h, &p.rules[p.IntN(len(p.rules))], 0.9)
		}
		if p.IntN(4) == 0 {
			p.spoil(&h)
		}
	}
	return h
}

// In is a packet in a rule.
func (p *Packets) In(rule int) Packet {
	h := p.random()
	h.protocol, h.fragment, h.extend, h.options = 6, false, false, false
	p.into(&h, &p.rules[rule], 1)
	return p.build(&h)
}

func (p *Packets) random() headers {
	h := headers{
		src: p.address(netip.MustParsePrefix("10.0.0.0/8")), dst: p.address(netip.MustParsePrefix("10.0.0.0/8")),
		protocol: []uint8{6, 17, 1, 132, 47, 58}[p.IntN(6)],
		sport:    uint16(p.IntN(65536)), dport: uint16(p.IntN(65536)),
		smac: [6]byte{2, 0, 0, 0, 0, byte(p.IntN(8))}, dmac: [6]byte{2, 0, 0, 1, 0, byte(p.IntN(8))}, vlan: -1,
		inPort: uint16(p.IntN(p.ports)),
		dscp:   uint8(p.IntN(64)), flags: uint8(p.IntN(64)),
		fragment: p.IntN(16) == 0, extend: p.IntN(8) == 0, options: p.IntN(8) == 0,
	}
	if p.IntN(6) == 0 {
		six := netip.MustParsePrefix("2001:db8::/40")
		h.src, h.dst = p.address(six), p.address(six)
	}
	return h
}

// address is one of a prefix: its first, its last or any.
func (p *Packets) address(prefix netip.Prefix) netip.Addr {
	b := prefix.Addr().AsSlice()
	how := p.IntN(4)
	for bit := prefix.Bits(); bit < len(b)*8; bit++ {
		if how == 1 || how > 1 && p.IntN(2) == 0 {
			b[bit/8] |= 0x80 >> (bit % 8)
		}
	}
	a, _ := netip.AddrFromSlice(b)
	return a
}

// into moves fields into a rule, each with a probability.
func (p *Packets) into(h *headers, r *Rule, share float64) {
	take := func() bool { return p.Float64() < share }
	if r.Src.IsValid() && take() {
		h.src = p.address(r.Src)
	}
	if r.Dst.IsValid() && take() {
		h.dst = p.address(r.Dst)
	}
	if h.src.Is4() != h.dst.Is4() { // the rule specifies one of them
		if r.Src.IsValid() {
			h.dst = p.address(netip.PrefixFrom(h.src, 8).Masked())
		} else {
			h.src = p.address(netip.PrefixFrom(h.dst, 8).Masked())
		}
	}
	if r.Protocol != nil && take() {
		h.protocol = *r.Protocol
	}
	if r.SrcPort != nil && take() {
		h.sport = p.port(r.SrcPort)
	}
	if r.DstPort != nil && take() {
		h.dport = p.port(r.DstPort)
	}
	if r.DSCP != nil && take() {
		h.dscp = *r.DSCP
	}
	if r.Flags != nil && take() {
		h.protocol, h.flags = 6, h.flags&^r.Flags.Mask|r.Flags.Value
	}
	if r.ICMP != nil && take() {
		p.intoICMP(h, r.ICMP)
	}
	p.intoLink(h, r, take)
	if not := r.Not.parts(); len(not) > 0 && p.IntN(2) == 0 {
		p.into(h, &not[p.IntN(len(not))], share)
	}
}

// intoICMP makes a packet a message, of the IP version that the rule needs.
func (p *Packets) intoICMP(h *headers, i *ICMP) {
	h.protocol = 1
	if i.V6 {
		h.protocol = 58
	}
	if i.V6 != h.src.Is6() {
		prefix := map[bool]string{true: "2001:db8::/40", false: "10.0.0.0/8"}[i.V6]
		h.src, h.dst = p.address(netip.MustParsePrefix(prefix)), p.address(netip.MustParsePrefix(prefix))
	}
	h.sport = uint16(i.Type)<<8 | p.port(&Ports{uint16(i.First), uint16(i.Last)})
}

// intoLink moves the fields of the Ethernet header and the port.
func (p *Packets) intoLink(h *headers, r *Rule, take func() bool) {
	if r.EtherType != nil && take() {
		h.etherType = *r.EtherType
	}
	if r.SrcMAC != nil && take() {
		h.smac = *r.SrcMAC
	}
	if r.DstMAC != nil && take() {
		h.dmac = *r.DstMAC
	}
	if r.VLAN != nil && take() {
		h.vlan = int(*r.VLAN)
	}
	if r.InPort != nil && take() {
		h.inPort = *r.InPort
	}
}

func (p *Packets) port(r *Ports) uint16 {
	switch p.IntN(3) {
	case 0:
		return r.First
	case 1:
		return r.Last
	}
	return r.First + uint16(p.IntN(int(r.Last-r.First)+1))
}

// spoil moves one field a step.
func (p *Packets) spoil(h *headers) {
	switch p.IntN(10) {
	case 0:
		if next := h.src.Next(); next.IsValid() {
			h.src = next
		}
	case 1:
		if prev := h.dst.Prev(); prev.IsValid() {
			h.dst = prev
		}
	case 2:
		h.sport++
	case 3:
		h.dport--
	case 4:
		h.vlan = p.IntN(4096)
	case 5:
		h.protocol++
	case 6:
		h.inPort = uint16(p.IntN(p.ports))
	case 7:
		h.dscp = (h.dscp + 1) % 64
	case 8:
		h.flags ^= 1 << p.IntN(6)
	case 9:
		h.sport += 1 << 8
	}
}

// build encodes the headers. Checksums are left out: classifiers do not check them.
func (p *Packets) build(h *headers) Packet {
	var tags []uint32
	if h.vlan >= 0 {
		tags = []uint32{0x8100<<16 | uint32(h.vlan) | uint32(p.IntN(8))<<13}
	}
	etherType, ip := uint16(0x0800), p.ipv4
	if h.src.Is6() {
		etherType, ip = 0x86dd, p.ipv6
	}
	if h.etherType == 0x0806 || h.etherType == 0x88b5 {
		etherType = h.etherType
	}
	frame := pkt.EthernetFrame(h.dmac[:], h.smac[:], etherType, ip(h, p.transport(h)))
	return Packet{h.inPort, pkt.Tagged(frame, tags...)}
}

func (p *Packets) transport(h *headers) []byte {
	b := make([]byte, 24)
	binary.BigEndian.PutUint16(b, h.sport)
	binary.BigEndian.PutUint16(b[2:], h.dport)
	b[12], b[13] = 0x50, h.flags
	return b
}

func (p *Packets) ipv4(h *headers, payload []byte) []byte {
	ip := pkt.IPv4Header{From: h.src.String(), To: h.dst.String(), Protocol: h.protocol, TTL: 64, NoChecksum: true}
	if h.options {
		ip.Options = make([]byte, 4*(1+p.IntN(10)))
	}
	ip.TOS = h.dscp<<2 | byte(p.IntN(4))
	if h.fragment {
		ip.Fragment = []uint16{0x2000, 0x2007, 0x0001, 0x1fff}[p.IntN(4)]
	}
	return ip.Packet(payload)
}

func (p *Packets) ipv6(h *headers, payload []byte) []byte {
	var headers []byte
	kinds := []byte{}
	if h.extend {
		kinds = append(kinds, []byte{0, 60, 43, 51}[p.IntN(4)])
	}
	if h.fragment {
		kinds = append(kinds, 44)
	}
	for i, kind := range kinds {
		next := h.protocol
		if i+1 < len(kinds) {
			next = kinds[i+1]
		}
		e := make([]byte, 8)
		if kind == 44 {
			binary.BigEndian.PutUint16(e[2:], []uint16{1, 9, 8, 0}[p.IntN(4)])
		}
		e[0] = next
		headers = append(headers, e...)
	}
	ip := pkt.IPv6Header{From: h.src.String(), To: h.dst.String(), Next: h.protocol, HopLimit: 64}
	if len(kinds) > 0 {
		ip.Next = kinds[0]
	}
	ip.Class = h.dscp<<2 | byte(p.IntN(4))
	return ip.Packet(append(headers, payload...))
}
