// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"encoding/binary"
	"fmt"
)

// Flags of TCP that only one segment of a superframe keeps: the last one, or the first one.
const (
	lastOnly  = tcpFIN | 1<<3 // PSH
	firstOnly = 1 << 7        // CWR
)

// Segments cuts a superframe of TCP or UDP into frames of `size` bytes of data, as the kernel does before a device without offload:
// with the headers of the superframe, adapted, and checksums. The error wraps ErrMalformed.
func (p *Packet) Segments(size int) ([][]byte, error) {
	header, err := p.segmentHeader()
	switch {
	case err != nil:
		return nil, err
	case size <= 0 || len(p.Payload) <= header:
		return nil, fmt.Errorf("segments of %d bytes of %d: %w", size, len(p.Payload)-header, ErrMalformed)
	}
	var out [][]byte
	for data := p.Payload[header:]; len(data) > 0; {
		n := min(size, len(data))
		f := make([]byte, 0, ethLen+p.header+header+n)
		f = append(f, p.Frame[:ethLen]...)
		f = append(f, p.Data[:p.header]...)
		f = append(f, p.Payload[:header]...)
		f = append(f, data[:n]...)
		data = data[n:]
		p.adapt(f[ethLen:], len(out), len(out)*size, len(data) == 0)
		out = append(out, f)
	}
	return out, nil
}

// segmentHeader is the length of the header of TCP or UDP.
func (p *Packet) segmentHeader() (int, error) {
	total := ipv6Len + int(binary.BigEndian.Uint16(p.Data[4:]))
	if !p.V6() {
		total = int(binary.BigEndian.Uint16(p.Data[2:]))
	}
	switch {
	case p.Fragment() || total != len(p.Data):
		return 0, fmt.Errorf("a fragment, or %d bytes of %d: %w", len(p.Data), total, ErrMalformed)
	case p.Proto == ProtoUDP && len(p.Payload) >= udpLen:
		return udpLen, nil
	case p.Proto == ProtoTCP && len(p.Payload) >= tcpLen:
		if header := int(p.Payload[12]>>4) * 4; header >= tcpLen {
			return header, nil
		}
	}
	return 0, fmt.Errorf("no whole header of TCP or UDP: %w", ErrMalformed)
}

// adapt adapts the headers of a segment, by its number, the position of its data, and whether it is the last one.
func (p *Packet) adapt(ip []byte, number, at int, last bool) {
	l4 := ip[p.header:]
	check := l4[6:8]
	if p.Proto == ProtoUDP {
		binary.BigEndian.PutUint16(l4[4:], uint16(len(l4)))
	} else {
		check = l4[tcpSum : tcpSum+2]
		binary.BigEndian.PutUint32(l4[4:], binary.BigEndian.Uint32(l4[4:])+uint32(at))
		if !last {
			l4[13] &^= lastOnly
		}
		if number > 0 {
			l4[13] &^= firstOnly
		}
	}
	check[0], check[1] = 0, 0
	sealed := fold(sum(p.transportPseudo(len(l4)), l4))
	if sealed == 0 && p.Proto == ProtoUDP {
		sealed = 0xffff // 0 means that there is none
	}
	binary.BigEndian.PutUint16(check, sealed)
	if p.V6() {
		binary.BigEndian.PutUint16(ip[4:], uint16(len(ip)-ipv6Len))
		return
	}
	binary.BigEndian.PutUint16(ip[2:], uint16(len(ip)))
	binary.BigEndian.PutUint16(ip[4:], uint16(p.ID)+uint16(number))
	binary.BigEndian.PutUint16(ip[10:], 0)
	binary.BigEndian.PutUint16(ip[10:], fold(sum(0, ip[:p.header])))
}
