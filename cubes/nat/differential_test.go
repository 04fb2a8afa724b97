// SPDX-License-Identifier: Apache-2.0

package nat

// The same random packets go through a machine with our NAT and through one with Linux's (nftables). The output must be
// the same, except for the external ports, which each chooses itself.

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"os"
	"os/exec"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/test/netns"
	"github.com/polycube/polycube/test/pace"
	"github.com/polycube/polycube/test/pkt"
	"github.com/polycube/polycube/test/repeat"
)

// machine is one of the two, with the wires of the hosts on its sides.
type machine struct {
	name string
	// wire and to belong to a side: inside, outside.
	wire [2]*netns.Raw
	from [2]string
	to   [2]string
	// external is the external form of flows, by number.
	external map[int]endpoint
}

const (
	inside  = 0
	outside = 1
)

// strangers are addresses on both sides to whose packets the hosts do not reply themselves.
func strangers(n int) [2][2]string {
	return [2][2]string{{fmt.Sprintf("10.0.0.%d", 50+n), fmt.Sprintf("fd00::%d", 50+n)}, {fmt.Sprintf("203.0.113.%d", 50+n), fmt.Sprintf("2001:db8::%d", 50+n)}}
}

const strangerCount = 4

// meet adds routes to the strangers on a machine.
func meet(lab *netns.Namespace, hosts []*netns.Node) {
	for n := range strangerCount {
		for side, addresses := range strangers(n) {
			for _, a := range addresses {
				lab.Run("ip", "neigh", "replace", a, "lladdr", hosts[side].MAC.String(), "dev", fmt.Sprintf("veth%d", side+1))
			}
		}
	}
}

func newMachine(t *testing.T, name string, hosts []*netns.Node) *machine {
	m := &machine{name: name, external: map[int]endpoint{}}
	for side, h := range hosts {
		m.wire[side], m.from[side], m.to[side] = netns.OpenRaw(t, h, netns.Inner), h.MAC.String(), h.OuterMAC.String()
	}
	return m
}

// translation is a set of rules: for Linux, and for us.
type translation struct {
	name, nft, ours string
	// internal endpoints have one of these addresses outside.
	external []netip.Prefix
}

var translations = []translation{
	{name: "masquerade", nft: `oifname "veth2" masquerade;`, ours: `"masquerade":{"enabled":true}`,
		external: []netip.Prefix{netip.MustParsePrefix(edgeIP + "/32"), netip.MustParsePrefix(edgeIP6 + "/128")}},
	{name: "pools", nft: `oifname "veth2" snat ip to 203.0.113.16-203.0.113.19; oifname "veth2" snat ip6 to 2001:db8::10-2001:db8::13;`,
		ours: `"snat":{"entry":[{"id":1,"internal-net":"10.0.0.0/24","external-ip":"203.0.113.16/30"},
			{"id":2,"internal-net":"fd00::/64","external-ip":"2001:db8::10/126"}]}`,
		external: []netip.Prefix{netip.MustParsePrefix("203.0.113.16/30"), netip.MustParsePrefix("2001:db8::10/126")}},
}

// linuxRouter creates an edge router without a NAT.
func linuxRouter(t *testing.T) (l *netns.Lab, hosts []*netns.Node) {
	l = netns.NewLab(t, netns.WithIPv6())
	for i := range 2 {
		hosts = append(hosts, l.Host(fmt.Sprintf("veth%d", i+1), "", netns.WithIPv6()))
	}
	l.Run("sysctl", "-qw", "net.ipv4.ip_forward=1", "net.ipv6.conf.all.forwarding=1")
	for dev, addresses := range map[string][]string{"veth1": {"10.0.0.1/24", "fd00::1/64"}, "veth2": {edgeIP + "/24", edgeIP6 + "/64"}} {
		for _, a := range addresses {
			l.Run("ip", "addr", "add", a, "dev", dev, "nodad")
		}
	}
	return l, hosts
}

