// SPDX-License-Identifier: Apache-2.0

package netdev

// Addresses that the daemon adds to devices. Each has a mark, the kernel's "protocol" of an address, which
// distinguishes it from addresses of others, also after a restart. They come without a route to their network: a
// device of a cube receives everything that the stack sends, and such a route would lead nowhere.

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// addressMark is the protocol of our addresses (IFA_PROTO): `ip address` shows it as "proto 112".
const addressMark = 'p'

const attrProtocol = 11 // IFA_PROTO, since Linux 5.18

// Status is the visible state of a device at one moment.
type Status struct {
	Index int
	Up    bool
	// Flaps counts carrier changes.
	Flaps uint32
	MAC   net.HardwareAddr
	// Addresses are those by which others reach the device, in the kernel's order; without those of link or host
	// scope, and temporary ones.
	Addresses []netip.Prefix
	// Ours are the addresses that Settings has added.
	Ours []netip.Prefix
	// NoIPv6 tells that the device cannot have an IPv6 address.
	NoIPv6 bool
}

// StatusOf reads a device, and returns ErrNotFound and ErrInvalidName like Get.
func StatusOf(name string) (Status, error) {
	if err := CheckName(name); err != nil {
		return Status{}, err
	}
	l, err := linkByName(name)
	if err != nil {
		return Status{}, err
	}
	a := l.Attrs()
	status := Status{Index: a.Index, Up: a.RawFlags&unix.IFF_UP != 0, MAC: slices.Clone(a.HardwareAddr), NoIPv6: noIPv6(name, a.MTU)}
	if status.Flaps, err = flapsOf(a.Index); err != nil {
		return Status{}, fmt.Errorf("network device %s: %w", name, err)
	}
	entries, err := addressesOf(a.Index)
	if err != nil {
		return Status{}, fmt.Errorf("network device %s: %w", name, err)
	}
	for _, e := range entries {
		if e.ours() {
			status.Ours = append(status.Ours, e.prefix)
		}
		if e.lasting() {
			status.Addresses = append(status.Addresses, e.prefix)
		}
	}
	return status, nil
}

// minMTU6 is the minimum MTU for IPv6 on a device.
const minMTU6 = 1280

func noIPv6(name string, mtu int) bool {
	off, err := os.ReadFile(filepath.Join("/proc/sys/net/ipv6/conf", name, "disable_ipv6"))
	return err != nil || strings.TrimSpace(string(off)) != "0" || mtu < minMTU6
}

func flapsOf(index int) (uint32, error) {
	req := nl.NewNetlinkRequest(unix.RTM_GETLINK, 0)
	msg := nl.NewIfInfomsg(unix.AF_UNSPEC)
	msg.Index = int32(index)
	req.AddData(msg)
	msgs, err := req.Execute(unix.NETLINK_ROUTE, unix.RTM_NEWLINK)
	if err != nil || len(msgs) == 0 {
		return 0, absent(err)
	}
	n, _ := flapsIn(msgs[0])
	return n, nil
}

// entry is an address in the kernel, with everything needed to re-create it.
type entry struct {
	prefix   netip.Prefix
	scope    uint8
	flags    uint32
	protocol uint8
	raw      []byte // struct ifaddrmsg and attributes
}

func (e entry) ours() bool { return e.protocol == addressMark }

func (e entry) lasting() bool {
	passing := uint32(unix.IFA_F_DADFAILED)
	if e.prefix.Addr().Is6() {
		passing |= unix.IFA_F_TEMPORARY // the same bit says of an IPv4 address that it is secondary
	}
	return e.scope < unix.RT_SCOPE_LINK && !e.prefix.Addr().IsLinkLocalUnicast() && e.flags&passing == 0
}

// addressesOf lists the addresses of a device, or returns ErrNotFound. Only those are requested from the kernel,
// because there may be thousands of devices.
func addressesOf(index int) ([]entry, error) {
	s, err := nl.Subscribe(unix.NETLINK_ROUTE)
	if err != nil {
		return nil, fmt.Errorf("addresses: %w", err)
	}
	defer s.Close()
	if err := unix.SetsockoptInt(s.GetFd(), unix.SOL_NETLINK, unix.NETLINK_GET_STRICT_CHK, 1); err != nil {
		return nil, fmt.Errorf("addresses: %w", err)
	}
	msgs, err := Listed(func() ([][]byte, error) {
		req := nl.NewNetlinkRequest(unix.RTM_GETADDR, unix.NLM_F_DUMP)
		req.Sockets = map[int]*nl.SocketHandle{unix.NETLINK_ROUTE: {Socket: s}}
		msg := nl.NewIfAddrmsg(unix.AF_UNSPEC)
		msg.Index = uint32(index)
		req.AddData(msg)
		return req.Execute(unix.NETLINK_ROUTE, unix.RTM_NEWADDR)
	})
	if err != nil {
		return nil, fmt.Errorf("addresses: %w", absent(err))
	}
	var out []entry
	for _, m := range msgs {
		i, prefix, err := parseAddress(m)
		if err != nil || i != index {
			continue
		}
		out = append(out, newEntry(prefix, m))
	}
	return out, nil
}

