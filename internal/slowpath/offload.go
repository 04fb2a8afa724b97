// SPDX-License-Identifier: Apache-2.0

// The offload state of a frame on its way down: struct virtio_net_hdr, derived from the frame itself. A frame comes up
// as it is in the kernel, where a checksum may be unfinished and a TCP superframe waits for segmentation; it goes down
// with a header that says so.

package slowpath

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/polycube/polycube/cube"
)

// virtioHead is the size of struct virtio_net_hdr: flags, gso_type, hdr_len, gso_size, csum_start and csum_offset, in
// host byte order.
const virtioHead = 10

// Values of struct virtio_net_hdr.
const (
	needsCsum = unix.VIRTIO_NET_HDR_F_NEEDS_CSUM
	gsoTCP4   = unix.VIRTIO_NET_HDR_GSO_TCPV4
	gsoTCP6   = unix.VIRTIO_NET_HDR_GSO_TCPV6
	gsoUDP    = unix.VIRTIO_NET_HDR_GSO_UDP_L4
	gsoECN    = unix.VIRTIO_NET_HDR_GSO_ECN
)

// Offsets in TCP and UDP headers.
const (
	tcpHead, tcpSumAt, tcpFlagsAt, tcpCWR = 20, 16, 13, 0x80
	udpHead, udpLengthAt, udpSumAt        = 8, 4, 6
	ipv6Head                              = 40
)

// Reasons why a superframe cannot be sent. They are created once, because one for each packet would be garbage.
var (
	errGSOKind  = errors.New("neither TCP nor UDP, or a fragment, so it cannot be segmented")
	errGSOShort = errors.New("shorter than its headers say")
	errGSOSum   = errors.New("its UDP checksum is not left to segmentation; possibly a tunnel")
	errGSOSegs  = errors.New("its number of segments does not match its UDP payload; possibly a tunnel")
)

// virtioHeader fills h. For a frame without segmentation nothing can go wrong: at worst it is sent unchanged.
func virtioHeader(h *[virtioHead]byte, frame []byte, off cube.Offload) error {
	*h = [virtioHead]byte{}
	l4, ok := findTransport(frame)
	if off.GSOSize == 0 {
		if ok && l4.complete(frame) && l4.unfinished(frame) {
			l4.putSum(h)
		}
		return nil
	}
	if err := l4.superframe(h, frame, off, ok); err != nil {
		return fmt.Errorf("superframe of %d bytes in segments of %d: %w", len(frame), off.GSOSize, err)
	}
	return nil
}

// superframe fills in what the kernel needs to segment the frame.
func (l4 *transport) superframe(h *[virtioHead]byte, frame []byte, off cube.Offload, found bool) error {
	if !found {
		return errGSOKind
	}
	if l4.off+l4.length > len(frame) {
		return errGSOShort
	}
	kind, head := byte(gsoUDP), udpHead
	if l4.proto == unix.IPPROTO_TCP {
		kind = gsoTCP4
		if l4.v6 {
			kind = gsoTCP6
		}
		if frame[l4.off+tcpFlagsAt]&tcpCWR != 0 {
			kind |= gsoECN
		}
		head = int(frame[l4.off+12]>>4) * 4
		if head < tcpHead || head > l4.length {
			return errGSOShort
		}
	} else {
		// The kernel does not distinguish UDP segments from a tunnel with segments inside, but only the former has
		// exactly as many segments as its payload makes, and a checksum that is left to the segmentation.
		if !l4.unfinished(frame) {
			return errGSOSum
		}
		size := int(off.GSOSize)
		if off.GSOSegs != 0 && (l4.length-udpHead+size-1)/size != int(off.GSOSegs) {
			return errGSOSegs
		}
	}
	h[1] = kind
	binary.NativeEndian.PutUint16(h[2:], uint16(l4.off+head))
	binary.NativeEndian.PutUint16(h[4:], off.GSOSize)
	l4.putSum(h)
	return nil
}

