// SPDX-License-Identifier: Apache-2.0

package filters

// Rules and packets that they match, and packets that none matches.

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"

	"github.com/polycube/polycube/classifier"
	"github.com/polycube/polycube/test/pkt"
	"github.com/polycube/polycube/test/rulesets"
)

const (
	icmp = 1
	tcp  = 6
	udp  = 17
)

// ruled are rules that accept, and packets.
type ruled struct {
	rules   []rulesets.Rule
	matches []classifier.Match
	// accepted match random rules, and others match none.
	accepted, others [][]byte
}

// rotation is the number of packets in rotation.
const rotation = 1024

// exact makes n rules each of which names one flow.
func exact(n int) *ruled {
	random := rand.New(rand.NewPCG(1, uint64(n))) //nolint:gosec // it has to repeat
	rs := &ruled{}
	seen := map[rulesets.Rule]bool{}
	host := func(first byte) netip.Prefix {
		a := random.Uint32()
		return netip.PrefixFrom(netip.AddrFrom4([4]byte{first, byte(a >> 16), byte(a >> 8), byte(a)}), 32)
	}
	ports := func() *rulesets.Ports {
		p := uint16(1 + random.IntN(65535))
		return &rulesets.Ports{First: p, Last: p}
	}
	for len(rs.rules) < n {
		protocol := uint8(tcp)
		if random.IntN(2) == 0 {
			protocol = udp
		}
		r := rulesets.Rule{Src: host(10), Dst: host(11), Protocol: &protocol, SrcPort: ports(), DstPort: ports()}
		if key := (rulesets.Rule{Src: r.Src, Dst: r.Dst}); !seen[key] {
			seen[key] = true
			rs.rules = append(rs.rules, r)
		}
	}
	for range rotation {
		r := rs.rules[random.IntN(n)]
		rs.accepted = append(rs.accepted, packet(*r.Protocol, r.Src.Addr(), r.Dst.Addr(), r.SrcPort.First, r.DstPort.First))
		rs.others = append(rs.others, packet(*r.Protocol, r.Src.Addr(), r.Dst.Addr(), r.SrcPort.First, r.DstPort.First^1))
	}
	rs.keepOthers()
	return rs
}

// made makes n rules of a shape of package rulesets.
func made(shape string, n int) *ruled {
	rs := &ruled{}
	for _, r := range rulesets.Make(shape, n+n/4+16, 1) {
		// One that is for all addresses would decide for nearly all packets.
		if len(rs.rules) < n && (prefix(r.Src).Bits() > 0 || prefix(r.Dst).Bits() > 0) {
			rs.rules = append(rs.rules, r)
		}
	}
	packets := rulesets.NewPackets(rs.rules, 1, 1)
	for len(rs.accepted) < rotation {
		p, ok := plain(packets.In(packets.IntN(n)).Frame)
		if ok { // the filters must accept it, which is checked
			rs.accepted = append(rs.accepted, p)
		}
	}
	for range 16 * rotation {
		if len(rs.others) == rotation/4 {
			break
		}
		if p, ok := plain(packets.Next().Frame); ok && !rs.match(p) {
			rs.others = append(rs.others, p)
		}
	}
	return rs
}

// keepOthers removes packets that a rule matches.
func (rs *ruled) keepOthers() {
	rs.others = slices.DeleteFunc(rs.others, rs.match)
}

func (rs *ruled) match(ip []byte) bool {
	k, _ := classifier.KeyOf(pkt.EthernetFrame(make([]byte, 6), make([]byte, 6), 0x0800, ip), 0, 0)
	if rs.matches == nil {
		for _, r := range rs.rules {
			rs.matches = append(rs.matches, r.Match())
		}
	}
	return slices.ContainsFunc(rs.matches, func(m classifier.Match) bool { return m.Matches(&k) })
}

// prefix is that of a rule's end; any is all of IPv4.
func prefix(p netip.Prefix) netip.Prefix {
	if !p.IsValid() {
		return netip.PrefixFrom(netip.IPv4Unspecified(), 0)
	}
	return p
}

// routable are the addresses that packets may have.
var routable = []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("172.16.0.0/12")}

// plain is the first packet of the flow of a frame, if it is TCP, UDP or ICMP over IPv4 between routable addresses, without
// tags, options and fragments.
func plain(f []byte) ([]byte, bool) {
	if binary.BigEndian.Uint16(f[12:]) != 0x0800 || f[14] != 0x45 || binary.BigEndian.Uint16(f[20:])&0x3fff != 0 {
		return nil, false
	}
	src, dst := netip.AddrFrom4([4]byte(f[26:30])), netip.AddrFrom4([4]byte(f[30:34]))
	for _, a := range []netip.Addr{src, dst} {
		if !slices.ContainsFunc(routable, func(p netip.Prefix) bool { return p.Contains(a) }) {
			return nil, false
		}
	}
	if f[23] != tcp && f[23] != udp && f[23] != icmp {
		return nil, false
	}
	return packet(f[23], src, dst, binary.BigEndian.Uint16(f[34:]), binary.BigEndian.Uint16(f[36:])), true
}

// packet is the first packet of a flow: a SYN, a datagram or an echo request.
func packet(protocol uint8, src, dst netip.Addr, sport, dport uint16) []byte {
	h := pkt.IPv4Header{From: src.String(), To: dst.String(), Protocol: protocol, TTL: 64, Fragment: 0x4000}
	switch protocol {
	case tcp:
		return h.Packet(pkt.TCPSegment(h.From, h.To, sport, dport, 0x02, nil))
	case udp:
		return h.Packet(pkt.UDPDatagram(h.From, h.To, sport, dport, make([]byte, 18)))
	default:
		return h.Packet(pkt.ICMPMessage(8, 0, uint32(sport)<<16|uint32(dport), make([]byte, 18)))
	}
}

// portsOf are ports as nftables and the model write them; "" if any.
func portsOf(p *rulesets.Ports) string {
	switch {
	case p == nil:
		return ""
	case p.First == p.Last:
		return fmt.Sprint(p.First)
	default:
		return fmt.Sprintf("%d-%d", p.First, p.Last)
	}
}
