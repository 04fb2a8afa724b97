// SPDX-License-Identifier: Apache-2.0

package shadow

import (
	"fmt"
	"net/netip"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/test/netns"
	"github.com/polycube/polycube/test/pace"
)

// listener keeps what it is told, as a cube would.
type listener struct {
	mu       sync.Mutex
	routes   map[routeKey]cube.Route
	complete int
	calls    int
}

func (l *listener) told(changes []cube.RouteChange, complete bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.calls++
	if complete {
		l.routes = map[routeKey]cube.Route{}
		l.complete++
	}
	for _, c := range changes {
		key := routeKey{c.Prefix, c.Metric}
		if c.Deleted {
			delete(l.routes, key)
			continue
		}
		l.routes[key] = c.Route
	}
}

// has waits until a route reads so; "" for a route that is not there.
func (l *listener) has(t *testing.T, prefix string, want string) {
	t.Helper()
	netns.Eventually(t, pace.Stretch(10*time.Second), func() error {
		l.mu.Lock()
		defer l.mu.Unlock()
		got := ""
		for key, r := range l.routes {
			if key.prefix == netip.MustParsePrefix(prefix) {
				got += fmt.Sprintf("%s %d %d", r.Protocol, r.Kind, r.Metric)
				for _, h := range r.NextHops {
					got += fmt.Sprintf(" %s/%s*%d", h.Port, h.Gateway, h.Weight)
				}
			}
		}
		if got != want {
			return fmt.Errorf("route %s is %q, want %q", prefix, got, want)
		}
		return nil
	})
}

func (l *lab) inside(t *testing.T, line string) {
	t.Helper()
	words := append([]string{"--net=" + l.k.path("r1")}, strings.Fields(line)...)
	if out, err := exec.Command("nsenter", words...).CombinedOutput(); err != nil {
		t.Fatalf("%s: %v: %s", line, err, out)
	}
}

// linked gives a cube's interfaces addresses and carriers.
func (l *lab) linked(t *testing.T, c Cube) {
	t.Helper()
	l.ensure(c)
	up := true
	for i, port := range c.Ports {
		l.Must(func() error {
			return l.k.Set(c.UUID, port, Setting{Up: &up, Add: []netip.Prefix{
				netip.MustParsePrefix(fmt.Sprintf("10.0.%d.1/24", i+1)), netip.MustParsePrefix(fmt.Sprintf("2001:db8:%d::1/64", i+1)),
			}})
		})
	}
}

func TestRoutesOfANamespaceAreTold(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.linked(t, r1)
	l.inside(t, "ip route add 192.0.2.0/24 via 10.0.1.2 proto static")
	cube := &listener{}
	l.Must(func() error { l.k.WatchRoutes(r1, cube.told); return nil })
	cube.has(t, "192.0.2.0/24", "static 0 0 p1/10.0.1.2*1")
	cube.has(t, "10.0.1.0/24", "") // the kernel's
	for _, tt := range []struct{ line, prefix, want string }{
		{"ip route add 198.51.100.0/24 via 10.0.2.2 metric 7 proto bgp", "198.51.100.0/24", "bgp 0 7 p2/10.0.2.2*1"},
		{"ip route add default proto dhcp nexthop via 10.0.1.2 weight 2 nexthop via 10.0.2.2", "0.0.0.0/0", "dhcp 0 0 p1/10.0.1.2*2 p2/10.0.2.2*1"},
		{"ip route change default proto dhcp via 10.0.2.3", "0.0.0.0/0", "dhcp 0 0 p2/10.0.2.3*1"},
		{"ip route add blackhole 203.0.113.0/24", "203.0.113.0/24", "boot 1 0"},
		{"ip route add unreachable 203.0.113.0/25", "203.0.113.0/25", "boot 2 0"},
		{"ip route add prohibit 203.0.113.0/26 proto 77", "203.0.113.0/26", "77 3 0"},
		{"ip route add 100.64.0.0/10 dev p1", "100.64.0.0/10", "boot 0 0 p1/invalid IP*1"},
		{"ip route add 100.65.0.0/16 dev lo", "100.65.0.0/16", ""},
		{"ip route add 100.66.0.0/16 via 10.0.1.2 table 100", "100.66.0.0/16", ""},
		{"ip route add 100.67.0.0/16 via inet6 2001:db8:1::2 dev p1", "100.67.0.0/16", "boot 0 0 p1/2001:db8:1::2*1"},
		{"ip -6 route add 2001:db8:9::/48 proto ospf nexthop via 2001:db8:1::2 nexthop via 2001:db8:2::2", "2001:db8:9::/48",
			"ospf 0 1024 p1/2001:db8:1::2*1 p2/2001:db8:2::2*1"},
		{"ip -6 route del 2001:db8:9::/48 via 2001:db8:1::2 proto ospf", "2001:db8:9::/48", "ospf 0 1024 p2/2001:db8:2::2*1"},
		{"ip -6 route append 2001:db8:9::/48 via 2001:db8:1::3 proto ospf", "2001:db8:9::/48", "ospf 0 1024 p1/2001:db8:1::3*1 p2/2001:db8:2::2*1"},
		{"ip -6 route del 2001:db8:9::/48 proto ospf", "2001:db8:9::/48", ""},
		{"ip route del 192.0.2.0/24", "192.0.2.0/24", ""},
		{"ip nexthop add id 5 via 10.0.1.5 dev p1", "192.0.2.0/24", ""},
		{"ip route add 192.0.2.0/24 nhid 5", "192.0.2.0/24", "boot 0 0 p1/10.0.1.5*1"},
		{"ip nexthop replace id 5 via 10.0.2.5 dev p2", "192.0.2.0/24", "boot 0 0 p2/10.0.2.5*1"},
	} {
		l.inside(t, tt.line)
		cube.has(t, tt.prefix, tt.want)
	}
	l.inside(t, "ip link set p2 down") // of which the kernel tells no IPv4 routes
	cube.has(t, "198.51.100.0/24", "")
	cube.has(t, "100.64.0.0/10", "boot 0 0 p1/invalid IP*1")
	if cube.complete != 1 {
		t.Errorf("told everything %d times, want once", cube.complete)
	}
}

