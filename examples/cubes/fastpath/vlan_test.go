// SPDX-License-Identifier: Apache-2.0

package fastpath_test

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/test/bpftest"
	"github.com/polycube/polycube/test/netns"
	"github.com/polycube/polycube/test/pkt"
)

// The tags of the two VLAN netdevs: veth3 stands for one on veth1, veth4 for one on veth2.
const (
	tag3 = 0x8100<<16 | 10
	tag4 = 0x88a8<<16 | 20
)

// The MAC addresses of the VLAN netdevs.
const (
	mac3 = "02:00:00:00:03:01"
	mac4 = "02:00:00:00:04:01"
)

// trunked is a lab with a fast path on veth1 and outputs to both netdevs that have VLAN netdevs.
func trunked(t *testing.T, l *bpftest.Lab) bpftest.Route {
	t.Helper()
	r := l.Route()
	for i, mac := range map[int]string{3: mac3, 4: mac4} {
		dev := fmt.Sprint("veth", i)
		l.Lab.Run("sysctl", "-q", "-w", "net.ipv6.conf."+dev+".disable_ipv6=0")
		l.Lab.Run("ip", "link", "set", dev, "address", mac)
		l.Lab.Run("ip", "addr", "add", fmt.Sprintf("10.0.%d.254/24", i), "dev", dev)
		l.Lab.Run("ip", "addr", "add", fmt.Sprintf("2001:db8:%d::fe/64", i), "dev", dev, "nodad")
	}
	for _, i := range []int{1, 3, 4} {
		for _, to := range []string{fmt.Sprintf("10.0.%d.9", i), fmt.Sprintf("2001:db8:%d::9", i)} {
			l.Lab.Run("ip", "neigh", "replace", to, "lladdr", bpftest.RouteNeighbourMAC, "dev", fmt.Sprint("veth", i), "nud", "permanent")
		}
	}
	l.Create("fastpath", "f", `{"outputs":[{"number":5,"to":"veth2"},{"number":6,"to":"veth1"}]}`)
	l.Attach("f", "veth1")
	return r
}

var trunk = bpftest.Options{Hosts: 4, Follow: true, VLANs: map[string]bpftest.VLAN{
	"veth3": {On: "veth1", Protocol: 0x8100, ID: 10}, "veth4": {On: "veth2", Protocol: 0x88a8, ID: 20},
}}

// network is a netdev of the lab, as its neighbours see it.
type network struct {
	number int
	mac    string
	tag    uint32 // 0: none
}

var networks = []network{{1, bpftest.RouteMAC, 0}, {2, bpftest.RouteSentMAC, 0}, {3, mac3, tag3}, {4, mac4, tag4}}

// datagram is one to the neighbour in a network, without a tag, of either family.
func datagram(from, to network, v6 bool, size int) []byte {
	eth := pkt.Eth(bpftest.RouteSenderMAC, from.mac)
	if v6 {
		src, dst := fmt.Sprintf("2001:db8:%d::9", from.number), fmt.Sprintf("2001:db8:%d::9", to.number)
		return eth.IP(pkt.IPv6Header{From: src, To: dst, Next: pkt.ProtoUDP, HopLimit: 64}.Packet(pkt.UDPDatagram(src, dst, 1, 2, make([]byte, size)))).Bytes()
	}
	src, dst := fmt.Sprintf("10.0.%d.9", from.number), fmt.Sprintf("10.0.%d.9", to.number)
	return eth.IP(pkt.IPv4Header{From: src, To: dst, Protocol: pkt.ProtoUDP, TTL: 64}.Packet(pkt.UDPDatagram(src, dst, 1, 2, make([]byte, size)))).Bytes()
}

// with puts a tag into a frame, unless it is 0.
func with(tag uint32, frame []byte) []byte {
	if tag == 0 {
		return frame
	}
	return pkt.Tagged(frame, tag)
}

// TestTaggedFramesAreThoseOfTheirNetdevs: from and to VLANs, also back by the same link.
func TestTaggedFramesAreThoseOfTheirNetdevs(t *testing.T) {
	bpftest.Each(t, trunk, func(t *testing.T, l *bpftest.Lab) {
		r := trunked(t, l)
		for _, from := range []network{networks[0], networks[2]} {
			for _, to := range networks {
				for _, v6 := range []bool{false, true} {
					for _, priority := range []uint32{0, 5<<13 | 1<<12} {
						if from == to || from.tag == 0 && priority != 0 {
							continue
						}
						plain := datagram(from, to, v6, 40)
						want := pkt.Hop(bytes.Clone(plain))
						copy(want, pkt.MAC(bpftest.RouteNeighbourMAC))
						copy(want[6:], pkt.MAC(to.mac))
						fate := "f redirected"
						if l.Type.Hook() == cube.XDP { // at TC, the VLAN netdev adds the tag, and programs at egress run later
							want = with(to.tag, want)
							if to.number == 1 || to.number == 3 {
								fate = "f pass, f redirected" // the cube is there at egress, too
							}
						}
						r.Wants(fmt.Sprintf("from %+v to %+v, IPv6 %v, priority %x", from, to, v6, priority), with(from.tag|priority, plain),
							bpftest.Outcome{Verdict: "send", Fate: fate}, want)
					}
				}
			}
		}
	})
}

