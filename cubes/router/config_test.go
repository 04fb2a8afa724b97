// SPDX-License-Identifier: Apache-2.0

package router

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/polycube/polycube/test/bpftest"
	"github.com/polycube/polycube/test/modeltest"
	"github.com/polycube/polycube/test/netns"
)

func TestModelAndCodeSayTheSame(t *testing.T) {
	t.Parallel()
	schema := modeltest.Load(t, modeltest.Service(t, files).Model)
	modeltest.Match(t, schema, Config{})
	modeltest.MatchEntry(t, schema, "route", Route{})
	modeltest.MatchEntry(t, schema, "arp-table", ArpEntry{})
	for _, object := range modeltest.Service(t, files).Objects {
		for name, value := range map[string]any{
			"ports": portEntry{}, "addresses": addressEntry{}, "own": ownBits{}, "neighbours": neighbourEntry{}, "next_hops": hopEntry{},
			"groups": groupEntry{}, "fib4": chunkEntry{},
		} {
			bpftest.Layout(t, object, name, value)
		}
	}
}

// routes are the routes that are shown: "network nexthop pathcost", with a star at those that are not used.
func routes(t *testing.T, l *bpftest.Lab) []string {
	t.Helper()
	var list []stateRoute
	if err := json.Unmarshal([]byte(l.Read("r1 route")), &list); err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, r := range list {
		line := fmt.Sprintf("%s %s %d", r.Network, r.Nexthop, r.Pathcost)
		if r.Inactive {
			line += " *"
		}
		out = append(out, line)
	}
	slices.Sort(out)
	return out
}

func wantRoutes(t *testing.T, l *bpftest.Lab, when string, want ...string) {
	t.Helper()
	slices.Sort(want)
	if got := routes(t, l); !slices.Equal(got, want) {
		t.Errorf("%s: the routes are\n  %s\nwant\n  %s", when, strings.Join(got, "\n  "), strings.Join(want, "\n  "))
	}
}

const bare = `{"ports":[{"name":"p1","peer":"veth1","ip":"10.0.1.1/24"},{"name":"p2","peer":"veth2","ip":"10.0.2.1/24"}]}`

func TestWhatCannotBeConfigured(t *testing.T) {
	t.Parallel()
	l := bpftest.New(t, bpftest.Options{})
	l.Create("router", "r1", bare)
	before := l.Read("r1")
	for _, tt := range []struct{ method, words, body, says string }{
		{"POST", "r1 route 10.9.0.0/16 10.0.9.9", `{}`, "not in a network that the router is connected to (10.0.1.0/24, 10.0.2.0/24)"},
		{"POST", "r1 route 10.9.0.0/16 10.0.1.9", `{"interface":"p2"}`, "not in a network of port p2"},
		{"POST", "r1 route 10.9.0.0/16 10.0.1.9", `{"interface":"p9"}`, "no such port"},
		{"POST", "r1 route 10.9.0.0/16 10.0.1.1", `{}`, "address of the router itself"},
		{"POST", "r1 route 10.9.0.0/16 10.0.1.255", `{}`, "is not a host address of network"},
		{"POST", "r1 route 10.9.0.0/16 local", `{}`, "cannot be configured"},
		{"POST", "r1 route 2001:db8::/32 10.0.1.9", `{}`, "different address families"},
		{"POST", "r1 route 2001:db8::/32 fe80::1", `{}`, "specify its port"},
		{"POST", "r1 route 2001:db8::/32 fe80::1", `{"interface":"p1"}`, "has no IPv6 address"},
		{"POST", "r1 route 10.9.0.0/16 blackhole", `{"interface":"p1"}`, "takes no interface"},
		{"POST", "r1 route 224.0.0.0/4 10.0.1.9", `{}`, "are not allowed"},
		{"DELETE", "r1 route 10.0.1.0/24 local", "", "cannot be deleted"},
		{"DELETE", "r1 route 10.7.0.0/24 10.0.1.2", "", "does not exist"},
		{"POST", "r1 ports p3", `{"secondaryip":[{"ip":"10.0.5.1/24"}]}`, "requires a primary one"},
		{"DELETE", "r1 ports p1 secondaryip 10.0.8.1/24", "", "does not exist"},
		{"POST", "r1 ports p3", `{"ip":"10.0.1.1/24"}`, "port p1 already has it"},
		{"POST", "r1 ports p3", `{"ip":"10.0.1.7/24"}`, "port p1 is already in network 10.0.1.0/24"},
		{"POST", "r1 ports p3", `{"ip":"10.0.5.0/24"}`, "network address"},
		{"POST", "r1 ports p3", `{"ip":"10.0.5.255/24"}`, "broadcast address"},
		{"POST", "r1 ports p3", `{"ip":"224.0.0.1/24"}`, "not allowed as the address of a port"},
		{"POST", "r1 ports p3", `{"ip":"2001:db8::1/64","mtu":1200}`, "at least 1280"},
		{"POST", "r1 ports p3", `{"mac":"01:00:00:00:00:01"}`, "not of a group"},
		{"POST", "r1 arp-table 10.0.1.0/24", `{"mac":"02:00:00:00:00:01","interface":"p1"}`, "not a network"},
		{"POST", "r1 arp-table 10.0.1.5", `{"mac":"02:00:00:00:00:01","interface":"p7"}`, "no such port"},
		{"POST", "r1 arp-table 10.0.1.5", `{"mac":"03:00:00:00:00:01","interface":"p1"}`, "not a unicast MAC address"},
		{"POST", "r1 arp-table 224.0.0.5", `{"mac":"02:00:00:00:00:01","interface":"p1"}`, "not a unicast MAC address"},
	} {
		err := l.Try(tt.method, tt.words, tt.body)
		if err == nil || !strings.Contains(err.Error(), tt.says) {
			t.Errorf("%s %s %s: %v, want %q", tt.method, tt.words, tt.body, err, tt.says)
		}
		if after := l.Read("r1"); after != before {
			t.Errorf("%s changed\n%s\nto\n%s", tt.words, before, after)
			before = after
		}
	}
}

