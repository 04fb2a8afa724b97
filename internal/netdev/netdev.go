// SPDX-License-Identifier: Apache-2.0

// Package netdev reads and watches the network devices of the daemon's namespace, and ensures that frames that XDP
// redirects to a device are received by its other end. Functions work in the network namespace of the calling thread.
package netdev

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

var (
	// ErrNotFound is returned for a device that does not exist.
	ErrNotFound = errors.New("no such network device")
	// ErrInvalidName is returned for an invalid device name.
	ErrInvalidName = errors.New("not a name of a network device")
)

// Info is the state of a device at one moment.
type Info struct {
	Name  string
	Index int
	MAC   net.HardwareAddr
	MTU   int
	// Up is the administrative state; Carrier tells that the link also works, for a veth that both ends are up.
	Up      bool
	Carrier bool
	// Speed is in Mbit/s, 0 if the device does not report one, as most do not without carrier.
	Speed uint32
	// Kind is "physical", "loopback", "tun", "tap", or the kernel's name of a virtual kind: "veth", "bridge", "vlan"...
	Kind string
	// NoEthernet tells that the frames of the device have no Ethernet header.
	NoEthernet bool
	// OwnOnly tells that the device receives only frames to its own address and to groups, even in promiscuous mode.
	OwnOnly bool
	// Enslaved tells that the host receives what the device receives from another one: it is in a bridge, a bond or the like,
	// though not in a VRF.
	Enslaved  bool
	Addresses []netip.Prefix // sorted
	// PeerIndex is the index of a veth's other end, 0 for other kinds. PeerNetnsID is the number of the other end's
	// namespace in this one, -1 if it is in this one.
	PeerIndex   int
	PeerNetnsID int
	// VLAN is set for a VLAN netdev.
	VLAN VLAN
	// Carries is the index of the netdev whose frames a macvlan, ipvlan or the like takes, in this namespace; otherwise 0.
	Carries int
	// XDPMode is "native", "generic", "offload" or "multi" if an XDP program is attached, otherwise empty.
	XDPMode string
}

// CheckName returns ErrInvalidName with the reason if name is not a valid device name.
func CheckName(name string) error {
	var reason string
	switch {
	case name == "":
		reason = "it is empty"
	case len(name) >= unix.IFNAMSIZ:
		reason = fmt.Sprintf("it has %d bytes, the limit is %d", len(name), unix.IFNAMSIZ-1)
	case name == "." || name == "..":
		reason = "it is a directory"
	case strings.ContainsFunc(name, func(r rune) bool { return r == '/' || r == ':' || r <= ' ' || r == 0x7f }):
		reason = "it contains '/', ':', a space or a control character"
	default:
		return nil
	}
	if len(name) > 64 {
		name = name[:64] + "..."
	}
	return fmt.Errorf("%q: %s: %w", name, reason, ErrInvalidName)
}

// List returns all devices, in the order of their indexes.
func List() ([]Info, error) {
	h, err := netlink.NewHandle(unix.NETLINK_ROUTE)
	if err != nil {
		return nil, fmt.Errorf("list network devices: %w", err)
	}
	defer h.Close()
	s, err := openSpeeds()
	if err != nil {
		return nil, fmt.Errorf("list network devices: %w", err)
	}
	defer s.close()
	return list(h, s)
}

// listTries limits the repetition of a listing.
const listTries = 20

// Listed calls list, which lists kernel objects by netlink, again while the kernel reports that the list may be
// incomplete, because it changed meanwhile.
func Listed[T any](list func() (T, error)) (T, error) {
	for try := 1; ; try++ {
		all, err := list()
		if err == nil || try == listTries || !errors.Is(err, netlink.ErrDumpInterrupted) {
			return all, err
		}
	}
}

func list(h *netlink.Handle, s *speeds) ([]Info, error) {
	infos, err := Listed(func() ([]Info, error) { return listOnce(h) })
	if err != nil {
		return nil, fmt.Errorf("list network devices: %w", err)
	}
	for i := range infos {
		infos[i].Speed = s.of(infos[i].Index)
	}
	return infos, nil
}

func listOnce(h *netlink.Handle) ([]Info, error) {
	links, err := h.LinkList()
	if err != nil {
		return nil, err
	}
	addrs, err := h.AddrList(nil, netlink.FAMILY_ALL)
	if err != nil {
		return nil, err
	}
	byIndex := map[int][]netip.Prefix{}
	for _, a := range addrs {
		if p, ok := prefixOf(a.IPNet); ok {
			byIndex[a.LinkIndex] = append(byIndex[a.LinkIndex], p)
		}
	}
	infos := make([]Info, 0, len(links))
	for _, l := range links {
		info := infoOf(l)
		info.Addresses = sortPrefixes(byIndex[info.Index])
		infos = append(infos, info)
	}
	slices.SortFunc(infos, func(a, b Info) int { return a.Index - b.Index })
	return infos, nil
}

