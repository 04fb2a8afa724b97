// SPDX-License-Identifier: Apache-2.0

package router

// The same random packets through Linux and through our router: the output must be the same, including errors and
// replies of the router itself, except for details that standards leave open: the identification of IPv4 packets that a
// router creates.

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/netip"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/test/bpftest"
	"github.com/polycube/polycube/test/netns"
	"github.com/polycube/polycube/test/pkt"
	"github.com/polycube/polycube/test/repeat"
	"github.com/polycube/polycube/wire"
)

// ends are the far ends of a router's links.
type ends [2]*netns.Raw

// randomRoutes are nested, and adjacent to the connected networks; "" is a blackhole.
func randomRoutes(r *rand.Rand) map[netip.Prefix]string {
	routes := map[netip.Prefix]string{}
	for len(routes) < 60 {
		p := randomPrefix(r)
		if p.Bits() > 8 && (p.Addr().As4()[0] == 11 || p.Addr().As4()[1] == 2) {
			routes[p] = pick(r, "10.0.1.2", "10.0.2.2", "blackhole")
		}
	}
	return routes
}

// edges are addresses at both ends of the routes.
func edges(routes map[netip.Prefix]string) []string {
	var out []string
	for p := range routes {
		for _, a := range boundary(p) {
			if b := a.As4(); b[0] == 11 || b[0] == 10 && b[1] == 2 {
				out = append(out, a.String())
			}
		}
	}
	slices.Sort(out)
	return out
}

// linuxRouter is a kernel with the configuration of ours in TestOursSaysWhatLinuxSays.
func linuxRouter(t *testing.T, routes map[netip.Prefix]string) ends {
	t.Helper()
	l := netns.NewLab(t)
	l.Run("sysctl", "-qw", "net.ipv4.ip_forward=1", "net.ipv6.conf.all.forwarding=1", "net.ipv6.conf.all.disable_ipv6=0",
		"net.ipv6.conf.default.disable_ipv6=0", "net.ipv4.icmp_ratelimit=0", "net.ipv6.icmp.ratelimit=0",
		"net.ipv4.conf.all.rp_filter=0", "net.ipv4.conf.default.rp_filter=0", "net.ipv4.conf.all.send_redirects=0", "net.ipv4.conf.default.send_redirects=0")
	// Before Linux 6.13 it applies to the whole machine and is invisible here: then the limit differs.
	_ = l.Command("sysctl", "-qw", "net.ipv4.icmp_msgs_per_sec=1000000", "net.ipv4.icmp_msgs_burst=1000000").Run()
	var e ends
	for i := range e {
		dev, mac, host := fmt.Sprintf("veth%d", i+1), []string{mac1, mac2}[i], []string{host1, host2}[i]
		h := l.Host(dev, "")
		l.Run("ip", "link", "set", dev, "address", mac)
		l.Run("ip", "addr", "add", fmt.Sprintf("10.0.%d.1/24", i+1), "dev", dev)
		l.Run("ip", "addr", "add", fmt.Sprintf("2001:db8:%d::1/64", i+1), "dev", dev, "nodad")
		l.Run("ip", "neigh", "add", fmt.Sprintf("10.0.%d.2", i+1), "lladdr", host, "dev", dev)
		l.Run("ip", "neigh", "add", fmt.Sprintf("2001:db8:%d::2", i+1), "lladdr", host, "dev", dev)
		e[i] = netns.OpenRaw(t, h, netns.Inner)
	}
	l.Run("ip", "link", "set", "veth2", "mtu", "1400")
	for _, route := range []string{"10.100.0.0/16 via 10.0.1.2", "10.200.0.0/16 via 10.0.2.2", "blackhole 10.40.0.0/16", "unreachable 10.41.0.0/16",
		"prohibit 10.42.0.0/16", "2001:db8:100::/40 via 2001:db8:1::2", "2001:db8:200::/40 via 2001:db8:2::2", "blackhole 2001:db8:40::/48",
		"unreachable 2001:db8:41::/48", "prohibit 2001:db8:42::/48"} {
		l.Run("ip", append([]string{"route", "add"}, strings.Fields(route)...)...)
	}
	for p, hop := range routes {
		if hop == "blackhole" {
			l.Run("ip", "route", "add", hop, p.String())
		} else {
			l.Run("ip", "route", "add", p.String(), "via", hop)
		}
	}
	return e
}

