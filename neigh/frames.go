// SPDX-License-Identifier: Apache-2.0

package neigh

// Requests and answers in frames, for cubes whose program answers the requests of others.

import (
	"net/netip"

	"github.com/polycube/polycube/wire"
)

// Request returns the frame that asks one station, or all for the zero MAC, for the MAC address of a neighbour. mac and on are
// the cube's addresses on the link. Without one of the family, the request is a probe as before an address is claimed; from
// another network, one of IPv6 comes from the link-local address.
func Request(neighbour netip.Addr, to, mac wire.MAC, on netip.Prefix) []byte {
	if neighbour.Is6() {
		from := wire.LinkLocal(mac)
		if on.IsValid() && on.Contains(neighbour) {
			from = on.Addr()
		}
		return wire.Solicit(neighbour, to, mac, from).Frame()
	}
	if to == (wire.MAC{}) {
		to = wire.Broadcast
	}
	if !on.IsValid() {
		return wire.ProbeARP(neighbour, mac).Frame()
	}
	return wire.WhoHas(neighbour, to, on.Addr(), mac).Frame()
}

// Received returns what a frame of ARP or neighbour discovery says about its sender; false if it says nothing. An advertisement
// may come without the MAC address, which then stays as it is known.
func Received(frame []byte) (neighbour netip.Addr, a Answer, ok bool) {
	if wire.EtherType(frame) == wire.EtherARP {
		arp, err := wire.ParseARP(frame)
		if err != nil {
			return neighbour, a, false
		}
		return arp.Sender, Answer{MAC: arp.SenderMAC, Solicited: arp.Op == wire.ARPReply, Override: true}, true
	}
	n, err := wire.ParseND(frame)
	if err != nil || !n.Advertisement {
		return neighbour, a, false
	}
	return n.Target, Answer{MAC: n.Link, Solicited: n.Solicited, Override: n.Override}, true
}
