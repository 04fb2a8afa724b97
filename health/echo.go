// SPDX-License-Identifier: Apache-2.0

package health

// ICMP echo. One socket of each family is for all servers; answers are matched by sequence number, a random number in
// the request, and the address that they come from.

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"unsafe"

	"golang.org/x/sys/unix"
)

const (
	echoHeader  = 8
	echoPayload = 8 // the random number
	minIPv4     = 20
	// echoQueue is the receive buffer: thousands of answers may arrive while checks are started.
	echoQueue = 1 << 20
)

// Types of ICMP and ICMPv6.
const (
	echoReply    = 0
	echoRequest  = 8
	echoRequest6 = 128
	echoReply6   = 129
)

// echo is the request of a server that has no answer yet.
type echo struct {
	active   bool
	sequence uint16
	nonce    uint64
}

// pinger has the sockets, and the servers by the sequence number of their request.
type pinger struct {
	sockets [2]echoSocket // IPv4, IPv6
	id      uint16
	last    uint16
	pending map[uint16]*server
}

// echoSocket is a ping socket, which needs no privilege but net.ipv4.ping_group_range, or a raw socket.
type echoSocket struct {
	fd        int
	open, raw bool
}

func newPinger() pinger {
	return pinger{id: uint16(rand.Uint32()), pending: map[uint16]*server{}} //nolint:gosec // the nonce protects
}

func (p *pinger) close() {
	for i := range p.sockets {
		if s := &p.sockets[i]; s.open {
			unix.Close(s.fd)
			s.open = false
		}
	}
}

// forget ends the wait for an answer.
func (p *pinger) forget(s *server) {
	if s.echo.active {
		delete(p.pending, s.echo.sequence)
		s.echo.active = false
	}
}

// claim takes a sequence number for a server; false if all are in use.
func (p *pinger) claim(s *server) bool {
	for range 1 << 16 {
		p.last++
		if p.pending[p.last] == nil {
			s.echo = echo{active: true, sequence: p.last, nonce: rand.Uint64()} //nolint:gosec // ChaCha8, seeded by the kernel
			p.pending[p.last] = s
			return true
		}
	}
	return false
}

// socket opens the socket of a family.
func (t *thread) echoSocket(v6 bool) (*echoSocket, error) {
	index, family, protocol, slot := 0, unix.AF_INET, unix.IPPROTO_ICMP, int32(slotEcho4)
	if v6 {
		index, family, protocol, slot = 1, unix.AF_INET6, unix.IPPROTO_ICMPV6, slotEcho6
	}
	is := &t.echo.sockets[index]
	if is.open {
		return is, nil
	}
	const flags = unix.SOCK_NONBLOCK | unix.SOCK_CLOEXEC
	fd, err := unix.Socket(family, unix.SOCK_DGRAM|flags, protocol)
	raw := errors.Is(err, unix.EACCES)
	if raw {
		if fd, err = unix.Socket(family, unix.SOCK_RAW|flags, protocol); err == nil {
			err = onlyReplies(fd, v6)
		}
	}
	if errors.Is(err, unix.EPERM) {
		return nil, errors.New("ICMP requires CAP_NET_RAW, or the daemon's group in net.ipv4.ping_group_range")
	}
	if err != nil {
		return nil, fmt.Errorf("open an ICMP socket: %w", err)
	}
	_ = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUF, echoQueue) // as much as the host allows
	if err := unix.EpollCtl(t.epoll, unix.EPOLL_CTL_ADD, fd, &unix.EpollEvent{Events: unix.EPOLLIN, Fd: slot}); err != nil {
		unix.Close(fd)
		return nil, fmt.Errorf("epoll: %w", err)
	}
	*is = echoSocket{fd: fd, open: true, raw: raw}
	return is, nil
}

// onlyReplies makes a raw socket receive nothing but echo replies.
func onlyReplies(fd int, v6 bool) error {
	if v6 {
		var filter unix.ICMPv6Filter
		for i := range filter.Data {
			filter.Data[i] = ^uint32(0)
		}
		filter.Data[echoReply6>>5] &^= 1 << (echoReply6 & 31)
		return unix.SetsockoptICMPv6Filter(fd, unix.SOL_ICMPV6, unix.ICMPV6_FILTER, &filter)
	}
	const icmpFilter = 1
	return unix.SetsockoptInt(fd, unix.SOL_RAW, icmpFilter, ^(1 << echoReply))
}

// sendEcho starts an ICMP check.
func (t *thread) sendEcho(s *server) {
	is, err := t.echoSocket(s.check.Target.Addr().Is6())
	if err == nil && !t.echo.claim(s) {
		err = errors.New("too many echo requests are outstanding")
	}
	var to unix.Sockaddr
	var options []byte
	if err == nil {
		to, err = sockaddr(is.fd, netip.AddrPortFrom(s.check.Target.Addr(), 0))
	}
	if err == nil {
		options, err = ancillary(is.fd, s.check)
	}
	if err != nil {
		t.echo.forget(s)
		t.sched.finish(s, skipped(fmt.Sprintf("cannot check: %v", err)))
		return
	}
	s.phase = exchanging
	_, err = unix.SendmsgN(is.fd, t.echo.request(s), options, to, 0)
	if err == nil {
		return
	}
	t.echo.forget(s)
	switch {
	case s.check.Source.IsValid() && !hasAddress(s.check.Source):
		t.sched.finish(s, skipped(fmt.Sprintf("cannot check: the source address %v is not assigned to this host", s.check.Source)))
	case errors.Is(err, unix.ENETUNREACH), errors.Is(err, unix.EHOSTUNREACH), errors.Is(err, unix.EACCES), errors.Is(err, unix.EPERM):
		t.sched.finish(s, failure(words(err)))
	default:
		t.sched.finish(s, skipped(fmt.Sprintf("cannot check: send an echo request: %v", err)))
	}
}

