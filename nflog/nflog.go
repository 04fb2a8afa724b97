// SPDX-License-Identifier: Apache-2.0

// Package nflog sends packets to programs that listen to groups of netfilter's log, such as tcpdump and ulogd2, in the
// messages that the kernel sends them for the target NFLOG (struct nfulnl_msg_packet_hdr and the attributes NFULA_... of
// linux/netfilter/nfnetlink_log.h). The kernel takes no packets for a group from others, but it says who listens.
package nflog

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"sync"
	"time"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"github.com/polycube/polycube/flow"
)

// Hook is where a packet is: enum nf_inet_hooks.
type Hook uint8

// The hooks that packets meet at chains of iptables.
const (
	PreRouting Hook = iota
	LocalIn
	Forward
	LocalOut
)

// Packet is a packet for a group.
type Packet struct {
	Group  uint16
	Prefix string
	Hook   Hook
	// In and Out are the indexes of the netdevs that have received the packet, and that will send it, or 0.
	In, Out int
	// Frame begins with an Ethernet header, and may have VLAN tags. It need not be complete.
	Frame []byte
	// Leaves says that the packet is on its way out: the header is not the one with which it was received.
	Leaves bool
	// Size is how many bytes of the IP packet are sent at most; the listener may want fewer.
	Size uint32
}

// Sender sends packets to the listeners of the network namespace in which it first sends.
type Sender struct {
	mu        sync.Mutex
	socket    int // 0: not open
	listeners map[uint16]listener
	read      time.Time
}

// listener is a program that listens to a group.
type listener struct {
	port  uint32 // of netlink
	mode  int    // NFULNL_COPY_...
	bytes uint32 // of a packet, at most
}

// copyPacket is NFULNL_COPY_PACKET: the listener wants packets, not only what is known of them.
const copyPacket = 2

// stale is how long listeners are believed to be the same.
const stale = 100 * time.Millisecond

// listing is where the kernel lists them, in the namespace of the thread.
const listing = "/proc/thread-self/net/netfilter/nfnetlink_log"

// Send sends a packet to the listener of its group, if there is one. The error wraps EAGAIN if that has no room for it.
func (s *Sender) Send(p Packet) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	to, there, err := s.listener(p.Group)
	if err != nil || !there {
		return err
	}
	text, ok := message(&p, to)
	if !ok {
		return nil // no packet of IP
	}
	if s.socket == 0 {
		if s.socket, err = unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, unix.NETLINK_NETFILTER); err != nil {
			s.socket = 0
			return fmt.Errorf("netlink socket: %w", err)
		}
	}
	err = unix.Sendto(s.socket, text, 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK, Pid: to.port})
	if errors.Is(err, unix.ECONNREFUSED) { // it has ended
		s.read = time.Time{}
		return nil
	}
	if err != nil {
		return fmt.Errorf("send to the listener of group %d: %w", p.Group, err)
	}
	return nil
}

// Close frees the socket.
func (s *Sender) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	fd := s.socket
	s.socket = 0
	if fd == 0 {
		return nil
	}
	return unix.Close(fd)
}

// listener returns who listens to a group.
func (s *Sender) listener(group uint16) (l listener, there bool, err error) {
	if time.Since(s.read) > stale {
		if s.listeners, err = list(); err != nil {
			return l, false, err
		}
		s.read = time.Now()
	}
	l, there = s.listeners[group]
	return l, there, nil
}

// list reads the listeners, by group.
func list() (map[uint16]listener, error) {
	f, err := os.Open(listing)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil // a listener would have made the kernel load what lists it
	}
	if err != nil {
		return nil, fmt.Errorf("read who listens to groups of netfilter's log: %w", err)
	}
	defer f.Close()
	all := map[uint16]listener{}
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		var group uint16
		var l listener
		var queued int
		if _, err := fmt.Sscan(lines.Text(), &group, &l.port, &queued, &l.mode, &l.bytes); err != nil {
			return nil, fmt.Errorf("read who listens to groups of netfilter's log: %q: %w", lines.Text(), err)
		}
		all[group] = l
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("read who listens to groups of netfilter's log: %w", err)
	}
	return all, nil
}

// The attributes of a message: enum nfulnl_attr_type.
const (
	attrPacketHeader   = 1
	attrIn             = 4
	attrOut            = 5
	attrSource         = 8
	attrPayload        = 9
	attrPrefix         = 10
	attrHardwareType   = 15
	attrHardwareHeader = 16
	attrHardwareLength = 17
)

// subsystem is NFNL_SUBSYS_ULOG; NFULNL_MSG_PACKET, the type of the message within it, is 0.
const subsystem = 4

// macLen is the length of the addresses in an Ethernet header.
const macLen = 12

// message encodes a packet for a listener; false if it is none of IP.
func message(p *Packet, to listener) ([]byte, bool) {
	is, ok := flow.Read(p.Frame)
	if !ok || is.Has&flow.IP == 0 || int(is.L3) < macLen+2 || int(is.L3) > len(p.Frame) {
		return nil, false
	}
	header, payload := p.Frame[:is.L3], p.Frame[is.L3:]
	protocol := header[len(header)-2:]
	family := uint8(unix.AF_INET)
	if binary.BigEndian.Uint16(protocol) == unix.ETH_P_IPV6 {
		family = unix.AF_INET6
	}
	r := nl.NetlinkRequest{NlMsghdr: unix.NlMsghdr{Type: subsystem << 8}}
	r.AddData(&nl.Nfgenmsg{NfgenFamily: family, ResId: nl.Swap16(p.Group)})
	add := func(kind int, value []byte) { r.AddData(nl.NewRtAttr(kind, value)) }
	word := func(kind int, n uint32) { add(kind, binary.BigEndian.AppendUint32(nil, n)) }
	half := func(kind int, n uint16) { add(kind, binary.BigEndian.AppendUint16(nil, n)) }
	add(attrPacketHeader, []byte{protocol[0], protocol[1], byte(p.Hook), 0})
	add(attrPrefix, []byte(p.Prefix+"\x00"))
	if p.In != 0 {
		word(attrIn, uint32(p.In))
	}
	if p.Out != 0 {
		word(attrOut, uint32(p.Out))
	}
	if p.In != 0 && !p.Leaves {
		add(attrSource, append([]byte{0, 6, 0, 0}, append(header[6:macLen:macLen], 0, 0)...))
		half(attrHardwareType, unix.ARPHRD_ETHER)
		half(attrHardwareLength, uint16(len(header)))
		add(attrHardwareHeader, header)
	}
	if to.mode == copyPacket {
		payload = payload[:min(uint32(len(payload)), to.bytes, p.Size)]
		if len(payload) > 0 {
			add(attrPayload, payload)
		}
	}
	return r.Serialize(), true
}
