// SPDX-License-Identifier: Apache-2.0

// A lab is the machine, hosts are connected to it.

package netns

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"testing"
	"time"
	"unsafe"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/polycube/polycube/test/pace"
)

// Inner is the name of a host's interface inside its namespace.
const Inner = "eth0"

// Lab is a namespace that plays the machine: the outer ends of its hosts and the daemon under test live in it.
type Lab struct{ *Namespace }

// NewLab creates a lab and removes it when the test ends.
func NewLab(t testing.TB, opts ...Option) *Lab {
	t.Helper()
	return &Lab{New(t, opts...)}
}

// Node is a host: a namespace with one veth, whose inner end is eth0.
type Node struct {
	*Namespace
	// Outer is the name of the end in the lab, OuterMAC its address.
	Outer    string
	OuterMAC net.HardwareAddr
	// Addr is the address of eth0, invalid if the host was made without one; MAC its hardware address.
	Addr netip.Prefix
	MAC  net.HardwareAddr
}

// Host creates a host connected to the lab by an interface with the host's name; both ends send when it returns. addr
// is like 10.0.0.1/24, or empty.
func (l *Lab) Host(name, addr string, opts ...Option) *Node {
	l.t.Helper()
	n := newNode(l.t, name, addr, opts)
	l.Must(func() error { return n.wire(opts) })
	return n
}

// Host creates a host whose outer end is in the namespace of the calling thread; call it inside Lab.Do. The machine's
// own namespace is refused, because names there do not belong to the test alone.
func Host(t testing.TB, name, addr string, opts ...Option) *Node {
	t.Helper()
	NeedRoot(t)
	own, err := os.Stat("/proc/thread-self/ns/net")
	if err := errors.Join(err, errMachine); err != nil {
		t.Fatal(err)
	}
	if os.SameFile(own, machine) {
		t.Fatalf("host %s: its outer end would be in the machine's namespace: use Lab.Host, or call it inside Lab.Do", name)
	}
	n := newNode(t, name, addr, opts)
	if err := n.wire(opts); err != nil {
		t.Fatal(err)
	}
	return n
}

func newNode(t testing.TB, name, addr string, opts []Option) *Node {
	t.Helper()
	n := &Node{Outer: name}
	if addr != "" {
		var err error
		if n.Addr, err = netip.ParsePrefix(addr); err != nil {
			t.Fatalf("host %s: %v", name, err)
		}
		if n.Addr.Addr().Is6() {
			opts = append(opts[:len(opts):len(opts)], WithIPv6())
		}
	}
	n.Namespace = New(t, opts...)
	return n
}

// wire creates the link between the namespace of the calling thread and the host's.
func (n *Node) wire(opts []Option) error {
	var c config
	for _, o := range opts {
		o(&c)
	}
	attrs := netlink.NewLinkAttrs()
	attrs.Name, attrs.MTU = n.Outer, c.mtu
	veth := &netlink.Veth{LinkAttrs: attrs, PeerName: Inner, PeerNamespace: netlink.NsFd(n.Fd()), PeerMTU: uint32(c.mtu)}
	if err := netlink.LinkAdd(veth); err != nil {
		return fmt.Errorf("host %s: make its link: %w", n.Outer, err)
	}
	outer, err := netlink.LinkByName(n.Outer)
	if err != nil {
		return fmt.Errorf("host %s: %w", n.Outer, err)
	}
	n.OuterMAC = outer.Attrs().HardwareAddr
	if err := n.Do(func() error { return n.configureInner(c) }); err != nil {
		return fmt.Errorf("host %s: %w", n.Outer, err)
	}
	if err := netlink.LinkSetUp(outer); err != nil {
		return fmt.Errorf("host %s: outer end up: %w", n.Outer, err)
	}
	if err := errors.Join(operational(n.Outer), n.Do(func() error { return operational(Inner) })); err != nil {
		return fmt.Errorf("host %s: %w", n.Outer, err)
	}
	return nil
}

// operational waits until the device sends: the kernel activates its queue a moment after the carrier, and frames sent
// before are lost.
func operational(dev string) error {
	for deadline := time.Now().Add(pace.Stretch(15 * time.Second)); ; {
		l, err := netlink.LinkByName(dev)
		if err != nil {
			return err
		}
		if l.Attrs().OperState == netlink.OperUp {
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("%s is %s after 15 s", dev, l.Attrs().OperState)
		}
		time.Sleep(time.Millisecond)
	}
}

func (n *Node) configureInner(c config) error {
	eth0, err := netlink.LinkByName(Inner)
	if err != nil {
		return err
	}
	n.MAC = eth0.Attrs().HardwareAddr
	if c.gro {
		if err := setFeature(Inner, unix.ETHTOOL_SGRO, true); err != nil {
			return err
		}
	}
	if c.noTxChecksum {
		if err := setFeature(Inner, unix.ETHTOOL_STXCSUM, false); err != nil {
			return err
		}
	}
	if n.Addr.IsValid() {
		ipnet := &net.IPNet{IP: n.Addr.Addr().AsSlice(), Mask: net.CIDRMask(n.Addr.Bits(), n.Addr.Addr().BitLen())}
		if err := netlink.AddrAdd(eth0, &netlink.Addr{IPNet: ipnet}); err != nil {
			return fmt.Errorf("address %s: %w", n.Addr, err)
		}
	}
	if err := netlink.LinkSetUp(eth0); err != nil {
		return fmt.Errorf("eth0 up: %w", err)
	}
	if c.gateway.IsValid() {
		route := &netlink.Route{LinkIndex: eth0.Attrs().Index, Gw: c.gateway.AsSlice()}
		if err := netlink.RouteAdd(route); err != nil {
			return fmt.Errorf("default route by %s: %w", c.gateway, err)
		}
	}
	return nil
}

// setFeature switches an offload of a device of the calling thread's namespace.
func setFeature(dev string, cmd uint32, on bool) error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("socket: %w", err)
	}
	defer func() { _ = unix.Close(fd) }() // nothing was written
	value := struct{ cmd, data uint32 }{cmd: cmd}
	if on {
		value.data = 1
	}
	var req struct {
		name [unix.IFNAMSIZ]byte
		data unsafe.Pointer
		_    [16]byte
	}
	copy(req.name[:unix.IFNAMSIZ-1], dev)
	req.data = unsafe.Pointer(&value)
	if _, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), unix.SIOCETHTOOL, uintptr(unsafe.Pointer(&req))); errno != 0 {
		return fmt.Errorf("ethtool command %#x on %s: %w", cmd, dev, errno)
	}
	return nil
}
