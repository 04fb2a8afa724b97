// SPDX-License-Identifier: Apache-2.0

package fastpath_test

// Real VLAN netdevs, which most machines of make test-kernels have, and this one may not.

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"net"
	"strings"
	"testing"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/test/bpftest"
	"github.com/polycube/polycube/test/need"
	"github.com/polycube/polycube/test/netns"
	"github.com/polycube/polycube/test/pkt"
	"github.com/polycube/polycube/test/repeat"
)

// side is a netdev of the machine on the wire, as packets see it.
type side struct {
	dev, below string
	number     int
	tag        uint32
}

// sides are the two netdevs and the VLAN netdevs on them.
var sides = []side{
	{"veth1", "veth1", 1, 0}, {"veth2", "veth2", 2, 0}, {"one10", "veth1", 3, 0x8100<<16 | 10}, {"two20", "veth2", 4, 0x88a8<<16 | 20},
	{"one30", "veth1", 5, 0x8100<<16 | 30}, {"two10", "veth2", 6, 0x8100<<16 | 10},
}

// wire is a lab whose machine forwards between all sides; there is a permanent neighbour on each.
type wire struct {
	*bpftest.Lab
	raw map[string]*netns.Raw // of the hosts, by the netdevs that they are connected to
	// macs are those of the machine's netdevs.
	macs map[string]net.HardwareAddr
}

func newWire(t *testing.T, typ cube.Type) *wire {
	t.Helper()
	need.Features(t, need.VLAN)
	o := bpftest.Options{Type: typ, Hosts: 2, Follow: true}
	if typ != cube.TypeTC {
		o.Host = []netns.Option{netns.WithoutTxChecksum(), netns.WithGRO()}
	}
	w := &wire{Lab: bpftest.New(t, o), raw: map[string]*netns.Raw{}, macs: map[string]net.HardwareAddr{}}
	ip := func(line string) { w.Lab.Lab.Run("ip", strings.Fields(line)...) }
	w.Lab.Lab.Run("sysctl", "-q", "-w", "net.ipv4.ip_forward=1", "net.ipv6.conf.all.forwarding=1", "net.ipv4.conf.all.send_redirects=0")
	for _, s := range sides {
		if s.tag != 0 {
			protocol := map[uint32]string{0x8100: "802.1Q", 0x88a8: "802.1ad"}[s.tag>>16]
			ip(fmt.Sprintf("link add link %s name %s type vlan protocol %s id %d", s.below, s.dev, protocol, s.tag&0xfff))
		}
		if s.dev == "one30" { // it may have an address of its own
			ip("link set one30 address 02:00:00:00:05:30")
		}
		w.Lab.Lab.Run("sysctl", "-q", "-w", "net.ipv6.conf."+s.dev+".disable_ipv6=0")
		ip("link set " + s.dev + " up")
		ip(fmt.Sprintf("addr add 10.0.%d.254/24 dev %s", s.number, s.dev))
		ip(fmt.Sprintf("addr add 2001:db8:%d::fe/64 dev %s nodad", s.number, s.dev))
		for _, to := range []string{fmt.Sprintf("10.0.%d.9", s.number), fmt.Sprintf("2001:db8:%d::9", s.number)} {
			ip("neigh add " + to + " lladdr " + bpftest.RouteNeighbourMAC + " dev " + s.dev + " nud permanent")
		}
	}
	w.Must(func() error {
		for _, s := range sides {
			dev, err := net.InterfaceByName(s.dev)
			if err != nil {
				return err
			}
			w.macs[s.dev] = dev.HardwareAddr
		}
		return nil
	})
	for i, h := range w.Hosts {
		w.raw[fmt.Sprint("veth", i+1)] = netns.OpenRaw(t, h, netns.Inner)
	}
	w.Create("fastpath", "f", "")
	w.Attach("f", "veth1")
	return w
}

// bypass adds the outputs, or removes them: the stack forwards everything then.
func (w *wire) bypass(on bool) {
	for i := range w.Hosts {
		if on {
			w.Set("POST", fmt.Sprint("f outputs ", i), fmt.Sprintf(`{"to":"veth%d"}`, i+1))
		} else {
			w.Set("DELETE", fmt.Sprint("f outputs ", i), "")
		}
	}
}

// trip is a packet from one side to another.
type trip struct {
	number   int // that no other has
	from, to side
	v6       bool
	priority uint32 // bits of the tag
	tos, ttl uint8
	size     int
	options  bool
}

