// SPDX-License-Identifier: Apache-2.0

package inet

import "net/netip"

// Address is an address in the form of programs for both families: pcn_address of <pcn/address.h>, IPv4 as
// ::ffff:a.b.c.d.
type Address [16]byte

// AddressOf returns the form of an address for maps. Its zone is dropped.
func AddressOf(a netip.Addr) Address { return a.As16() }

// Addr returns the address; :: for the zero value.
func (a Address) Addr() netip.Addr { return netip.AddrFrom16(a).Unmap() }
