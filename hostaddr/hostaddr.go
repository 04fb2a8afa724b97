// SPDX-License-Identifier: Apache-2.0

// Package hostaddr follows the addresses of the host's netdevs.
package hostaddr

import (
	"fmt"
	"net/netip"

	"github.com/vishvananda/netlink"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/inet"
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

// The types of addresses: enum pcn_address_type.
const (
	Unicast   = 1
	Local     = 2
	Broadcast = 4
	Multicast = 8
)

// Types are the entries of the map `addresses` of <pcn/hostaddr.h>.
func Types(all []Address) map[inet.Address]uint32 {
	out := map[inet.Address]uint32{}
	for _, a := range all {
		out[inet.AddressOf(a.Prefix.Addr())] = Local
		if a.Broadcast.IsValid() {
			out[inet.AddressOf(a.Broadcast)] = Broadcast
		}
	}
	return out
}

// TypesOf returns the bits of types by the names that iptables gives them.
func TypesOf(names []string) (bits uint32, err error) {
	for _, name := range names {
		bit, ok := map[string]uint32{"UNICAST": Unicast, "LOCAL": Local, "BROADCAST": Broadcast, "MULTICAST": Multicast}[name]
		if !ok {
			return 0, fmt.Errorf("the type %s is not supported: use UNICAST, LOCAL, BROADCAST or MULTICAST: %w", name, cube.ErrUnsupported)
		}
		bits |= bit
	}
	return bits, nil
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
