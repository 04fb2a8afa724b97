// SPDX-License-Identifier: Apache-2.0

package wire

import "encoding/binary"

// tcpSum is where the checksum of TCP is in its header.
const tcpSum = 16

// CompleteTCP writes the checksum of a packet of TCP if it has only the sum of its pseudo header: packets that a host
// sends have that until the device, or segmentation, computes the rest. Others stay as they are, so a wrong checksum stays
// wrong. It writes to the frame.
func (p *Packet) CompleteTCP() {
	if p.Proto != ProtoTCP || p.Fragment() || len(p.Payload) < tcpLen {
		return
	}
	field := p.Payload[tcpSum : tcpSum+2]
	has := binary.BigEndian.Uint16(field)
	head := p.transportPseudo(len(p.Payload))
	if has != ^fold(head) && has != ^fold(p.transportPseudo(0)) {
		return
	}
	field[0], field[1] = 0, 0
	binary.BigEndian.PutUint16(field, fold(sum(head, p.Payload)))
}

// transportPseudo is the sum of the pseudo header of the packet's protocol.
func (p *Packet) transportPseudo(length int) uint32 {
	if p.V6() {
		return pseudo(p.Src, p.Dst, length, p.Proto)
	}
	s, d := p.Src.As4(), p.Dst.As4()
	return sum(sum(uint32(length)+uint32(p.Proto), s[:]), d[:])
}
