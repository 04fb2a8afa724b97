// SPDX-License-Identifier: Apache-2.0

package router

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/polycube/polycube/inet"
	"github.com/polycube/polycube/test/bpftest"
	"github.com/polycube/polycube/test/netns"
	"github.com/polycube/polycube/test/pkt"
)

func TestMain(m *testing.M) { os.Exit(netns.CheckLeaks(m)) }

// The router of most tests: three ports with both families, neighbours that are known, and routes to beyond them.
const (
	mac1, mac2, mac3    = "02:00:00:00:01:01", "02:00:00:00:02:01", "02:00:00:00:03:01"
	host1, host2, host3 = "02:00:00:00:01:02", "02:00:00:00:02:02", "02:00:00:00:03:02"

	threePorts = `{"arp":{"duplicate-detection":false},"ports":[
 {"name":"p1","peer":"veth1","mac":"` + mac1 + `","ip":"10.0.1.1/24","secondaryip":[{"ip":"2001:db8:1::1/64"},{"ip":"10.0.11.1/24"}]},
 {"name":"p2","peer":"veth2","mac":"` + mac2 + `","ip":"10.0.2.1/24","secondaryip":[{"ip":"2001:db8:2::1/64"}],"mtu":1400},
 {"name":"p3","peer":"veth3","mac":"` + mac3 + `","ip":"10.0.3.1/24","secondaryip":[{"ip":"2001:db8:3::1/64"}]}],
"arp-table":[{"address":"10.0.1.2","mac":"` + host1 + `","interface":"p1"},{"address":"10.0.2.2","mac":"` + host2 + `","interface":"p2"},
 {"address":"10.0.3.2","mac":"` + host3 + `","interface":"p3"},
 {"address":"2001:db8:1::2","mac":"` + host1 + `","interface":"p1"},{"address":"2001:db8:2::2","mac":"` + host2 + `","interface":"p2"},
 {"address":"2001:db8:3::2","mac":"` + host3 + `","interface":"p3"},{"address":"fe80::2","mac":"` + host3 + `","interface":"p3"}],
"route":[{"network":"10.20.0.0/16","nexthop":"10.0.2.2"},{"network":"10.30.0.0/16","nexthop":"10.0.3.2"},
 {"network":"10.30.7.0/24","nexthop":"10.0.2.2"},{"network":"10.30.7.9/32","nexthop":"10.0.3.2"},
 {"network":"10.40.0.0/16","nexthop":"blackhole"},{"network":"10.41.0.0/16","nexthop":"unreachable"},{"network":"10.42.0.0/16","nexthop":"prohibit"},
 {"network":"2001:db8:20::/48","nexthop":"2001:db8:2::2"},{"network":"2001:db8:30::/48","nexthop":"fe80::2","interface":"p3"},
 {"network":"2001:db8:30:7::/64","nexthop":"2001:db8:2::2"},{"network":"2001:db8:40::/48","nexthop":"blackhole"}]}`
)

func send(port string) bpftest.Outcome { return bpftest.Outcome{Verdict: "send", Sent: "r1:" + port} }
func drop(why string) bpftest.Outcome  { return bpftest.Outcome{Verdict: "drop", Fate: "r1 " + why} }

// slowpath is a packet for the control plane.
var slowpath = drop("slowpath")

// each runs a test with the router of the tests at all hooks and in all modes.
func each(t *testing.T, test func(t *testing.T, l *bpftest.Lab)) {
	t.Helper()
	bpftest.Each(t, bpftest.Options{}, func(t *testing.T, l *bpftest.Lab) {
		l.Create("router", "r1", threePorts)
		test(t, l)
	})
}

// routed returns a frame after the router: with other MAC addresses and a decremented TTL.
func routed(frame []byte, from, to string) []byte {
	return pkt.Hop(slices.Concat(macBytes(to), macBytes(from), frame[12:]))
}

func macBytes(text string) []byte {
	m, err := inet.ParseMAC(text)
	if err != nil {
		panic(err)
	}
	b := m.Bytes()
	return b[:]
}

