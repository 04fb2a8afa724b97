// SPDX-License-Identifier: Apache-2.0

package nat

// Packets as the two machines send them: read, verified, and reassembled.

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"time"

	"golang.org/x/sys/unix"

	"github.com/polycube/polycube/test/pace"
	"github.com/polycube/polycube/test/pkt"
)

// layout is where the transport header of a packet is.
func layout(packet []byte) (transport int, proto uint8, err error) {
	switch {
	case len(packet) >= 28 && packet[0]>>4 == 4:
		return int(packet[0]&15) * 4, packet[9], nil
	case len(packet) >= 48 && packet[0]>>4 == 6:
		return 40, packet[6], nil
	}
	return 0, 0, errors.New("no packet")
}

func source4or6(packet []byte) (endpoint, error) {
	at, proto, err := layout(packet)
	if err != nil {
		return endpoint{}, err
	}
	from := packet[12:16]
	if packet[0]>>4 == 6 {
		from = packet[8:24]
	}
	addr, _ := netip.AddrFromSlice(from)
	number := packet[at : at+2]
	if isPing(proto) {
		number = packet[at+4 : at+6]
	}
	return endpoint{addr, binary.BigEndian.Uint16(number)}, nil
}

// rename replaces the external endpoint of a packet seen outside by its internal one, and removes the checksums, which
// were correct.
func rename(c *conversation, packet []byte) []byte {
	p := bytes.Clone(packet)
	at, proto, _ := layout(p) // it was looked at before
	checksum := map[uint8]int{unix.IPPROTO_TCP: 16, unix.IPPROTO_UDP: 6, unix.IPPROTO_ICMP: 2, unix.IPPROTO_ICMPV6: 2}[proto]
	if c.v4() {
		p[10], p[11] = 0, 0
		copy(p[12:], c.internal.addr.AsSlice())
	} else {
		copy(p[8:], c.internal.addr.AsSlice())
	}
	p[at+checksum], p[at+checksum+1] = 0, 0
	number := at
	if isPing(proto) {
		number = at + 4
	}
	binary.BigEndian.PutUint16(p[number:], c.internal.port)
	return p
}

// checkSums verifies the checksums of a packet.
func checkSums(packet []byte) error {
	at, proto, err := layout(packet)
	if err != nil {
		return err
	}
	var pseudo []byte
	var body []byte
	if packet[0]>>4 == 4 {
		if sum := pkt.Sum(packet[:at]); sum != 0xffff {
			return fmt.Errorf("the checksum of its header is off: %#x", sum)
		}
		body = packet[at:binary.BigEndian.Uint16(packet[2:4])]
		pseudo = append(pseudo, packet[12:20]...)
	} else {
		body = packet[at : at+int(binary.BigEndian.Uint16(packet[4:6]))]
		pseudo = append(pseudo, packet[8:40]...)
	}
	if proto != unix.IPPROTO_ICMP { // which has no pseudo header
		pseudo = binary.BigEndian.AppendUint16(append(pseudo, 0, proto), uint16(len(body)))
	} else {
		pseudo = nil
	}
	if sum := pkt.Sum(append(pseudo, body...)); sum != 0xffff {
		return fmt.Errorf("the checksum of protocol %d is off: %#x in %x", proto, sum, packet)
	}
	return nil
}

// asICMP converts a packet to ICMP, with the correct checksum.
func asICMP(packet []byte, proto uint8) {
	if packet[0]>>4 == 4 {
		packet[9] = proto
		pkt.SumIPv4(packet)
		binary.BigEndian.PutUint16(packet[22:], ^pkt.Sum(packet[20:]))
		return
	}
	packet[6] = proto
	pseudo := binary.BigEndian.AppendUint32(bytes.Clone(packet[8:40]), uint32(len(packet)-40))
	binary.BigEndian.PutUint16(packet[42:], ^pkt.Sum(append(append(pseudo, 0, 0, 0, proto), packet[40:]...)))
}