// The lowest pathcost is used, whatever is added, removed or changed, and connected networks take precedence.
func TestTheBestRouteIsUsed(t *testing.T) {
	t.Parallel()
	l := bpftest.New(t, bpftest.Options{})
	l.Create("router", "r1", threePorts)
	leads := func(when, mac, host string) {
		t.Helper()
		frame := udp("10.0.1.2", "10.99.0.1", 20)
		out := l.RunAll("veth1", [][]byte{frame})[0]
		if want := routed(frame, mac, host); !slices.Equal(out, want) {
			t.Errorf("%s: sent\n     %x, want\n     %x", when, out, want)
		}
	}
	l.Set("POST", "r1 route 10.99.0.0/16 10.0.2.2", `{"pathcost":5}`)
	leads("one route", mac2, host2)
	l.Set("POST", "r1 route 10.99.0.0/16 10.0.3.2", `{"pathcost":3}`)
	leads("a cheaper one came", mac3, host3)
	l.Set("PATCH", "r1 route 10.99.0.0/16 10.0.3.2 pathcost", `9`)
	leads("it is dearer now", mac2, host2)
	l.Set("PATCH", "r1 route 10.99.0.0/16 10.0.3.2 pathcost", `4`)
	leads("and cheaper again", mac3, host3)
	l.Set("POST", "r1 route 10.99.0.0/16 blackhole", `{"pathcost":50}`)
	l.Set("DELETE", "r1 route 10.99.0.0/16 10.0.3.2", "")
	leads("the best has gone", mac2, host2)
	l.Set("DELETE", "r1 route 10.99.0.0/16 10.0.2.2", "")
	wants(t, l, "the last resort", "veth1", udp("10.0.1.2", "10.99.0.1", 20), drop("blackhole"), nil)
	l.Set("POST", "r1 route 10.99.0.0/16 10.0.3.2", `{"pathcost":0}`)
	leads("at no cost", mac3, host3)
	l.Set("POST", "r1 ports p2 secondaryip 10.99.1.1/16", ``)
	wants(t, l, "connected beats all", "veth1", udp("10.0.1.2", "10.99.1.1", 20), slowpath, nil)
	if got := l.Read("r1 route 10.99.0.0/16 10.0.3.2 inactive"); got != "true" {
		t.Errorf("inactive is %s", got)
	}
	l.Set("DELETE", "r1 ports p2 secondaryip 10.99.1.1/16", "")
	leads("the address has gone", mac3, host3)
}

