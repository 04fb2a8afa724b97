// SPDX-License-Identifier: Apache-2.0

package router

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/polycube/polycube/test/bpftest"
	"github.com/polycube/polycube/test/netns"
	"github.com/polycube/polycube/test/pkt"
	"github.com/polycube/polycube/wire"
)

// stationMAC is the MAC address of the hosts' side of a link, in tests that write frames themselves.
const stationMAC = "02:00:00:00:02:99"

var station = wire.MAC{2, 0, 0, 0, 2, 0x99}

// listen waits for a frame for which fits holds.
func listen(t *testing.T, w *bpftest.Wire, what string, fits func(frame []byte) bool) []byte {
	t.Helper()
	frame, err := w.Recv(fits, patience)
	if err != nil {
		t.Fatalf("%s does not come: %v", what, err)
	}
	return frame
}

func asks(target string) func([]byte) bool {
	return func(f []byte) bool {
		a, err := wire.ParseARP(f)
		return err == nil && a.Op == wire.ARPRequest && a.Target == netip.MustParseAddr(target) && a.Sender != a.Target
	}
}

func TestPacketsWaitInTheirOrder(t *testing.T) {
	for _, typ := range types {
		t.Run(strings.ToLower(string(typ)), func(t *testing.T) {
			t.Parallel()
			l := bpftest.New(t, bpftest.Options{Type: typ, Hosts: 2})
			l.Create("router", "r1", `{"arp":{"duplicate-detection":false},"ports":[
				{"name":"p1","peer":"veth1","mac":"`+mac1+`","ip":"10.0.1.1/24"},{"name":"p2","peer":"veth2","mac":"`+mac2+`","ip":"10.0.2.1/24"}]}`)
			wires := l.Wires()
			var want [][]byte
			for i := range 12 {
				f := pkt.Eth(host1, mac1).IPv4("10.0.1.2", "10.0.2.9").UDP(1000, 2000).Data([]byte(fmt.Sprintf("packet %02d of twelve", i))).Bytes()
				wires[0].Puts(f)
				want = append(want, f[42:])
			}
			q, err := wire.ParseARP(listen(t, wires[1], "a request", asks("10.0.2.9")))
			if err != nil || q.To != wire.Broadcast || q.Sender != netip.MustParseAddr("10.0.2.1") {
				t.Fatalf("the request is %+v, %v", q, err)
			}
			answer := wire.ARP{To: q.SenderMAC, Op: wire.ARPReply, SenderMAC: station, Sender: q.Target, TargetMAC: q.SenderMAC, Target: q.Sender}
			wires[1].Puts(answer.Frame())
			for i := range 8 {
				got := listen(t, wires[1], fmt.Sprintf("packet %d", i), func(f []byte) bool { return wire.EtherType(f) == wire.EtherIPv4 })
				if !bytes.Equal(got[42:], want[i]) || wire.Destination(got) != station || got[22] != 63 {
					t.Errorf("packet %d is %q to %s with TTL %d", i, got[42:], wire.Destination(got), got[22])
				}
			}
			netns.Eventually(t, patience, func() error {
				var c slowCounters
				if err := json.Unmarshal([]byte(l.Read("r1 slow-path")), &c); err != nil {
					return err
				}
				if full := l.Fates("r1")["neighbour-queue"] + c.QueueFull; full != 4 || c.Released != 8 {
					return fmt.Errorf("%d packets found the queue full, want 4: %v %+v", full, l.Fates("r1"), c)
				}
				return nil
			})
		})
	}
}

// neighbourState reads the state of a neighbour; "" for none.
func neighbourState(t *testing.T, l *bpftest.Lab, cube, address string) (state, mac string) {
	t.Helper()
	var list []struct{ Address, Mac, State string }
	if err := json.Unmarshal([]byte(l.Read(cube+" arp-table")), &list); err != nil {
		t.Fatal(err)
	}
	for _, n := range list {
		if n.Address == address {
			return n.State, n.Mac
		}
	}
	return "", ""
}

func becomes(t *testing.T, l *bpftest.Lab, address, want string) {
	t.Helper()
	netns.Eventually(t, patience, func() error {
		if got, _ := neighbourState(t, l, "r", address); got != want {
			return fmt.Errorf("%s is %q, want %q", address, got, want)
		}
		return nil
	})
}