// send sends the packet, and returns what comes out at the other side.
func (w *wire) send(p trip) ([]byte, error) {
	data := make([]byte, max(p.size, 10))
	mark := fmt.Appendf(nil, "<%08d>", p.number)
	copy(data, mark)
	address := func(s side) string {
		return map[bool]string{false: fmt.Sprintf("10.0.%d.9", s.number), true: fmt.Sprintf("2001:db8:%d::9", s.number)}[p.v6]
	}
	src, dst := address(p.from), address(p.to)
	datagram := pkt.UDPDatagram(src, dst, 1, 2, data)
	var packet []byte
	if p.v6 {
		packet = pkt.IPv6Header{From: src, To: dst, Next: pkt.ProtoUDP, HopLimit: p.ttl}.Packet(datagram)
		packet[0], packet[1] = packet[0]|p.tos>>4, p.tos<<4
	} else {
		h := pkt.IPv4Header{From: src, To: dst, Protocol: pkt.ProtoUDP, TTL: p.ttl, TOS: p.tos}
		if p.options {
			h.Options = []byte{1, 1, 1, 1}
		}
		packet = h.Packet(datagram)
	}
	frame := pkt.Eth(bpftest.RouteSenderMAC, w.macs[p.from.dev].String()).IP(packet).Bytes()
	out := w.raw[p.to.below]
	if err := w.raw[p.from.below].Send(with(p.from.tag|p.priority, frame)); err != nil {
		return nil, err
	}
	const tag = 4 // bytes; an error about the packet is longer
	return out.Recv(func(b []byte) bool { return len(b) <= len(frame)+tag && bytes.Contains(b, mark) }, bpftest.Patience)
}

// redirects sends a packet, and returns what comes out and whether the bypass sent it.
func (w *wire) redirects(t *testing.T, p trip) (frame []byte, bypassed bool) {
	t.Helper()
	before := w.Fates("f")["redirected"]
	frame, err := w.send(p)
	if err != nil {
		t.Fatalf("%+v: %v", p, err)
	}
	return frame, w.Fates("f")["redirected"] > before
}

// eventually waits until packets are redirected, or are not.
func (w *wire) eventually(t *testing.T, what string, p trip, bypassed bool) (frame []byte) {
	t.Helper()
	netns.Eventually(t, bpftest.Patience, func() (err error) {
		var is bool
		p.number++
		if frame, is = w.redirects(t, p); is != bypassed {
			return fmt.Errorf("%s: %+v: redirected %v, want %v; to the stack %v", what, p, is, bypassed, counters(w.Lab))
		}
		return nil
	})
	return frame
}

// random is a packet of any kind.
func random(number int, r *rand.Rand) trip {
	p := trip{number: number, from: sides[[]int{0, 2, 4}[r.IntN(3)]], to: sides[r.IntN(len(sides))], v6: r.IntN(2) == 0, tos: uint8(r.IntN(64)) << 2, ttl: 64, size: 10 + r.IntN(1200)}
	if p.from == p.to {
		p.to = sides[1]
	}
	if p.from.tag != 0 {
		p.priority = uint32(r.IntN(16)) << 12
	}
	switch r.IntN(8) {
	case 0:
		p.ttl = 2
	case 1:
		p.options = !p.v6
	}
	return p
}

// TestFramesAreThoseOfTheStack: the bypass sends byte by byte what the stack sends, from and to VLANs of either EtherType, and back
// by the same wire.
func TestFramesAreThoseOfTheStack(t *testing.T) {
	need.Features(t, need.VLAN)
	for _, typ := range []cube.Type{cube.TypeTC, cube.TypeXDPSKB, cube.TypeXDPDRV} {
		t.Run(strings.ToLower(string(typ)), func(t *testing.T) {
			w := newWire(t, typ)
			r := rand.New(rand.NewPCG(repeat.Seed(t), 0))
			trips := make([]trip, 150)
			stack := make([][]byte, len(trips))
			for i := range trips {
				trips[i] = random(i, r)
				var err error
				if stack[i], err = w.send(trips[i]); err != nil {
					t.Fatalf("by the stack: %+v: %v", trips[i], err)
				}
			}
			w.bypass(true)
			for _, from := range []side{sides[0], sides[2], sides[4]} {
				for _, to := range sides {
					if from != to {
						w.eventually(t, "at the start", trip{number: 1_000_000, from: from, to: to, ttl: 64}, true)
					}
				}
			}
			before, fast := w.Fates("f")["redirected"], uint64(0)
			for i, p := range trips {
				got, err := w.send(p)
				if err != nil || !bytes.Equal(got, stack[i]) {
					t.Errorf("%+v: %v\n     bypass %x\n  the stack %x", p, err, got, stack[i])
				}
				if !p.options {
					fast++
				}
			}
			if n := w.Fates("f")["redirected"] - before; n != fast {
				t.Errorf("%d packets were redirected, want %d of %d", n, fast, len(trips))
			}
		})
	}
}

