// SPDX-License-Identifier: Apache-2.0

package shadow

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/internal/netdev"
)

// Setting is the wanted configuration of a port's interface; zero members change nothing.
type Setting struct {
	MAC         net.HardwareAddr
	Add, Remove []netip.Prefix
	// MTU is that of both ends.
	MTU int
	// Up is whether the port is linked: the interface then has carrier.
	Up *bool
}

// Set changes a port's interface. It ignores a missing interface, because Ensure creates it.
func (k *Keeper) Set(uuid, port string, to Setting) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	s := k.spaces[uuid]
	if s == nil {
		return nil
	}
	e, there := s.ends[InnerName(port)]
	if !there {
		return nil
	}
	err := setOuter(e.outer, to)
	if err == nil && (to.MAC != nil || to.MTU != 0 || len(to.Add)+len(to.Remove) > 0) {
		err = netdev.InNamespace(s.file, func() error { return setInner(e.inner, to) })
	}
	if err != nil {
		return fmt.Errorf("shadow: interface of %s:%s: %w", s.cube, port, err)
	}
	return nil
}

func setOuter(index int, to Setting) error {
	if to.MTU == 0 && to.Up == nil {
		return nil
	}
	l, err := netlink.LinkByIndex(index)
	if err != nil {
		return fmt.Errorf("outer end: %w", err)
	}
	if to.MTU != 0 && to.MTU != l.Attrs().MTU {
		if err := netlink.LinkSetMTU(l, to.MTU); err != nil {
			return fmt.Errorf("outer end: MTU %d: %w", to.MTU, err)
		}
	}
	if to.Up == nil || *to.Up == (l.Attrs().RawFlags&unix.IFF_UP != 0) {
		return nil
	}
	set := netlink.LinkSetDown
	if *to.Up {
		set = netlink.LinkSetUp
	}
	if err := set(l); err != nil {
		return fmt.Errorf("outer end: %w", err)
	}
	return nil
}

func setInner(index int, to Setting) error {
	l, err := netlink.LinkByIndex(index)
	if err != nil {
		return err
	}
	if to.MAC != nil && !bytes.Equal(to.MAC, l.Attrs().HardwareAddr) {
		if err := netlink.LinkSetHardwareAddr(l, to.MAC); err != nil {
			return fmt.Errorf("MAC %s: %w", to.MAC, err)
		}
	}
	if to.MTU != 0 && to.MTU != l.Attrs().MTU {
		if err := netlink.LinkSetMTU(l, to.MTU); err != nil {
			return fmt.Errorf("MTU %d: %w", to.MTU, err)
		}
	}
	for _, p := range to.Remove {
		if err := netlink.AddrDel(l, address(p)); err != nil && !errors.Is(err, unix.EADDRNOTAVAIL) {
			return fmt.Errorf("address %s: %w", p, err)
		}
	}
	for _, p := range to.Add {
		if err := netlink.AddrAdd(l, address(p)); err != nil && !errors.Is(err, unix.EEXIST) {
			return fmt.Errorf("address %s: %w", p, err)
		}
	}
	return nil
}

// address skips duplicate detection, because the cube already answers for the address.
func address(p netip.Prefix) *netlink.Addr {
	a := &netlink.Addr{IPNet: &net.IPNet{IP: p.Addr().AsSlice(), Mask: net.CIDRMask(p.Bits(), p.Addr().BitLen())}}
	if p.Addr().Is6() {
		a.Flags = unix.IFA_F_NODAD
	}
	return a
}

// State is the state of a port's interface.
type State struct {
	cube.Interface
	MTU int
	Up  bool
}

// States reads the interfaces of ports in a cube's namespace. Link-local addresses are not included. The MTU of an
// interface is set to that of its outer end, which users do not see.
func (k *Keeper) States(c Cube) (map[string]State, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	s := k.spaces[c.UUID]
	if s == nil {
		return nil, nil
	}
	var infos []netdev.Info
	err := netdev.InNamespace(s.file, func() (err error) {
		infos, err = netdev.List()
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("shadow: interfaces of %s: %w", s.path, err)
	}
	out := map[string]State{}
	for _, port := range c.Ports {
		name := InnerName(port)
		i := slices.IndexFunc(infos, func(i netdev.Info) bool { return i.Name == name && i.Index == s.ends[name].inner })
		if i < 0 {
			continue
		}
		st := State{MTU: infos[i].MTU, Up: infos[i].Up}
		st.MAC = infos[i].MAC
		st.Addresses = slices.DeleteFunc(infos[i].Addresses, func(p netip.Prefix) bool { return p.Addr().IsLinkLocalUnicast() && p.Addr().Is6() })
		if err := setOuter(s.ends[name].outer, Setting{MTU: st.MTU}); err != nil {
			k.o.Logger.Warn("the other end of an interface in the namespace has another MTU", "cube", c.Name, "port", port, "err", err)
		}
		out[port] = st
	}
	return out, nil
}