func TestRoutesGoWithTheirNetwork(t *testing.T) {
	t.Parallel()
	l := bpftest.New(t, bpftest.Options{})
	l.Create("router", "r1", bare)
	connected := []string{"10.0.1.0/24 local 0", "10.0.2.0/24 local 0"}
	l.Set("POST", "r1 ports p1 secondaryip 10.0.11.1/24", "")
	l.Set("POST", "r1 ports p1 secondaryip 10.0.1.77/24", "") // in the primary one's network: no separate route
	for _, r := range []string{"10.5.0.0/16 10.0.1.2", "10.6.0.0/16 10.0.11.2", "10.7.0.0/16 10.0.2.2", "10.6.0.0/16 10.0.2.2", "10.8.0.0/16 unreachable"} {
		l.Set("POST", "r1 route "+r, "{}")
	}
	l.Set("POST", "r1 arp-table 10.0.2.9", `{"mac":"`+host2+`","interface":"p2"}`)
	all := append(slices.Clone(connected), "10.0.11.0/24 local 0", "10.5.0.0/16 10.0.1.2 1", "10.6.0.0/16 10.0.11.2 1", "10.7.0.0/16 10.0.2.2 1", "10.6.0.0/16 10.0.2.2 1", "10.8.0.0/16 unreachable 1")
	wantRoutes(t, l, "all", all...)
	l.Set("DELETE", "r1 ports p1 secondaryip 10.0.1.77/24", "")
	wantRoutes(t, l, "without an address whose network has another", all...)
	l.Set("DELETE", "r1 ports p1 secondaryip 10.0.11.1/24", "")
	wantRoutes(t, l, "without a secondary address", append(slices.Clone(connected), "10.5.0.0/16 10.0.1.2 1", "10.7.0.0/16 10.0.2.2 1", "10.6.0.0/16 10.0.2.2 1", "10.8.0.0/16 unreachable 1")...)
	l.Set("PATCH", "r1 ports p1 ip", `"10.0.1.200/25"`)
	wantRoutes(t, l, "with another primary address", "10.0.1.128/25 local 0", "10.0.2.0/24 local 0", "10.7.0.0/16 10.0.2.2 1", "10.6.0.0/16 10.0.2.2 1", "10.8.0.0/16 unreachable 1")
	l.Set("DELETE", "r1 ports p2", "")
	wantRoutes(t, l, "without a port", "10.0.1.128/25 local 0", "10.8.0.0/16 unreachable 1")
	if got := l.Read("r1"); strings.Contains(got, "10.0.2.9") {
		t.Errorf("its neighbour is there: %s", got)
	}
	l.Restart(nil)
	wantRoutes(t, l, "after a restart", "10.0.1.128/25 local 0", "10.8.0.0/16 unreachable 1")
}

func TestARestartKeepsForwarding(t *testing.T) {
	t.Parallel()
	bpftest.Each(t, bpftest.Options{}, func(t *testing.T, l *bpftest.Lab) {
		l.Create("router", "r1", threePorts)
		frame, six := udp("10.0.1.2", "10.30.7.9", 20), udp("2001:db8:1::2", "2001:db8:30::1", 20)
		check := func(when string) {
			t.Helper()
			for i, out := range l.RunAll("veth1", [][]byte{frame, six}) {
				if want := routed([][]byte{frame, six}[i], mac3, host3); !slices.Equal(out, want) {
					t.Errorf("%s: %x, want %x", when, out, want)
				}
			}
		}
		check("before")
		l.Restart(nil)
		check("after")
		l.Set("DELETE", "r1 route 10.30.7.9/32 10.0.3.2", "")
		if out := l.RunAll("veth1", [][]byte{frame})[0]; !slices.Equal(out, routed(frame, mac2, host2)) {
			t.Errorf("a deleted route is in use: %x", out)
		}
	})
}

