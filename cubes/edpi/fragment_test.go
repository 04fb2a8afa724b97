// SPDX-License-Identifier: Apache-2.0

package edpi_test

// Fragments: the later ones belong to the flow of the first one.

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/polycube/polycube/dpi"
	"github.com/polycube/polycube/test/pkt"
)

const client6, server6 = "2001:db8::1", "2001:db8::2"

// piece is a fragment of a datagram of UDP from the client, from port 1 to 53: bytes from to end of it.
func piece(six bool, id uint16, from, end int, more bool) []byte {
	f := pkt.Eth(clientMAC, serverMAC)
	flag := func(bit uint16) uint16 {
		if more {
			return bit
		}
		return 0
	}
	if six {
		data := pkt.UDPDatagram(client6, server6, 1, 53, make([]byte, 192))[from:end]
		h := pkt.IPv6Header{From: client6, To: server6, Next: 44, HopLimit: 64}
		return f.IP(h.Packet(slices.Concat(pkt.IPv6Fragment(pkt.ProtoUDP, uint16(from)|flag(1), uint32(id)), data))).Bytes()
	}
	data := pkt.UDPDatagram(client, server, 1, 53, make([]byte, 192))[from:end]
	return f.IP(pkt.IPv4Header{From: client, To: server, Protocol: pkt.ProtoUDP, TTL: 64, ID: id, Fragment: uint16(from/8) | flag(0x2000)}.Packet(data)).Bytes()
}

// eachFamily runs a test for both hooks and families.
func eachFamily(t *testing.T, conf string, test func(t *testing.T, r *rig, six bool)) {
	for name, six := range map[string]bool{"IPv4": false, "IPv6": true} {
		t.Run(name, func(t *testing.T) {
			each(t, conf, func(t *testing.T, r *rig) { test(t, r, six) })
		})
	}
}

func TestLaterFragmentsBelongToTheFlowOfTheFirst(t *testing.T) {
	eachFamily(t, `{"policy":[{"kind":"PROTOCOL","name":"DNS","action":"DROP"}]}`, func(t *testing.T, r *rig, six bool) {
		r.announce()
		first, middle, last := piece(six, 7, 0, 96, true), piece(six, 7, 96, 144, true), piece(six, 7, 144, 200, false)
		sum := len(first) + len(middle) + len(last)
		r.run("first", "veth1", first, "")
		r.run("middle", "veth1", middle, "")
		r.run("last", "veth1", last, "")
		r.run("of another datagram", "veth1", piece(six, 8, 96, 144, true), "")
		if got := r.packets(); len(got) != 1 {
			t.Errorf("%d packets are inspected, want the first fragment", len(got))
		}
		flows := r.entries()
		if len(flows) != 1 || flows[0].SourcePort != 1 || flows[0].DestinationPort != 53 || flows[0].Packets != 3 || flows[0].Bytes != sum {
			t.Errorf("flows are %+v, want one with ports 1 and 53, 3 packets and %d bytes", flows, sum)
		}
		if is := r.classes("protocol"); is["undecided"].Packets != 3 || is["fragment"].Packets != 1 {
			t.Errorf("sums are %+v, want 3 undecided packets and one fragment", is)
		}
		r.decide(first, dpi.Class{Protocol: dns})
		r.run("of a datagram that began before the decision", "veth1", last, "policy")
		r.run("the first of another one", "veth1", piece(six, 9, 0, 96, true), "policy")
		r.run("and its other one", "veth1", piece(six, 9, 96, 200, false), "policy")
		r.run("whose first one was not seen", "veth1", piece(six, 10, 96, 200, false), "")
		if got := strings.Trim(r.Read("c statistics fragments"), `"`); got != "4" {
			t.Errorf("fragments is %s, want 4", got)
		}
		if is := r.classes("protocol"); is["DNS"].Packets != 6 || is["DNS"].Flows != 1 || is["fragment"].Packets != 2 {
			t.Errorf("sums are %+v, want 6 packets of DNS and 2 fragments", is)
		}
	})
}

