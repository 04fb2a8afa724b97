// SPDX-License-Identifier: Apache-2.0

package router

// Events that must not stop a router: scans, floods, flapping links, a restarted daemon.

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/polycube/polycube/test/bpftest"
	"github.com/polycube/polycube/test/netns"
	"github.com/polycube/polycube/test/pkt"
	"github.com/polycube/polycube/wire"
)

// attack is the duration of a scan.
const attack = 1500 * time.Millisecond

// scan sends frames as fast as it can until stop is closed; the function that it returns waits for the end.
func scan(t *testing.T, from *netns.Node, frame func(r *rand.Rand) []byte) (sent func() int) {
	t.Helper()
	raw := netns.OpenRaw(t, from, netns.Inner)
	done := make(chan int, 1)
	go func() {
		r, n := rand.New(rand.NewPCG(1, 2)), 0
		for began := time.Now(); time.Since(began) < attack; {
			for range 64 {
				if raw.Send(frame(r)) == nil { // a full queue of the device is no matter
					n++
				}
			}
		}
		done <- n
	}()
	return func() int { return <-done }
}

func TestScansNeitherStarveNorFillTheRouter(t *testing.T) {
	router := wire.MAC(macBytes(mac1))
	from := func(r *rand.Rand) netip.Addr {
		return netip.AddrFrom4([4]byte{10, 1, byte(r.Uint32()), byte(r.Uint32())})
	}
	long := os.Getenv("POLYCUBE_SOAK") != ""
	for i, tt := range []struct {
		name  string
		frame func(r *rand.Rand) []byte
	}{
		{"packets to hosts that are not there", func(r *rand.Rand) []byte {
			return pkt.Eth(host1, mac1).IPv4(from(r).String(), fmt.Sprintf("10.2.%d.%d", 1+r.IntN(250), r.IntN(256))).UDP(1, 2).Payload(20).Bytes()
		}},
		{"ARP requests of many", func(r *rand.Rand) []byte {
			a := wire.WhoHas(netip.MustParseAddr("10.1.0.1"), wire.Broadcast, from(r), wire.MAC{2, 9, byte(r.Uint32()), byte(r.Uint32()), byte(r.Uint32()), 1})
			return a.Frame()
		}},
		{"packets of IPv6 to hosts that are not there", func(r *rand.Rand) []byte {
			return pkt.Eth(host1, mac1).IPv6(fmt.Sprintf("2001:db8:1::%x", 1+r.IntN(60000)), fmt.Sprintf("2001:db8:2::%x:%x", r.IntN(65536), 1+r.IntN(65535))).UDP(1, 2).Payload(20).Bytes()
		}},
		{"solicitations of many", func(r *rand.Rand) []byte {
			n := wire.Solicit(netip.MustParseAddr("2001:db8:1::1"), wire.MAC{}, wire.MAC{2, 9, byte(r.Uint32()), byte(r.Uint32()), 0, 1},
				netip.MustParseAddr(fmt.Sprintf("2001:db8:1::%x:%x", r.IntN(65536), 1+r.IntN(65535))))
			return n.Frame()
		}},
		{"packets whose TTL ends", func(r *rand.Rand) []byte {
			return pkt.Eth(host1, mac1).IPv4(from(r).String(), "10.2.0.2", pkt.IPv4Options{TTL: 1}).UDP(1, 2).Payload(20).Bytes()
		}},
		{"pings of the router", func(r *rand.Rand) []byte {
			return pkt.Eth(host1, mac1).IPv4(from(r).String(), "10.1.0.1").Echo(1, 2).Payload(20).Bytes()
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if i > 1 && !long {
				t.Skip("two scans tell most; the others are for POLYCUBE_SOAK=1")
			}
			l := bpftest.New(t, bpftest.Options{Type: "XDP_DRV", Hosts: 3})
			l.Create("router", "r", `{"arp":{"duplicate-detection":false},"max-neighbours":2048,"ports":[
				{"name":"evil","peer":"veth1","mac":"`+router.String()+`","ip":"10.1.0.1/16","secondaryip":[{"ip":"2001:db8:1::1/64"}]},
				{"name":"middle","peer":"veth2","ip":"10.2.0.1/16","secondaryip":[{"ip":"2001:db8:2::1/64"}]},
				{"name":"good","peer":"veth3","ip":"10.3.0.1/24"}]}`)
			two, good := l.Hosts[1], l.Hosts[2]
			two.Run("ip", "addr", "add", "10.2.0.2/16", "dev", "eth0")
			two.Run("ip", "route", "add", "default", "via", "10.2.0.1")
			for n := range 5 { // which the router does not know when the scan starts
				two.Run("ip", "addr", "add", fmt.Sprintf("10.2.0.%d/16", 10+n), "dev", "eth0")
			}
			good.Run("ip", "addr", "add", "10.3.0.2/24", "dev", "eth0")
			good.Run("ip", "route", "add", "default", "via", "10.3.0.1")
			good.Reaches(t, patience, "10.2.0.2")
			ended := scan(t, l.Hosts[0], tt.frame)
			if err := good.Ping("10.2.0.2", netns.PingOptions{Count: 40, Interval: 20 * time.Millisecond}); err != nil {
				t.Errorf("during the scan, known hosts: %v", err)
			}
			for n := range 5 {
				if err := good.Ping(fmt.Sprintf("10.2.0.%d", 10+n)); err != nil {
					t.Errorf("during the scan, a new neighbour: %v\n%v", err, l.Read("r slow-path"))
				}
			}
			var list []json.RawMessage
			if err := json.Unmarshal([]byte(l.Read("r arp-table")), &list); err != nil {
				t.Fatal(err)
			}
			sent := ended()
			if len(list) > 1536 {
				t.Errorf("%d neighbours are known of at most 1,536", len(list))
			}
			t.Logf("%d packets sent, %d neighbours known, fates %v, slow path %s", sent, len(list), l.Fates("r"), l.Read("r slow-path"))
			netns.Eventually(t, patience, func() error {
				if got := l.Read("r arp-table"); strings.Contains(got, "incomplete") {
					return fmt.Errorf("neighbours that nobody has are still asked for")
				}
				return nil
			})
		})
	}
}

