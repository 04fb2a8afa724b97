// SPDX-License-Identifier: Apache-2.0

package iptables

// What programs report: packets for the log, and those that were rejected. The host itself answers the latter, as
// in iptables: the answer takes its routes and passes OUTPUT. It is marked, so it counts as RELATED.

import (
	"errors"
	"fmt"
	"math"
	"net"
	"net/netip"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/polycube/polycube/conntrack/zone"
	"github.com/polycube/polycube/iptables/language"
	"github.com/polycube/polycube/nflog"
	"github.com/polycube/polycube/report"
	"github.com/polycube/polycube/wire"
)

// answers are the sockets by which the host answers.
type answers struct {
	mark uint32

	mu      sync.Mutex
	sockets map[int]int // by family
}

func newAnswers(mark uint32) *answers { return &answers{mark: mark, sockets: map[int]int{}} }

// socket returns the raw socket of a family.
func (a *answers) socket(family int) (fd int, err error) {
	if fd, ok := a.sockets[family]; ok {
		return fd, nil
	}
	if fd, err = unix.Socket(family, unix.SOCK_RAW|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, unix.IPPROTO_RAW); err != nil {
		return 0, fmt.Errorf("raw socket: %w", err)
	}
	err = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_MARK, int(a.mark))
	if err == nil && family == unix.AF_INET6 {
		err = unix.SetsockoptInt(fd, unix.IPPROTO_IPV6, ipv6HeaderIncluded, 1)
	}
	if err != nil {
		return 0, errors.Join(fmt.Errorf("raw socket: %w", err), unix.Close(fd))
	}
	a.sockets[family] = fd
	return fd, nil
}

// ipv6HeaderIncluded is IPV6_HDRINCL.
const ipv6HeaderIncluded = 36

// send sends a packet that begins with its IP header.
func (a *answers) send(packet []byte, to netip.Addr) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	var where unix.Sockaddr = &unix.SockaddrInet6{Addr: to.As16()}
	family := unix.AF_INET6
	if to.Is4() {
		family, where = unix.AF_INET, &unix.SockaddrInet4{Addr: to.As4()}
	}
	fd, err := a.socket(family)
	if err != nil {
		return err
	}
	if err := unix.Sendto(fd, packet, 0, where); err != nil {
		return fmt.Errorf("send to %s: %w", to, err)
	}
	return nil
}

func (a *answers) close() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	var errs []error
	for _, fd := range a.sockets {
		errs = append(errs, unix.Close(fd))
	}
	clear(a.sockets)
	return errors.Join(errs...)
}

// Notify receives the reports of the program.
func (f *iptables) Notify(kind uint32, data []byte) {
	if kind == zone.AboutSession {
		f.events.Notify(data)
		return
	}
	is, ok := report.Read(data)
	if !ok {
		return
	}
	c, r := f.byCounter(is.Rule)
	if r == nil {
		return // it was removed meanwhile
	}
	switch target := r.is.Target.(type) {
	case language.Log:
		if report.Kind(kind) == report.Logged {
			f.log(&is, c, target)
		}
	case language.NFLog:
		if report.Kind(kind) == report.Logged {
			f.logTo(&is, c, target)
		}
	case language.Reject:
		if report.Kind(kind) == report.Rejected {
			f.answer(&is, target)
		}
	}
}

// byCounter returns the rule with a counter, and its chain.
func (f *iptables) byCounter(counter uint32) (*chain, *rule) {
	for _, c := range f.chains {
		for _, r := range c.rules {
			if r.counter == counter {
				return c, r
			}
		}
	}
	return nil, nil
}

// place is the name for the log of a netdev.
func (f *iptables) place(index int) string {
	if index == 0 {
		return ""
	}
	name, ok, err := f.netdevs.Get(uint32(index))
	if err != nil || !ok {
		return fmt.Sprint(index)
	}
	return unix.ByteSliceToString(name.Name[:])
}

