// SPDX-License-Identifier: Apache-2.0

package router

import (
	"encoding/json"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/polycube/polycube/cube/table"
	"github.com/polycube/polycube/test/bpftest"
	"github.com/polycube/polycube/test/netns"
	"github.com/polycube/polycube/test/pkt"
)

// twoWays is a router with p1 for traffic, and p2 and p3 for routes to beyond: shared, floating, and by one of them alone.
const twoWays = `{"arp":{"duplicate-detection":false},"ports":[
 {"name":"p1","peer":"veth1","mac":"` + mac1 + `","ip":"10.0.1.1/24"},
 {"name":"p2","peer":"veth2","mac":"` + mac2 + `","ip":"10.0.2.1/24"},
 {"name":"p3","peer":"veth3","mac":"` + mac3 + `","ip":"10.0.3.1/24"}],
"arp-table":[{"address":"10.0.2.2","mac":"` + host2 + `","interface":"p2"},{"address":"10.0.3.2","mac":"` + host3 + `","interface":"p3"}],
"route":[{"network":"10.8.0.0/16","nexthop":"10.0.2.2"},{"network":"10.8.0.0/16","nexthop":"10.0.3.2"},
 {"network":"10.9.0.0/16","nexthop":"10.0.2.2","pathcost":2},{"network":"10.9.0.0/16","nexthop":"10.0.3.2","pathcost":5},
 {"network":"10.7.0.0/16","nexthop":"10.0.2.2"},{"network":"10.7.0.0/16","nexthop":"blackhole","pathcost":9}]}`

// ways returns the ports through which 64 flows to a host leave, by the station that finally receives their frames.
func ways(l *bpftest.Lab, to string) string {
	found := map[string]bool{}
	ports := map[string]string{host2: "p2", host3: "p3", mac1: "none"}
	for flow := range uint16(64) {
		_, f := l.RunBytes("veth1", pkt.Eth(host1, mac1).IPv4("10.0.1.2", to).UDP(1000+flow, 2).Payload(20).Bytes())
		found[ports[net.HardwareAddr(f[:6]).String()]] = true
	}
	return strings.Join(slices.Sorted(maps.Keys(found)), " ")
}

// reasons are why routes are not used, by network and next hop.
func reasons(t *testing.T, l *bpftest.Lab) map[string]string {
	t.Helper()
	var list []stateRoute
	if err := json.Unmarshal([]byte(l.Read("r1 route")), &list); err != nil {
		t.Fatal(err)
	}
	out := map[string]string{}
	for _, is := range list {
		if is.Inactive != (is.Reason != "") {
			t.Errorf("%+v", is)
		}
		if is.Inactive {
			out[is.Network+" "+is.Nexthop] = is.Reason
		}
	}
	return out
}

// throughTwoWays is where packets to the networks of twoWays go, and to a station on p2, and why routes are not used.
type throughTwoWays struct {
	shared, floating, alone, beside string
	reasons                         map[string]string
}

func (l *linkLab) is() throughTwoWays {
	return throughTwoWays{ways(l.Lab, "10.8.0.1"), ways(l.Lab, "10.9.0.1"), ways(l.Lab, "10.7.0.1"), ways(l.Lab, "10.0.2.2"), reasons(l.t, l.Lab)}
}

type linkLab struct {
	*bpftest.Lab
	t *testing.T
}

func (l *linkLab) becomes(when string, want throughTwoWays) {
	l.t.Helper()
	netns.Eventually(l.t, patience, func() error {
		if got := l.is(); fmt.Sprint(got) != fmt.Sprint(want) {
			return fmt.Errorf("%s it is\n%+v, want\n%+v", when, got, want)
		}
		return nil
	})
}

