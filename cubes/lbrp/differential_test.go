// SPDX-License-Identifier: Apache-2.0

package lbrp

// The same random packets go through our load balancer and through a Linux router whose nftables translate destinations,
// with services of one server each. What comes out must be the same, but for the hop that the router takes.

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/polycube/polycube/test/bpftest"
	"github.com/polycube/polycube/test/netns"
	"github.com/polycube/polycube/test/pace"
	"github.com/polycube/polycube/test/pkt"
	"github.com/polycube/polycube/test/repeat"
)

// target is a service with its server.
type target struct {
	v6           bool
	proto        uint8
	vip, server  string
	vport, sport uint16
	ports        uint16 // several are a range
	fullNAT      bool
}

// randomTargets are services with different ports.
func randomTargets(r *rand.Rand) (all []target) {
	for i := range 16 {
		x := target{v6: i&1 != 0, proto: pkt.ProtoUDP, vport: 1000 + uint16(r.IntN(4))*256 + uint16(i)*8, sport: uint16(1 + r.IntN(60000)), ports: 1, fullNAT: i&8 != 0}
		if i&2 != 0 {
			x.proto = pkt.ProtoTCP
		}
		if i&4 != 0 {
			x.ports = 2 + uint16(r.IntN(4))
		}
		x.vip, x.server = fmt.Sprintf("192.0.2.%d", 1+r.IntN(3)), fmt.Sprintf("10.0.2.%d", 50+i)
		if x.v6 {
			x.vip, x.server = fmt.Sprintf("2001:db8::%d", 1+r.IntN(3)), fmt.Sprintf("fd00:2::%d", 50+i)
		}
		all = append(all, x)
	}
	return append(all,
		target{proto: pkt.ProtoICMP, vip: "192.0.2.9", server: "10.0.2.70", ports: 1},
		target{proto: pkt.ProtoICMPv6, vip: "2001:db8::9", server: "fd00:2::70", ports: 1, v6: true})
}

// service is the target in our configuration.
func (x *target) service() string {
	port := fmt.Sprintf(`"vport":%d,"proto":%q,"last-port":%d`, x.vport, x.name(), x.vport+x.ports-1)
	if x.isEcho() {
		port = `"vport":0,"proto":"ICMP"`
	}
	return fmt.Sprintf(`{"vip":%q,%s,"full-nat":%v,"backend":[{"ip":%q,"port":%d}]}`, x.vip, port, x.fullNAT, x.server, x.sport)
}

// rules are those of nftables for destinations and for sources.
func (x *target) rules() (destinations, sources string) {
	ip, to, echo := "ip", x.server, "icmp"
	if x.v6 {
		ip, to, echo = "ip6", "["+x.server+"]", "icmpv6"
	}
	if x.isEcho() {
		return fmt.Sprintf("%s daddr %s %s type echo-request dnat %s to %s\n", ip, x.vip, echo, ip, x.server), ""
	}
	for n := range x.ports {
		destinations += fmt.Sprintf("%s daddr %s %s dport %d dnat %s to %s:%d\n", ip, x.vip, strings.ToLower(x.name()), x.vport+n, ip, to, x.sport+n)
		if x.fullNAT {
			sources += fmt.Sprintf("%s daddr %s %s dport %d snat %s to %s\n", ip, x.server, strings.ToLower(x.name()), x.sport+n, ip, x.vip)
		}
	}
	return destinations, sources
}

func (x *target) isEcho() bool { return x.proto == pkt.ProtoICMP || x.proto == pkt.ProtoICMPv6 }

func (x *target) name() string {
	if x.proto == pkt.ProtoTCP {
		return "TCP"
	}
	return "UDP"
}

// linux is the router.
type linux struct {
	wires [2]*netns.Raw
	from  [2]string // MAC addresses of the hosts
	to    [2]string // and of the router at them
}

