// SPDX-License-Identifier: Apache-2.0

package nat

// The same random packets go through a machine with our NAT and through one with that of Linux (nftables). What comes out
// must be the same, but for the external ports, which each chooses for itself.

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"errors"
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
	"github.com/polycube/polycube/test/pkt"
)

// machine is one of the two, with the wires of the hosts on its sides.
type machine struct {
	name string
	// wire and to are those of a side: inside, outside.
	wire [2]*netns.Raw
	from [2]string
	to   [2]string
	// external is what flows look like outside, by number.
	external map[int]endpoint
}

const (
	inside  = 0
	outside = 1
)

// strangers are addresses on both sides whose packets the hosts do not answer themselves.
func strangers(n int) [2][2]string {
	return [2][2]string{{fmt.Sprintf("10.0.0.%d", 50+n), fmt.Sprintf("fd00::%d", 50+n)}, {fmt.Sprintf("203.0.113.%d", 50+n), fmt.Sprintf("2001:db8::%d", 50+n)}}
}

const strangerCount = 4

// meet tells a machine where the strangers are.
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

// linuxNAT makes the machine of Linux, alike but for who translates.
func linuxNAT(t *testing.T) *machine {
	l := netns.NewLab(t, netns.WithIPv6())
	var hosts []*netns.Node
	for i := range 2 {
		hosts = append(hosts, l.Host(fmt.Sprintf("veth%d", i+1), "", netns.WithIPv6()))
	}
	l.Run("sysctl", "-qw", "net.ipv4.ip_forward=1", "net.ipv6.conf.all.forwarding=1")
	for dev, addresses := range map[string][]string{"veth1": {"10.0.0.1/24", "fd00::1/64"}, "veth2": {edgeIP + "/24", edgeIP6 + "/64"}} {
		for _, a := range addresses {
			l.Run("ip", "addr", "add", a, "dev", dev, "nodad")
		}
	}
	cmd := l.Command("nft", "-f", "-")
	cmd.Stdin = bytes.NewBufferString(`
		table inet nat {
			chain out { type nat hook postrouting priority srcnat; oifname "veth2" masquerade; }
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

// ourNAT makes ours.
func ourNAT(t *testing.T) *machine {
	e := newEdge(t, cube.TypeTC, `{"rule":{"masquerade":{"enabled":true},"port-forwarding":{"entry":[
		{"id":0,"external-ip":"203.0.113.1","external-port":8080,"internal-ip":"10.0.0.50","internal-port":80},
		{"id":1,"external-ip":"2001:db8::1","external-port":8080,"proto":"tcp","internal-ip":"fd00::50","internal-port":80}]}}}`)
	wantMasquerade(t, e.Lab, fmt.Sprintf(`[%q,%q]`, edgeIP, edgeIP6))
	meet(e.Lab.Lab.Namespace, e.Hosts)
	return newMachine(t, "ours", e.Hosts)
}

// pass sends a frame into one side of a machine, and returns the packet that comes out of the other; its mark finds it.
func (m *machine) pass(from int, frame, mark []byte) ([]byte, error) {
	if err := m.wire[from].Send(frame); err != nil {
		return nil, err
	}
	got, err := m.wire[1-from].Recv(func(b []byte) bool { return bytes.Contains(b, mark) }, 10*time.Second)
	if err != nil {
		return nil, fmt.Errorf("%s: nothing comes out: %w", m.name, err)
	}
	return got[14:], checkSums(got[14:])
}

// frame begins a packet from one side.
func (m *machine) frame(side int) *pkt.Frame { return pkt.Eth(m.from[side], m.to[side]) }

// conversation is a flow between strangers.
type conversation struct {
	number           int
	proto            uint8
	internal, remote endpoint
	forwarded        bool // it was begun from outside, at port 8080
	steps            int
	// last is the last packet of each machine as it was seen outside.
	last [2][]byte
}

func (c *conversation) v4() bool { return c.internal.addr.Is4() }

// packet makes one from an endpoint to another.
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
	if !reply {
		return f.Echo(from.port, 1).Data(data).Bytes()
	}
	b := f.Echo(to.port, 1).Data(data).Bytes()
	b[34], b[36], b[37] = 0, 0, 0 // an echo reply
	binary.BigEndian.PutUint16(b[36:], ^sumOf(b[34:]))
	return b
}

// flags are those that TCP has at a step.
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

// out says whether the next packet goes out; the first three of a conversation are a handshake.
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
	machines [2]*machine
	all      []*conversation
	events   uint64
}

// mark is in no other packet.
func (d *differ) mark() []byte {
	d.events++
	return binary.BigEndian.AppendUint64([]byte("event--:"), d.events)
}

// begin makes a conversation.
func (d *differ) begin() *conversation {
	c := &conversation{number: len(d.all) + 1, proto: []uint8{unix.IPPROTO_TCP, unix.IPPROTO_UDP, unix.IPPROTO_ICMP}[d.random.IntN(3)]}
	family := d.random.IntN(2)
	if c.proto == unix.IPPROTO_ICMP {
		family = 0
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
	if c.proto == unix.IPPROTO_ICMP {
		c.remote.port = 0
	}
	d.all = append(d.all, c)
	return c
}

// step sends the next packet of a conversation through both.
func (d *differ) step(c *conversation) error {
	mark, out := d.mark(), c.out(d.random)
	flags := c.flags(out)
	data := append(bytes.Repeat([]byte{byte(d.events)}, d.random.IntN(600)), mark...)
	c.steps++
	var seen [2][]byte
	for i, m := range d.machines {
		var err error
		if out {
			seen[i], err = m.pass(inside, c.packet(m.frame(inside), c.internal, c.remote, flags, c.forwarded, data), mark)
		} else {
			seen[i], err = m.pass(outside, c.packet(m.frame(outside), c.remote, m.external[c.number], flags, true, data), mark)
		}
		if err != nil {
			return err
		}
		if out {
			if err := m.learn(c, seen[i]); err != nil {
				return err
			}
			c.last[i] = seen[i]
			seen[i] = rename(c, seen[i])
		}
	}
	return alike(seen)
}

// learn takes note of how a conversation looks outside, which does not change.
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

// layout is where the transport header of a packet is.
func layout(packet []byte) (transport int, proto uint8, err error) {
	switch {
	case len(packet) >= 28 && packet[0]>>4 == 4:
		return int(packet[0]&15) * 4, packet[9], nil
	case len(packet) >= 48 && packet[0]>>4 == 6:
		return 40, packet[6], nil
	}
	return 0, 0, errors.New("no packet")
}

func source4or6(packet []byte) (endpoint, error) {
	at, proto, err := layout(packet)
	if err != nil {
		return endpoint{}, err
	}
	from := packet[12:16]
	if packet[0]>>4 == 6 {
		from = packet[8:24]
	}
	addr, _ := netip.AddrFromSlice(from)
	number := packet[at : at+2]
	if proto == unix.IPPROTO_ICMP {
		number = packet[at+4 : at+6]
	}
	return endpoint{addr, binary.BigEndian.Uint16(number)}, nil
}

// rename gives a packet that was seen outside its internal endpoint back, and takes out the checksums, which were right.
func rename(c *conversation, packet []byte) []byte {
	p := bytes.Clone(packet)
	at, proto, _ := layout(p) // it was looked at before
	checksum := map[uint8]int{unix.IPPROTO_TCP: 16, unix.IPPROTO_UDP: 6, unix.IPPROTO_ICMP: 2}[proto]
	if c.v4() {
		p[10], p[11] = 0, 0
		copy(p[12:], c.internal.addr.AsSlice())
	} else {
		copy(p[8:], c.internal.addr.AsSlice())
	}
	p[at+checksum], p[at+checksum+1] = 0, 0
	number := at
	if proto == unix.IPPROTO_ICMP {
		number = at + 4
	}
	binary.BigEndian.PutUint16(p[number:], c.internal.port)
	return p
}

// checkSums verifies the checksums of a packet.
func checkSums(packet []byte) error {
	at, proto, err := layout(packet)
	if err != nil {
		return err
	}
	var pseudo []byte
	var body []byte
	if packet[0]>>4 == 4 {
		if sum := sumOf(packet[:at]); sum != 0xffff {
			return fmt.Errorf("the checksum of its header is off: %#x", sum)
		}
		body = packet[at:binary.BigEndian.Uint16(packet[2:4])]
		pseudo = append(pseudo, packet[12:20]...)
	} else {
		body = packet[at : at+int(binary.BigEndian.Uint16(packet[4:6]))]
		pseudo = append(pseudo, packet[8:40]...)
	}
	if proto != unix.IPPROTO_ICMP { // which has no pseudo header
		pseudo = binary.BigEndian.AppendUint16(append(pseudo, 0, proto), uint16(len(body)))
	} else {
		pseudo = nil
	}
	if sum := sumOf(append(pseudo, body...)); sum != 0xffff {
		return fmt.Errorf("the checksum of protocol %d is off: %#x in %x", proto, sum, packet)
	}
	return nil
}

// sumOf adds words as checksums do.
func sumOf(b []byte) uint16 {
	sum := uint32(0)
	for i := range b {
		sum += uint32(b[i]) << (8 * (1 - i%2))
	}
	for sum > 0xffff {
		sum = sum&0xffff + sum>>16
	}
	return uint16(sum)
}

// alike compares what the two made of a packet.
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
		if seen[i], err = m.pass(outside, b, mark); err != nil {
			return fmt.Errorf("an ICMP error about %x: %w", about, err)
		}
	}
	return alike(seen)
}

// asICMP makes a packet one of ICMP, with the checksum that it has to have.
func asICMP(packet []byte, proto uint8) {
	if packet[0]>>4 == 4 {
		packet[9], packet[10], packet[11] = proto, 0, 0
		binary.BigEndian.PutUint16(packet[10:], ^sumOf(packet[:20]))
		binary.BigEndian.PutUint16(packet[22:], ^sumOf(packet[20:]))
		return
	}
	packet[6] = proto
	pseudo := binary.BigEndian.AppendUint32(bytes.Clone(packet[8:40]), uint32(len(packet)-40))
	binary.BigEndian.PutUint16(packet[42:], ^sumOf(append(append(pseudo, 0, 0, 0, proto), packet[40:]...)))
}

// TestLinuxAndWeTranslateAlike: random conversations of TCP, UDP and ping, begun on either side, with ICMP errors about
// them, come out of both machines alike, up to the external ports, and with right checksums.
func TestLinuxAndWeTranslateAlike(t *testing.T) {
	netns.NeedRoot(t)
	if _, err := exec.LookPath("nft"); err != nil {
		t.Skip("nftables is not installed: there is nothing to compare with")
	}
	events := 400
	if os.Getenv("POLYCUBE_SOAK") != "" {
		events = 20000
	}
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	d := &differ{t: t, random: rand.New(rand.NewPCG(seed, 3)), machines: [2]*machine{ourNAT(t), linuxNAT(t)}}
	kinds := map[string]int{}
	for event := range events {
		var c *conversation
		if len(d.all) < 3 || d.random.IntN(4) == 0 {
			c = d.begin()
		} else {
			c = d.all[d.random.IntN(len(d.all))]
		}
		kind := fmt.Sprintf("protocol %d, IPv4 %v, forwarded %v", c.proto, c.v4(), c.forwarded)
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
