// SPDX-License-Identifier: Apache-2.0

package router

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/test/bpftest"
	"github.com/polycube/polycube/test/netns"
	"github.com/polycube/polycube/test/pace"
	"github.com/polycube/polycube/test/pkt"
)

func TestAddressesOfAnInterfaceBecomeThoseOfThePort(t *testing.T) {
	const a, b, c = "10.0.0.1/24", "10.0.1.1/24", "2001:db8::1/64"
	ip := []string{"ports", "p", "ip"}
	second := func(x string) []string { return []string{"ports", "p", "secondaryip", x} }
	for _, tt := range []struct {
		name    string
		was, is []netip.Prefix
		want    []cube.Edit
	}{
		{"nothing", pkt.Prefixes(a, b), pkt.Prefixes(b, a), nil},
		{"the first", nil, pkt.Prefixes(a), []cube.Edit{{Path: ip, Value: a}}},
		{"two at once", nil, pkt.Prefixes(a, c), []cube.Edit{{Path: ip, Value: a}, {Path: second(c), Value: map[string]string{"ip": c}}}},
		{"one more", pkt.Prefixes(a), pkt.Prefixes(a, b), []cube.Edit{{Path: second(b), Value: map[string]string{"ip": b}}}},
		{"one less", pkt.Prefixes(a, b), pkt.Prefixes(a), []cube.Edit{{Delete: true, Path: second(b)}}},
		{"the primary one goes", pkt.Prefixes(a, b, c), pkt.Prefixes(b, c), []cube.Edit{{Delete: true, Path: second(b)}, {Path: ip, Value: b}}},
		{"another one", pkt.Prefixes(a), pkt.Prefixes(b), []cube.Edit{{Path: ip, Value: b}}},
		{"all go", pkt.Prefixes(a, b), nil, []cube.Edit{{Delete: true, Path: []string{"ports", "p", "secondaryip"}}, {Delete: true, Path: ip}}},
	} {
		if got := addressEdits("p", tt.was, tt.is); !reflect.DeepEqual(got, tt.want) {
			t.Errorf("%s: %v, want %v", tt.name, got, tt.want)
		}
	}
}

// inNamespace runs a command in the namespace of cube r.
func inNamespace(t *testing.T, l *bpftest.Lab, line string) {
	t.Helper()
	words := strings.Fields(line)
	if out, err := l.Within("r", words[0], words[1:]...).CombinedOutput(); err != nil {
		t.Fatalf("%s: %v: %s", line, err, out)
	}
}

