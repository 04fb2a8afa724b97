// SPDX-License-Identifier: Apache-2.0

package n4

// Addresses of devices that this end allocates.

import (
	"encoding/binary"
	"errors"
	"net/netip"
)

// errOccupied: no pool for the network instance has a free address.
var errOccupied = errors.New("all dynamic addresses are occupied")

// pool allocates the addresses of a prefix in their order, then those that were returned, the oldest first, so that an
// address rests before it has another device.
type pool struct {
	Pool
	next, end uint64 // of those that were never allocated
	returned  []netip.Addr
}

func newPool(p Pool) *pool {
	is := &pool{Pool: Pool{p.Instance, p.Prefix.Masked()}}
	bits := 64 - p.Prefix.Bits()
	if p.Prefix.Addr().Is4() {
		bits = 32 - p.Prefix.Bits()
	}
	is.end = 1 << min(max(bits, 0), 48)
	if p.Prefix.Addr().Is4() && bits > 1 {
		is.next, is.end = 1, is.end-1 // neither the network nor the broadcast address
	}
	return is
}

// nth returns an address of the pool.
func (p *pool) nth(n uint64) netip.Addr {
	if base := p.Prefix.Addr(); base.Is4() {
		b := base.As4()
		binary.BigEndian.PutUint32(b[:], binary.BigEndian.Uint32(b[:])+uint32(n))
		return netip.AddrFrom4(b)
	}
	b := p.Prefix.Addr().As16()
	binary.BigEndian.PutUint64(b[:], binary.BigEndian.Uint64(b[:])+n)
	return netip.AddrFrom16(b)
}

// take returns an address that is not in use.
func (p *pool) take(used func(netip.Addr) bool) (netip.Addr, bool) {
	for p.next < p.end {
		addr := p.nth(p.next)
		p.next++
		if !used(addr) {
			return addr, true
		}
	}
	for len(p.returned) > 0 {
		addr := p.returned[0]
		p.returned = p.returned[1:]
		if !used(addr) {
			return addr, true
		}
	}
	return netip.Addr{}, false
}

// giveBack returns an address. One that was never allocated is still to come.
func (p *pool) giveBack(addr netip.Addr) {
	if p.Prefix.Contains(addr) && p.offset(addr) < p.next {
		p.returned = append(p.returned, addr)
	}
}

func (p *pool) offset(addr netip.Addr) uint64 {
	if addr.Is4() {
		a, base := addr.As4(), p.Prefix.Addr().As4()
		return uint64(binary.BigEndian.Uint32(a[:]) - binary.BigEndian.Uint32(base[:]))
	}
	a, base := addr.As16(), p.Prefix.Addr().As16()
	return binary.BigEndian.Uint64(a[:]) - binary.BigEndian.Uint64(base[:])
}
