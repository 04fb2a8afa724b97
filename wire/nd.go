// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"encoding/binary"
	"fmt"
	"net/netip"
)

// ICMPv6 types of neighbour discovery (RFC 4861 4).
const (
	RouterSolicitation     = 133
	RouterAdvertisement    = 134
	NeighbourSolicitation  = 135
	NeighbourAdvertisement = 136
	Redirect               = 137
)

// AllNodes is the group of all stations of a link.
var AllNodes = netip.MustParseAddr("ff02::1")

const (
	ndLen          = 24  // type, code, checksum, flags, target
	ndHops         = 255 // proves that no router was on the path
	sourceLinkAddr = 1
	targetLinkAddr = 2
	flagRouter     = 1 << 31
	flagSolicited  = 1 << 30
	flagOverride   = 1 << 29
)

// ND is a neighbour solicitation or advertisement (RFC 4861 4.3 and 4.4).
type ND struct {
	// ToMAC and FromMAC are the addresses of the frame.
	ToMAC, FromMAC   MAC
	From, To, Target netip.Addr
	// Advertisement is false for a solicitation.
	Advertisement bool
	// Link is the link-layer address option: the sender's in a solicitation, the target's in an advertisement; zero
	// if there is none.
	Link MAC
	// Router, Solicited and Override are the flags of an advertisement.
	Router, Solicited, Override bool
}

// ParseND parses a frame and checks it according to RFC 4861 7.1.1 and 7.1.2.
func ParseND(frame []byte) (ND, error) {
	p, err := ParseIP(frame)
	if err != nil {
		return ND{}, err
	}
	bad := func(what string) (ND, error) {
		return ND{}, fmt.Errorf("neighbour discovery from %s: %s: %w", p.Src, what, ErrMalformed)
	}
	b := p.Payload
	switch {
	case !p.V6() || p.Proto != ProtoICMPv6 || p.Fragment():
		return bad("not ICMPv6")
	case p.TTL != ndHops:
		return bad("hop limit is not 255")
	case len(b) < ndLen:
		return bad("truncated")
	case fold(sum(pseudo(p.Src, p.Dst, len(b), ProtoICMPv6), b)) != 0:
		return bad("checksum")
	case b[1] != 0 || b[0] != NeighbourSolicitation && b[0] != NeighbourAdvertisement:
		return bad("wrong type or code")
	}
	n := ND{ToMAC: Destination(frame), FromMAC: Source(frame), From: p.Src, To: p.Dst, Advertisement: b[0] == NeighbourAdvertisement}
	n.Target = netip.AddrFrom16([16]byte(b[8:24]))
	flags := binary.BigEndian.Uint32(b[4:])
	if n.Advertisement {
		n.Router, n.Solicited, n.Override = flags&flagRouter != 0, flags&flagSolicited != 0, flags&flagOverride != 0
	}
	if !n.options(b[ndLen:]) {
		return bad("options")
	}
	if what := n.fault(); what != "" {
		return bad(what)
	}
	return n, nil
}

// options reads the link-layer address; false for invalid options.
func (n *ND) options(b []byte) bool {
	want := byte(sourceLinkAddr)
	if n.Advertisement {
		want = targetLinkAddr
	}
	for len(b) > 0 {
		if len(b) < 8 || b[1] == 0 || int(b[1])*8 > len(b) {
			return false
		}
		if b[0] == want && b[1] == 1 {
			copy(n.Link[:], b[2:8])
			if !n.Link.Station() {
				return false
			}
		}
		b = b[int(b[1])*8:]
	}
	return true
}

// fault returns which rule about addresses is violated; "" if none is.
func (n *ND) fault() string {
	switch {
	case n.Target.IsMulticast() || n.Target.IsUnspecified():
		return "target is not a unicast address"
	case n.From.IsMulticast():
		return "source is a multicast address"
	case n.Advertisement && n.To.IsMulticast() && n.Solicited:
		return "solicited advertisement to a multicast address"
	case !n.Advertisement && n.From.IsUnspecified() && (n.To != SolicitedNode(n.Target) || n.Link != MAC{}):
		return "invalid duplicate address probe"
	}
	return ""
}

