// SPDX-License-Identifier: Apache-2.0

package rules

// The local addresses of tunnels, and which of them a rule uses. The data plane groups them in network instances, each with TEIDs
// of its own: "" is that of addresses without one.

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/wmnsk/go-pfcp/ie"
)

// Local is a local address of tunnels, and its network instance in the data plane.
type Local struct {
	Address  netip.Addr
	Instance string
}

// Locals are those of a data plane.
type Locals []Local

// errNoLocal: there is no address of the family.
var errNoLocal = errors.New("no local-address of the family: add one")

// interfaces are the names of the network instances of 3GPP interfaces, by Source Interface or Destination Interface.
var interfaces = map[uint8]string{ie.SrcInterfaceAccess: "n3", ie.SrcInterfaceCore: "n9", ie.SrcInterfaceCPFunction: "n4-u"}

// Instance returns the network instance for a rule with a 3GPP interface and a Network Instance, "" for none: the one with that
// name, else that of the interface, else that of addresses without one.
func (l Locals) Instance(of uint8, instance string) string {
	for _, is := range l {
		if is.Instance != "" && is.Instance == instance {
			return instance
		}
	}
	for _, is := range l {
		if is.Instance != "" && strings.EqualFold(is.Instance, interfaces[of]) {
			return is.Instance
		}
	}
	return ""
}

// Address returns the address of a network instance that tunnels come from, of the family of another address: the numerically lowest.
func (l Locals) Address(instance string, of netip.Addr) (local netip.Addr, err error) {
	for _, is := range l {
		if is.Instance == instance && is.Address.Is4() == of.Is4() && (!local.IsValid() || is.Address.Less(local)) {
			local = is.Address
		}
	}
	if !local.IsValid() {
		return local, fmt.Errorf("network instance %q: %w", instance, errNoLocal)
	}
	return local, nil
}

// Of returns the network instance of a local address.
func (l Locals) Of(address netip.Addr) (instance string, ok bool) {
	i := slices.IndexFunc(l, func(is Local) bool { return is.Address == address })
	if i < 0 {
		return "", false
	}
	return l[i].Instance, true
}