// The limit applies to existing and new routes together, and a refused change has no effect.
func TestMaxRoutes(t *testing.T) {
	t.Parallel()
	l := bpftest.New(t, bpftest.Options{})
	l.Create("router", "r1", bare)
	l.Set("PATCH", "r1 max-routes", "256")
	entries := func(n int) string {
		var list []string
		for i := range n {
			list = append(list, fmt.Sprintf(`{"network":"10.64.%d.0/24","nexthop":"10.0.1.2"}`, i))
		}
		return "[" + strings.Join(list, ",") + "]"
	}
	before := routes(t, l)
	if err := l.Try("POST", "r1 route", entries(256)); err == nil || !strings.Contains(err.Error(), "max-routes is 256") {
		t.Errorf("too many routes: %v", err)
	}
	wantRoutes(t, l, "after a refused change", before...)
	l.Set("POST", "r1 route", entries(240))
	l.Set("PATCH", "r1 max-routes", "300")
	l.Set("PUT", "r1 route", entries(256))
	if n := len(routes(t, l)); n != 258 {
		t.Errorf("there are %d routes, want 258", n)
	}
}

// TestRoutesSayWhereTheyLead: the state of a configured route includes what the configuration leaves to the router.
func TestRoutesSayWhereTheyLead(t *testing.T) {
	t.Parallel()
	l := bpftest.New(t, bpftest.Options{})
	l.Create("router", "r1", bare)
	for _, route := range []string{"10.5.0.0/16 10.0.1.9", "10.5.0.0/16 10.0.2.9", "10.6.0.0/16 10.0.2.9", "10.6.0.0/16 prohibit", "10.7.0.0/16 blackhole"} {
		cost := "1"
		if strings.HasSuffix(route, "prohibit") {
			cost = "7"
		}
		l.Set("POST", "r1 route "+route, `{"pathcost":`+cost+`}`)
	}
	show := func(words string) (out []string) {
		text := l.Read(words)
		if !strings.HasPrefix(text, "[") {
			text = "[" + text + "]"
		}
		var list []stateRoute
		if err := json.Unmarshal([]byte(text), &list); err != nil {
			t.Fatal(err)
		}
		for _, r := range list {
			out = append(out, strings.TrimSuffix(fmt.Sprintf("%s %s %s %s %t", r.Network, r.Nexthop, r.Interface, r.Protocol, r.Inactive), " false"))
		}
		slices.Sort(out)
		return out
	}
	for _, tt := range []struct {
		words string
		want  []string
	}{
		{"r1 route", []string{"10.0.1.0/24 local p1 connected", "10.0.2.0/24 local p2 connected", "10.5.0.0/16 10.0.1.9 p1 static",
			"10.5.0.0/16 10.0.2.9 p2 static", "10.6.0.0/16 10.0.2.9 p2 static", "10.6.0.0/16 prohibit  static true", "10.7.0.0/16 blackhole  static"}},
		{"r1 route 10.5.0.0/16 10.0.2.9", []string{"10.5.0.0/16 10.0.2.9 p2 static"}},
		{"r1 route 10.6.0.0/16 prohibit", []string{"10.6.0.0/16 prohibit  static true"}},
		{"r1 route 10.0.1.0/24 local", []string{"10.0.1.0/24 local p1 connected"}},
	} {
		if got := show(tt.words); !slices.Equal(got, tt.want) {
			t.Errorf("%s:\n  %s\nwant\n  %s", tt.words, strings.Join(got, "\n  "), strings.Join(tt.want, "\n  "))
		}
	}
	err := l.Try("DELETE", "r1 route 10.0.1.0/24 local", "")
	if text := fmt.Sprint(err); strings.Count(text, "10.0.1.0/24") != 1 {
		t.Errorf("the refusal says the path not just once: %s", text)
	}
}

// TestANeighbourThatHasNotAnsweredHasNeitherAddressNorAge: it was never heard of.
func TestANeighbourThatHasNotAnsweredHasNeitherAddressNorAge(t *testing.T) {
	t.Parallel()
	l := bpftest.New(t, bpftest.Options{})
	l.Create("router", "r1", bare)
	l.Set("POST", "r1 route 10.5.0.0/16 10.0.2.9", `{}`) // a gateway is resolved
	netns.Eventually(t, patience, func() error {
		text := l.Read("r1 arp-table")
		if !strings.Contains(text, `"state":"incomplete"`) && !strings.Contains(text, `"state":"failed"`) {
			return fmt.Errorf("the neighbours are %s", text)
		}
		if strings.Contains(text, `"mac"`) || strings.Contains(text, `"age"`) {
			t.Errorf("one that was never heard of is %s", text)
		}
		return nil
	})
}