// Station returns the sender of the packet, as far as it is known.
func (n ND) Station() MAC {
	if n.Link != (MAC{}) {
		return n.Link
	}
	return n.FromMAC
}

// Frame encodes the packet.
func (n ND) Frame() []byte {
	b := make([]byte, ndLen, ndLen+8)
	b[0] = NeighbourSolicitation
	option := byte(sourceLinkAddr)
	if n.Advertisement {
		b[0], option = NeighbourAdvertisement, targetLinkAddr
		var flags uint32
		for _, f := range []struct {
			on  bool
			bit uint32
		}{{n.Router, flagRouter}, {n.Solicited, flagSolicited}, {n.Override, flagOverride}} {
			if f.on {
				flags |= f.bit
			}
		}
		binary.BigEndian.PutUint32(b[4:], flags)
	}
	target := n.Target.As16()
	copy(b[8:], target[:])
	if n.Link != (MAC{}) {
		b = append(append(b, option, 1), n.Link[:]...)
	}
	return frame6(n.ToMAC, n.FromMAC, n.From, n.To, ndHops, b)
}

// frame6 encodes an ICMPv6 packet with its checksum.
func frame6(toMAC, fromMAC MAC, from, to netip.Addr, hops uint8, icmp []byte) []byte {
	binary.BigEndian.PutUint16(icmp[2:], 0)
	binary.BigEndian.PutUint16(icmp[2:], fold(sum(pseudo(from, to, len(icmp), ProtoICMPv6), icmp)))
	return header6(toMAC, fromMAC, from, to, ProtoICMPv6, hops, icmp)
}

// header6 returns the frame with an IPv6 packet.
func header6(toMAC, fromMAC MAC, from, to netip.Addr, proto, hops uint8, payload []byte) []byte {
	f := ethernet(toMAC, fromMAC, EtherIPv6)
	f = append(f, 0x60, 0, 0, 0)
	f = binary.BigEndian.AppendUint16(f, uint16(len(payload)))
	f = append(f, proto, hops)
	f = append(f, from.AsSlice()...)
	f = append(f, to.AsSlice()...)
	return append(f, payload...)
}

// Solicit requests the owner of target: from all stations with the same solicited-node group, or from its last known
// owner.
func Solicit(target netip.Addr, station, fromMAC MAC, from netip.Addr) ND {
	n := ND{ToMAC: station, FromMAC: fromMAC, From: from, To: target, Target: target, Link: fromMAC}
	if station == (MAC{}) {
		n.To = SolicitedNode(target)
		n.ToMAC = Multicast(n.To)
	}
	return n
}

// ProbeND asks whether any station has the address already (RFC 4862 5.4.2).
func ProbeND(a netip.Addr, fromMAC MAC) ND {
	n := Solicit(a, MAC{}, fromMAC, netip.IPv6Unspecified())
	n.Link = MAC{}
	return n
}

// Advertise answers a solicitation (RFC 4861 7.2.4) for an address of this router.
func (n ND) Advertise(mac MAC) ND {
	a := ND{
		ToMAC: n.FromMAC, FromMAC: mac, From: n.Target, To: n.From, Target: n.Target,
		Advertisement: true, Link: mac, Router: true, Solicited: true, Override: true,
	}
	if n.Link != (MAC{}) {
		a.ToMAC = n.Link
	}
	if n.From.IsUnspecified() {
		a.To, a.ToMAC, a.Solicited = AllNodes, Multicast(AllNodes), false
	}
	return a
}

// AnnounceND announces the owner of the address (RFC 4861 7.2.6).
func AnnounceND(a netip.Addr, mac MAC) ND {
	return ND{
		ToMAC: Multicast(AllNodes), FromMAC: mac, From: a, To: AllNodes, Target: a,
		Advertisement: true, Link: mac, Router: true, Override: true,
	}
}