// newLinux creates the router, with neighbours for all addresses that occur.
func newLinux(t *testing.T, targets []target) *linux {
	l := netns.NewLab(t, netns.WithIPv6())
	x := &linux{}
	l.Run("sysctl", "-qw", "net.ipv4.ip_forward=1", "net.ipv6.conf.all.forwarding=1")
	for side := range 2 {
		dev := fmt.Sprintf("veth%d", side+1)
		host := l.Host(dev, "", netns.WithIPv6())
		l.Run("ip", "addr", "add", fmt.Sprintf("10.0.%d.1/24", side+1), "dev", dev)
		l.Run("ip", "addr", "add", fmt.Sprintf("fd00:%d::1/64", side+1), "dev", dev, "nodad")
		for n := range 24 {
			for _, a := range []string{fmt.Sprintf("10.0.%d.%d", side+1, 50+n), fmt.Sprintf("fd00:%d::%d", side+1, 50+n)} {
				l.Run("ip", "neigh", "replace", a, "lladdr", host.MAC.String(), "dev", dev)
			}
		}
		x.wires[side], x.from[side], x.to[side] = netns.OpenRaw(t, host, netns.Inner), host.MAC.String(), host.OuterMAC.String()
	}
	var in, out strings.Builder
	for _, s := range targets {
		destinations, sources := s.rules()
		in.WriteString(destinations)
		out.WriteString(sources)
	}
	cmd := l.Command("nft", "-f", "-")
	cmd.Stdin = strings.NewReader("table inet lb { chain in { type nat hook prerouting priority dstnat;\n" + in.String() +
		"}\nchain out { type nat hook postrouting priority srcnat;\n" + out.String() + "}\n}\n")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("nftables: %v: %s", err, out)
	}
	l.Run("sysctl", "-qw", "net.netfilter.nf_conntrack_tcp_be_liberal=1")
	return x
}

// pass sends frames into a side of the router, and returns as many IP packets that come out of the other one and have the
// mark, or are other fragments: of IPv4 with the id that the mark ends with, of IPv6 with any, as the router chooses another one.
func (x *linux) pass(side int, frames [][]byte, mark []byte) (out [][]byte, err error) {
	id := mark[len(mark)-2:]
	for _, f := range frames {
		f = bytes.Clone(f)
		copy(f, pkt.MAC(x.to[side]))
		copy(f[6:], pkt.MAC(x.from[side]))
		if err := x.wires[side].Send(f); err != nil {
			return nil, err
		}
	}
	for range frames {
		got, err := x.wires[1-side].Recv(func(b []byte) bool {
			return bytes.Contains(b, mark) || len(frames) > 1 && len(b) > 20 && (bytes.Equal(b[18:20], id) || isFragment6(b[14:]))
		}, pace.Stretch(10*time.Second))
		if err != nil {
			return out, fmt.Errorf("after %d packets: %w", len(out), err)
		}
		out = append(out, got[14:])
	}
	return out, nil
}

// talk is a conversation of a client with a service.
type talk struct {
	*target
	client string
	port   uint16
	nth    uint16 // port of the range
	steps  int
	over   bool // a side has reset it
	// last is the last packet of each side as it left our load balancer.
	last [2][]byte
}

// packet returns the next packet of a side, as one frame or two fragments.
func (c *talk) packet(r *rand.Rand, fromServer bool, mark []byte) [][]byte {
	src, dst, sport, dport := c.client, c.vip, c.port, c.vport+c.nth
	if fromServer {
		src, dst, sport, dport = c.server, c.seen(), c.sport+c.nth, c.port
	}
	data := append(bytes.Repeat([]byte{0xa5}, 64+8*r.IntN(8)), mark...)
	inPieces := c.proto == pkt.ProtoUDP && c.steps > 0 && r.IntN(3) == 0
	if c.v6 && inPieces {
		data = append(bytes.Repeat([]byte{0xa5}, pieceSize6+8*r.IntN(8)), mark...)
	}
	f := fromClient()
	if c.v6 {
		f = f.IPv6(src, dst)
	} else {
		f = f.IPv4(src, dst, pkt.IPv4Options{ID: binary.BigEndian.Uint16(mark[len(mark)-2:])})
	}
	switch c.proto {
	case pkt.ProtoUDP:
		f = f.UDP(sport, dport).Data(data)
	case pkt.ProtoTCP:
		flags := pkt.TCPFlags{SYN: c.steps < 2, ACK: c.steps > 0, PSH: c.steps > 1}
		if c.steps > 2 {
			flags.FIN = r.IntN(6) == 0
			c.over = !flags.FIN && r.IntN(12) == 0
			flags.RST = c.over
		}
		f = f.TCP(sport, dport, flags).Data(data)
	default:
		f = f.Protocol(c.proto).Data(c.echo(src, dst, fromServer, data))
	}
	frame := f.Bytes()
	switch {
	case inPieces && c.v6:
		return fragments6(frame)
	case inPieces:
		return fragments(frame)
	case !c.v6 && c.proto == pkt.ProtoUDP && r.IntN(4) == 0:
		copy(frame[40:42], []byte{0, 0}) // without a checksum
	}
	return [][]byte{frame}
}

