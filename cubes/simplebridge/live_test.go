// SPDX-License-Identifier: Apache-2.0

package simplebridge

import (
	"bytes"
	"strings"
	"testing"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/test/bpftest"
	"github.com/polycube/polycube/test/netns"
	"github.com/polycube/polycube/test/pkt"
)

// kinds of frames from station one to station two.
func kinds(to string) map[string][]byte {
	fragment := pkt.IPv4Options{ID: 7, MoreFragments: true}
	last := pkt.IPv4Options{ID: 7, Offset: 185}
	return map[string][]byte{
		"nothing but a header":      pkt.Eth(one, to).Bytes(),
		"ARP":                       pkt.Eth(one, to).ARPRequest(one, "10.0.0.1", "10.0.0.2").Bytes(),
		"IPv4":                      pkt.Eth(one, to).IPv4("10.0.0.1", "10.0.0.2").UDP(1, 2).Payload(100).Bytes(),
		"IPv6":                      pkt.Eth(one, to).IPv6("fd00::1", "fd00::2").TCP(1, 2, pkt.TCPFlags{SYN: true}).Payload(100).Bytes(),
		"a VLAN tag":                pkt.Eth(one, to).PriorityVLAN(10, 3).IPv4("10.0.0.1", "10.0.0.2").UDP(1, 2).Payload(50).Bytes(),
		"two tags":                  pkt.Eth(one, to).ServiceVLAN(100).VLAN(10).IPv4("10.0.0.1", "10.0.0.2").UDP(1, 2).Payload(50).Bytes(),
		"an IP header that is cut":  pkt.Eth(one, to).EtherType(0x0800).Data([]byte{0x45, 0, 0, 99}).Bytes(),
		"a length in place of type": pkt.Eth(one, to).EtherType(38).Payload(38).Bytes(),
		"the first fragment":        pkt.Eth(one, to).IPv4("10.0.0.1", "10.0.0.2", fragment).Payload(1480).Bytes(),
		"the last fragment":         pkt.Eth(one, to).IPv4("10.0.0.1", "10.0.0.2", last).Payload(33).Bytes(),
		"a jumbo frame":             pkt.Eth(one, to).IPv4("10.0.0.1", "10.0.0.2").UDP(1, 2).Payload(8000).Bytes(),
		"a jumbo frame with a tag":  pkt.Eth(one, to).VLAN(10).IPv4("10.0.0.1", "10.0.0.2").UDP(1, 2).Payload(8000).Bytes(),
	}
}

func TestFramesOfAllKindsArriveUnharmed(t *testing.T) {
	for _, typ := range []cube.Type{cube.TypeTC, cube.TypeXDPSKB, cube.TypeXDPDRV} {
		t.Run(strings.ToLower(string(typ)), func(t *testing.T) {
			t.Parallel()
			mtu := bpftest.LongestMTU(t, typ)
			l := bpftest.New(t, bpftest.Options{Type: typ, Host: []netns.Option{netns.WithMTU(mtu)}})
			l.Create("simplebridge", "br", threePorts)
			wires := l.Wires()
			hello := pkt.Eth(two, pkt.Broadcast).Data([]byte("here is station two")).Bytes()
			wires[1].Puts(hello)
			wires[0].Gets(hello)
			wires[2].Gets(hello)
			for name, f := range kinds(two) {
				if len(f) > mtu+14 {
					continue
				}
				t.Run(name, func(t *testing.T) {
					wires[0].Puts(f)
					wires[1].Gets(f)
					copies := bytes.Replace(f, f[:6], []byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff}, 1)
					wires[0].Puts(copies)
					wires[1].Gets(copies)
					wires[2].Gets(copies)
					if wires[2].Got(f) {
						t.Error("a frame for station two came to station three")
					}
				})
			}
			for _, port := range []string{"p1", "p2"} {
				if c := l.Counters("br", port); c.RxPackets == 0 || c.TxPackets == 0 {
					t.Errorf("port %s counted %+v", port, c)
				}
			}
		})
	}
}

// A chain of two bridges: frames flooded by the first enter the second's programs.
func TestBridgesInAChain(t *testing.T) {
	for _, typ := range []cube.Type{cube.TypeTC, cube.TypeXDPDRV} {
		t.Run(strings.ToLower(string(typ)), func(t *testing.T) {
			t.Parallel()
			l := bpftest.New(t, bpftest.Options{Type: typ})
			l.Create("simplebridge", "br", `{"ports":[{"name":"p1","peer":"veth1"},{"name":"p2","peer":"veth2"},{"name":"up"}]}`)
			l.Create("simplebridge", "far", `{"ports":[{"name":"p3","peer":"veth3"},{"name":"down"}]}`)
			l.Connect("br:up", "far:down")
			wires := l.Wires()
			ask := pkt.Eth(one, pkt.Broadcast).Data([]byte("who has it")).Bytes()
			wires[0].Puts(ask)
			wires[1].Gets(ask)
			wires[2].Gets(ask)
			answer := pkt.Eth(three, one).Data([]byte("I have")).Bytes()
			wires[2].Puts(answer)
			wires[0].Gets(answer)
			got := l.Run("veth1", frame(one, three))
			if want := (bpftest.Outcome{Verdict: "send", Sent: "br:up far:p3"}); got != want {
				t.Errorf("got %+v, want %+v", got, want)
			}
			wantShown(t, l, map[string]string{one: "p1", three: "up"})
		})
	}
}
