// SPDX-License-Identifier: Apache-2.0

package datapath

import (
	"testing"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/internal/datapath/link"
	"github.com/polycube/polycube/test/netns"
)

// offering makes a cube that offers to its port 1, with a transparent cube before one that accepts offers and one
// behind it.
func (b *bench) offering() (c, taker *Node, a, wan, z *netns.Node) {
	c = b.cube("offering", 3, nil)
	a, wan, z = b.host("a", "", c, 0), b.host("w", "", c, 1), b.host("z", "", c, 2)
	inner, outer := b.gates("i")[0], b.gates("o")[0]
	taker = b.cube("taker", 0, map[string]any{"offered": uint32(0)})
	c.Ports[1].Tcubes = []CubeID{inner, taker.ID, outer}
	return c, taker, a, wan, z
}

func TestOfferedPacketsNeverLeave(t *testing.T) {
	everywhere(t, func(t *testing.T, b *bench) {
		c, taker, a, wan, z := b.offering()
		b.commit()
		outside := b.listeners(wan)[0]
		b.send(a, frame("nobody takes it"))
		b.eventually(c, "own-0", 1)

		taker.Constants = map[string]any{"offered": uint32(1)}
		b.commit()
		if got := marks(b.passes(a, z, frame("turned"))); got != "ii" {
			t.Errorf("the letters of a packet that was turned are %q, want those of the inner cube, out and in", got)
		}
		// Sent from the port to which it was offered, it leaves like any other packet.
		c.Constants = map[string]any{"out": uint16(1)}
		b.commit()
		if got := marks(b.passes(a, wan, frame("sent on"))); got != "iiio" {
			t.Errorf("the letters of a packet that was turned and sent are %q, want iiio", got)
		}
		if f, err := outside.Recv(isTest, soon); err != nil || string(f[30:37]) != "sent on" {
			t.Errorf("the first packet that left is %q, %v: an offered one did", f, err)
		}

		c.Constants = nil
		c.Ports[1].Tcubes = []CubeID{c.Ports[1].Tcubes[0], c.Ports[1].Tcubes[2]}
		b.commit()
		b.send(a, frame("there is nobody to take it"))
		b.eventually(c, "no-offers", 1)
		if got := b.counters(c, 1); got.TxPackets != 1 || got.RxPackets != 0 {
			t.Errorf("the port counts %+v, want the one packet that left", got)
		}
	})
}

// TestToTheNextCubeAPacketIsLikeAnyOther: only a cube and the cubes on its ports see that the packet was turned.
func TestToTheNextCubeAPacketIsLikeAnyOther(t *testing.T) {
	everywhere(t, func(t *testing.T, b *bench) {
		c, taker, a, _, _ := b.offering()
		next := b.cube("offering", 3, nil)
		c.Ports[2].Peer = Peer{}
		b.link(c, 2, next, 2)
		taker.Constants = map[string]any{"offered": uint32(1)}
		b.commit()
		b.send(a, frame("turned, then sent"))
		b.eventually(next, "no-offers", 1)
	})
}

// TestATraceShowsOffers: each step of packets that come back and of packets that are turned.
func TestATraceShowsOffers(t *testing.T) {
	in(t, append(hooksAndModes[:len(hooksAndModes):len(hooksAndModes)], settings[6], settings[7]), func(t *testing.T, b *bench) {
		c, taker, _, _, _ := b.offering()
		b.commit()
		want := "offering1:0 in offer 1; gate2:0 out pass; taker4:0 out pass; offering1:0 in drop 32"
		if got := b.injects(Injection{Cube: c.ID, Frame: frame("")}); got != want {
			t.Errorf("nobody takes it:\n%s, want\n%s", got, want)
		}
		taker.Constants = map[string]any{"offered": uint32(1)}
		b.commit()
		want = "offering1:0 in offer 1; gate2:0 out pass; taker4:0 out turn; taker4:0 in pass; gate2:0 in pass; " +
			"offering1:1 in send 2; offering1 leaves by z"
		if got := b.injects(Injection{Cube: c.ID, Frame: frame("")}); got != want {
			t.Errorf("it is turned:\n%s, want\n%s", got, want)
		}
		c.Constants = map[string]any{"to": uint16(0)}
		b.commit()
		want = "offering1:2 in offer 0; offering1:2 in drop 34"
		if got := b.injects(Injection{Cube: c.ID, Port: 2, Frame: frame("")}); got != want {
			t.Errorf("to a port without transparent cubes:\n%s, want\n%s", got, want)
		}
	})
}

// TestACaptureShowsAnOfferedPacketOnce: where it came in.
func TestACaptureShowsAnOfferedPacketOnce(t *testing.T) {
	in(t, hooksAndModes, func(t *testing.T, b *bench) {
		c, _, a, _, _ := b.offering()
		b.traces(link.Session{Capture: &link.Capture{Cube: uint16(c.ID), Port: 0}})
		b.send(a, frame(""))
		b.eventually(c, "own-0", 1)
		received := 0
		for _, s := range b.steps() {
			if s.stage == link.StageIn {
				received++
			}
		}
		if received != 1 {
			t.Errorf("the packet was captured %d times as received", received)
		}
	})
}

// TestOffersGoThroughTheSlowPath: a record says that the packet is offered, and where it came in, so that it can return
// in the same way.
func TestOffersGoThroughTheSlowPath(t *testing.T) {
	in(t, hooksAndModes, func(t *testing.T, b *bench) {
		_, taker, _, _, z := b.offering()
		taker.Constants = map[string]any{"offered": uint32(2)}
		b.commit()
		b.send(z, frame(""))
		b.eventually(taker, "slowpath", 1)
		rs := b.records()
		if len(rs) != 1 || rs[0].cube != uint16(taker.ID) || rs[0].flags>>16 != recordOffered|2<<recordFrom {
			t.Errorf("records %+v, want one of an offered packet from port 2", rs)
		}
	})
}

const recordOffered, recordFrom = 0x20, 7

// TestServicesThatOfferAreTriedSo: with the constant that tells their programs that offers have a receiver.
func TestServicesThatOfferAreTriedSo(t *testing.T) {
	netns.NeedRoot(t)
	t.Parallel()
	report, err := Try(t.Context(), Trial{Service: "offering", Objects: map[cube.Hook][]byte{cube.TC: offeringTC, cube.XDP: offeringXDP}})
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range report.Loads {
		if l.At == "a cube that offers packets" {
			return
		}
	}
	t.Errorf("no program was tried that offers: %+v", report.Loads)
}