func TestAPortMoreIsKnownToTheWatch(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.linked(t, r1)
	cube := &listener{}
	l.Must(func() error { l.k.WatchRoutes(r1, cube.told); return nil })
	more := r1
	more.Ports = []string{"p1", "p2", "p3"}
	l.linked(t, more)
	l.inside(t, "ip route add 192.0.2.0/24 via 10.0.3.2")
	l.Must(func() error { l.k.WatchRoutes(more, cube.told); return nil })
	cube.has(t, "192.0.2.0/24", "boot 0 0 p3/10.0.3.2*1")
}

func TestManyRoutesComeInFewCallsAndNoneIsLost(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.linked(t, r1)
	cube := &listener{}
	l.Must(func() error { l.k.WatchRoutes(r1, cube.told); return nil })
	const n = 20000
	script := func(verb string) {
		var b strings.Builder
		for i := range n {
			fmt.Fprintf(&b, "route %s 20.%d.%d.0/24 via 10.0.1.2\n", verb, i>>8, i&255)
		}
		cmd := exec.Command("nsenter", "--net="+l.k.path("r1"), "ip", "-batch", "-")
		cmd.Stdin = strings.NewReader(b.String())
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("ip -batch: %v: %.300s", err, out)
		}
	}
	count := func(want int) {
		t.Helper()
		netns.Eventually(t, pace.Stretch(30*time.Second), func() error {
			cube.mu.Lock()
			defer cube.mu.Unlock()
			if len(cube.routes) != want {
				return fmt.Errorf("%d routes, want %d", len(cube.routes), want)
			}
			return nil
		})
	}
	script("add")
	count(n)
	script("del")
	count(0)
	if most := int(pace.Stretch(400)); cube.calls > most { // they come one by one where commands are slow
		t.Errorf("%d changes came in %d calls", 2*n, cube.calls)
	}
}

func FuzzMessagesOfRoutesAreReadOrRefused(f *testing.F) {
	f.Add([]byte{2, 24, 0, 0, 254, 4, 0, 1, 0, 0, 0, 0, 8, 0, 1, 0, 192, 0, 2, 0, 8, 0, 5, 0, 10, 0, 1, 2, 8, 0, 4, 0, 2, 0, 0, 0})
	f.Fuzz(func(t *testing.T, b []byte) {
		key, r, ok := parseRoute(b)
		if ok && (!key.prefix.IsValid() || key.prefix.Bits() > key.prefix.Addr().BitLen()) {
			t.Errorf("read %v %v", key, r)
		}
	})
}