// ourRouter is ours with the same configuration.
func ourRouter(t *testing.T, typ string, routes map[netip.Prefix]string) (ends, *bpftest.Lab) {
	t.Helper()
	l := bpftest.New(t, bpftest.Options{Type: map[string]cube.Type{"tc": cube.TypeTC, "xdp": cube.TypeXDPDRV}[typ], Hosts: 2})
	l.Create("router", "r", `{"arp":{"duplicate-detection":false},"ports":[
	 {"name":"p1","peer":"veth1","mac":"`+mac1+`","ip":"10.0.1.1/24","secondaryip":[{"ip":"2001:db8:1::1/64"}]},
	 {"name":"p2","peer":"veth2","mac":"`+mac2+`","ip":"10.0.2.1/24","secondaryip":[{"ip":"2001:db8:2::1/64"}],"mtu":1400}],
	 "arp-table":[{"address":"10.0.1.2","mac":"`+host1+`","interface":"p1"},{"address":"10.0.2.2","mac":"`+host2+`","interface":"p2"},
	 {"address":"2001:db8:1::2","mac":"`+host1+`","interface":"p1"},{"address":"2001:db8:2::2","mac":"`+host2+`","interface":"p2"}],
	 "route":[{"network":"10.100.0.0/16","nexthop":"10.0.1.2"},{"network":"10.200.0.0/16","nexthop":"10.0.2.2"},
	 {"network":"10.40.0.0/16","nexthop":"blackhole"},{"network":"10.41.0.0/16","nexthop":"unreachable"},{"network":"10.42.0.0/16","nexthop":"prohibit"},
	 {"network":"2001:db8:100::/40","nexthop":"2001:db8:1::2"},{"network":"2001:db8:200::/40","nexthop":"2001:db8:2::2"},
	 {"network":"2001:db8:40::/48","nexthop":"blackhole"},{"network":"2001:db8:41::/48","nexthop":"unreachable"},{"network":"2001:db8:42::/48","nexthop":"prohibit"}]}`)
	for p, hop := range routes {
		l.Set("POST", "r route "+p.String()+" "+hop, "{}")
	}
	var e ends
	for i := range e {
		e[i] = netns.OpenRaw(t, l.Hosts[i], netns.Inner)
	}
	return e, l
}

// mark is in each packet, so that output can be assigned to it.
func mark(n int) []byte { return fmt.Appendf(nil, "mark%06d", n) }

// one returns one of several values.
func pick[T any](r *rand.Rand, list ...T) T { return list[r.IntN(len(list))] }

// randomPacket returns a frame from the left with a mark, to one of several addresses or to a special one.
func randomPacket(r *rand.Rand, n int, to []string) []byte {
	six := r.IntN(3) == 0
	size := pick(r, 0, 1, 30, 500, 600, 1300, 1340, 1352, 1372, 1380, 1400, 1430)
	body := append(mark(n), bytes.Repeat([]byte{byte(n)}, size)...)
	ttl := pick[byte](r, 64, 64, 64, 2, 1, 0, 255)
	proto, l4 := randomTransport(r, six, body)
	station := mac1
	if r.IntN(40) == 0 {
		station = pkt.Broadcast
	}
	if six {
		own := fmt.Sprintf("2001:db8:1%02x:%x::1", n%256, n/256) // each in a different network: errors are limited
		src := pick(r, own, own, own, "::1", "ff02::1")
		dst := pick(r, "2001:db8:2::2", "2001:db8:200::9", "2001:db8:200::9", "2001:db8:1::1", "2001:db8:2::1", "2001:db8:40::1", "2001:db8:41::1", "2001:db8:42::1",
			"2001:db8:9::1", "::1", "ff02::5", "ff0e::1")
		return packet6(station, src, dst, proto, ttl, l4)
	}
	src := pick(r, fmt.Sprintf("10.100.%d.%d", n/200%200, 1+n%200), fmt.Sprintf("10.100.%d.%d", n/200%200, 1+n%200),
		"127.0.0.1", "0.0.0.0", "224.1.1.1", "255.255.255.255", "10.0.1.1", "10.0.2.1", "99.1.2.3")
	dst := pick(r, "10.0.2.2", "10.200.1.1", "10.200.1.1", "10.0.1.1", "10.0.2.1", "10.40.0.1", "10.41.0.1", "10.42.0.1", "192.0.2.1",
		"127.0.0.1", "224.0.0.9", "255.255.255.255", "10.0.1.255", "")
	if dst == "" || r.IntN(4) == 0 {
		dst = pick(r, to...)
	}
	return packet4(r, station, src, dst, proto, ttl, l4)
}

