// SPDX-License-Identifier: Apache-2.0

package bpftest

// VLAN netdevs on kernels without them.

import (
	"net"

	"github.com/polycube/polycube/internal/netdev"
)

// VLAN says which VLAN netdev a netdev of a lab stands for.
type VLAN struct {
	// On is the netdev below.
	On string
	// Protocol is the EtherType of the tag, ID the VLAN id.
	Protocol, ID uint16
}

// pretend turns a netdev into the VLAN netdev that it stands for. It is called in the lab's namespace.
func (l *Lab) pretend(i *netdev.Info) {
	v, ok := l.opts.VLANs[i.Name]
	if !ok {
		return
	}
	if below, err := net.InterfaceByName(v.On); err == nil {
		i.VLAN = netdev.VLAN{Below: below.Index, Protocol: v.Protocol, ID: v.ID, Plain: true}
	}
}