func (l4 *transport) putSum(h *[virtioHead]byte) {
	h[0] = needsCsum
	binary.NativeEndian.PutUint16(h[6:], uint16(l4.off))
	binary.NativeEndian.PutUint16(h[8:], uint16(l4.sumAt))
}

// transport is the position of a frame's TCP or UDP header.
type transport struct {
	proto       byte
	v6          bool
	ip          int // of the IP header
	off, length int // of the header, and up to the end of the IP packet
	sumAt       int // the checksum, from off
	addresses   uint32
}

// complete reports whether everything that the checksum covers is present, and the padding after it does not change
// it.
func (l4 *transport) complete(frame []byte) bool {
	end := l4.off + l4.length
	if end > len(frame) || len(frame)-end > 64 {
		return false
	}
	for _, b := range frame[end:] {
		if b != 0 {
			return false
		}
	}
	return true
}

// unfinished reports whether the checksum field has only the sum of the pseudo header, which is what the kernel leaves
// in a frame whose checksum is still to be computed. A finished checksum has this value once in 65,536 times;
// computing it again then gives the same value, so nothing is lost. Only a damaged frame that looks unfinished by the
// same chance would get a good checksum.
func (l4 *transport) unfinished(frame []byte) bool {
	field := binary.BigEndian.Uint16(frame[l4.off+l4.sumAt:])
	if field == 0 { // UDP without a checksum; a pseudo header never sums up to 0
		return false
	}
	return field == l4.pseudo(l4.length)
}

// pseudo is the sum of the pseudo header for this many bytes.
func (l4 *transport) pseudo(length int) uint16 {
	return fold(uint64(l4.addresses) + uint64(l4.proto) + uint64(length))
}

// fold folds the 16-bit words of a sum.
func fold(sum uint64) uint16 {
	for sum > 0xffff {
		sum = sum>>16 + sum&0xffff
	}
	return uint16(sum)
}

// cutUDP segments a UDP superframe into frames, like the kernel, with checksums that are still to be computed; nil if
// the frame is none. The TAPs of kernels before Linux 6.2 accept only TCP superframes.
func cutUDP(frame []byte, size int) (out [][]byte) {
	l4, ok := findTransport(frame)
	if !ok || l4.proto != unix.IPPROTO_UDP || size == 0 || l4.off+l4.length > len(frame) {
		return nil
	}
	head := l4.off + udpHead
	for payload := frame[head : l4.off+l4.length]; len(payload) > 0; {
		n := min(size, len(payload))
		segment := slices.Concat(frame[:head], payload[:n])
		l4.becomeSegment(segment, len(out))
		out, payload = append(out, segment), payload[n:]
	}
	return out
}

// becomeSegment writes the headers of the i-th segment where they differ from those of the superframe.
func (l4 *transport) becomeSegment(segment []byte, i int) {
	e := binary.BigEndian
	length := len(segment) - l4.off
	e.PutUint16(segment[l4.off+udpLengthAt:], uint16(length))
	e.PutUint16(segment[l4.off+l4.sumAt:], l4.pseudo(length))
	ip := segment[l4.ip:l4.off]
	if l4.v6 {
		e.PutUint16(ip[4:], uint16(len(segment)-l4.ip-ipv6Head))
		return
	}
	e.PutUint16(ip[2:], uint16(len(segment)-l4.ip))
	e.PutUint16(ip[4:], e.Uint16(ip[4:])+uint16(i)) // identification
	e.PutUint16(ip[10:], 0)
	e.PutUint16(ip[10:], ^fold(uint64(addWords(ip))))
}

// addWords adds 16-bit words; b has an even length of at most 64 KB.
func addWords(b []byte) (sum uint32) {
	for ; len(b) >= 2; b = b[2:] {
		sum += uint32(binary.BigEndian.Uint16(b))
	}
	return sum
}

