// SPDX-License-Identifier: Apache-2.0

package router

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/polycube/polycube/test/bpftest"
	"github.com/polycube/polycube/test/netns"
)

// get returns the output of route-get for an address: the result, and a line for each route, with a star at those that
// are used.
func get(t *testing.T, l *bpftest.Lab, address string) string {
	t.Helper()
	var a routeAnswer
	if err := json.Unmarshal([]byte(l.Action("r1 route-get", fmt.Sprintf(`{"address":%q}`, address))), &a); err != nil {
		t.Fatal(err)
	}
	out := a.Result
	for _, is := range a.Route {
		out += fmt.Sprintf("\n%s %s %s %d %s %s", is.Network, is.Nexthop, is.Interface, is.Pathcost, is.Protocol, is.Reason)
		if is.Used {
			out += " *"
		}
	}
	return out
}

func TestRouteGetSaysWhatBecomesOfPackets(t *testing.T) {
	t.Parallel()
	l := bpftest.New(t, bpftest.Options{})
	l.Create("router", "r1", `{"arp":{"duplicate-detection":false},"ports":[
 {"name":"p1","peer":"veth1","ip":"10.0.1.1/24","secondaryip":[{"ip":"2001:db8:1::1/64"}]},{"name":"p2","peer":"veth2","ip":"10.0.2.1/24"},{"name":"p3","ip":"10.0.3.1/24"}],
"route":[{"network":"10.8.0.0/16","nexthop":"10.0.1.2"},{"network":"10.8.0.0/16","nexthop":"10.0.2.2"},{"network":"10.8.0.0/16","nexthop":"10.0.2.3","pathcost":7},
 {"network":"10.9.0.0/16","nexthop":"10.0.3.2"},{"network":"10.9.0.0/16","nexthop":"10.0.2.2","pathcost":9},{"network":"10.0.0.0/8","nexthop":"prohibit"},
 {"network":"10.0.7.0/24","nexthop":"10.0.3.2"},{"network":"20.0.0.0/8","nexthop":"blackhole"},{"network":"20.1.0.0/16","nexthop":"unreachable"}]}`)
	const rest = "\n10.0.0.0/8 prohibit  1 static a longer prefix matches"
	for address, want := range map[string]string{
		"10.0.1.1":   "delivered to the router: it is an address of port p1\n10.0.1.1/32 local  0 connected longest prefix *\n10.0.1.0/24 local p1 0 connected a longer prefix matches" + rest,
		"10.0.1.255": "dropped: it is the broadcast address of a network\n10.0.1.255/32 broadcast  0 connected longest prefix *\n10.0.1.0/24 local p1 0 connected a longer prefix matches" + rest,
		"10.0.2.9":   "sent by port p2 to 10.0.2.9, which is directly connected\n10.0.2.0/24 local p2 0 connected longest prefix *" + rest,
		"10.8.1.1": "sent by one of 2 routes, chosen per flow\n10.8.0.0/16 10.0.1.2 p1 1 static longest prefix match, best route *\n" +
			"10.8.0.0/16 10.0.2.2 p2 1 static longest prefix match, best route *\n10.8.0.0/16 10.0.2.3 p2 7 static a route with pathcost 1 is used" + rest,
		"10.9.1.1": "sent to 10.0.2.2 by port p2\n10.9.0.0/16 10.0.3.2 p3 1 static port p3 is DOWN\n" +
			"10.9.0.0/16 10.0.2.2 p2 9 static longest prefix match, best route *" + rest,
		"10.0.7.7":       "answered with ICMP administratively prohibited\n10.0.7.0/24 10.0.3.2 p3 1 static port p3 is DOWN\n10.0.0.0/8 prohibit  1 static longest prefix *",
		"20.0.0.1":       "dropped by a blackhole route\n20.0.0.0/8 blackhole  1 static longest prefix *",
		"20.1.0.1":       "answered with ICMP host unreachable\n20.1.0.0/16 unreachable  1 static longest prefix *\n20.0.0.0/8 blackhole  1 static a longer prefix matches",
		"30.0.0.1":       "answered with ICMP network unreachable: no route",
		"2001:db8:1::99": "sent by port p1 to 2001:db8:1::99, which is directly connected\n2001:db8:1::/64 local p1 0 connected longest prefix *",
	} {
		if got := get(t, l, address); got != want {
			t.Errorf("%s: %s\nwant %s", address, got, want)
		}
	}
	for address, want := range map[string]string{"224.0.0.1": "are not allowed", "fe80::1": "link-local", "ten": "not a valid"} {
		if _, err := l.TryAction("r1 route-get", fmt.Sprintf(`{"address":%q}`, address)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", address, err, want)
		}
	}
	l.Set("PATCH", "r1 fib", `"host"`)
	if _, err := l.TryAction("r1 route-get", `{"address":"10.0.1.1"}`); err == nil || !strings.Contains(err.Error(), "ip route get 10.0.1.1") {
		t.Errorf("with fib=host: %v", err)
	}
}