// cut fragments a packet into two, the first with a given number of bytes after the header. IPv6 needs an ID for them.
func cut(frame []byte, piece int, id uint32) [2][]byte {
	if frame[14]>>4 == 6 {
		return cut6(frame, piece, id)
	}
	ip, data := frame[14:34], frame[34:]
	from, to := netip.AddrFrom4([4]byte(ip[12:])).String(), netip.AddrFrom4([4]byte(ip[16:])).String()
	number := binary.BigEndian.Uint16(ip[4:])
	return [2][]byte{
		append(bytes.Clone(frame[:14]), ip4(from, to, ip[9], number, 1<<13, nil, data[:piece])...),
		append(bytes.Clone(frame[:14]), ip4(from, to, ip[9], number, uint16(piece/8), nil, data[piece:])...),
	}
}

func cut6(frame []byte, piece int, id uint32) [2][]byte {
	ip, data := frame[14:54], frame[54:]
	from, to := netip.AddrFrom16([16]byte(ip[8:])).String(), netip.AddrFrom16([16]byte(ip[24:])).String()
	first, last := fragment6(ip[6], 1, id), fragment6(ip[6], uint16(piece), id)
	return [2][]byte{
		append(bytes.Clone(frame[:14]), ip6(from, to, nextFragment, append(first, data[:piece]...))...),
		append(bytes.Clone(frame[:14]), ip6(from, to, nextFragment, append(last, data[piece:]...))...),
	}
}

// pieceOf reports whether a frame is a fragment of a packet that was sent whole in another: for IPv6 it compares the
// protocol, because Linux assigns its own IDs.
func pieceOf(frame, whole []byte) bool {
	if len(frame) < 34 || !bytes.Equal(frame[12:14], whole[12:14]) {
		return false
	}
	if whole[14]>>4 == 6 {
		return frame[20] == nextFragment && len(frame) >= 62 && frame[54] == whole[20]
	}
	return frame[23] == whole[23] && bytes.Equal(frame[18:20], whole[18:20]) && binary.BigEndian.Uint16(frame[20:])&0x3fff != 0
}

// parts are the header of a fragment, as that of a whole packet, where its data belongs, and this.
func parts(fragment []byte) (header []byte, offset int, data []byte, err error) {
	if fragment[0]>>4 == 6 {
		fragment = fragment[:40+int(binary.BigEndian.Uint16(fragment[4:]))]
		header = bytes.Clone(fragment[:40])
		header[6] = fragment[40]
		return header, int(binary.BigEndian.Uint16(fragment[42:]) &^ 7), fragment[48:], nil
	}
	fragment = fragment[:binary.BigEndian.Uint16(fragment[2:])]
	if sum := pkt.Sum(fragment[:20]); sum != 0xffff {
		return nil, 0, nil, fmt.Errorf("the checksum of a fragment's header is off: %#x", sum)
	}
	return bytes.Clone(fragment[:20]), int(binary.BigEndian.Uint16(fragment[6:])&0x1fff) * 8, fragment[20:], nil
}

// passFragments sends a packet in two fragments, the first with a given number of bytes after the header, and returns
// it reassembled as it comes out.
func (m *machine) passFragments(from int, frame []byte, piece int, id uint32) ([]byte, error) {
	for _, p := range cut(frame, piece, id) {
		if err := m.wire[from].Send(p); err != nil {
			return nil, err
		}
	}
	var whole []byte
	for begin := 0; ; {
		got, err := m.wire[1-from].Recv(func(b []byte) bool { return pieceOf(b, frame) }, pace.Stretch(10*time.Second))
		if err != nil {
			return nil, fmt.Errorf("%s: %d bytes of a packet in pieces come out: %w", m.name, len(whole), err)
		}
		header, offset, data, err := parts(got[14:])
		if err != nil {
			return nil, fmt.Errorf("%s: %w", m.name, err)
		}
		if whole == nil {
			whole, begin = header, len(header)
		}
		if offset != len(whole)-begin {
			return nil, fmt.Errorf("%s: a piece for byte %d comes after %d bytes", m.name, offset, len(whole)-begin)
		}
		if whole = append(whole, data...); len(whole) >= len(frame)-14 {
			break
		}
	}
	if whole[0]>>4 == 6 {
		binary.BigEndian.PutUint16(whole[4:], uint16(len(whole)-40))
		return whole, checkSums(whole)
	}
	binary.BigEndian.PutUint16(whole[2:], uint16(len(whole)))
	whole[6], whole[7] = 0, 0
	pkt.SumIPv4(whole)
	return whole, checkSums(whole)
}