// linuxNAT creates the Linux machine, which only differs in the translation.
func linuxNAT(t *testing.T, rules translation) *machine {
	l, hosts := linuxRouter(t)
	cmd := l.Command("nft", "-f", "-")
	cmd.Stdin = bytes.NewBufferString(`
		table inet nat {
			chain out { type nat hook postrouting priority srcnat; ` + rules.nft + ` }
			chain in {
				type nat hook prerouting priority dstnat;
				iifname "veth2" ip daddr 203.0.113.1 tcp dport 8080 dnat ip to 10.0.0.50:80
				iifname "veth2" ip daddr 203.0.113.1 udp dport 8080 dnat ip to 10.0.0.50:80
				iifname "veth2" ip6 daddr 2001:db8::1 tcp dport 8080 dnat ip6 to [fd00::50]:80
			}
		}`)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Skipf("nftables cannot translate on this machine: %v: %s", err, out)
	}
	l.Run("sysctl", "-qw", "net.netfilter.nf_conntrack_tcp_be_liberal=1")
	meet(l.Namespace, hosts)
	return newMachine(t, "nftables", hosts)
}

// ourNAT creates ours.
func ourNAT(t *testing.T, typ cube.Type, rules translation) *machine {
	e := newEdge(t, typ, `{"rule":{`+rules.ours+`,"port-forwarding":{"entry":[
		{"id":0,"external-ip":"203.0.113.1","external-port":8080,"internal-ip":"10.0.0.50","internal-port":80},
		{"id":1,"external-ip":"2001:db8::1","external-port":8080,"proto":"tcp","internal-ip":"fd00::50","internal-port":80}]}}}`)
	if rules.name == "masquerade" {
		wantMasquerade(t, e.Lab, fmt.Sprintf(`[%q,%q]`, edgeIP, edgeIP6))
	}
	meet(e.Lab.Lab.Namespace, e.Hosts)
	return newMachine(t, "ours", e.Hosts)
}

// pass sends a frame into one side of a machine, in fragments if a size is given, and returns the packet that comes out
// of the other; its mark identifies it.
func (m *machine) pass(from int, frame, mark []byte, piece int) ([]byte, error) {
	if piece > 0 {
		return m.passFragments(from, frame, piece, binary.BigEndian.Uint32(mark[len(mark)-4:]))
	}
	if err := m.wire[from].Send(frame); err != nil {
		return nil, err
	}
	got, err := m.wire[1-from].Recv(func(b []byte) bool { return bytes.Contains(b, mark) }, pace.Stretch(10*time.Second))
	if err != nil {
		return nil, fmt.Errorf("%s: nothing comes out: %w", m.name, err)
	}
	return got[14:], checkSums(got[14:])
}

// frame starts a packet from one side.
func (m *machine) frame(side int) *pkt.Frame { return pkt.Eth(m.from[side], m.to[side]) }

// conversation is a flow between strangers.
type conversation struct {
	number           int
	proto            uint8
	internal, remote endpoint
	forwarded        bool // it was begun from outside, at port 8080
	fragments        bool // its packets are sent in two fragments
	steps            int
	// last is the last packet of each machine as it was seen outside.
	last [2][]byte
}

func (c *conversation) v4() bool { return c.internal.addr.Is4() }

// packet creates a packet from an endpoint to another.
func (c *conversation) packet(f *pkt.Frame, from, to endpoint, flags pkt.TCPFlags, reply bool, data []byte) []byte {
	if c.v4() {
		f = f.IPv4(from.addr.String(), to.addr.String(), pkt.IPv4Options{TTL: 60, ID: uint16(c.number)})
	} else {
		f = f.IPv6(from.addr.String(), to.addr.String())
	}
	switch c.proto {
	case unix.IPPROTO_TCP:
		return f.TCP(from.port, to.port, flags).Data(data).Bytes()
	case unix.IPPROTO_UDP:
		return f.UDP(from.port, to.port).Data(data).Bytes()
	}
	kind, id := byte(8), from.port
	if reply {
		kind, id = 0, to.port
	}
	if c.proto == unix.IPPROTO_ICMPV6 {
		kind = 128 + kind/8 ^ 1
	}
	b := f.Data(append([]byte{kind, 0, 0, 0, byte(id >> 8), byte(id), 0, 1}, data...)).Bytes()
	asICMP(b[14:], c.proto)
	return b
}

