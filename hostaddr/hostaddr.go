// SPDX-License-Identifier: Apache-2.0

// Package hostaddr follows the addresses of the host's netdevs.
package hostaddr

import (
	"fmt"
	"net/netip"

	"github.com/vishvananda/netlink"

	"github.com/polycube/polycube/cube"
)

// Address is an address of a netdev.
type Address struct {
	// Index is the interface index.
	Index int
	// Prefix is the address with the length of its network.
	Prefix netip.Prefix
	// Broadcast is that of all stations of the link, or not valid.
	Broadcast netip.Addr
	// Global says that the address is known beyond the link.
	Global bool
}

// Follower gives a cube the addresses. The zero value is not valid: use New.
type Follower struct {
	env  cube.Env
	take func([]Address, error)
	done chan struct{} // nil before the first Follow
}

// New returns a follower for a cube. take gets all addresses, in the order in which the kernel lists them, or an error, under
// the lock of the cube.
func New(env cube.Env, take func([]Address, error)) *Follower {
	return &Follower{env: env, take: take}
}

// Follow calls take now, and whenever addresses have changed. It can be repeated. It is a step of a plan, without an undo.
func (f *Follower) Follow() (undo func() error, err error) {
	if f.done != nil {
		return nil, nil
	}
	updates, done := make(chan netlink.AddrUpdate, 64), make(chan struct{})
	if err := netlink.AddrSubscribe(updates, done); err != nil {
		return nil, fmt.Errorf("follow the host's addresses: %w", err)
	}
	f.done = done
	go func() {
		for range updates {
			for len(updates) > 0 {
				<-updates
			}
			if err := f.env.Do(f.refresh); err != nil {
				return // the cube is closed
			}
		}
	}()
	f.refresh()
	return nil, nil
}

func (f *Follower) refresh() { f.take(List()) }

// List returns the addresses.
func List() ([]Address, error) {
	all, err := netlink.AddrList(nil, netlink.FAMILY_ALL)
	if err != nil {
		return nil, fmt.Errorf("list the host's addresses: %w", err)
	}
	out := make([]Address, 0, len(all))
	for _, a := range all {
		ip, ok := netip.AddrFromSlice(a.IP)
		if !ok {
			continue
		}
		ones, bits := a.Mask.Size()
		if ip = ip.Unmap(); bits != ip.BitLen() {
			continue
		}
		is := Address{Index: a.LinkIndex, Prefix: netip.PrefixFrom(ip, ones), Global: a.Scope == int(netlink.SCOPE_UNIVERSE)}
		if b, ok := netip.AddrFromSlice(a.Broadcast); ok && b.Unmap() != ip {
			is.Broadcast = b.Unmap()
		} else if bits == 32 && ones < 31 {
			is.Broadcast = lastOf(is.Prefix)
		}
		out = append(out, is)
	}
	return out, nil
}

// lastOf returns the last address of an IPv4 network.
func lastOf(p netip.Prefix) netip.Addr {
	a := p.Addr().As4()
	for i := range a {
		a[i] |= byte(uint64(0xffffffff) >> p.Bits() >> (24 - 8*i))
	}
	return netip.AddrFrom4(a)
}

// Close ends the calls.
func (f *Follower) Close() {
	if f.done != nil {
		close(f.done)
	}
}