func TestNeighboursAgeAreAskedAgainAndForgotten(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ name, address, gone string }{
		{"IPv4", "10.0.2.2", "10.0.2.2/24"},
		{"IPv6", "2001:db8:2::2", "2001:db8:2::2/64"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			l := twoSides(t, "", `,"arp":{"duplicate-detection":false,"aging-time":1}`, "")
			one, two := l.Hosts[0], l.Hosts[1]
			one.Run("ping", "-n", "-c", "1", "-W", "10", tt.address)
			becomes(t, l, tt.address, "stale")
			netns.Eventually(t, patience, func() error { // a packet starts a probe, which is answered; it is reachable for a second
				if err := one.Ping(tt.address); err != nil {
					return err
				}
				if s, _ := neighbourState(t, l, "r", tt.address); s != "reachable" {
					return fmt.Errorf("asked again, %s is %q", tt.address, s)
				}
				return nil
			})
			two.Run("ip", "addr", "del", tt.gone, "dev", "eth0")
			becomes(t, l, tt.address, "stale")
			says(one, "ping", "-n", "-c", "1", "-W", "1", tt.address)
			becomes(t, l, tt.address, "")
		})
	}
}

func TestLearnedNeighboursCanBeDeletedAndConfiguredOnesStay(t *testing.T) {
	t.Parallel()
	l := twoSides(t, "", noDetection, "")
	l.Hosts[0].Run("ping", "-n", "-c", "1", "-W", "10", "10.0.2.2")
	becomes(t, l, "10.0.2.2", "reachable")
	l.Set("DELETE", "r arp-table 10.0.2.2", "")
	if s, _ := neighbourState(t, l, "r", "10.0.2.2"); s != "" {
		t.Errorf("it is still %s", s)
	}
	l.Set("POST", "r arp-table 10.0.2.2", `{"mac":"`+stationMAC+`","interface":"right"}`)
	if s, mac := neighbourState(t, l, "r", "10.0.2.2"); s != "permanent" || mac != stationMAC {
		t.Errorf("configured, it is %s %s", s, mac)
	}
	if got := says(l.Hosts[0], "ping", "-n", "-c", "1", "-W", "1", "10.0.2.2"); strings.Contains(got, " 1 received") {
		t.Error("packets do not go to the configured station")
	}
	l.Set("DELETE", "r arp-table 10.0.2.2", "")
	l.Hosts[0].Run("ping", "-n", "-c", "1", "-W", "10", "10.0.2.2")
}

// TestDeletingAllNeighbours: learned ones of both families, link-local ones too, and configured ones.
func TestDeletingAllNeighbours(t *testing.T) {
	t.Parallel()
	l := twoSides(t, "", noDetection, "")
	var port struct{ Mac string }
	if err := json.Unmarshal([]byte(l.Read("r ports left")), &port); err != nil {
		t.Fatal(err)
	}
	hardware, err := net.ParseMAC(port.Mac)
	if err != nil {
		t.Fatal(err)
	}
	near := wire.LinkLocal(wire.MAC(hardware)).String()
	learned := wire.LinkLocal(wire.MAC(l.Hosts[0].MAC)).String() + "%left"
	learn := func() { // the host requests the router's address, and so announces its own
		l.Hosts[0].Run("ip", "neigh", "flush", "dev", "eth0")
		l.Hosts[0].Run("ping", "-n", "-c", "1", "-W", "10", "10.0.2.2")
		l.Hosts[0].Run("ping", "-n", "-c", "1", "-W", "10", near+"%eth0")
		becomes(t, l, learned, "stale")
	}
	learn()
	l.Set("DELETE", "r arp-table "+learned, "")
	if s, _ := neighbourState(t, l, "r", learned); s != "" {
		t.Errorf("it is still %s", s)
	}
	learn()
	l.Set("POST", "r arp-table 10.0.2.77", `{"mac":"`+stationMAC+`","interface":"right"}`)
	netns.Eventually(t, patience, func() error { // a host that probes is learned once more
		l.Set("DELETE", "r arp-table", "")
		if left := l.Read("r arp-table"); left != "[]" {
			return fmt.Errorf("left are %s", left)
		}
		return nil
	})
	l.Hosts[0].Run("ping", "-n", "-c", "1", "-W", "10", "10.0.2.2")
}

func TestWhoAsksIsLearned(t *testing.T) {
	t.Parallel()
	l := twoSides(t, "", noDetection, "")
	l.Hosts[0].Run("ping", "-n", "-c", "1", "-W", "10", "10.0.1.1")
	l.Hosts[0].Run("ping", "-n", "-c", "1", "-W", "10", "2001:db8:1::1")
	for _, address := range []string{"10.0.1.2", "2001:db8:1::2"} {
		netns.Eventually(t, patience, func() error {
			if s, _ := neighbourState(t, l, "r", address); s == "" {
				return fmt.Errorf("%s has asked and is not known", address)
			}
			return nil
		})
	}
}