func isPing(proto uint8) bool { return proto == unix.IPPROTO_ICMP || proto == unix.IPPROTO_ICMPV6 }

// flags returns the TCP flags at a step.
func (c *conversation) flags(out bool) pkt.TCPFlags {
	first := out != c.forwarded
	switch {
	case c.steps == 0 && first:
		return pkt.TCPFlags{SYN: true}
	case c.steps == 1 && !first:
		return pkt.TCPFlags{SYN: true, ACK: true}
	}
	return pkt.TCPFlags{ACK: true}
}

// out reports whether the next packet is outgoing; the first three of a conversation are a handshake.
func (c *conversation) out(random *rand.Rand) bool {
	if c.steps < 3 {
		return (c.steps%2 == 0) != c.forwarded
	}
	return random.IntN(2) == 0
}

// differ runs the two machines.
type differ struct {
	t        *testing.T
	random   *rand.Rand
	rules    translation
	machines [2]*machine
	all      []*conversation
	events   uint64
}

// mark is in no other packet.
func (d *differ) mark() []byte {
	d.events++
	return binary.BigEndian.AppendUint64([]byte("event--:"), d.events)
}

// begin starts a conversation.
func (d *differ) begin() *conversation {
	c := &conversation{number: len(d.all) + 1, proto: []uint8{unix.IPPROTO_TCP, unix.IPPROTO_UDP, unix.IPPROTO_ICMP}[d.random.IntN(3)]}
	family := d.random.IntN(2)
	if c.proto == unix.IPPROTO_ICMP && family == 1 {
		c.proto = unix.IPPROTO_ICMPV6
	}
	address := func(side int) netip.Addr {
		return netip.MustParseAddr(strangers(d.random.IntN(strangerCount))[side][family])
	}
	c.internal = endpoint{address(inside), uint16(1024 + d.random.IntN(60000))}
	c.remote = endpoint{address(outside), uint16(1 + d.random.IntN(60000))}
	if d.random.IntN(4) == 0 && (c.proto == unix.IPPROTO_TCP || c.proto == unix.IPPROTO_UDP && c.v4()) {
		c.forwarded = true
		c.internal = endpoint{netip.MustParseAddr(map[bool]string{true: "10.0.0.50", false: "fd00::50"}[c.v4()]), 80}
		for _, m := range d.machines {
			m.external[c.number] = endpoint{netip.MustParseAddr(map[bool]string{true: edgeIP, false: edgeIP6}[c.v4()]), 8080}
		}
	}
	if isPing(c.proto) {
		c.remote.port = 0
	}
	c.fragments = c.proto == unix.IPPROTO_UDP && d.random.IntN(3) == 0
	d.all = append(d.all, c)
	return c
}

// step sends the next packet of a conversation through both.
func (d *differ) step(c *conversation) error {
	mark, out, size, piece := d.mark(), c.out(d.random), d.random.IntN(600), 0
	flags := c.flags(out)
	if c.fragments {
		size += 64 // Linux reassembles two IPv6 fragments to one packet if it is no larger than the first
	}
	data := append(bytes.Repeat([]byte{byte(d.events)}, size), mark...)
	if c.fragments {
		piece = (len(data) + 8) * (5 + d.random.IntN(4)) / 10 &^ 7 // the first one is not the shorter one
		piece = max(piece, (len(data)+8)/2+7) &^ 7
	}
	c.steps++
	var seen [2][]byte
	for i, m := range d.machines {
		var err error
		if out {
			seen[i], err = m.pass(inside, c.packet(m.frame(inside), c.internal, c.remote, flags, c.forwarded, data), mark, piece)
		} else {
			seen[i], err = m.pass(outside, c.packet(m.frame(outside), c.remote, m.external[c.number], flags, true, data), mark, piece)
		}
		if err != nil {
			return err
		}
		if out {
			if err := m.learn(c, seen[i]); err != nil {
				return err
			}
			if is := m.external[c.number].addr; !c.forwarded && !d.rules.external[0].Contains(is) && !d.rules.external[1].Contains(is) {
				return fmt.Errorf("%s: outside it is %v", m.name, is)
			}
			c.last[i] = seen[i]
			seen[i] = rename(c, seen[i])
		}
	}
	return alike(seen)
}