// wants runs a frame and compares the result, including the bytes if it is sent; without want they must be unchanged.
func wants(t *testing.T, l *bpftest.Lab, name, dev string, frame []byte, want bpftest.Outcome, bytes []byte) {
	t.Helper()
	if bytes == nil {
		bytes = frame
	}
	got, is := l.RunBytes(dev, frame)
	// The router sends its own packets meanwhile.
	if want.Sent == "" && got.Verdict != "send" || strings.Contains(got.Sent, want.Sent) {
		got.Sent = want.Sent
	}
	if got != want {
		t.Errorf("%s: got %+v, want %+v", name, got, want)
	}
	if !slices.Equal(is, bytes) {
		t.Errorf("%s: the bytes\n   are %x\nand not %x", name, is, bytes)
	}
}

func udp(from, to string, payload int) []byte {
	f := pkt.Eth(host1, mac1)
	if netip.MustParseAddr(from).Is4() {
		return f.IPv4(from, to).UDP(1000, 2000).Payload(payload).Bytes()
	}
	return f.IPv6(from, to).UDP(1000, 2000).Payload(payload).Bytes()
}

func TestPacketsGoTheWayOfTheLongestPrefix(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, l *bpftest.Lab) {
		for _, tt := range []struct{ to, port, mac, host string }{
			{"10.0.2.2", "p2", mac2, host2},
			{"10.0.3.2", "p3", mac3, host3},
			{"10.20.0.0", "p2", mac2, host2},
			{"10.20.255.255", "p2", mac2, host2},
			{"10.30.0.1", "p3", mac3, host3},
			{"10.30.6.255", "p3", mac3, host3},
			{"10.30.7.0", "p2", mac2, host2},
			{"10.30.7.8", "p2", mac2, host2},
			{"10.30.7.9", "p3", mac3, host3},
			{"10.30.7.10", "p2", mac2, host2},
			{"10.30.8.0", "p3", mac3, host3},
			{"10.0.1.2", "p1", mac1, host1}, // back where it came from
			{"2001:db8:2::2", "p2", mac2, host2},
			{"2001:db8:20::", "p2", mac2, host2},
			{"2001:db8:20:ffff:ffff:ffff:ffff:ffff", "p2", mac2, host2},
			{"2001:db8:30:6::1", "p3", mac3, host3},
			{"2001:db8:30:7::1", "p2", mac2, host2},
		} {
			from := "10.0.1.2"
			if netip.MustParseAddr(tt.to).Is6() {
				from = "2001:db8:1::2"
			}
			frame := udp(from, tt.to, 32)
			wants(t, l, tt.to, "veth1", frame, send(tt.port), routed(frame, tt.mac, tt.host))
		}
	})
}

