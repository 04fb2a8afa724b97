// SPDX-License-Identifier: Apache-2.0

package neigh

import (
	"net/netip"
	"testing"

	"github.com/polycube/polycube/wire"
)

func TestRequestsAsk(t *testing.T) {
	on, on6, none := netip.MustParsePrefix("10.0.2.1/24"), netip.MustParsePrefix("2001:db8:2::1/64"), netip.Prefix{}
	mac := wire.MAC{2, 0, 0, 0, 0, 9}
	for _, tt := range []struct {
		what, neighbour string
		to              wire.MAC
		on              netip.Prefix
		source          string
		destination     wire.MAC
	}{
		{"all stations", "10.0.2.11", wire.MAC{}, on, "10.0.2.1", wire.Broadcast},
		{"one station", "10.0.2.11", one, on, "10.0.2.1", one},
		{"without an address", "10.0.2.11", wire.MAC{}, none, "0.0.0.0", wire.Broadcast},
	} {
		frame := Request(netip.MustParseAddr(tt.neighbour), tt.to, mac, tt.on)
		a, err := wire.ParseARP(frame)
		if err != nil || a.Sender.String() != tt.source || a.Target.String() != tt.neighbour || a.SenderMAC != mac || wire.Destination(frame) != tt.destination {
			t.Errorf("%s: %+v to %v, %v", tt.what, a, wire.Destination(frame), err)
		}
	}
	for _, tt := range []struct {
		what, neighbour string
		on              netip.Prefix
		source          string
	}{
		{"on the link", "2001:db8:2::11", on6, "2001:db8:2::1"},
		{"of another network", "fe80::1", on6, wire.LinkLocal(mac).String()},
		{"from any address", "fe80::1", netip.PrefixFrom(on6.Addr(), 0), "2001:db8:2::1"},
		{"without an address", "2001:db8:2::11", none, wire.LinkLocal(mac).String()},
	} {
		frame := Request(netip.MustParseAddr(tt.neighbour), wire.MAC{}, mac, tt.on)
		ip, err := wire.ParseIP(frame)
		n, failed := wire.ParseND(frame)
		if err != nil || failed != nil || ip.Src.String() != tt.source || n.Target.String() != tt.neighbour || n.Advertisement || n.Link != mac {
			t.Errorf("%s: %+v from %v, %v, %v", tt.what, n, ip.Src, err, failed)
		}
	}
}

func TestFramesAreReceived(t *testing.T) {
	server, server6 := netip.MustParseAddr("10.0.2.11"), netip.MustParseAddr("2001:db8:2::11")
	for what, tt := range map[string]struct {
		frame []byte
		from  netip.Addr
		is    Answer
	}{
		"a request":         {wire.WhoHas(netip.MustParseAddr("10.0.2.1"), wire.Broadcast, server, one).Frame(), server, Answer{MAC: one, Override: true}},
		"an announcement":   {wire.AnnounceND(server6, one).Frame(), server6, Answer{MAC: one, Override: true}},
		"a solicitation":    {wire.Solicit(server6, wire.MAC{}, one, netip.MustParseAddr("2001:db8:2::1")).Frame(), netip.Addr{}, Answer{}},
		"nothing of either": {make([]byte, 60), netip.Addr{}, Answer{}},
		"a piece":           {wire.WhoHas(server, wire.Broadcast, server, one).Frame()[:20], netip.Addr{}, Answer{}},
	} {
		from, is, ok := Received(tt.frame)
		if from != tt.from || is != tt.is || ok != tt.from.IsValid() {
			t.Errorf("%s: %v, %+v, %v", what, from, is, ok)
		}
	}
}