func TestFragmentsWithoutTheirFirstAreUndecided(t *testing.T) {
	eachFamily(t, `{"undecided":"DROP"}`, func(t *testing.T, r *rig, six bool) {
		r.alive(true)
		stray := piece(six, 7, 96, 144, true)
		r.run("undecided", "veth1", stray, "undecided")
		r.Set("PATCH", "c on-failure", `"CLOSED"`)
		r.alive(false)
		r.run("without classifier", "veth1", stray, "no-classifier")
		r.Set("PATCH", "c mode", `"MIRROR"`)
		r.run("in MIRROR", "veth1", stray, "")
		if is := r.classes("protocol"); is["fragment"].Packets != 3 || is["fragment"].Bytes != uint64(3*len(stray)) || is["undecided"].Packets != 0 {
			t.Errorf("sums are %+v, want 3 fragments of %d bytes", is, 3*len(stray))
		}
		if got := r.entries(); len(got) != 0 {
			t.Errorf("flows are %+v, want none", got)
		}
		r.Set("PATCH", "c mode", `"INLINE"`)
		r.alive(true)
		r.run("the first one", "veth1", piece(six, 7, 0, 96, true), "undecided")
		r.decide(piece(six, 7, 0, 96, true), dpi.Class{Protocol: dns})
		r.run("of a flow that is decided", "veth1", stray, "")
	})
}

func TestAFragmentThatOverwritesTheFirstOneIsNotOfItsFlow(t *testing.T) {
	each(t, `{"undecided":"DROP"}`, func(t *testing.T, r *rig) {
		r.alive(true)
		part := func(offset uint16, more uint16, data []byte) []byte {
			h := pkt.IPv4Header{From: client, To: server, Protocol: pkt.ProtoTCP, TTL: 64, ID: 3, Fragment: offset/8 | more}
			return pkt.Eth(clientMAC, serverMAC).IP(h.Packet(data)).Bytes()
		}
		segment := pkt.Eth(clientMAC, serverMAC).IPv4(client, server).TCP(1, 80, pkt.TCPFlags{ACK: true}).Payload(60).Bytes()[34:]
		first := part(0, 0x2000, segment[:40])
		r.run("the first one", "veth1", first, "undecided")
		r.decide(first, dpi.Class{Protocol: tls})
		for _, tt := range []struct {
			at   uint16
			want string
		}{{8, "undecided"}, {16, "undecided"}, {24, ""}, {40, ""}} {
			r.run(fmt.Sprintf("at byte %d", tt.at), "veth1", part(tt.at, 0, segment[tt.at:]), tt.want)
		}
	})
}

func TestTheFirstFragmentMayHaveHeadersThatOthersDoNotHave(t *testing.T) {
	each(t, "", func(t *testing.T, r *rig) {
		frame := func(offset uint16, next byte, data []byte) []byte {
			h := pkt.IPv6Header{From: client6, To: server6, Next: 44, HopLimit: 64}
			return pkt.Eth(clientMAC, serverMAC).IP(h.Packet(slices.Concat(pkt.IPv6Fragment(next, offset, 5), data))).Bytes()
		}
		whole := slices.Concat(pkt.IPv6Extension(pkt.ProtoUDP), pkt.UDPDatagram(client6, server6, 1, 53, make([]byte, 192)))
		r.run("options, then UDP", "veth1", frame(1, 60, whole[:96]), "")
		r.run("the rest", "veth1", frame(96, 60, whole[96:]), "")
		if flows := r.entries(); len(flows) != 1 || flows[0].L4 != "UDP" || flows[0].SourcePort != 1 || flows[0].Packets != 2 {
			t.Errorf("flows are %+v, want one of UDP from port 1 with 2 packets", flows)
		}
	})
}
