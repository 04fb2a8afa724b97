// SPDX-License-Identifier: Apache-2.0

package inet

import "net/netip"

// Address is an address in the form of programs for both families: pcn_address of <pcn/address.h>, IPv4 as
// ::ffff:a.b.c.d.
type Address [16]byte

// AddressOf returns the form of an address for maps. Its zone is dropped.
func AddressOf(a netip.Addr) Address { return a.As16() }

// Network is struct pcn_network of <pcn/address.h>, a key of a trie of networks of both families.
type Network struct {
	Length uint32
	Prefix Address
}

// NetworkOf returns the form of a network for maps.
func NetworkOf(p netip.Prefix) Network {
	length := p.Bits()
	if p.Addr().Is4() {
		length += 96
	}
	return Network{uint32(length), AddressOf(p.Addr())}
}

// Addr returns the address; :: for the zero value.
func (a Address) Addr() netip.Addr { return netip.AddrFrom16(a).Unmap() }