func newEntry(prefix netip.Prefix, m []byte) entry {
	msg := nl.DeserializeIfAddrmsg(m)
	e := entry{prefix: netip.PrefixFrom(prefix.Addr().Unmap(), prefix.Bits()), scope: msg.Scope, flags: uint32(msg.Flags), raw: m}
	attrs, _ := nl.ParseRouteAttr(m[msg.Len():]) // parseAddress has read them
	for _, a := range attrs {
		switch {
		case a.Attr.Type == unix.IFA_FLAGS && len(a.Value) == 4:
			e.flags = binary.NativeEndian.Uint32(a.Value)
		case a.Attr.Type == attrProtocol && len(a.Value) == 1:
			e.protocol = a.Value[0]
		}
	}
	return e
}

// Settings are changes of a device; zero members change nothing.
type Settings struct {
	MAC net.HardwareAddr
	// Add are addresses to add, Remove added addresses to remove: no others are removed.
	Add, Remove []netip.Prefix
}

// Put changes a device, completely or not at all. A deleted device needs no changes.
func Put(index int, d Settings) error {
	back := Settings{}
	err := put(index, d, &back)
	if errors.Is(err, unix.ENODEV) {
		return nil
	}
	if err != nil {
		return errors.Join(err, put(index, back, &Settings{}))
	}
	return nil
}

// put records in back how to undo what it has done.
func put(index int, d Settings, back *Settings) error {
	if d.MAC != nil {
		l, err := netlink.LinkByIndex(index)
		if err != nil {
			return gone(err)
		}
		if was := l.Attrs().HardwareAddr; !bytes.Equal(was, d.MAC) {
			if err := netlink.LinkSetHardwareAddr(l, d.MAC); err != nil {
				return fmt.Errorf("MAC address %s: %w", d.MAC, err)
			}
			back.MAC = was
		}
	}
	for _, p := range d.Remove {
		removed, err := takeAddress(index, p)
		if removed {
			back.Add = append(back.Add, p)
		}
		if err != nil {
			return fmt.Errorf("remove address %s: %w", p, err)
		}
	}
	for _, p := range d.Add {
		err := addAddress(index, p)
		if errors.Is(err, unix.EEXIST) {
			continue
		}
		if err != nil {
			return fmt.Errorf("address %s: %w", p, err)
		}
		back.Remove = append(back.Remove, p)
	}
	return nil
}

func gone(err error) error {
	var missing netlink.LinkNotFoundError
	if errors.As(err, &missing) {
		return unix.ENODEV
	}
	return err
}

// addAddress skips duplicate detection, because the cube already answers for the address.
func addAddress(index int, p netip.Prefix) error {
	flags := uint32(unix.IFA_F_NOPREFIXROUTE)
	if p.Addr().Is6() {
		flags |= unix.IFA_F_NODAD
	}
	req := addressRequest(unix.RTM_NEWADDR, unix.NLM_F_CREATE|unix.NLM_F_EXCL|unix.NLM_F_ACK, index, p)
	req.AddData(nl.NewRtAttr(unix.IFA_FLAGS, nl.Uint32Attr(flags)))
	req.AddData(nl.NewRtAttr(attrProtocol, []byte{addressMark}))
	_, err := req.Execute(unix.NETLINK_ROUTE, 0)
	return err
}

func addressRequest(kind, flags, index int, p netip.Prefix) *nl.NetlinkRequest {
	req := nl.NewNetlinkRequest(kind, flags)
	family := unix.AF_INET
	if p.Addr().Is6() {
		family = unix.AF_INET6
	}
	msg := nl.NewIfAddrmsg(family)
	msg.Index, msg.Prefixlen = uint32(index), uint8(p.Bits())
	req.AddData(msg)
	req.AddData(nl.NewRtAttr(unix.IFA_LOCAL, p.Addr().AsSlice()))
	req.AddData(nl.NewRtAttr(unix.IFA_ADDRESS, p.Addr().AsSlice()))
	return req
}

// takeAddress removes an added address; false if there is none. With the first IPv4 address of a network the kernel
// removes the others of that network, unless configured otherwise: these are restored.
func takeAddress(index int, p netip.Prefix) (bool, error) {
	before, err := addressesOf(index)
	if err != nil {
		return false, err
	}
	if !slices.ContainsFunc(before, func(e entry) bool { return e.prefix == p && e.ours() }) {
		return false, nil
	}
	_, err = addressRequest(unix.RTM_DELADDR, unix.NLM_F_ACK, index, p).Execute(unix.NETLINK_ROUTE, 0)
	if errors.Is(err, unix.EADDRNOTAVAIL) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	after, err := addressesOf(index)
	if err != nil {
		return true, err
	}
	var errs []error
	for _, e := range before {
		if e.prefix == p || slices.ContainsFunc(after, func(a entry) bool { return a.prefix == e.prefix }) {
			continue
		}
		errs = append(errs, e.recreate())
	}
	return true, errors.Join(errs...)
}

// recreate re-creates an address.
func (e entry) recreate() error {
	req := nl.NewNetlinkRequest(unix.RTM_NEWADDR, unix.NLM_F_CREATE|unix.NLM_F_ACK)
	req.AddRawData(e.raw)
	if _, err := req.Execute(unix.NETLINK_ROUTE, 0); err != nil {
		return fmt.Errorf("restore address %s: %w", e.prefix, err)
	}
	return nil
}
