// SPDX-License-Identifier: Apache-2.0

package router

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/polycube/polycube/test/bpftest"
	"github.com/polycube/polycube/test/pkt"
	"github.com/polycube/polycube/test/repeat"
)

// solicitation is a neighbour solicitation according to RFC 4861.
func solicitation(fromMAC, from, to, target string) []byte {
	body := slices.Concat(netip.MustParseAddr(target).AsSlice(), []byte{1, 1}, macBytes(fromMAC))
	return icmp6("33:33:ff:00:00:01", fromMAC, from, to, 135, 0, body)
}

// icmp6 is a frame with an ICMPv6 message and a hop limit of 255.
func icmp6(toMAC, fromMAC, from, to string, kind byte, word uint32, body []byte) []byte {
	ip := pkt.IPv6Header{From: from, To: to, Next: pkt.ProtoICMPv6, HopLimit: 255}
	return pkt.Eth(fromMAC, toMAC).IP(ip.Packet(pkt.ICMPv6Message(from, to, kind, 0, word, body))).Bytes()
}

func TestThoseWhoAskForTheRouterAreAnswered(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, l *bpftest.Lab) {
		for _, tt := range []struct{ dev, port, own, asks, from, target string }{
			{"veth1", "p1", mac1, host1, "10.0.1.2", "10.0.1.1"},
			{"veth1", "p1", mac1, host1, "10.0.1.2", "10.0.11.1"},
			{"veth2", "p2", mac2, host2, "10.0.2.2", "10.0.2.1"},
			{"veth2", "p2", mac2, host2, "0.0.0.0", "10.0.2.1"}, // a probe
		} {
			frame := pkt.Eth(tt.asks, pkt.Broadcast).ARPRequest(tt.asks, tt.from, tt.target).Bytes()
			want := pkt.Eth(tt.own, tt.asks).ARPReply(tt.own, tt.target, tt.asks, tt.from).Bytes()
			wants(t, l, "who has "+tt.target, tt.dev, frame, send(tt.port), want)
		}
		for _, target := range []string{"2001:db8:1::1", "fe80::ff:fe00:101"} {
			frame := solicitation(host1, "2001:db8:1::2", "ff02::1:ff00:1", target)
			answer := slices.Concat(netip.MustParseAddr(target).AsSlice(), []byte{2, 1}, macBytes(mac1))
			wants(t, l, "solicited "+target, "veth1", frame, send("p1"), icmp6(host1, mac1, target, "2001:db8:1::2", 136, 0xe0000000, answer))
		}
		bad := solicitation(host1, "2001:db8:1::2", "ff02::1:ff00:1", "2001:db8:1::1")
		bad[21] = 254
		wants(t, l, "solicited from afar", "veth1", bad, drop("bad-header"), nil)
		bad[21], bad[60] = 255, bad[60]^1
		wants(t, l, "solicited with a bad checksum", "veth1", bad, drop("bad-header"), nil)
		wants(t, l, "solicited for another", "veth1", solicitation(host1, "2001:db8:1::2", "ff02::1:ff00:9", "2001:db8:1::9"), drop("arp-not-for-us"), nil)
		wants(t, l, "solicited for an address elsewhere", "veth1", solicitation(host1, "2001:db8:1::2", "ff02::1:ff00:1", "2001:db8:2::1"), drop("arp-not-for-us"), nil)
	})
}

// Packets longer than the link's MTU are fragmented or refused, by the length of the packet rather than of the frame.
func TestTheMTUOfTheLinkHolds(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, l *bpftest.Lab) {
		df := func(n int) []byte {
			return pkt.Eth(host1, mac1).IPv4("10.0.1.2", "10.20.0.1", pkt.IPv4Options{DontFragment: true}).UDP(1, 2).Payload(n - 28).Bytes()
		}
		fits, padded := df(1400), append(df(1400), make([]byte, 50)...)
		wants(t, l, "as long as the link takes", "veth1", fits, send("p2"), routed(fits, mac2, host2))
		wants(t, l, "with padding", "veth1", padded, send("p2"), routed(padded, mac2, host2))
		wants(t, l, "longer", "veth1", df(1401), slowpath, nil)
		cut := udp("10.0.1.2", "10.20.0.1", 1401-28)
		wants(t, l, "longer, may be cut", "veth1", cut, slowpath, nil)
		six := udp("2001:db8:1::2", "2001:db8:20::1", 1400-48)
		wants(t, l, "IPv6 as long as the link takes", "veth1", six, send("p2"), routed(six, mac2, host2))
		wants(t, l, "IPv6 longer", "veth1", udp("2001:db8:1::2", "2001:db8:20::1", 1401-48), slowpath, nil)
		l.Set("PATCH", "r1 ports p2 mtu", "1500")
		long := df(1500)
		wants(t, l, "after the MTU changed", "veth1", long, send("p2"), routed(long, mac2, host2))
	})
}