// hasAddress reports whether an address is one of the namespace. The errors of sending do not say so.
func hasAddress(a netip.Addr) bool {
	family := unix.AF_INET
	if a.Is6() {
		family = unix.AF_INET6
	}
	fd, err := unix.Socket(family, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return true // not known
	}
	defer unix.Close(fd)
	as, err := sockaddr(fd, netip.AddrPortFrom(a, 0))
	return err != nil || !errors.Is(unix.Bind(fd, as), unix.EADDRNOTAVAIL)
}

// request is the echo request of a server. The kernel sets the identifier of ping sockets and the checksum of IPv6.
func (p *pinger) request(s *server) []byte {
	b := make([]byte, echoHeader+echoPayload)
	b[0] = echoRequest
	if s.check.Target.Addr().Is6() {
		b[0] = echoRequest6
	}
	id := p.id
	if s.check.SourcePorts.Last != 0 {
		id = s.check.SourcePorts.First
	}
	binary.BigEndian.PutUint16(b[4:], id)
	binary.BigEndian.PutUint16(b[6:], s.echo.sequence)
	binary.BigEndian.PutUint64(b[echoHeader:], s.echo.nonce)
	var sum uint32
	for i := 0; i < len(b); i += 2 {
		sum += uint32(binary.BigEndian.Uint16(b[i:]))
	}
	sum = sum&0xffff + sum>>16
	sum += sum >> 16
	binary.BigEndian.PutUint16(b[2:], ^uint16(sum))
	return b
}

// ancillary are the control messages with the source address, the device and the mark of a packet.
func ancillary(fd int, p *prepared) ([]byte, error) {
	var out []byte
	var index uint32
	if p.Device != "" {
		var err error
		if index, err = deviceIndex(fd, p.Device); err != nil {
			return nil, err
		}
	}
	if index != 0 || p.Source.IsValid() {
		if p.Target.Addr().Is4() {
			info := unix.Inet4Pktinfo{Ifindex: int32(index)}
			if p.Source.IsValid() {
				info.Spec_dst = p.Source.As4()
			}
			out = control(out, unix.IPPROTO_IP, unix.IP_PKTINFO, unsafe.Slice((*byte)(unsafe.Pointer(&info)), unsafe.Sizeof(info)))
		} else {
			info := unix.Inet6Pktinfo{Ifindex: index}
			if p.Source.IsValid() {
				info.Addr = p.Source.As16()
			}
			out = control(out, unix.IPPROTO_IPV6, unix.IPV6_PKTINFO, unsafe.Slice((*byte)(unsafe.Pointer(&info)), unsafe.Sizeof(info)))
		}
	}
	if p.Mark != 0 {
		out = control(out, unix.SOL_SOCKET, unix.SO_MARK, binary.NativeEndian.AppendUint32(nil, p.Mark))
	}
	return out, nil
}

// control appends a control message.
func control(to []byte, level, kind int, value []byte) []byte {
	b := make([]byte, unix.CmsgSpace(len(value)))
	header := (*unix.Cmsghdr)(unsafe.Pointer(&b[0]))
	header.Level, header.Type = int32(level), int32(kind)
	header.SetLen(unix.CmsgLen(len(value)))
	copy(b[unix.CmsgLen(0):], value)
	return append(to, b...)
}

// echoes takes the answers that have arrived. A panic would be about one packet, from anyone: it is dropped.
func (t *thread) echoes(v6 bool) {
	defer func() {
		if recover() != nil {
			t.c.count.panics.Add(1)
		}
	}()
	is := &t.echo.sockets[0]
	if v6 {
		is = &t.echo.sockets[1]
	}
	for range batch { // epoll reports the rest again
		n, from, err := unix.Recvfrom(is.fd, t.buf, 0)
		if err != nil {
			return
		}
		packet := t.buf[:n]
		if is.raw && !v6 {
			packet = skipIPv4(packet)
		}
		if s := t.echo.match(packet, from, v6); s != nil {
			t.echo.forget(s)
			t.sched.finish(s, success)
		}
	}
}

// skipIPv4 cuts the IP header off.
func skipIPv4(packet []byte) []byte {
	if len(packet) < minIPv4 {
		return nil
	}
	return packet[min(len(packet), int(packet[0]&15)*4):]
}

// match returns the server that a packet is the answer of, or nil.
func (p *pinger) match(packet []byte, from unix.Sockaddr, v6 bool) *server {
	reply := byte(echoReply)
	if v6 {
		reply = echoReply6
	}
	if len(packet) < echoHeader+echoPayload || packet[0] != reply || packet[1] != 0 {
		return nil
	}
	s := p.pending[binary.BigEndian.Uint16(packet[6:])]
	if s == nil || s.echo.nonce != binary.BigEndian.Uint64(packet[echoHeader:]) {
		return nil
	}
	var sender netip.Addr
	switch from := from.(type) {
	case *unix.SockaddrInet4:
		sender = netip.AddrFrom4(from.Addr)
	case *unix.SockaddrInet6:
		sender = netip.AddrFrom16(from.Addr)
	}
	if sender != s.check.Target.Addr().WithZone("") {
		return nil
	}
	return s
}
