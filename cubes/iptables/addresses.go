// SPDX-License-Identifier: Apache-2.0

package iptables

// The addresses of the host, which conditions about the type of an address need.

import (
	"net/netip"

	"github.com/polycube/polycube/cube/table"
	"github.com/polycube/polycube/hostaddr"
)

// takeAddresses writes the types of the host's addresses.
func (f *iptables) takeAddresses(all []hostaddr.Address, err error) {
	want := map[[16]byte]uint32{}
	add := func(a netip.Addr, kind uint32) {
		if a.IsValid() {
			want[a.As16()] = kind
		}
	}
	for _, a := range all {
		add(a.Prefix.Addr(), typeLocal)
		add(a.Broadcast, typeBroadcast)
	}
	if err == nil {
		_, err = table.Replace(f.addresses, want).Do()
	}
	if err != nil {
		f.env.Logger().Error("the types of addresses are not known", "error", err)
	}
}