func TestTheReversePathFilter(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, l *bpftest.Lab) {
		from := func(a string) []byte { return udp(a, "10.0.3.2", 8) }
		from6 := func(a string) []byte { return udp(a, "2001:db8:3::2", 8) }
		for _, tt := range []struct {
			filter, source string
			goes           bool
		}{
			{"off", "10.20.0.1", true}, {"off", "99.0.0.1", true}, {"strict", "10.0.1.9", true}, {"strict", "10.20.0.1", false}, {"strict", "99.0.0.1", false},
			{"loose", "10.20.0.1", true}, {"loose", "99.0.0.1", false}, {"loose", "10.40.0.1", false},
			{"strict", "2001:db8:1::9", true}, {"strict", "2001:db8:20::1", false}, {"loose", "2001:db8:20::1", true}, {"loose", "2001:dead::1", false},
		} {
			l.Set("PATCH", "r1 ports p1 rp-filter", `"`+tt.filter+`"`)
			frame, want := from, drop("reverse-path")
			if strings.Contains(tt.source, ":") {
				frame = from6
			}
			b := frame(tt.source)
			bytes := b
			if tt.goes {
				want, bytes = send("p3"), routed(b, mac3, host3)
			}
			wants(t, l, tt.filter+" from "+tt.source, "veth1", b, want, bytes)
		}
	})
}

// spread runs flows and counts by destination MAC; which records where each went.
func spread(l *bpftest.Lab, frames [][]byte) (count map[string]int, which []string) {
	count = map[string]int{}
	for _, out := range l.RunAll("veth1", frames) {
		to := ""
		if out != nil {
			to = fmt.Sprintf("%x", out[:6])
		}
		count[to]++
		which = append(which, to)
	}
	return count, which
}

func TestFlowsAreSpreadAndStay(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, l *bpftest.Lab) {
		l.Set("POST", "r1 route",
			`[{"network":"10.50.0.0/16","nexthop":"10.0.2.2"},{"network":"10.50.0.0/16","nexthop":"10.0.3.2"},{"network":"10.50.0.0/16","nexthop":"10.0.1.2"},
			{"network":"2001:db8:50::/48","nexthop":"2001:db8:2::2"},{"network":"2001:db8:50::/48","nexthop":"2001:db8:3::2"}]`)
		var flows, flows6 [][]byte
		for i := range 3000 {
			flows = append(flows, pkt.Eth(host1, mac1).IPv4("10.0.1.2", fmt.Sprintf("10.50.1.%d", i%7)).UDP(uint16(1000+i), 53).Payload(9).Bytes())
			flows6 = append(flows6, pkt.Eth(host1, mac1).IPv6("2001:db8:1::2", "2001:db8:50::1").UDP(uint16(1000+i), 53).Payload(9).Bytes())
		}
		count, first := spread(l, flows)
		for to, n := range count {
			if to == "" || n < 800 || n > 1200 {
				t.Errorf("of 3,000 flows, %d went to %q", n, to)
			}
		}
		if _, again := spread(l, flows); !slices.Equal(first, again) {
			t.Error("flows did not stay where they were")
		}
		if count, _ := spread(l, flows6); len(count) != 2 || count[""] > 0 {
			t.Errorf("IPv6 flows went %v", count)
		}
		var fragments [][]byte
		for i := range 100 { // bytes that look like ports
			fragments = append(fragments, pkt.Eth(host1, mac1).IPv4("10.0.1.2", "10.50.1.1", pkt.IPv4Options{ID: uint16(i), Offset: uint16(i % 3), MoreFragments: i%3 == 0}).UDP(uint16(i), 53).Payload(8).Bytes())
		}
		if count, _ := spread(l, fragments); len(count) != 1 || count[""] > 0 {
			t.Errorf("fragments of one packet went %v", count)
		}
		l.Set("DELETE", "r1 route 10.50.0.0/16 10.0.3.2", "")
		if count, _ := spread(l, flows); len(count) != 2 || count[""] > 0 || count["020000000302"] > 0 {
			t.Errorf("without a next hop, flows went %v", count)
		}
	})
}

