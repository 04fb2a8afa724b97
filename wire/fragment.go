// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"encoding/binary"
	"fmt"
)

// minFragment is the minimum MTU of an IPv4 link (RFC 791).
const minFragment = 68

// Fragments fragments an IPv4 packet into frames whose packets are no longer than mtu (RFC 791 3.2, RFC 1812 4.2.2.7).
// A fragment that is fragmented again keeps its offset.
func (p *Packet) Fragments(mtu int) ([][]byte, error) {
	if p.V6() || p.DontFragment || mtu < minFragment {
		return nil, fmt.Errorf("packet cannot be fragmented to %d bytes: %w", mtu, ErrMalformed)
	}
	if total := int(binary.BigEndian.Uint16(p.Data[2:])); total != len(p.Data) {
		return nil, fmt.Errorf("truncated packet: %d bytes, %d present: %w", total, len(p.Data), ErrMalformed)
	}
	if end := int(p.Offset) + len(p.Payload); end > 0xffff {
		return nil, fmt.Errorf("fragment ends at byte %d: %w", end, ErrMalformed)
	}
	header := p.Data[:p.header]
	rest := restHeader(header)
	var out [][]byte
	for at := 0; at < len(p.Payload); {
		room := (mtu - len(header)) &^ 7
		size, more := min(room, len(p.Payload)-at), true
		if len(p.Payload)-at <= mtu-len(header) {
			size, more = len(p.Payload)-at, p.More
		}
		f := make([]byte, 0, ethLen+len(header)+size)
		f = append(f, p.Frame[:ethLen]...)
		f = append(f, header...)
		f = append(f, p.Payload[at:at+size]...)
		ip := f[ethLen:]
		binary.BigEndian.PutUint16(ip[2:], uint16(len(ip)))
		setFragment(ip, p.Offset+uint16(at), more)
		out = append(out, f)
		at += size
		header = rest
	}
	return out, nil
}

// setFragment writes the fragment offset and flags, and the checksum of the header.
func setFragment(ip []byte, offset uint16, more bool) {
	frag := offset / 8
	if more {
		frag |= 0x2000
	}
	binary.BigEndian.PutUint16(ip[6:], frag)
	binary.BigEndian.PutUint16(ip[10:], 0)
	binary.BigEndian.PutUint16(ip[10:], fold(sum(0, ip[:int(ip[0]&15)*4])))
}

// restHeader returns the header of the fragments after the first: it only contains options that must be copied (RFC 791
// 3.1).
func restHeader(header []byte) []byte {
	out := append([]byte(nil), header[:ipv4Len]...)
	for b := header[ipv4Len:]; len(b) > 0 && b[0] != 0; {
		n := 1
		if b[0] != 1 { // no operation
			if len(b) < 2 || b[1] < 2 || int(b[1]) > len(b) {
				break // unreadable options are not copied
			}
			n = int(b[1])
		}
		if b[0]&0x80 != 0 {
			out = append(out, b[:n]...)
		}
		b = b[n:]
	}
	for len(out)%4 != 0 {
		out = append(out, 0)
	}
	out[0] = 0x40 | byte(len(out)/4)
	return out
}