// log writes a line as the kernel does for iptables.
func (f *iptables) log(is *report.Report, c *chain, t language.Log) {
	in, out := f.place(is.Netdev), ""
	if is.Out {
		in, out = f.place(is.Received), in
	}
	f.env.Logger().Info(fmt.Sprintf("%sIN=%s OUT=%s %s", t.Prefix, in, out, wire.Line(is.Frame)), "chain", c.name)
}

// logTo sends a packet to the program that listens to a group.
func (f *iptables) logTo(is *report.Report, c *chain, t language.NFLog) {
	p := nflog.Packet{Group: t.Group, Prefix: t.Prefix, Hook: nflog.LocalIn, In: is.Netdev, Frame: is.Frame, Leaves: is.Out, Size: math.MaxUint32}
	if t.HasSize {
		p.Size = t.Size
	}
	switch {
	case is.Out && is.Received == 0:
		p.Hook, p.In, p.Out = nflog.LocalOut, 0, is.Netdev
	case is.Out:
		p.Hook, p.In, p.Out = nflog.Forward, is.Received, is.Netdev
	}
	if c.table == raw && p.Hook != nflog.LocalOut {
		p.Hook, p.Out = nflog.PreRouting, 0
	}
	if err := f.groups.Send(p); err != nil {
		f.env.Logger().Debug("send a packet to a group of netfilter's log", "error", err)
	}
}

// kinds are the ICMP errors of --reject-with.
var kinds = map[string]wire.Kind{
	"icmp-net-unreachable": wire.NoRoute, "icmp-host-unreachable": wire.NoNeighbour, "icmp-proto-unreachable": wire.NoProtocol,
	"icmp-port-unreachable": wire.NoPort, "icmp-net-prohibited": wire.NetProhibited, "icmp-host-prohibited": wire.HostProhibited,
	"icmp-admin-prohibited": wire.Prohibited, "icmp6-no-route": wire.NoRoute, "icmp6-adm-prohibited": wire.Prohibited,
	"icmp6-addr-unreachable": wire.NoNeighbour, "icmp6-port-unreachable": wire.NoPort, "icmp6-policy-fail": wire.BadSource,
	"icmp6-reject-route": wire.RejectRoute,
}

// answer tells the sender of a packet that a rule rejects it.
func (f *iptables) answer(is *report.Report, t language.Reject) {
	packet, ok := is.Packet()
	if !ok {
		return
	}
	frame := reply(&packet, t.With, f.source(is, &packet))
	if frame == nil {
		return
	}
	if err := f.answers.send(frame[ethernetLen:], packet.Src); err != nil {
		f.env.Logger().Debug("answer a rejected packet", "error", err)
	}
}

// ethernetLen is the length of an Ethernet header.
const ethernetLen = 14

// reply returns the frame that answers a packet, nil if there is none.
func reply(packet *wire.Packet, with string, from netip.Addr) []byte {
	to, of := wire.Source(packet.Frame), wire.Destination(packet.Frame)
	if with == "tcp-reset" {
		return wire.Reset(packet, to, of)
	}
	kind := kinds[with]
	if !packet.Answerable(kind) {
		return nil
	}
	return wire.Error{Kind: kind, From: from}.Frame(packet, to, of)
}

// source returns the host's address that answers a packet: that which the packet is for or, if it is forwarded, an address of
// the netdev that received it.
func (f *iptables) source(is *report.Report, packet *wire.Packet) netip.Addr {
	if !is.Out {
		return packet.Dst
	}
	if is.Received == 0 {
		return packet.Src
	}
	netdev, err := net.InterfaceByIndex(is.Received)
	if err != nil {
		return packet.Dst
	}
	all, err := netdev.Addrs()
	if err != nil {
		return packet.Dst
	}
	for _, a := range all {
		p, err := netip.ParsePrefix(a.String())
		if err == nil && p.Addr().Is4() == packet.Dst.Is4() && !p.Addr().IsLinkLocalUnicast() {
			return p.Addr()
		}
	}
	return packet.Dst
}