// announces reports whether a frame announces an address.
func announces(address string, mac wire.MAC) func([]byte) bool {
	want := netip.MustParseAddr(address)
	return func(f []byte) bool {
		if a, err := wire.ParseARP(f); err == nil {
			return a.Sender == want && a.Target == want && a.SenderMAC == mac
		}
		n, err := wire.ParseND(f)
		return err == nil && n.Advertisement && n.Target == want && n.Link == mac && n.Override
	}
}

func TestAddressesAreAnnounced(t *testing.T) {
	t.Parallel()
	l := bpftest.New(t, bpftest.Options{Hosts: 1, Follow: true})
	w := l.Wires()[0]
	l.Create("router", "r1", `{"arp":{"duplicate-detection":false},"ports":[{"name":"p1","peer":"veth1","mac":"`+mac1+`","ip":"10.0.1.1/24"}]}`)
	first, second := wire.MAC(macBytes(mac1)), wire.MAC(macBytes(mac2))
	for _, tt := range []struct {
		name, method, words, body, address string
		mac                                wire.MAC
	}{
		{"at the beginning", "", "", "", "10.0.1.1", first},
		{"a new one", "POST", "r1 ports p1 secondaryip 10.0.9.1/24", `{}`, "10.0.9.1", first},
		{"a new one of IPv6", "POST", "r1 ports p1 secondaryip 2001:db8:1::1/64", `{}`, "2001:db8:1::1", first},
		{"with another MAC address", "PATCH", "r1 ports p1 mac", `"` + mac2 + `"`, "10.0.1.1", second},
	} {
		if tt.method != "" {
			l.Set(tt.method, tt.words, tt.body)
		}
		listen(t, w, tt.name+": the announcement of "+tt.address, announces(tt.address, tt.mac))
	}
	l.Hosts[0].Run("ip", "link", "set", "eth0", "down")
	l.Hosts[0].Run("ip", "link", "set", "eth0", "up")
	again := bpftest.Wire{Raw: netns.OpenRaw(t, l.Hosts[0], netns.Inner)}
	listen(t, &again, "after the link was down: the announcement of 10.0.1.1", announces("10.0.1.1", second))
}

func TestDuplicateAddressesAreFoundAndNotUsed(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ name, ip, address string }{
		{"IPv4", "10.0.2.1/24", "10.0.2.1"},
		{"IPv6", "2001:db8:2::1/64", "2001:db8:2::1"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			l := bpftest.New(t, bpftest.Options{Hosts: 1, Host: []netns.Option{netns.WithIPv6()}})
			l.Hosts[0].Run("ip", "addr", "add", tt.ip, "dev", "eth0", "nodad")
			l.Create("router", "r", `{"ports":[{"name":"p1","peer":"veth1","ip":"`+tt.ip+`"}]}`)
			netns.Eventually(t, patience, func() error {
				if got := l.Read("r ports p1 duplicate-address"); !strings.Contains(got, tt.address) {
					return fmt.Errorf("duplicate addresses are %s", got)
				}
				return nil
			})
			netns.Eventually(t, patience, func() error {
				if !strings.Contains(l.Logs(), "address conflict: another station uses an address of the router") {
					return errors.New("the log does not say so")
				}
				return nil
			})
			l.Hosts[0].Run("ip", "addr", "del", tt.ip, "dev", "eth0")
			l.Hosts[0].Run("ip", "addr", "add", strings.Replace(tt.ip, "1/", "7/", 1), "dev", "eth0", "nodad")
			if got := says(l.Hosts[0], "ping", "-n", "-c", "1", "-W", "1", tt.address); strings.Contains(got, " 1 received") {
				t.Error("the router answers by an address that is not its own")
			}
		})
	}
}

func TestAnUniqueAddressOfIPv6IsUsedAfterASecond(t *testing.T) {
	t.Parallel()
	l := bpftest.New(t, bpftest.Options{Hosts: 1, Host: []netns.Option{netns.WithIPv6()}})
	w := l.Wires()[0]
	l.Hosts[0].Run("ip", "addr", "add", "2001:db8:1::2/64", "dev", "eth0", "nodad")
	began := time.Now()
	l.Create("router", "r", `{"ports":[{"name":"p1","peer":"veth1","mac":"`+mac1+`","ip":"2001:db8:1::1/64"}]}`)
	listen(t, w, "the probe", func(f []byte) bool {
		n, err := wire.ParseND(f)
		return err == nil && !n.Advertisement && n.From.IsUnspecified() && n.Target == netip.MustParseAddr("2001:db8:1::1")
	})
	netns.Eventually(t, patience, func() error { return l.Hosts[0].Ping("2001:db8:1::1") }) // the host stops resolving after seconds
	if took := time.Since(began); took < time.Second {
		t.Errorf("it answered after %v", took)
	}
	if got := l.Read("r ports p1 duplicate-address"); strings.Contains(got, "2001") {
		t.Errorf("duplicate addresses are %s", got)
	}
}
