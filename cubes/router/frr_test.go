// SPDX-License-Identifier: Apache-2.0

package router

// Routers with FRR in their namespaces: routes from OSPF and BGP are used by eBPF.

import (
	"fmt"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/polycube/polycube/test/bpftest"
	"github.com/polycube/polycube/test/frr"
	"github.com/polycube/polycube/test/netns"
	"github.com/polycube/polycube/test/pace"
)

// start starts the daemons of FRR in a cube's namespace.
func start(t *testing.T, l *bpftest.Lab, cube string, confs map[string]string) *frr.Router {
	t.Helper()
	return frr.Start(t, func(name string, args ...string) *exec.Cmd { return l.Within(cube, name, args...) }, confs)
}

// ospf is the configuration of a router with links to others.
func ospf(id int, links ...string) string {
	var b strings.Builder
	for _, link := range links {
		fmt.Fprintf(&b, "interface %s\n ip ospf network point-to-point\n ip ospf hello-interval 1\n ip ospf dead-interval 4\n", link)
	}
	fmt.Fprintf(&b, "router ospf\n ospf router-id 192.0.2.%d\n network 10.0.0.0/8 area 0\n passive-interface host\n timers throttle spf 10 50 200\n", id)
	return b.String()
}

// triangle creates three routers with namespaces, connected to each other, with hosts at the first two.
func triangle(t *testing.T) *bpftest.Lab {
	t.Helper()
	l := bpftest.New(t, bpftest.Options{Hosts: 2, Mode: "call", Shadow: true, Follow: true})
	const quiet = `"shadow":true,"arp":{"duplicate-detection":false}`
	l.Create("router", "r1", `{`+quiet+`,"ports":[{"name":"host","peer":"veth1","ip":"10.1.0.1/24"},{"name":"to2","ip":"10.12.0.1/30"},{"name":"to3","ip":"10.13.0.1/30"}]}`)
	l.Create("router", "r2", `{`+quiet+`,"ports":[{"name":"host","peer":"veth2","ip":"10.2.0.1/24"},{"name":"to1","ip":"10.12.0.2/30"},{"name":"to3","ip":"10.23.0.1/30"}]}`)
	l.Create("router", "r3", `{`+quiet+`,"ports":[{"name":"to1","ip":"10.13.0.2/30"},{"name":"to2","ip":"10.23.0.2/30"}]}`)
	l.Connect("r1:to2", "r2:to1")
	l.Connect("r1:to3", "r3:to1")
	l.Connect("r2:to3", "r3:to2")
	for i, h := range l.Hosts {
		h.Run("ip", "addr", "add", fmt.Sprintf("10.%d.0.2/24", i+1), "dev", "eth0")
		h.Run("ip", "route", "add", "default", "via", fmt.Sprintf("10.%d.0.1", i+1))
	}
	return l
}

// hasRoute waits until the list `route` of a cube has, or has not, a text.
func hasRoute(t *testing.T, l *bpftest.Lab, cube, text string, want bool) {
	t.Helper()
	netns.Eventually(t, pace.Stretch(time.Minute), func() error {
		if got := l.Read(cube + " route"); strings.Contains(got, text) != want {
			return fmt.Errorf("routes of %s are %s, want %s: %v", cube, got, text, want)
		}
		return nil
	})
}

func TestRoutersWithOSPFFindTheWayAndAnotherOne(t *testing.T) {
	frr.Need(t)
	t.Parallel()
	l := triangle(t)
	r1 := start(t, l, "r1", map[string]string{"ospfd": ospf(1, "to2", "to3")})
	start(t, l, "r2", map[string]string{"ospfd": ospf(2, "to1", "to3")})
	start(t, l, "r3", map[string]string{"ospfd": ospf(3, "to1", "to2")})
	r1.Eventually("ospfd", "show ip ospf neighbor", "Full", 2)
	hasRoute(t, l, "r1", `"network":"10.2.0.0/24","nexthop":"10.12.0.2"`, true)
	hasRoute(t, l, "r2", `"network":"10.1.0.0/24","nexthop":"10.12.0.1"`, true)

	// Neighbours are resolved first: until then few packets are queued, and the others are lost.
	if err := l.Hosts[0].Ping("10.2.0.2"); err != nil {
		t.Error(err)
	}
	before := within(t, l, "r1")
	if err := l.Hosts[0].Ping("10.2.0.2", netns.PingOptions{Count: 200, Interval: 2 * time.Millisecond}); err != nil {
		t.Error(err)
	}
	if n := within(t, l, "r1") - before; n > 100 {
		t.Errorf("the namespace got %d packets while 400 were forwarded", n)
	}
	if got := says(l.Hosts[0], "ping", "-n", "-c", "1", "-W", "20", "-t", "2", "10.2.0.2"); !strings.Contains(got, "From 10.12.0.2") {
		t.Errorf("the second router on the way is not r2: %s", got)
	}

	l.Set("DELETE", "r1 ports to2 peer", "")
	hasRoute(t, l, "r1", `"network":"10.2.0.0/24","nexthop":"10.13.0.2"`, true)
	hasRoute(t, l, "r2", `"network":"10.1.0.0/24","nexthop":"10.23.0.2"`, true)
	hasRoute(t, l, "r3", `"network":"10.1.0.0/24","nexthop":"10.13.0.1"`, true)
	hasRoute(t, l, "r3", `"network":"10.2.0.0/24","nexthop":"10.23.0.1"`, true)
	if err := l.Hosts[0].Ping("10.2.0.2", netns.PingOptions{Count: 3, Interval: 200 * time.Millisecond}); err != nil {
		t.Errorf("by the other way: %v", err)
	}
	if got := says(l.Hosts[0], "ping", "-n", "-c", "1", "-W", "20", "-t", "2", "10.2.0.2"); !strings.Contains(got, "From 10.13.0.2") {
		t.Errorf("the second router on the way is not r3: %s", got)
	}

	l.Restart(nil)
	hasRoute(t, l, "r1", `"protocol":"ospf"`, true)
	if err := l.Hosts[0].Ping("10.2.0.2", netns.PingOptions{Count: 3, Interval: 200 * time.Millisecond}); err != nil {
		t.Errorf("after a restart: %v", err)
	}
	l.Connect("r1:to2", "r2:to1")
	hasRoute(t, l, "r1", `"network":"10.2.0.0/24","nexthop":"10.12.0.2"`, true)
}