// TestVLANNetdevsThatDoMoreAreLeftToTheStack: with priorities, or masters, or other netdevs on them.
func TestVLANNetdevsThatDoMoreAreLeftToTheStack(t *testing.T) {
	need.Features(t, need.VLAN)
	for _, typ := range []cube.Type{cube.TypeTC, cube.TypeXDPDRV} {
		t.Run(strings.ToLower(string(typ)), func(t *testing.T) {
			w := newWire(t, typ)
			w.bypass(true)
			number := 0
			// The first goes from a VLAN netdev, the second to it.
			checks := func(what string, want bool) {
				t.Helper()
				for _, p := range []trip{{from: sides[2], to: sides[1], ttl: 64}, {from: sides[0], to: sides[2], ttl: 64}} {
					number += 1_000_000
					p.number = number
					w.eventually(t, what, p, want)
				}
			}
			ip := func(line string) { w.Lab.Lab.Run("ip", strings.Fields(line)...) }
			checks("at the start", true)
			for _, c := range []struct{ what, do, undo string }{
				{"priorities of sent frames", "link set one10 type vlan egress-qos-map 0:5", "link set one10 type vlan egress-qos-map 0:0"},
				{"priorities of received frames", "link set one10 type vlan ingress-qos-map 3:4", "link set one10 type vlan ingress-qos-map 3:0"},
				{"headers that are not moved", "link set one10 type vlan reorder_hdr off", "link set one10 type vlan reorder_hdr on"},
				{"a macvlan", "link add link one10 name mac0 type macvlan", "link del mac0"},
			} {
				ip(c.do)
				checks(c.what, false)
				ip(c.undo)
				checks("without "+c.what, true)
			}
			ip("link set one10 type vlan egress-qos-map 0:5")
			w.eventually(t, "a priority", trip{number: 1, from: sides[0], to: sides[2], ttl: 64}, false)
			frame, _ := w.redirects(t, trip{number: 100, from: sides[0], to: sides[2], ttl: 64})
			if got := fmt.Sprintf("%x", frame[12:16]); got != "8100a00a" {
				t.Errorf("a frame of priority 5 has the tag %s", got)
			}
			ip("link set one10 type vlan egress-qos-map 0:0")
			checks("without a priority", true)
			// A daemon that starts finds them.
			w.Restart(nil)
			checks("after a restart", true)
		})
	}
}

// TestHostsInVLANsTalkThroughTheFastPath: TCP and ping between two VLANs, whose tags are outside the frames where no program at XDP
// needs them.
func TestHostsInVLANsTalkThroughTheFastPath(t *testing.T) {
	need.Features(t, need.VLAN)
	for _, typ := range []cube.Type{cube.TypeTC, cube.TypeXDPSKB, cube.TypeXDPDRV} {
		t.Run(strings.ToLower(string(typ)), func(t *testing.T) {
			o := bpftest.Options{Type: typ, Hosts: 2, Follow: true}
			if typ != cube.TypeTC {
				o.Host = []netns.Option{netns.WithoutTxChecksum(), netns.WithGRO()}
			}
			l := bpftest.New(t, o)
			l.Lab.Run("sysctl", "-q", "-w", "net.ipv4.ip_forward=1")
			for i, h := range l.Hosts {
				id := fmt.Sprint(10 * (i + 1))
				l.Lab.Run("ip", "link", "add", "link", fmt.Sprint("veth", i+1), "name", "vlan"+id, "type", "vlan", "id", id)
				l.Lab.Run("ip", "addr", "add", fmt.Sprintf("10.0.%d.254/24", i+1), "dev", "vlan"+id)
				l.Lab.Run("ip", "link", "set", "vlan"+id, "up")
				h.Run("ip", "link", "add", "link", netns.Inner, "name", "vlan"+id, "type", "vlan", "id", id)
				h.Run("ip", "addr", "add", fmt.Sprintf("10.0.%d.1/24", i+1), "dev", "vlan"+id)
				h.Run("ip", "link", "set", "vlan"+id, "up")
				h.Run("ip", "route", "add", "default", "via", fmt.Sprintf("10.0.%d.254", i+1))
			}
			cross(t, l, typ)
		})
	}
}
