// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"encoding/binary"
	"net/netip"
)

// Datagram is a UDP datagram (RFC 768) between addresses of one family.
type Datagram struct {
	Src, Dst netip.AddrPort
	Payload  []byte
}

// Datagram returns the UDP datagram of a packet; false if it has none, or is a fragment. The result refers to the packet. Its
// checksum is not checked.
func (p *Packet) Datagram() (d Datagram, ok bool) {
	if p.Proto != ProtoUDP || p.Fragment() || p.BrokenUDP() {
		return d, false
	}
	length := int(binary.BigEndian.Uint16(p.Payload[4:]))
	if length > len(p.Payload) || length < udpLen {
		return d, false // truncated, or a jumbogram
	}
	port := func(at int) uint16 { return binary.BigEndian.Uint16(p.Payload[at:]) }
	return Datagram{netip.AddrPortFrom(p.Src, port(0)), netip.AddrPortFrom(p.Dst, port(2)), p.Payload[udpLen:length]}, true
}

// Frame encodes the datagram; to and from are the MAC addresses of the frame. Routers may not fragment it.
func (d Datagram) Frame(to, from MAC) []byte {
	src, dst := d.Src.Addr(), d.Dst.Addr()
	b := binary.BigEndian.AppendUint16(nil, d.Src.Port())
	b = binary.BigEndian.AppendUint16(b, d.Dst.Port())
	b = binary.BigEndian.AppendUint16(b, uint16(udpLen+len(d.Payload)))
	b = append(append(b, 0, 0), d.Payload...)
	pseudo := sum(uint32(ProtoUDP)+uint32(len(b)), append(src.AsSlice(), dst.AsSlice()...))
	check := fold(sum(pseudo, b))
	if check == 0 {
		check = 0xffff // 0 means that there is none
	}
	binary.BigEndian.PutUint16(b[6:], check)
	if src.Is4() {
		return frame4(to, from, header4{src: src, dst: dst, proto: ProtoUDP, whole: true}, b)
	}
	return header6(to, from, src, dst, ProtoUDP, hopLimit, b)
}