var (
	bothWays = throughTwoWays{"p2 p3", "p2", "p2", "p2", map[string]string{
		"10.9.0.0/16 10.0.3.2": "a route with pathcost 2 is used", "10.7.0.0/16 blackhole": "a route with pathcost 1 is used"}}
	oneWay = func(why string) throughTwoWays {
		return throughTwoWays{"p3", "p3", "none", "none", map[string]string{
			"10.0.2.0/24 local": why, "10.8.0.0/16 10.0.2.2": why, "10.9.0.0/16 10.0.2.2": why, "10.7.0.0/16 10.0.2.2": why}}
	}
)

func TestRoutesFollowTheirPort(t *testing.T) {
	for _, typ := range types {
		t.Run(strings.ToLower(string(typ)), func(t *testing.T) {
			t.Parallel()
			l := &linkLab{bpftest.New(t, bpftest.Options{Type: typ, Follow: true}), t}
			l.Create("router", "r1", twoWays)
			if got := l.is(); fmt.Sprint(got) != fmt.Sprint(bothWays) {
				t.Errorf("when the answer comes, it is\n%+v, want\n%+v", got, bothWays)
			}
			far, near := l.Hosts[1], l.Hosts[1].Outer
			far.Run("ip", "link", "set", "eth0", "down")
			l.becomes("without carrier", oneWay("port p2 has no carrier"))
			back := time.Now()
			far.Run("ip", "link", "set", "eth0", "up")
			l.becomes("with carrier", bothWays)
			if took := time.Since(back); took < carrierHold {
				t.Errorf("routes are back after %v, want %v", took, carrierHold)
			}
			l.Lab.Lab.Run("ip", "link", "set", near, "down")
			l.becomes("with the netdev down", oneWay("port p2 is DOWN"))
			l.Lab.Lab.Run("ip", "link", "set", near, "up")
			l.becomes("with the netdev up", bothWays)
			l.Set("PATCH", "r1 ports p2 peer", `""`)
			if got, want := l.is(), oneWay("port p2 is DOWN"); fmt.Sprint(got) != fmt.Sprint(want) {
				t.Errorf("without a peer it is\n%+v, want\n%+v", got, want)
			}
			l.Set("PATCH", "r1 ports p2 peer", `"veth2"`)
			if got := l.is(); fmt.Sprint(got) != fmt.Sprint(bothWays) {
				t.Errorf("with its peer it is\n%+v, want\n%+v", got, bothWays)
			}
			l.Restart(func() { far.Run("ip", "link", "set", "eth0", "down") })
			l.becomes("after the carrier was lost with no daemon", oneWay("port p2 has no carrier"))
			l.Set("PATCH", "r1 ports p2 link-detect", "false")
			l.becomes("without link-detect", bothWays)
			l.Set("PATCH", "r1 ports p2 link-detect", "true")
			l.becomes("with link-detect", oneWay("port p2 has no carrier"))
			l.Set("POST", "r1 ports p4", `{"ip":"10.0.4.1/24"}`)
			if got := reasons(t, l.Lab)["10.0.4.0/24 local"]; got != "port p4 is DOWN" {
				t.Errorf("a new port without a peer: %q", got)
			}
		})
	}
}

func TestRoutesThroughPortsThatAreDownAreNotTheBest(t *testing.T) {
	t.Parallel()
	r := newRib(newHops(tables{}), tables{})
	for _, tt := range []struct {
		down map[uint16]bool
		want []uint16
	}{
		{nil, []uint16{1, 2}}, {map[uint16]bool{1: true}, []uint16{2}}, {map[uint16]bool{2: true}, []uint16{1}},
		{map[uint16]bool{1: true, 2: true}, []uint16{3}}, {map[uint16]bool{1: true, 2: true, 3: true}, nil},
	} {
		d := &destination{}
		for port := range uint16(3) {
			cost := uint32(port/2) + 1
			d.routes = append(d.routes, route{target: unicast(netip.AddrFrom4([4]byte{10, 0, byte(port), 1}), port+1), origin: static, cost: cost})
		}
		r.down = tt.down
		var got []uint16
		for _, is := range r.best(d) {
			got = append(got, is.port)
		}
		if !slices.Equal(got, tt.want) {
			t.Errorf("with %v down, routes lead through %v, want %v", tt.down, got, tt.want)
		}
	}
}