// randomTransport returns a header and a body. Checksums are correct, except those of TCP and UDP to hosts, which
// routers do not check.
func randomTransport(r *rand.Rand, six bool, body []byte) (byte, []byte) {
	switch r.IntN(6) {
	case 0, 1:
		return wire.ProtoUDP, append([]byte{0x10, 0, 0x20, 0, byte((len(body) + 8) >> 8), byte(len(body) + 8), 0, 0}, body...)
	case 2:
		return wire.ProtoTCP, append([]byte{0x10, 0, 0x20, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0x50, 2, 0xff, 0xff, 0, 0, 0, 0}, body...)
	case 3:
		return 253, body
	case 4: // an error
		if six {
			return wire.ProtoICMPv6, append([]byte{1, 0, 0, 0, 0, 0, 0, 0}, body...)
		}
		return wire.ProtoICMP, append([]byte{3, 1, 0, 0, 0, 0, 0, 0}, body...)
	}
	if six {
		return wire.ProtoICMPv6, append([]byte{128, 0, 0, 0, 0, 7, 0, 9}, body...)
	}
	return wire.ProtoICMP, append([]byte{8, 0, 0, 0, 0, 7, 0, 9}, body...)
}

// packet4 is a frame from the left to a station, with an IPv4 packet.
func packet4(r *rand.Rand, station, src, dst string, proto, ttl byte, l4 []byte) []byte {
	if proto == wire.ProtoICMP {
		binary.BigEndian.PutUint16(l4[2:], ^pkt.Sum(l4))
	}
	local := dst == "10.0.1.1" || dst == "10.0.2.1" || dst == "10.0.1.255"
	options := pick(r, nil, nil, nil, nil, []byte{1, 1, 1, 0}, []byte{0x94, 4, 0, 0})
	frag := pick[uint16](r, 0, 0, 0x4000, 0x4000, 0x2000, 5, 0x2005)
	if local {
		options = nil // Linux repeats them in its answers
		frag &= 0x4000
		if proto == wire.ProtoTCP {
			proto = 253 // Linux resets the connection
		}
	}
	if frag&0x1fff == 5 && proto == wire.ProtoICMP {
		frag = 0
	}
	ip := pkt.IPv4Header{From: src, To: dst, Protocol: proto, TTL: ttl, Fragment: frag, Options: options}
	ip.TOS = pick[byte](r, 0, 0x10, 0xb8)
	ip.ID = uint16(r.Uint32())
	frame := pkt.Eth(host1, station).IP(ip.Packet(l4)).Bytes()
	switch r.IntN(40) {
	case 0:
		frame[24] ^= 1
	case 1: // a length that is not the frame's
		at, bit := 16+r.IntN(2), byte(1<<r.IntN(8))
		frame[at] ^= bit
		if n := int(binary.BigEndian.Uint16(frame[16:])); n >= 20+len(options) && 14+n < bytes.Index(frame, []byte("mark"))+len(mark(0)) {
			frame[at] ^= bit // Linux cuts off the rest, including the mark
		}
		pkt.SumIPv4(frame[14:])
	case 2: // padding, up to the link's limit
		frame = append(frame, make([]byte, min(r.IntN(20), 1514-len(frame)))...)
	}
	return frame
}

// packet6 is a frame from the left to a station, with an IPv6 packet.
func packet6(station, src, dst string, proto, ttl byte, l4 []byte) []byte {
	if (dst == "2001:db8:1::1" || dst == "2001:db8:2::1") && proto == wire.ProtoTCP {
		proto = 253
	}
	at := map[byte]int{wire.ProtoICMPv6: 2, wire.ProtoUDP: 6}[proto]
	if at > 0 {
		binary.BigEndian.PutUint16(l4[at:], ^pkt.Sum(pkt.PseudoHeader(src, dst, proto, len(l4)), l4))
	}
	ip := pkt.IPv6Header{From: src, To: dst, Next: proto, HopLimit: ttl}
	return pkt.Eth(host1, station).IP(ip.Packet(l4)).Bytes()
}

// ready waits until a router answers on its own addresses: Linux may take a second to use IPv6 ones. Other frames that
// arrive on the left are passed to seen.
func (e ends) ready(t *testing.T, seen func(f []byte), addresses ...string) {
	t.Helper()
	r := rand.New(rand.NewPCG(0, 0))
	for _, address := range addresses {
		echo := []byte{8, 0, 0, 0, 0, 7, 0, 9}
		ask := func() []byte { return packet4(r, mac1, "10.100.0.1", address, wire.ProtoICMP, 64, echo) }
		if strings.Contains(address, ":") {
			echo = []byte{128, 0, 0, 0, 0, 7, 0, 9}
			ask = func() []byte { return packet6(mac1, "2001:db8:100::1", address, wire.ProtoICMPv6, 64, echo) }
		}
		netns.Eventually(t, patience, func() error {
			clear(echo[2:4])
			if err := e[0].Send(ask()); err != nil {
				return err
			}
			_, err := e[0].Recv(func(f []byte) bool {
				seen(f)
				p, err := wire.ParseIP(f)
				return err == nil && !bytes.Contains(f, []byte("mark")) && p.Src == netip.MustParseAddr(address)
			}, 100*time.Millisecond)
			return err
		})
	}
}