func TestPacketsThatAreNotForwarded(t *testing.T) {
	t.Parallel()
	change := func(frame []byte, at int, b ...byte) []byte {
		frame = slices.Clone(frame)
		copy(frame[at:], b)
		return frame
	}
	good, six := udp("10.0.1.2", "10.20.0.1", 32), udp("2001:db8:1::2", "2001:db8:20::1", 32)
	sum := func(frame []byte) []byte {
		pkt.SumIPv4(frame[14:])
		return frame
	}
	from := func(a string) []byte { return udp(a, "10.20.0.1", 32) }
	to := func(a string) []byte { return udp("10.0.1.2", a, 32) }
	from6 := func(a string) []byte { return udp(a, "2001:db8:20::1", 32) }
	to6 := func(a string) []byte { return udp("2001:db8:1::2", a, 32) }
	tests := []struct {
		name  string
		frame []byte
		want  bpftest.Outcome
	}{
		{"a frame for somebody else", change(good, 5, 9), drop("not-for-us")},
		{"neither IP nor ARP", pkt.Eth(host1, mac1).Payload(46).Bytes(), drop("protocol")},
		{"a tag", pkt.Eth(host1, mac1).VLAN(7).IPv4("10.0.1.2", "10.20.0.1").UDP(1, 2).Bytes(), drop("tagged")},
		{"version 6 in IPv4", change(good, 14, 0x65), drop("bad-header")},
		{"a header of 16 bytes", change(good, 14, 0x44), drop("bad-header")},
		{"longer than the frame", sum(change(good, 16, 0, 61)), drop("bad-header")},
		{"shorter than its header", sum(change(good, 16, 0, 19)), drop("bad-header")},
		{"a bad checksum", change(good, 24, good[24]^1), drop("bad-checksum")},
		{"version 4 in IPv6", change(six, 14, 0x40), drop("bad-header")},
		{"IPv6 longer than the frame", change(six, 18, 0, 41), drop("bad-header")},
		{"from multicast", from("224.0.0.5"), drop("martian-source")},
		{"from loopback", from("127.0.0.1"), drop("martian-source")},
		{"from this network", from("0.1.2.3"), drop("martian-source")},
		{"from nobody", from("0.0.0.0"), drop("martian-source")},
		{"from class E", from("240.0.0.1"), drop("martian-source")},
		{"from all", from("255.255.255.255"), drop("martian-source")},
		{"to loopback", to("127.0.0.1"), drop("martian-destination")},
		{"to nobody", to("0.0.0.0"), drop("martian-destination")},
		{"to class E", to("250.0.0.1"), drop("martian-destination")},
		{"from the router's own address", from("10.0.1.1"), drop("spoofed")},
		{"from one on another port", from("10.0.3.1"), drop("spoofed")},
		{"from a secondary one", from("10.0.11.1"), drop("spoofed")},
		{"from link-local", from("169.254.1.1"), drop("link-local")},
		{"to multicast", to("239.1.2.3"), drop("multicast")},
		{"to all", to("255.255.255.255"), drop("broadcast")},
		{"to all on a link", to("10.0.2.255"), drop("broadcast")},
		{"to a blackhole", to("10.40.1.1"), drop("blackhole")},
		{"to an unreachable network", to("10.41.1.1"), slowpath},
		{"to a prohibited network", to("10.42.1.1"), slowpath},
		{"to nowhere", to("11.0.0.1"), slowpath},
		{"to the router", to("10.0.1.1"), slowpath},
		{"to the router's other side", to("10.0.3.1"), slowpath},
		{"to a neighbour that is not known", to("10.0.2.99"), slowpath},
		{"TTL 1", sum(change(good, 22, 1)), slowpath},
		{"TTL 0", sum(change(good, 22, 0)), slowpath},
		{"TTL 1 for the router", sum(change(to("10.0.1.1"), 22, 1)), slowpath},
		{"for a station in a frame for all", change(good, 0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff), drop("group-frame")},
		{"IPv6 from multicast", from6("ff02::1"), drop("martian-source")},
		{"IPv6 from loopback", from6("::1"), drop("martian-source")},
		{"IPv6 from nobody", from6("::"), drop("martian-source")},
		{"IPv6 from an IPv4-mapped address", change(from6("::"), 32, 0xff, 0xff, 10, 0, 1, 2), drop("martian-source")},
		{"IPv6 from the router's own address", from6("2001:db8:3::1"), drop("spoofed")},
		{"IPv6 to loopback", to6("::1"), drop("martian-destination")},
		{"IPv6 to nobody", to6("::"), drop("martian-destination")},
		{"IPv6 to multicast", to6("ff0e::1"), drop("multicast")},
		{"IPv6 to a blackhole", to6("2001:db8:40::1"), drop("blackhole")},
		{"IPv6 to nowhere", to6("2001:db9::1"), slowpath},
		{"IPv6 to the router", to6("2001:db8:2::1"), slowpath},
		{"IPv6 to a link-local neighbour", to6("fe80::99"), drop("link-local")},
		{"IPv6 to the router's link-local address", to6("fe80::ff:fe00:101"), slowpath},
		{"IPv6 to its link-local address on another link", to6("fe80::ff:fe00:201"), drop("link-local")},
		{"IPv6 from link-local to beyond", from6("fe80::77"), slowpath},
		{"IPv6 with hop limit 1", change(six, 21, 1), slowpath},
		{"IPv6 for a station in a frame for all", change(six, 0, 0x33, 0x33, 0, 0, 0, 1), drop("group-frame")},
		{"ARP cut off", pkt.Eth(host1, pkt.Broadcast).ARPRequest(host1, "10.0.1.2", "10.0.1.1").Bytes()[:41], drop("bad-header")},
		{"ARP for another network's address", pkt.Eth(host1, pkt.Broadcast).ARPRequest(host1, "10.0.1.2", "10.0.2.1").Bytes(), drop("arp-not-for-us")},
		{"ARP for another host", pkt.Eth(host1, pkt.Broadcast).ARPRequest(host1, "10.0.1.2", "10.0.1.3").Bytes(), drop("arp-not-for-us")},
		{"ARP from a group", pkt.Eth(host1, pkt.Broadcast).ARPRequest(pkt.Broadcast, "10.0.1.2", "10.0.1.1").Bytes(), drop("bad-header")},
		{"ARP with the router's address", pkt.Eth(host1, pkt.Broadcast).ARPRequest(host1, "10.0.1.1", "10.0.1.1").Bytes(), slowpath},
	}
	each(t, func(t *testing.T, l *bpftest.Lab) {
		for _, tt := range tests {
			wants(t, l, tt.name, "veth1", tt.frame, tt.want, nil)
		}
	})
}

