// SPDX-License-Identifier: Apache-2.0

package nat

import (
	"fmt"
	"net/netip"
	"testing"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/cube/table"
	"github.com/polycube/polycube/test/bpftest"
	"github.com/polycube/polycube/test/netns"
)

func TestTheAddressOfMasqueradeIsTheFirstOfUse(t *testing.T) {
	for _, tt := range []struct {
		addresses []string
		v4, v6    string
	}{
		{nil, "", ""},
		{[]string{"10.0.0.1/24"}, "10.0.0.1", ""},
		{[]string{"169.254.3.4/16", "fe80::1/64"}, "", ""},
		{[]string{"fe80::1/64", "2001:db8::1/64", "2001:db8::2/64", "10.0.0.2/24", "10.0.0.1/24"}, "10.0.0.2", "2001:db8::1"},
		{[]string{"127.0.0.1/8", "::1/128"}, "", ""},
	} {
		var p cube.Parent
		for _, a := range tt.addresses {
			p.Addresses = append(p.Addresses, netip.MustParsePrefix(a))
		}
		for v4, want := range map[bool]string{true: tt.v4, false: tt.v6} {
			got := addressOfParent(&p, v4)
			if text := map[bool]string{true: got.String(), false: ""}[got.IsValid()]; text != want {
				t.Errorf("%v, IPv4 %v: %q, want %q", tt.addresses, v4, text, want)
			}
		}
	}
}

// wantMasquerade waits until masquerade has these addresses.
func wantMasquerade(t *testing.T, l *bpftest.Lab, want string) {
	t.Helper()
	netns.Eventually(t, bpftest.Patience, func() error {
		if got := l.Read("n rule masquerade external-ip"); got != want {
			return fmt.Errorf("masquerade has %s, want %s", got, want)
		}
		return nil
	})
}

// sourcesOf are the entries of the map by prefix.
func sourcesOf(t *testing.T, l *bpftest.Lab) map[string]string {
	t.Helper()
	table, err := table.Of[sourceKey, source]("sources", l.Map("n", "sources"))
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]string{}
	for k, v := range table.All(&err) {
		out[fmt.Sprintf("%s/%d", k.Addr.Addr(), k.Bits)] = fmt.Sprintf("%s %s+%d %d-%d rule %d", v.Origin, v.First.Addr(), v.Count, v.PortFirst, v.PortLast, v.Rule)
	}
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func wantSources(t *testing.T, l *bpftest.Lab, want map[string]string) {
	t.Helper()
	if got := sourcesOf(t, l); fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("the map has %v, want %v", got, want)
	}
}

// TestMasqueradeFollowsTheNetdev: the fast path uses the current address of the netdev, and none once masquerade is
// switched off.
func TestMasqueradeFollowsTheNetdev(t *testing.T) {
	t.Parallel()
	l := bpftest.New(t, bpftest.Options{Hosts: 2, Follow: true})
	l.Create("nat", "n", "")
	if got := l.Action("n rule masquerade enable", ""); got != `{"result":false}` {
		t.Errorf("enable of a cube that is nowhere: %s", got)
	}
	l.Attach("n", "veth1")
	if got := l.Action("n rule masquerade enable", ""); got != `{"result":false}` {
		t.Errorf("enable without an address: %s", got)
	}
	if got := l.Read("n rule masquerade"); got != `{"enabled":false}` {
		t.Errorf("what was refused left %s", got)
	}
	l.Lab.Run("ip", "addr", "add", "192.0.2.1/24", "dev", "veth1")
	netns.Eventually(t, bpftest.Patience, func() error {
		if got := l.Action("n rule masquerade enable", ""); got != `{"result":true}` {
			return fmt.Errorf("enable: %s", got)
		}
		return nil
	})
	const v4, v6 = "0.0.0.0/96", "::/0"
	wantMasquerade(t, l, `["192.0.2.1"]`)
	wantSources(t, l, map[string]string{v4: "masquerade 192.0.2.1+1 0-0 rule 0"})
	l.Lab.Run("sysctl", "-qw", "net.ipv6.conf.veth1.disable_ipv6=0")
	l.Lab.Run("ip", "addr", "add", "2001:db8::1/64", "dev", "veth1", "nodad")
	wantMasquerade(t, l, `["192.0.2.1","2001:db8::1"]`)
	l.Set("PATCH", "n rule masquerade", `{"port-first":2000,"port-last":2999}`)
	wantSources(t, l, map[string]string{v4: "masquerade 192.0.2.1+1 2000-2999 rule 0", v6: "masquerade 2001:db8::1+1 2000-2999 rule 0"})
	if err := l.Try("PATCH", "n rule masquerade port-first", "3000"); err == nil {
		t.Error("ports from 3000 to 2999 are accepted")
	}
	l.Lab.Run("ip", "addr", "add", "198.51.100.1/24", "dev", "veth1")
	l.Lab.Run("ip", "addr", "del", "192.0.2.1/24", "dev", "veth1")
	wantMasquerade(t, l, `["198.51.100.1","2001:db8::1"]`)
	// A daemon that starts again has the same, before and after it has heard of the netdev.
	l.Restart(nil)
	wantMasquerade(t, l, `["198.51.100.1","2001:db8::1"]`)
	wantSources(t, l, map[string]string{v4: "masquerade 198.51.100.1+1 2000-2999 rule 0", v6: "masquerade 2001:db8::1+1 2000-2999 rule 0"})
	// A change in the meantime is detected.
	l.Restart(func() { l.Lab.Run("ip", "addr", "del", "198.51.100.1/24", "dev", "veth1") })
	wantMasquerade(t, l, `["2001:db8::1"]`)
	if got := l.Action("n rule masquerade disable", ""); got != `{"result":true}` {
		t.Errorf("disable: %s", got)
	}
	wantSources(t, l, map[string]string{})
	if got := l.Read("n rule masquerade"); got != `{"enabled":false,"port-first":2000,"port-last":2999}` {
		t.Errorf("disabled it is %s", got)
	}
	// Configured before there is an address, it takes effect when there is one; a rule for all networks has
	// precedence.
	l.Set("PATCH", "n rule masquerade enabled", "true")
	l.Set("POST", "n rule snat entry 7", `{"internal-net":"::/0","external-ip":"2001:db8::64"}`)
	wantSources(t, l, map[string]string{v6: "snat 2001:db8::64+1 0-0 rule 7"})
	l.Set("DELETE", "n rule snat entry 7", "")
	wantSources(t, l, map[string]string{v6: "masquerade 2001:db8::1+1 2000-2999 rule 0"})
	l.Set("DELETE", "n rule", "")
	wantSources(t, l, map[string]string{})
}