// passed waits until a packet sent now comes out on the right. Other frames there are passed to seen.
func (e ends) passed(t *testing.T, seen func(f []byte)) {
	t.Helper()
	r := rand.New(rand.NewPCG(0, 0))
	last := []byte("that was all")
	datagram := append([]byte{0x10, 0, 0x20, 0, 0, byte(8 + len(last)), 0, 0}, last...)
	netns.Eventually(t, patience, func() error {
		if err := e[0].Send(packet4(r, mac1, "10.100.0.1", "10.200.1.1", wire.ProtoUDP, 64, datagram)); err != nil {
			return err
		}
		_, err := e[1].Recv(func(f []byte) bool {
			seen(f)
			return bytes.Contains(f, last)
		}, 100*time.Millisecond)
		return err
	})
}

// outputs runs packets through a router and returns the output, by mark: the side and the bytes of each frame.
func (e ends) outputs(t *testing.T, frames [][]byte) map[string][]string {
	t.Helper()
	e.ready(t, func([]byte) {}, "10.0.1.1", "10.0.2.1", "2001:db8:1::1", "2001:db8:2::1")
	out := map[string][]string{}
	note := func(side int, f []byte) {
		if at := bytes.Index(f, []byte("mark")); at >= 0 && at+10 <= len(f) {
			m := string(f[at : at+10])
			out[m] = append(out[m], fmt.Sprintf("%d %s", side, normal(f)))
		}
	}
	take := func(within time.Duration) {
		for i, side := range e {
			for {
				f, err := side.Recv(func(f []byte) bool { return bytes.Contains(f, []byte("mark")) }, within)
				if err != nil {
					break
				}
				note(i, f)
			}
		}
	}
	for i, f := range frames {
		if err := e[0].Send(f); err != nil {
			t.Fatal(err)
		}
		// No more than a veth and the slow path can queue. A port may have answered at once: when a router
		// answers on all of its addresses, it has processed everything before.
		if i%64 == 63 || i == len(frames)-1 {
			take(0)
			e.ready(t, func(f []byte) { note(0, f) }, "10.0.1.1", "2001:db8:1::1")
		}
	}
	e.passed(t, func(f []byte) { note(1, f) })
	take(500 * time.Millisecond)
	for m := range out {
		slices.Sort(out[m])
	}
	return out
}

// normal returns a frame without the fields that the router may choose.
func normal(f []byte) string {
	f = slices.Clone(f)
	if wire.EtherType(f) == wire.EtherIPv4 && len(f) >= 34 {
		f = f[:min(len(f), 14+int(binary.BigEndian.Uint16(f[16:])))]
		if src := string(f[26:30]); src == "\x0a\x00\x01\x01" || src == "\x0a\x00\x02\x01" {
			clear(f[18:22]) // identification, and a related flag
			clear(f[24:26])
		}
	}
	if wire.EtherType(f) == wire.EtherIPv6 && len(f) >= 54 {
		f[15] &= 0xf0 // the label of a flow
		clear(f[16:18])
	}
	return hex.EncodeToString(f)
}

func TestOursSaysWhatLinuxSays(t *testing.T) {
	t.Parallel()
	n := 1500
	if os.Getenv("POLYCUBE_SOAK") != "" {
		n = 20000
	}
	r := rand.New(rand.NewPCG(repeat.Seed(t), 0))
	routes := randomRoutes(r)
	to := edges(routes)
	var frames [][]byte
	for i := range n {
		frames = append(frames, randomPacket(r, i, to))
	}
	want := linuxRouter(t, routes).outputs(t, frames)
	for _, typ := range []string{"tc", "xdp"} {
		t.Run(typ, func(t *testing.T) {
			e, l := ourRouter(t, typ, routes)
			got := e.outputs(t, frames)
			marks := maps.Clone(want)
			maps.Copy(marks, got)
			wrong := 0
			for _, m := range slices.Sorted(maps.Keys(marks)) {
				if slices.Equal(got[m], want[m]) {
					continue
				}
				if wrong++; wrong <= 6 {
					var i int
					if _, err := fmt.Sscanf(m, "mark%d", &i); err != nil {
						t.Fatal(err)
					}
					t.Errorf("packet %x...\nours  %.250s\nLinux %.250s", frames[i][:min(100, len(frames[i]))], got[m], want[m])
				}
			}
			if wrong > 0 {
				t.Errorf("%d of %d packets differ; fates %v, slow path %s", wrong, n, l.Fates("r"), l.Read("r slow-path"))
			}
		})
	}
}