// The checksum is right for every TTL and whatever else is in the header.
func TestChecksumsAreExact(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, l *bpftest.Lab) {
		base := udp("10.0.1.2", "10.20.0.1", 8)
		frames := make([][]byte, 20000)
		for i := range frames {
			frame := slices.Clone(base)
			frame[22] = byte(2 + i%254)
			binary.BigEndian.PutUint16(frame[18:], uint16(i*2654435761>>7))
			if i >= len(frames)/2 { // checksums next to 0 and 0xffff
				pkt.SumIPv4(frame[14:])
				id := uint32(binary.BigEndian.Uint16(frame[18:])) + uint32(binary.BigEndian.Uint16(frame[24:])) + uint32(i%5) + 0xfffd
				binary.BigEndian.PutUint16(frame[18:], uint16(id+id>>16))
			}
			pkt.SumIPv4(frame[14:])
			frames[i] = frame
		}
		for i, got := range l.RunAll("veth1", frames) {
			if want := routed(frames[i], mac2, host2); !slices.Equal(got, want) {
				t.Fatalf("TTL %d, id %x: %x, want %x", frames[i][22], frames[i][18:20], got, want)
			}
		}
	})
}

// options is a packet with IPv4 options.
func options(bytes ...byte) []byte {
	for len(bytes)%4 != 0 {
		bytes = append(bytes, 0)
	}
	frame := udp("10.0.1.2", "10.20.0.1", 8)
	frame = slices.Insert(frame, 34, bytes...)
	frame[14] += byte(len(bytes) / 4)
	binary.BigEndian.PutUint16(frame[16:], binary.BigEndian.Uint16(frame[16:])+uint16(len(bytes)))
	pkt.SumIPv4(frame[14:])
	return frame
}

func TestOptionsAreCarriedButForSourceRoutes(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, l *bpftest.Lab) {
		for _, good := range [][]byte{{148, 4, 0, 0}, {7, 7, 4, 0, 0, 0, 0}, {1, 1, 1, 1}, {1, 148, 4, 0, 0, 0}, slices.Repeat([]byte{1}, 40), {0, 131, 7, 4}, {68, 40, 5, 0}} {
			for len(good) > 1 && good[0] == 68 && len(good) < 40 {
				good = append(good, 0)
			}
			frame := options(good...)
			wants(t, l, fmt.Sprint("options ", good), "veth1", frame, send("p2"), routed(frame, mac2, host2))
		}
		for why, bad := range map[string][]byte{
			"source-route": {1, 131, 7, 4, 10, 0, 2, 2}, "bad-header": {148, 1, 0, 0},
		} {
			wants(t, l, why, "veth1", options(bad...), drop(why), nil)
		}
		wants(t, l, "strict", "veth1", options(137, 7, 4, 10, 0, 2, 2), drop("source-route"), nil)
		wrong := options(148, 4, 0, 0)
		wrong[36] ^= 1
		wants(t, l, "an option under a bad checksum", "veth1", wrong, drop("bad-checksum"), nil)
	})
}