// within counts the packets that the interfaces of a cube's namespace have got.
func within(t *testing.T, l *bpftest.Lab, cube string) (n uint64) {
	t.Helper()
	out, err := l.Within(cube, "cat", "/proc/net/dev").Output()
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(out)) {
		name, rest, ok := strings.Cut(line, ":")
		var bytes, packets uint64
		if ok && strings.TrimSpace(name) != "lo" {
			if _, err := fmt.Sscan(rest, &bytes, &packets); err != nil {
				t.Fatal(err)
			}
			n += packets
		}
	}
	return n
}

// bgp is the configuration of a router in its own autonomous system, with neighbours in others.
func bgp(as int, network string, neighbours ...string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "router bgp %d\n bgp router-id 192.0.2.%d\n no bgp ebgp-requires-policy\n timers bgp 1 3\n", as, as)
	for i, n := range neighbours {
		fmt.Fprintf(&b, " neighbor %s remote-as external\n neighbor %[1]s timers connect 1\n", n)
		if i == 0 {
			fmt.Fprintf(&b, " bgp bestpath as-path multipath-relax\n")
		}
	}
	fmt.Fprintf(&b, " address-family ipv4 unicast\n  network %s\n  maximum-paths 4\n exit-address-family\n", network)
	return b.String()
}

func TestRoutersWithBGPShareTheTrafficAmongEqualPaths(t *testing.T) {
	frr.Need(t)
	t.Parallel()
	l := bpftest.New(t, bpftest.Options{Hosts: 2, Mode: "call", Shadow: true})
	const quiet = `"shadow":true,"arp":{"duplicate-detection":false}`
	l.Create("router", "r1", `{`+quiet+`,"ports":[{"name":"host","peer":"veth1","ip":"10.1.0.1/24"},{"name":"a","ip":"10.12.1.1/30"},{"name":"b","ip":"10.12.2.1/30"}]}`)
	l.Create("router", "r2", `{`+quiet+`,"ports":[{"name":"host","peer":"veth2","ip":"10.2.0.1/24"},{"name":"a","ip":"10.12.1.2/30"},{"name":"b","ip":"10.12.2.2/30"}]}`)
	l.Connect("r1:a", "r2:a")
	l.Connect("r1:b", "r2:b")
	for i, h := range l.Hosts {
		h.Run("ip", "addr", "add", fmt.Sprintf("10.%d.0.2/24", i+1), "dev", "eth0")
		h.Run("ip", "route", "add", "default", "via", fmt.Sprintf("10.%d.0.1", i+1))
	}
	start(t, l, "r1", map[string]string{"bgpd": bgp(1, "10.1.0.0/24", "10.12.1.2", "10.12.2.2")})
	start(t, l, "r2", map[string]string{"bgpd": bgp(2, "10.2.0.0/24", "10.12.1.1", "10.12.2.1")})
	for _, gateway := range []string{"10.12.1.2", "10.12.2.2"} {
		hasRoute(t, l, "r1", `"network":"10.2.0.0/24","nexthop":"`+gateway+`","interface":"`, true)
	}
	hasRoute(t, l, "r2", `"protocol":"bgp"`, true)
	before := [2]uint64{l.Counters("r1", "a").TxPackets, l.Counters("r1", "b").TxPackets}
	for port := range 32 { // a flow stays on its path, many flows take both
		l.Hosts[0].Run("bash", "-c", fmt.Sprintf("echo hello >/dev/udp/10.2.0.2/%d || true", 9000+port))
	}
	for i, name := range []string{"a", "b"} {
		netns.Eventually(t, patience, func() error {
			if n := l.Counters("r1", name).TxPackets - before[i]; n < 4 {
				return fmt.Errorf("%d of 32 flows took path %s", n, name)
			}
			return nil
		})
	}
	l.Set("DELETE", "r1 ports a peer", "")
	hasRoute(t, l, "r1", `"nexthop":"10.12.1.2"`, false)
	netns.Eventually(t, pace.Stretch(time.Minute), func() error { // zebra may withdraw the whole route before it installs the one over the remaining path
		return l.Hosts[0].Ping("10.2.0.2", netns.PingOptions{Count: 3, Timeout: time.Second})
	})
}