func TestEveryRouteOfTheNamespaceIsListed(t *testing.T) {
	t.Parallel()
	l := bpftest.New(t, bpftest.Options{Hosts: 2, Shadow: true})
	l.Create("router", "r1", `{"shadow":true,"arp":{"duplicate-detection":false},"ports":[{"name":"p1","peer":"veth1","ip":"10.0.1.1/24"},{"name":"p2","peer":"veth2","ip":"10.0.2.1/24"}],
		"route":[{"network":"10.9.0.0/16","nexthop":"10.0.2.2","pathcost":2},{"network":"10.7.0.0/16","nexthop":"blackhole"}]}`)
	for _, args := range []string{
		"10.0.2.0/24 dev p2 proto ospf metric 5", "10.9.0.0/16 via 10.0.2.2 proto bird metric 20", "10.9.0.0/16 via 10.0.1.2 proto bgp metric 30",
		"10.9.0.0/16 via 10.0.2.2 proto bgp metric 40", "blackhole 10.7.0.0/16 proto bird metric 3",
	} {
		if out, err := l.Within("r1", "bash", "-c", "ip route add "+args).CombinedOutput(); err != nil {
			t.Fatalf("%s: %v: %s", args, err, out)
		}
	}
	want := []string{
		"10.0.1.0/24 local 0", "10.0.2.0/24 local 0", "10.0.2.0/24 local%p2 5 *",
		"10.7.0.0/16 blackhole 1", "10.7.0.0/16 blackhole%bird 3 *",
		"10.9.0.0/16 10.0.1.2 30 *", "10.9.0.0/16 10.0.2.2 2", "10.9.0.0/16 10.0.2.2%bgp 40 *", "10.9.0.0/16 10.0.2.2%p2 20 *",
	}
	netns.Eventually(t, patience, func() error {
		if got := routes(t, l); !slices.Equal(got, want) {
			return fmt.Errorf("the routes are\n  %s\nwant\n  %s", strings.Join(got, "\n  "), strings.Join(want, "\n  "))
		}
		return nil
	})
	if got := l.Read("r1 route 10.0.2.0/24 local%p2"); !strings.Contains(got, `"reason":"a connected route is used"`) || !strings.Contains(got, `"protocol":"ospf"`) {
		t.Errorf("a learned route reads %s", got)
	}
}

func TestDefaultIsEveryNetwork(t *testing.T) {
	t.Parallel()
	l := bpftest.New(t, bpftest.Options{})
	l.Create("router", "r1", `{"arp":{"duplicate-detection":false},"ports":[
		{"name":"p1","peer":"veth1","ip":"10.0.1.1/24","secondaryip":[{"ip":"2001:db8:1::1/64"}]},{"name":"p2","peer":"veth2","ip":"10.0.2.1/24"}]}`)
	l.Set("POST", "r1 route default 10.0.1.2", "")
	l.Set("POST", "r1 route default 2001:db8:1::2", `{"pathcost":3}`)
	for address, want := range map[string]string{
		"192.0.2.1": "sent to 10.0.1.2 by port p1\n0.0.0.0/0 10.0.1.2 p1 1 static longest prefix *",
		"2001::1":   "sent to 2001:db8:1::2 by port p1\n::/0 2001:db8:1::2 p1 3 static longest prefix *",
	} {
		if got := get(t, l, address); got != want {
			t.Errorf("%s: %s\nwant %s", address, got, want)
		}
	}
	if got := l.Read("r1 route default 10.0.1.2"); !strings.Contains(got, `"protocol":"static"`) {
		t.Errorf("the default route reads %s", got)
	}
	before := l.Read("r1 route")
	for _, tt := range []struct{ method, words, says string }{
		{"POST", "r1 route 0.0.0.0/0 10.0.1.2", "given twice"},
		{"POST", "r1 route ::/0 2001:db8:1::2", "given twice"},
		{"POST", "r1 route 10.1.2.3/16 10.0.1.2", "the network is 10.1.0.0/16"},
		{"POST", "r1 route 10.1.0.0/16 blackhole%p1", "blackhole%p1"},
		{"POST", "r1 route defalt 10.0.1.2", "not a valid"},
	} {
		if err := l.Try(tt.method, tt.words, ""); err == nil || !strings.Contains(err.Error(), tt.says) {
			t.Errorf("%s: %v, want %q", tt.words, err, tt.says)
		}
	}
	if after := l.Read("r1 route"); after != before {
		t.Errorf("what was refused changed\n%s\nto\n%s", before, after)
	}
	l.Set("DELETE", "r1 route default 10.0.1.2", "")
	wantRoutes(t, l, "in the end", "10.0.1.0/24 local 0", "10.0.2.0/24 local 0", "2001:db8:1::/64 local 0", "default 2001:db8:1::2 3")
}