func TestTheStackGetsOtherTaggedFrames(t *testing.T) {
	bpftest.Each(t, trunk, func(t *testing.T, l *bpftest.Lab) {
		r := trunked(t, l)
		three, two := networks[2], networks[1]
		plain := datagram(three, two, false, 40)
		expired := bytes.Clone(plain)
		expired[22] = 1 // and the checksum is wrong
		elsewhere := bytes.Clone(plain)
		copy(elsewhere, pkt.MAC(bpftest.RouteMAC)) // of the netdev below
		l.Lab.Run("ip", "link", "set", "veth4", "mtu", "1400")
		passes := func(what, counter string, frame []byte) {
			t.Helper()
			netns.Eventually(t, bpftest.Patience, func() error {
				before := counters(l)
				want := bpftest.Outcome{Verdict: "pass", Fate: "f pass"}
				if out, got, err := l.TryBytes("veth1", frame); err != nil || out != want || !bytes.Equal(got, frame) {
					return fmt.Errorf("%s: %+v, %x, %w", what, out, got, err)
				}
				for name, n := range counters(l) {
					if n-before[name] != map[bool]uint64{true: 1}[name == counter] {
						return fmt.Errorf("%s: counter %s has grown by %d", what, name, n-before[name])
					}
				}
				return nil
			})
		}
		works := func(what string) {
			t.Helper()
			want := r.Next(plain)
			r.Wants(what, with(tag3, plain), bpftest.Outcome{Verdict: "send", Fate: "f redirected"}, want)
		}
		works("at the start")
		passes("an unknown VLAN", "not-routed", with(tag3+1, plain))
		passes("only a priority", "not-routed", with(0x8100<<16|5<<13, plain))
		passes("another EtherType of the tag", "not-routed", with(0x88a8<<16|10, plain))
		passes("two tags", "not-routed", pkt.Tagged(plain, tag3, tag3))
		passes("a tag and a priority", "not-routed", pkt.Tagged(plain, tag3, 0x8100<<16))
		passes("a tag of another netdev's VLAN", "not-routed", with(tag4, plain))
		passes("the address of the netdev below", "not-routed", with(tag3, elsewhere))
		passes("ARP", "not-routed", with(tag3, pkt.Eth(bpftest.RouteSenderMAC, mac3).ARPRequest(bpftest.RouteSenderMAC, "10.0.3.9", "10.0.3.254").Bytes()))
		passes("the last TTL", "exception", with(tag3, expired))
		passes("back where it came from", "no-output", with(tag3, datagram(three, three, false, 40)))
		passes("longer than the MTU of the VLAN netdev", "no-way", datagram(networks[0], networks[3], false, 1373))
		passes("cut off behind the tag", "not-routed", with(tag3, plain)[:17])

		l.Lab.Run("sysctl", "-q", "-w", "net.ipv4.conf.veth3.forwarding=0")
		passes("a VLAN netdev that does not forward", "no-way", with(tag3, plain))
		l.Lab.Run("sysctl", "-q", "-w", "net.ipv4.conf.veth3.forwarding=1", "net.ipv4.conf.veth1.forwarding=0")
		works("only the netdev below does not forward")
		l.Lab.Run("sysctl", "-q", "-w", "net.ipv4.conf.veth1.forwarding=1")
		l.Lab.Run("ip", "link", "set", "veth3", "down")
		passes("a VLAN netdev that is down", "not-routed", with(tag3, plain))
		l.Lab.Run("ip", "link", "set", "veth3", "up")
		works("it is up")
		l.Create("fastpath", "other", "")
		l.Attach("other", "veth3")
		passes("a cube is on the VLAN netdev", "not-routed", with(tag3, plain))
		l.Detach("other", "veth3")
		works("no cube is")
		l.Set("DELETE", "f outputs 5", "")
		passes("without an output", "no-output", with(tag3, plain))
	})
}