// Routes change in all ways while packets flow; each is sent to one of the next hops at the time.
func TestChangesUnderTrafficLoseNothing(t *testing.T) {
	t.Parallel()
	bpftest.Each(t, bpftest.Options{}, func(t *testing.T, l *bpftest.Lab) {
		l.Create("router", "r1", threePorts)
		l.Set("POST", "r1 route 10.60.0.0/16 10.0.2.2", "{}")
		frame := udp("10.0.1.2", "10.60.7.7", 20)
		stop, done := make(chan struct{}), make(chan int)
		go func() {
			n := 0
			for {
				select {
				case <-stop:
					done <- n
					return
				default:
				}
				for _, out := range l.RunAll("veth1", slices.Repeat([][]byte{frame}, 50)) {
					if !bytes.Equal(out, routed(frame, mac2, host2)) && !bytes.Equal(out, routed(frame, mac3, host3)) {
						t.Errorf("packet %d became %x", n, out)
					}
					n++
				}
			}
		}()
		for i := range 12 {
			l.Set("POST", "r1 route 10.60.7.0/24 10.0.3.2", "{}")
			l.Set("POST", "r1 route 10.60.7.7/32 10.0.2.2", "{}")
			l.Set("POST", "r1 route 10.60.7.7/32 10.0.3.2", "{}")
			l.Set("PATCH", "r1 route 10.60.7.7/32 10.0.2.2 pathcost", "3")
			l.Set("DELETE", "r1 route 10.60.7.7/32 10.0.2.2", "")
			l.Set("DELETE", "r1 route 10.60.7.0/24 10.0.3.2", "")
			l.Set("POST", "r1 route 0.0.0.0/0 10.0.3.2", fmt.Sprintf(`{"pathcost":%d}`, i))
			l.Set("DELETE", "r1 route 10.60.7.7/32 10.0.3.2", "")
			l.Set("DELETE", "r1 route 0.0.0.0/0 10.0.3.2", "")
		}
		close(stop)
		t.Logf("%d packets", <-done)
	})
}

// The fast path against a table that is looked through: random prefixes in each other, of both families.
func TestTheFastPathFindsTheLongestPrefix(t *testing.T) {
	t.Parallel()
	seed := repeat.Seed(t)
	each(t, func(t *testing.T, l *bpftest.Lab) {
		rnd := rand.New(rand.NewPCG(seed, 0))
		table := map[netip.Prefix]string{}
		var entries []string
		for range 300 {
			p, hops := randomPrefix(rnd), []string{"10.0.2.2", "10.0.3.2"}
			if rnd.IntN(2) == 0 {
				a := [16]byte{0x20, 1, 0xd, 0xb8, 0x70, byte(rnd.IntN(3)), byte(rnd.IntN(3)), 15: byte(rnd.IntN(256))}
				p, hops = netip.PrefixFrom(netip.AddrFrom16(a), 33+rnd.IntN(96)).Masked(), []string{"2001:db8:2::2", "2001:db8:3::2"}
			}
			if _, twice := table[p]; twice || p.Bits() < 9 {
				continue
			}
			which := rnd.IntN(2)
			table[p] = []string{host2, host3}[which]
			entries = append(entries, fmt.Sprintf(`{"network":"%s","nexthop":"%s"}`, p, hops[which]))
		}
		l.Set("PUT", "r1 route", "["+strings.Join(entries, ",")+"]")
		var frames [][]byte
		var want []string
		for p := range table {
			for _, a := range boundary(p) {
				if a.Is4() && (netip.MustParsePrefix("10.0.0.0/16").Contains(a) || a.As4()[0] != 10 && a.As4()[0] != 11) {
					continue
				}
				longest := netip.Prefix{}
				for q := range table {
					if q.Contains(a) && (!longest.IsValid() || q.Bits() > longest.Bits()) {
						longest = q
					}
				}
				frames, want = append(frames, udp(map[bool]string{true: "10.0.1.2", false: "2001:db8:1::2"}[a.Is4()], a.String(), 4)), append(want, table[longest])
			}
		}
		for i, out := range l.RunAll("veth1", frames) {
			got := ""
			if out != nil {
				got = fmt.Sprintf("%x", out[:6])
			}
			if got != strings.ReplaceAll(want[i], ":", "") {
				t.Fatalf("packet %x went to %q, want %q", frames[i][14:54], got, want[i])
			}
		}
	})
}
