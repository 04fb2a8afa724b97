// SPDX-License-Identifier: Apache-2.0

package hostaddr

import (
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/polycube/polycube/inet"
)

func TestLastOfANetwork(t *testing.T) {
	for prefix, want := range map[string]string{
		"10.1.2.3/8": "10.255.255.255", "192.0.2.130/25": "192.0.2.255", "198.51.100.5/30": "198.51.100.7", "1.2.3.4/0": "255.255.255.255",
		"10.0.16.1/20": "10.0.31.255",
	} {
		if got := lastOf(netip.MustParsePrefix(prefix)); got.String() != want {
			t.Errorf("%s: %s instead of %s", prefix, got, want)
		}
	}
}

func TestLoopbackIsListed(t *testing.T) {
	all, err := List()
	if err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(all, func(a Address) bool { return a.Prefix == netip.MustParsePrefix("127.0.0.1/8") })
	if i < 0 {
		t.Skip("the loopback netdev has no address here")
	}
	if a := all[i]; a.Index != 1 || a.Global {
		t.Errorf("%+v", a)
	}
}

func TestTypes(t *testing.T) {
	got := Types([]Address{
		{Prefix: netip.MustParsePrefix("192.0.2.1/24"), Broadcast: netip.MustParseAddr("192.0.2.255")},
		{Prefix: netip.MustParsePrefix("2001:db8::1/64")},
	})
	for address, want := range map[string]uint32{"192.0.2.1": Local, "192.0.2.255": Broadcast, "2001:db8::1": Local, "192.0.2.2": 0} {
		if got[inet.AddressOf(netip.MustParseAddr(address))] != want {
			t.Errorf("%s: %d instead of %d", address, got[inet.AddressOf(netip.MustParseAddr(address))], want)
		}
	}
	if bits, err := TypesOf([]string{"LOCAL", "BROADCAST"}); bits != 6 || err != nil {
		t.Errorf("%d, %v", bits, err)
	}
	if _, err := TypesOf([]string{"ANYCAST"}); err == nil || !strings.Contains(err.Error(), "the type ANYCAST is not supported") {
		t.Errorf("%v", err)
	}
}