// learn records the external form of a conversation, which does not change.
func (m *machine) learn(c *conversation, packet []byte) error {
	is, err := source4or6(packet)
	if err != nil {
		return err
	}
	if was, ok := m.external[c.number]; ok && was != is {
		return fmt.Errorf("%s: outside it is %v, and was %v", m.name, is, was)
	}
	m.external[c.number] = is
	return nil
}

// alike compares the two results for a packet.
func alike(seen [2][]byte) error {
	if !bytes.Equal(seen[0], seen[1]) {
		return fmt.Errorf("ours comes out as\n%s, that of nftables as\n%s", hex.Dump(seen[0]), hex.Dump(seen[1]))
	}
	return nil
}

// fail sends an ICMP error of the other side about the last packet that went out.
func (d *differ) fail(c *conversation) error {
	var seen [2][]byte
	for i, m := range d.machines {
		about := c.last[i]
		mark := about[len(about)-16:]
		f := m.frame(outside)
		kind, code := []byte{3, 3, 0, 0, 0, 0, 0, 0}, uint8(unix.IPPROTO_ICMP)
		if c.v4() {
			f = f.IPv4(c.remote.addr.String(), m.external[c.number].addr.String(), pkt.IPv4Options{TTL: 60})
		} else {
			f = f.IPv6(c.remote.addr.String(), m.external[c.number].addr.String())
			kind, code = []byte{1, 4, 0, 0, 0, 0, 0, 0}, unix.IPPROTO_ICMPV6
		}
		b := f.Data(append(kind, about...)).Bytes()
		asICMP(b[14:], code)
		var err error
		if seen[i], err = m.pass(outside, b, mark, 0); err != nil {
			return fmt.Errorf("an ICMP error about %x: %w", about, err)
		}
	}
	return alike(seen)
}

// TestLinuxAndWeTranslateAlike: random conversations of TCP, UDP, including fragments, and ping, started on either
// side, and ICMP errors about them, come out of both machines alike, except for the external endpoints, with correct
// checksums.
func TestLinuxAndWeTranslateAlike(t *testing.T) {
	t.Parallel()
	netns.NeedRoot(t)
	if _, err := exec.LookPath("nft"); err != nil {
		t.Skip("nftables is not installed: there is nothing to compare with")
	}
	for _, rules := range translations {
		for _, typ := range []cube.Type{cube.TypeTC, cube.TypeXDPSKB, cube.TypeXDPDRV} {
			t.Run(rules.name+" "+string(typ), func(t *testing.T) {
				t.Parallel()
				translateAlike(t, typ, rules)
			})
		}
	}
}

func translateAlike(t *testing.T, typ cube.Type, rules translation) {
	events := 200
	if os.Getenv("POLYCUBE_SOAK") != "" {
		events = 20000
	}
	d := &differ{t: t, random: rand.New(rand.NewPCG(repeat.Seed(t), 3)), rules: rules, machines: [2]*machine{ourNAT(t, typ, rules), linuxNAT(t, rules)}}
	kinds := map[string]int{}
	for event := range events {
		var c *conversation
		if len(d.all) < 3 || d.random.IntN(4) == 0 {
			c = d.begin()
		} else {
			c = d.all[d.random.IntN(len(d.all))]
		}
		kind := fmt.Sprintf("protocol %d, IPv4 %v, forwarded %v, fragments %v", c.proto, c.v4(), c.forwarded, c.fragments)
		var err error
		if c.steps > 3 && c.last[0] != nil && d.random.IntN(5) == 0 {
			kind = "ICMP error about " + kind
			err = d.fail(c)
		} else {
			err = d.step(c)
		}
		if err != nil {
			t.Fatalf("event %d, %s, %v to %v, step %d: %v", event, kind, c.internal, c.remote, c.steps, err)
		}
		kinds[kind]++
	}
	t.Logf("compared: %v", kinds)
	if len(kinds) < 8 {
		t.Errorf("only %d kinds of events", len(kinds))
	}
}
