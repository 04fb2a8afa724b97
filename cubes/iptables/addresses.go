// SPDX-License-Identifier: Apache-2.0

package iptables

// The addresses of the host, which conditions about the type of an address need.

import (
	"github.com/polycube/polycube/cube/table"
	"github.com/polycube/polycube/hostaddr"
)

// takeAddresses writes the types of the host's addresses.
func (f *iptables) takeAddresses(all []hostaddr.Address, err error) {
	if err == nil {
		_, err = table.Replace(f.addresses, hostaddr.Types(all)).Do()
	}
	if err != nil {
		f.env.Logger().Error("the types of addresses are not known", "error", err)
	}
}