// seen is the address of the client that the server sees.
func (c *talk) seen() string {
	if c.fullNAT {
		return c.vip
	}
	return c.client
}

// echo is an echo request, or the reply.
func (c *talk) echo(src, dst string, isReply bool, data []byte) []byte {
	word, kind := uint32(c.port)<<16|1, byte(8)
	if isReply {
		kind = 0
	}
	if !c.v6 {
		return pkt.ICMPMessage(kind, 0, word, data)
	}
	return pkt.ICMPv6Message(src, dst, 129-kind/8, 0, word, data)
}

// pieceSize6 is how much of a packet's payload the first fragment of IPv6 has: a router does not make smaller ones.
const pieceSize6 = 1280 - 48

// fragments6 divides a frame of IPv6 behind the first part of its payload.
func fragments6(frame []byte) [][]byte {
	piece := func(from, to int, field uint16) []byte {
		f := append(bytes.Clone(frame[:54]), pkt.IPv6Fragment(frame[20], field, 7)...)
		f = append(f, frame[54+from:54+to]...)
		f[20] = unix.IPPROTO_FRAGMENT
		binary.BigEndian.PutUint16(f[18:], uint16(8+to-from))
		return f
	}
	return [][]byte{piece(0, pieceSize6, 1), piece(pieceSize6, len(frame)-54, pieceSize6)}
}

// isFragment6 reports whether an IP packet is a fragment of IPv6.
func isFragment6(packet []byte) bool {
	return len(packet) > 48 && packet[0]>>4 == 6 && packet[6] == unix.IPPROTO_FRAGMENT
}

// withoutID is a packet; of a fragment of IPv6, the identification is 0.
func withoutID(packet []byte) []byte {
	if isFragment6(packet) {
		packet = bytes.Clone(packet)
		clear(packet[44:48])
	}
	return packet
}

// fragments divides a frame of IPv4 behind the first 48 bytes of its payload.
func fragments(frame []byte) [][]byte {
	const size = 48
	piece := func(from, to int, offset uint16) []byte {
		f := append(bytes.Clone(frame[:34]), frame[34+from:34+to]...)
		binary.BigEndian.PutUint16(f[16:], uint16(20+to-from))
		binary.BigEndian.PutUint16(f[20:], offset)
		pkt.SumIPv4(f[14:34])
		return f
	}
	return [][]byte{piece(0, size, 0x2000), piece(size, len(frame)-34, size/8)}
}

// fault returns an ICMP error about the last packet of the other side, from a host of this side or a router there.
func (c *talk) fault(r *rand.Rand, fromServer bool) []byte {
	side, to := 0, 1
	if fromServer {
		side, to = 1, 0
	}
	about := c.last[to]
	if about == nil || isFragment6(about) || !c.v6 && binary.BigEndian.Uint16(about[6:])&0x3fff != 0 {
		return nil
	}
	destination := c.vip
	if fromServer {
		destination = c.seen()
	}
	router := fmt.Sprintf("10.0.%d.61", side+1)
	if c.v6 {
		router = fmt.Sprintf("fd00:%d::61", side+1)
		return fromClient().IPv6(router, destination).Protocol(unix.IPPROTO_ICMPV6).Data(pkt.ICMPv6Message(router, destination, 2, 0, 1300, about)).Bytes()
	}
	kinds := [][2]byte{{3, 1}, {3, 3}, {3, 4}, {11, 0}}
	kind := kinds[r.IntN(len(kinds))]
	return fromClient().IPv4(router, destination).Protocol(unix.IPPROTO_ICMP).Data(pkt.ICMPMessage(kind[0], kind[1], 1300, about)).Bytes()
}