// findTransport finds a complete TCP or UDP header after VLAN tags, IPv4 options and IPv6 extension headers. A
// fragment has none: its checksum covers data that is not present.
func findTransport(frame []byte) (transport, bool) {
	if len(frame) < ethernetHead {
		return transport{}, false
	}
	kind, at := binary.BigEndian.Uint16(frame[12:]), ethernetHead
	for tags := 0; kind == unix.ETH_P_8021Q || kind == unix.ETH_P_8021AD; tags++ {
		if tags == 8 || len(frame) < at+vlanTag {
			return transport{}, false
		}
		kind = binary.BigEndian.Uint16(frame[at+2:])
		at += vlanTag
	}
	l4 := transport{ip: at}
	var ok bool
	switch kind {
	case unix.ETH_P_IP:
		ok = l4.behindIPv4(frame, at)
	case unix.ETH_P_IPV6:
		ok = l4.behindIPv6(frame, at)
	}
	return l4, ok && l4.header(frame)
}

// header checks that the header is present, at an offset that fits into the virtio header.
func (l4 *transport) header(frame []byte) bool {
	var size int
	switch l4.proto {
	case unix.IPPROTO_TCP:
		size, l4.sumAt = tcpHead, tcpSumAt
	case unix.IPPROTO_UDP:
		size, l4.sumAt = udpHead, udpSumAt
	default:
		return false
	}
	return l4.length >= size && l4.off+size <= len(frame) && l4.off+60 <= 0xffff
}

func (l4 *transport) behindIPv4(frame []byte, at int) bool {
	if len(frame) < at+20 {
		return false
	}
	ip := frame[at:]
	head := int(ip[0]&15) * 4
	total := int(binary.BigEndian.Uint16(ip[2:]))
	if total == 0 { // a superframe beyond 64 KB
		total = len(ip)
	}
	if ip[0]>>4 != 4 || head < 20 || total < head || binary.BigEndian.Uint16(ip[6:])&0x3fff != 0 {
		return false
	}
	l4.proto, l4.off, l4.length = ip[9], at+head, total-head
	l4.addresses = addWords(ip[12:20])
	return true
}

func (l4 *transport) behindIPv6(frame []byte, at int) bool {
	const head, maxExtensions = ipv6Head, 8
	if len(frame) < at+head || frame[at]>>4 != 6 {
		return false
	}
	ip := frame[at:]
	end := head + int(binary.BigEndian.Uint16(ip[4:]))
	if end == head { // a superframe beyond 64 KB
		end = len(ip)
	}
	next, off, destination := ip[6], head, ip[24:40]
	for n := 0; ; n++ {
		if next != unix.IPPROTO_HOPOPTS && next != unix.IPPROTO_ROUTING && next != unix.IPPROTO_DSTOPTS {
			break
		}
		if n == maxExtensions || len(ip) < off+8 {
			return false
		}
		size := 8 + 8*int(ip[off+1])
		if len(ip) < off+size {
			return false
		}
		if next == unix.IPPROTO_ROUTING {
			if last := finalDestination(ip[off : off+size]); last != nil {
				destination = last
			}
		}
		next, off = ip[off], off+size
	}
	if end < off {
		return false
	}
	l4.proto, l4.v6, l4.off, l4.length = next, true, at+off, end-off
	l4.addresses = addWords(ip[8:24]) + addWords(destination)
	return true
}

// finalDestination is the destination address for the checksum while the packet follows a routing header (RFC 8200,
// 8.1), nil if it has arrived or the header has an unknown type. Segment routing lists the segments from the last to
// the first.
func finalDestination(h []byte) []byte {
	const segmentRouting, head, addr = 4, 8, 16
	count := (len(h) - head) / addr
	if h[3] == 0 || count == 0 {
		return nil
	}
	switch h[2] {
	case segmentRouting:
		return h[head : head+addr]
	case 0, 2:
		return h[head+addr*(count-1) : head+addr*count]
	}
	return nil
}