// The flows of a group's members on a port that is down use the other members at once, however many routes must follow.
func TestGroupsAvoidPortsThatAreDown(t *testing.T) {
	t.Parallel()
	l := bpftest.New(t, bpftest.Options{Hosts: 1})
	l.Create("router", "r1", `{"ports":[{"name":"p1","peer":"veth1","ip":"10.0.1.1/24"}]}`)
	entries, err := table.Of[uint32, hopEntry]("next_hops", l.Map("r1", "next_hops"))
	if err != nil {
		t.Fatal(err)
	}
	groups, err := table.Of[uint32, groupEntry]("groups", l.Map("r1", "groups"))
	if err != nil {
		t.Fatal(err)
	}
	h := newHops(tables{hops: entries, groups: groups})
	if err := h.begin(nil); err != nil {
		t.Fatal(err)
	}
	var targets []target
	for port := range uint16(3) {
		targets = append(targets, unicast(netip.AddrFrom4([4]byte{10, 0, byte(port), 2}), port))
	}
	id, err := h.acquire(targets)
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct{ down, want []uint16 }{
		{nil, []uint16{0, 1, 2}}, {[]uint16{0}, []uint16{1, 1, 2}}, {[]uint16{2, 9}, []uint16{0, 1, 0}}, {[]uint16{0, 2}, []uint16{1, 1, 1}},
		{[]uint16{0, 1, 2}, []uint16{0, 1, 2}}, {nil, []uint16{0, 1, 2}},
	} {
		down := map[uint16]bool{}
		for _, port := range tt.down {
			down[port] = true
		}
		if err := h.avoid(down); err != nil {
			t.Fatal(err)
		}
		g, _, err := groups.Get(h.hops[id].entry.Group)
		if err != nil {
			t.Fatal(err)
		}
		var got []uint16
		for _, m := range g.Member[:3] {
			got = append(got, h.hops[m].port)
		}
		if !slices.Equal(got, tt.want) {
			t.Errorf("with %v down the members are %v, want %v", tt.down, got, tt.want)
		}
	}
}

// Packets of the router without a receiver, and packets to groups that it has not joined, do not count as unexpected
// losses.
func TestDropCountersCountLosses(t *testing.T) {
	t.Parallel()
	l := bpftest.New(t, bpftest.Options{Hosts: 1})
	w := l.Wires()[0]
	l.Create("router", "r1", `{"ports":[{"name":"p1","peer":"veth1","mac":"`+mac1+`","ip":"10.0.1.1/24"},{"name":"p2","ip":"10.0.2.1/24"}],
		"route":[{"network":"10.8.0.0/16","nexthop":"10.0.1.2"},{"network":"10.9.0.0/16","nexthop":"10.0.2.2"}]}`)
	for range 2 { // by the second time, a request on the other port would have been sent, too
		listen(t, w, "an ARP request for 10.0.1.2", asks("10.0.1.2"))
	}
	toAll := pkt.Eth(host1, "33:33:00:00:00:01").IPv6("fe80::2", "ff02::1").UDP(1, 2).Payload(20).Bytes()
	toUs := pkt.Eth(host1, mac1).IPv6("2001:db8::2", "2001:db8::1").UDP(1, 2).Payload(20).Bytes()
	for what, frame := range map[string][]byte{"multicast": toAll, "no-address": toUs} {
		got := l.Run("veth1", frame)
		got.Sent = "" // the router resolves 10.0.1.2 meanwhile
		if got != drop(what) {
			t.Errorf("%s: %+v", what, got)
		}
	}
	if got := l.Fates("r1")["no-peer"]; got != 0 {
		t.Errorf("%d packets of the router's own went out of a port without a peer", got)
	}
}