// Get returns one device, ErrNotFound or ErrInvalidName. Alternative names are not accepted: events have only the name
// that a port is bound to.
func Get(name string) (Info, error) {
	if err := CheckName(name); err != nil {
		return Info{}, err
	}
	l, err := linkByName(name)
	if err != nil {
		return Info{}, err
	}
	info := infoOf(l)
	addrs, err := addressesOf(info.Index)
	if err != nil {
		return Info{}, fmt.Errorf("network device %s: %w", name, err)
	}
	for _, a := range addrs {
		info.Addresses = append(info.Addresses, a.prefix)
	}
	sortPrefixes(info.Addresses)
	s, err := openSpeeds()
	if err != nil {
		return Info{}, fmt.Errorf("network device %s: %w", name, err)
	}
	defer s.close()
	info.Speed = s.of(info.Index)
	return info, nil
}

func linkByName(name string) (netlink.Link, error) {
	l, err := netlink.LinkByName(name)
	var notFound netlink.LinkNotFoundError
	switch {
	case errors.As(err, &notFound):
		return nil, fmt.Errorf("%s: %w", name, ErrNotFound)
	case err != nil:
		return nil, fmt.Errorf("network device %s: %w", name, err)
	case l.Attrs().Name != name:
		return nil, fmt.Errorf("%s is an alternative name, use %s: %w", name, l.Attrs().Name, ErrNotFound)
	}
	return l, nil
}

// absent converts the kernel's error for a device that was deleted since it was found to that of one that was not
// found.
func absent(err error) error {
	if errors.Is(err, unix.ENODEV) {
		return fmt.Errorf("%w: %w", ErrNotFound, err)
	}
	return err
}

// infoOf converts everything but the addresses and the speed, which are separate messages.
func infoOf(l netlink.Link) Info {
	a := l.Attrs()
	info := Info{
		Name: a.Name, Index: a.Index, MAC: slices.Clone(a.HardwareAddr), MTU: a.MTU, Kind: kindOf(l),
		Up: a.RawFlags&unix.IFF_UP != 0, Carrier: a.RawFlags&unix.IFF_LOWER_UP != 0, PeerNetnsID: -1,
		NoEthernet: a.EncapType != "ether" && a.EncapType != "loopback", OwnOnly: ownOnly(l),
		Enslaved: a.MasterIndex != 0 && (a.Slave == nil || a.Slave.SlaveType() != "vrf"),
	}
	if info.VLAN = vlanOf(l); slices.Contains(takers, info.Kind) && a.NetNsID < 0 {
		info.Carries = a.ParentIndex
	}
	if info.Kind == "veth" {
		info.PeerIndex, info.PeerNetnsID = a.ParentIndex, a.NetNsID
	}
	if a.Xdp != nil && a.Xdp.Attached {
		info.XDPMode = map[uint32]string{
			nl.XDP_ATTACHED_DRV: "native", nl.XDP_ATTACHED_SKB: "generic", nl.XDP_ATTACHED_HW: "offload",
		}[a.Xdp.AttachMode]
		if info.XDPMode == "" {
			info.XDPMode = "multi"
		}
	}
	return info
}

// ownOnly is about macvlans: the kernel delivers each frame to the one that has its address, except in mode passthru.
func ownOnly(l netlink.Link) bool {
	switch dev := l.(type) {
	case *netlink.Macvlan:
		return dev.Mode != netlink.MACVLAN_MODE_PASSTHRU
	case *netlink.Macvtap:
		return dev.Mode != netlink.MACVLAN_MODE_PASSTHRU
	}
	return false
}

func kindOf(l netlink.Link) string {
	if tun, ok := l.(*netlink.Tuntap); ok {
		if tun.Mode == netlink.TUNTAP_MODE_TAP {
			return "tap"
		}
		return "tun"
	}
	kind := l.Type()
	switch {
	case l.Attrs().RawFlags&unix.IFF_LOOPBACK != 0:
		return "loopback"
	case kind == "device" || kind == "":
		return "physical"
	}
	return kind
}

func prefixOf(n *net.IPNet) (netip.Prefix, bool) {
	if n == nil {
		return netip.Prefix{}, false
	}
	addr, ok := netip.AddrFromSlice(n.IP)
	bits, _ := n.Mask.Size()
	return netip.PrefixFrom(addr.Unmap(), bits), ok
}

func sortPrefixes(p []netip.Prefix) []netip.Prefix {
	slices.SortFunc(p, netip.Prefix.Compare)
	return p
}