func TestPacketsAreTranslatedAsByNftables(t *testing.T) {
	netns.NeedRoot(t)
	seed := repeat.Seed(t)
	packets := 300
	if os.Getenv("POLYCUBE_SOAK") != "" {
		packets = 20000
	}
	bpftest.Each(t, bpftest.Options{Hosts: 2}, func(t *testing.T, l *bpftest.Lab) {
		name := fnv.New64a()
		_, _ = name.Write([]byte(t.Name())) // never fails
		r := rand.New(rand.NewPCG(seed, name.Sum64()))
		targets := randomTargets(r)
		x := newLinux(t, targets)
		var services []string
		for _, s := range targets {
			services = append(services, s.service())
		}
		create(l, strings.Join(services, ","))
		var talks []*talk
		kinds := map[string]int{}
		for n := range packets {
			if len(talks) < 40 && r.IntN(4) == 0 || len(talks) == 0 {
				s := &targets[r.IntN(len(targets))]
				c := &talk{target: s, client: fmt.Sprintf("10.0.1.%d", 50+r.IntN(10)), port: uint16(1024 + n), nth: uint16(r.IntN(int(s.ports)))}
				if s.v6 {
					c.client = fmt.Sprintf("fd00:1::%d", 50+r.IntN(10))
				}
				talks = append(talks, c)
			}
			talks[r.IntN(len(talks))].step(t, r, l, x, n, kinds)
			if t.Failed() {
				return
			}
			talks = slices.DeleteFunc(talks, func(c *talk) bool { return c.over })
		}
		t.Logf("packets: %v", kinds)
		for _, what := range []string{"FIN", "RST", "echo", "range", "full NAT", "fragments of IPv4", "fragments of IPv6"} {
			if kinds[what] == 0 && packets > 1000 {
				t.Errorf("no %s among %d packets", what, packets)
			}
		}
		for _, what := range []string{"fragments", "icmp-errors"} {
			if n := l.Read("lb sessions " + what); n == "0" {
				t.Errorf("no %s among %d packets", what, packets)
			}
		}
	})
}

// count counts the kinds of a packet, which may be in pieces.
func (c *talk) count(kinds map[string]int, frames [][]byte) {
	for kind, is := range map[string]bool{
		"FIN":               c.proto == pkt.ProtoTCP && frames[0][c.transport()+13]&1 != 0,
		"RST":               c.over,
		"echo":              c.isEcho(),
		"range":             c.ports > 1,
		"full NAT":          c.fullNAT,
		"fragments of IPv4": len(frames) > 1 && !c.v6,
		"fragments of IPv6": len(frames) > 1 && c.v6,
	} {
		if is {
			kinds[kind]++
		}
	}
}

// transport is the offset of the transport header in a frame of one piece.
func (c *talk) transport() int {
	if c.v6 {
		return 54
	}
	return 34
}

// step sends the next packet of a conversation to both, and compares what they make of it.
func (c *talk) step(t *testing.T, r *rand.Rand, l *bpftest.Lab, x *linux, n int, kinds map[string]int) {
	t.Helper()
	side := 0
	if c.steps > 0 && (c.steps == 1 || r.IntN(2) == 0) {
		side = 1
	}
	mark := binary.BigEndian.AppendUint32([]byte("mark"), 0x10000+uint32(n))
	frames := c.packet(r, side == 1, mark)
	isError := false
	if c.steps > 2 && r.IntN(5) == 0 {
		if f := c.fault(r, side == 1); f != nil {
			frames, mark, isError = [][]byte{f}, f[len(f)-8:], true
			c.over = false // the packet is not sent
		}
	} else {
		c.steps++
		c.count(kinds, frames)
	}
	theirs, err := x.pass(side, frames, mark)
	if err != nil {
		t.Fatalf("packet %d, % x: nftables: %v", n, frames, err)
	}
	ours := l.RunAll([]string{"veth1", "veth2"}[side], frames)
	for i, frame := range ours {
		if frame == nil {
			t.Fatalf("packet %d, % x: dropped", n, frames[i])
		}
		if !isError {
			c.last[side] = bytes.Clone(frame[14:])
		}
		if is := pkt.Hop(bytes.Clone(frame))[14:]; !bytes.Equal(withoutID(is), withoutID(theirs[i])) {
			t.Fatalf("packet %d of %+v\n% x\nleft as\n% x, from nftables as\n% x", n, *c.target, frames[i][14:], is, theirs[i])
		}
	}
}