func TestErrorsToASourceAreLimited(t *testing.T) {
	t.Parallel()
	l := bpftest.New(t, bpftest.Options{Hosts: 2})
	l.Create("router", "r1", `{"arp":{"duplicate-detection":false},"ports":[
		{"name":"p1","peer":"veth1","mac":"`+mac1+`","ip":"10.0.1.1/24"},{"name":"p2","peer":"veth2","mac":"`+mac2+`","ip":"10.0.2.1/24"}]}`)
	f := pkt.Eth(host1, mac1).IPv4("10.0.1.2", "192.0.2.1").UDP(1, 2).Payload(20).Bytes()
	l.Flood("veth1", f, 2000)
	netns.Eventually(t, patience, func() error {
		var c slowCounters
		if err := json.Unmarshal([]byte(l.Read("r1 slow-path")), &c); err != nil {
			return err
		}
		fates := l.Fates("r1")
		if c.ErrorsSent < limitBurst || c.ErrorsSent > 4*limitBurst || c.ErrorsSent+c.ErrorsSuppressed+fates["icmp-limit"] != 2000 {
			return fmt.Errorf("counters %+v, fates %v", c, fates)
		}
		return nil
	})
}

func TestRoutersSurviveFlaps(t *testing.T) {
	for _, typ := range types {
		t.Run(strings.ToLower(string(typ)), func(t *testing.T) {
			t.Parallel()
			l := bpftest.New(t, bpftest.Options{Type: typ, Hosts: 2, Follow: true})
			l.Create("router", "r", `{"arp":{"duplicate-detection":false},"ports":[
				{"name":"left","peer":"veth1","ip":"10.0.1.1/24"},{"name":"right","peer":"veth2","ip":"10.0.2.1/24"}],
				"route":[{"network":"192.0.2.0/24","nexthop":"10.0.2.2"}]}`)
			for i, h := range l.Hosts {
				h.Run("ip", "addr", "add", fmt.Sprintf("10.0.%d.2/24", i+1), "dev", "eth0")
				h.Run("ip", "route", "add", "default", "via", fmt.Sprintf("10.0.%d.1", i+1))
			}
			l.Hosts[1].Run("ip", "addr", "add", "192.0.2.1/32", "dev", "lo")
			l.Hosts[0].Reaches(t, patience, "192.0.2.1")
			for range 30 {
				l.Hosts[1].Run("ip", "link", "set", "eth0", "down")
				l.Hosts[1].Run("ip", "link", "set", "eth0", "up")
			}
			l.Hosts[1].Run("ip", "route", "add", "default", "via", "10.0.2.1")
			netns.Eventually(t, patience, func() error {
				for _, address := range []string{"10.0.2.2", "192.0.2.1"} {
					if got := says(l.Hosts[0], "ping", "-n", "-c", "1", "-W", "1", address); !strings.Contains(got, " 1 received") {
						return fmt.Errorf("after 30 flaps: %s", got)
					}
				}
				return nil
			})
		})
	}
}

func TestARestartLosesNothing(t *testing.T) {
	for _, typ := range types {
		t.Run(strings.ToLower(string(typ)), func(t *testing.T) {
			t.Parallel()
			l := twoSides(t, typ, noDetection+`,"route":[{"network":"192.0.2.0/24","nexthop":"10.0.2.2"}]`, "")
			l.Hosts[1].Run("ip", "addr", "add", "192.0.2.1/32", "dev", "lo")
			l.Hosts[0].Reaches(t, patience, "192.0.2.1")
			l.Hosts[0].Reaches(t, patience, "2001:db8:2::2")
			_, mac := neighbourState(t, l, "r", "10.0.2.2")
			ports := l.Read("r ports left mac")
			ping, err := l.Hosts[0].StartPing("192.0.2.1", netns.PingOptions{Count: 300})
			if err != nil {
				t.Fatal(err)
			}
			l.Restart(nil)
			if err := ping(); err != nil {
				t.Errorf("while the daemon was started anew: %v", err)
			}
			if s, is := neighbourState(t, l, "r", "10.0.2.2"); is != mac || s == "" {
				t.Errorf("the neighbour is %q %s, was %s", s, is, mac)
			}
			if is := l.Read("r ports left mac"); is != ports {
				t.Errorf("the port's MAC address is %s, was %s", is, ports)
			}
			l.Hosts[1].Run("ip", "addr", "add", "10.0.2.77/24", "dev", "eth0")
			l.Hosts[0].Reaches(t, patience, "10.0.2.77")
		})
	}
}