func TestWhatIsDoneInTheNamespaceIsForwardedBy(t *testing.T) {
	t.Parallel()
	l := bpftest.New(t, bpftest.Options{Hosts: 2, Shadow: true, Host: []netns.Option{netns.WithIPv6()}})
	l.Create("router", "r", `{"shadow":true,"arp":{"duplicate-detection":false},"ports":[{"name":"left","peer":"veth1","ip":"10.0.1.1/24"},{"name":"right","peer":"veth2"}]}`)
	one, two := l.Hosts[0], l.Hosts[1]
	for i, h := range l.Hosts {
		h.Run("ip", "addr", "add", fmt.Sprintf("10.0.%d.2/24", i+1), "dev", "eth0")
		h.Run("ip", "route", "add", "default", "via", fmt.Sprintf("10.0.%d.1", i+1))
	}
	two.Run("ip", "addr", "add", "192.0.2.1/32", "dev", "lo")

	// A port without an address: broadcasts, and packets to an address that is not configured yet, reach the
	// namespace.
	server := l.Within("r", "timeout", fmt.Sprint(pace.Stretch(20*time.Second).Seconds()), "tcpdump", "-n", "-l", "-c", "2", "-i", "right", "udp port 68")
	var heard, complaints strings.Builder
	server.Stdout, server.Stderr = &heard, &complaints
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- server.Wait() }()
	mac := strings.Trim(strings.TrimSpace(l.Read("r ports right mac")), `"`)
	two.Run("ip", "neigh", "add", "10.0.2.1", "lladdr", mac, "dev", "eth0")
	func() {
		for began := time.Now(); time.Since(began) < patience; {
			says(two, "bash", "-c", "echo offer >/dev/udp/10.0.2.1/68")
			says(two, "bash", "-c", "echo offer | socat -u - UDP-DATAGRAM:255.255.255.255:68,broadcast,so-bindtodevice=eth0")
			select {
			case err := <-done:
				if err != nil {
					t.Errorf("tcpdump: %v: %s", err, &complaints)
				}
				return
			case <-time.After(50 * time.Millisecond):
			}
		}
	}()
	if !strings.Contains(heard.String(), "10.0.2.1.68") && !strings.Contains(heard.String(), "255.255.255.255.68") {
		t.Errorf("the namespace has heard %q", heard.String())
	}
	two.Run("ip", "neigh", "del", "10.0.2.1", "dev", "eth0")

	inNamespace(t, l, "ip addr add 10.0.2.1/24 dev right")
	netns.Eventually(t, patience, func() error {
		if got := l.Read("r ports right"); !strings.Contains(got, "10.0.2.1/24") {
			return fmt.Errorf("the port's address is %s", got)
		}
		return nil
	})
	if err := one.Ping("10.0.2.2"); err != nil {
		t.Errorf("a network from the namespace: %v", err)
	}
	inNamespace(t, l, "ip route add 192.0.2.0/24 via 10.0.2.2 proto dhcp")
	hasRoute(t, l, "r", `"network":"192.0.2.0/24","nexthop":"10.0.2.2","interface":"right"`, true)
	if err := one.Ping("192.0.2.1"); err != nil {
		t.Errorf("a route from the namespace: %v", err)
	}
	ping, err := one.StartPing("192.0.2.1", netns.PingOptions{Count: 300})
	if err != nil {
		t.Fatal(err)
	}
	l.Restart(nil)
	if err := ping(); err != nil {
		t.Errorf("while the daemon was started anew: %v", err)
	}
	hasRoute(t, l, "r", `"network":"192.0.2.0/24","nexthop":"10.0.2.2","interface":"right"`, true)
	inNamespace(t, l, "ping -n -c 1 -W 10 192.0.2.1") // the namespace's own packets go by the port
	inNamespace(t, l, "ip route replace blackhole 192.0.2.0/24 proto dhcp")
	hasRoute(t, l, "r", `"network":"192.0.2.0/24","nexthop":"blackhole"`, true)
	inNamespace(t, l, "ip route del 192.0.2.0/24")
	hasRoute(t, l, "r", `192.0.2.0`, false)
}

func TestManyLearnedRoutesAreForwardedBySoon(t *testing.T) {
	t.Parallel()
	l := bpftest.New(t, bpftest.Options{Hosts: 1, Shadow: true})
	l.Create("router", "r", `{"shadow":true,"arp":{"duplicate-detection":false},"ports":[{"name":"left","peer":"veth1","ip":"10.0.1.1/24"}]}`)
	if err := l.Try("PATCH", "r fib", `"host"`); err == nil || !strings.Contains(err.Error(), "not those of the host") {
		t.Errorf("a router with a namespace takes the host's routes: %v", err)
	}
	const n = 20000
	batch := func(verb string) {
		t.Helper()
		var b strings.Builder
		for i := range n {
			fmt.Fprintf(&b, "route %s 20.%d.%d.0/24 via 10.0.1.%d proto bgp\n", verb, i>>8, i&255, 2+i%8)
		}
		cmd := l.Within("r", "ip", "-batch", "-")
		cmd.Stdin = strings.NewReader(b.String())
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("ip -batch: %v: %.300s", err, out)
		}
	}
	count := func(want int) {
		t.Helper()
		netns.Eventually(t, 2*patience, func() error {
			var list []json.RawMessage
			if err := json.Unmarshal([]byte(l.Read("r route")), &list); err != nil {
				return err
			}
			if len(list) != want {
				return fmt.Errorf("%d routes, want %d", len(list), want)
			}
			return nil
		})
	}
	linked := l.Linked()
	batch("add")
	count(n + 1)
	l.Restart(nil)
	count(n + 1)
	batch("del")
	count(1)
	if is := l.Linked(); is > linked+2 { // those of the restart
		t.Errorf("learned routes linked the programs %d times", is-linked)
	}
}
