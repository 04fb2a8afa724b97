// SPDX-License-Identifier: Apache-2.0

package netdev

import (
	"errors"
	"net/netip"
	"testing"

	"github.com/polycube/polycube/test/netns"
)

// TestRouteTo: routes on the link and through a gateway, with neighbours that are known and not, in both families.
func TestRouteTo(t *testing.T) {
	lab := netns.NewLab(t)
	lab.Host("v0", "10.0.0.1/24")
	lab.Run("ip", "addr", "add", "10.0.0.254/24", "dev", "v0")
	lab.Run("sysctl", "-qw", "net.ipv6.conf.v0.disable_ipv6=0")
	lab.Run("ip", "addr", "add", "fd00::254/64", "dev", "v0", "nodad")
	lab.Run("ip", "link", "set", "v0", "mtu", "1400")
	lab.Run("ip", "neigh", "replace", "10.0.0.7", "lladdr", "02:00:00:00:00:07", "dev", "v0")
	lab.Run("ip", "neigh", "replace", "fd00::7", "lladdr", "02:00:00:00:00:08", "dev", "v0")
	lab.Run("ip", "route", "add", "192.0.2.0/24", "via", "10.0.0.7")
	lab.Run("ip", "route", "add", "198.51.100.0/24", "via", "10.0.0.9")
	lab.Run("ip", "route", "add", "2001:db8::/32", "via", "fd00::7")
	lab.Run("ip", "route", "add", "prohibit", "203.0.113.0/24")
	none := netip.Addr{}
	for to, want := range map[string]struct {
		gateway, source netip.Addr
		mac             string
	}{
		"10.0.0.7":     {none, netip.MustParseAddr("10.0.0.254"), "02:00:00:00:00:07"},
		"192.0.2.1":    {netip.MustParseAddr("10.0.0.7"), netip.MustParseAddr("10.0.0.254"), "02:00:00:00:00:07"},
		"198.51.100.1": {netip.MustParseAddr("10.0.0.9"), netip.MustParseAddr("10.0.0.254"), ""},
		"2001:db8::1":  {netip.MustParseAddr("fd00::7"), netip.MustParseAddr("fd00::254"), "02:00:00:00:00:08"},
		"fd00::7":      {none, netip.MustParseAddr("fd00::254"), "02:00:00:00:00:08"},
	} {
		lab.Must(func() error {
			got, err := RouteTo(netip.MustParseAddr(to))
			if err == nil && (got.Netdev != "v0" || got.Index == 0 || got.Gateway != want.gateway || got.Source != want.source ||
				got.MAC.String() != want.mac || got.MTU != 1400) {
				t.Errorf("%s: %+v, want %+v", to, got, want)
			}
			return err
		})
	}
	for _, to := range []string{"203.0.113.1", "100.64.0.1", "2001:db9::1"} {
		lab.Must(func() error {
			if got, err := RouteTo(netip.MustParseAddr(to)); !errors.Is(err, ErrNoRoute) {
				t.Errorf("%s: %+v, %v, want no route", to, got, err)
			}
			return nil
		})
	}
}
