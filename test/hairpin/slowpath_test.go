// SPDX-License-Identifier: Apache-2.0

package hairpin

// Hairpinned packets that the router's control plane processes: errors about them go back through the translation, and
// queued or fragmented ones continue where they were.

import (
	"bytes"
	"encoding/binary"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/test/bpftest"
	"github.com/polycube/polycube/test/pkt"
)

// onWires runs a test with a gateway and the ends of its hosts' links.
func onWires(t *testing.T, test func(g *gateway, wires []*bpftest.Wire)) {
	t.Parallel()
	for _, typ := range []cube.Type{cube.TypeTC, cube.TypeXDPDRV, cube.TypeXDPSKB} {
		t.Run(strings.ToLower(string(typ)), func(t *testing.T) {
			t.Parallel()
			g := newGateway(t, bpftest.New(t, bpftest.Options{Type: typ}))
			test(g, g.Wires())
		})
	}
}

// wantError waits for an error about a frame that a host sent, and compares it with the expected one.
func (g *gateway) wantError(w *bpftest.Wire, what string, kind, code byte, word uint32, sent []byte) {
	g.t.Helper()
	six := binary.BigEndian.Uint16(sent[12:]) == 0x86dd
	proto, head := 23, 34
	if six {
		proto, head = 20, 54
	}
	got, err := w.Recv(func(f []byte) bool {
		return len(f) > head+8 && f[12] == sent[12] && f[13] == sent[13] && (f[proto] == 1 || f[proto] == 58) && f[head] == kind
	}, bpftest.Patience)
	if err != nil {
		g.t.Fatalf("%s: no error comes: %v", what, err)
	}
	from, to, length := netip.AddrFrom4([4]byte(got[26:30])), netip.AddrFrom4([4]byte(got[30:34])), int(binary.BigEndian.Uint16(got[16:]))
	pseudo := []byte{}
	if six {
		from, to = netip.AddrFrom16([16]byte(got[22:38])), netip.AddrFrom16([16]byte(got[38:54]))
		length = 40 + int(binary.BigEndian.Uint16(got[18:]))
		pseudo = slices.Concat(got[22:54], []byte{0, 0, byte((length - 40) >> 8), byte(length - 40), 0, 0, 0, 58})
	}
	want := []netip.Addr{netip.MustParseAddr(wan), netip.MustParseAddr(client)}
	if six {
		want = []netip.Addr{netip.MustParseAddr(wan6), netip.MustParseAddr(client6)}
	}
	if from != want[0] || to != want[1] || got[head+1] != code || binary.BigEndian.Uint32(got[head+4:]) != word {
		g.t.Errorf("%s: an error from %s to %s with code %d and %d, want %s to %s, %d and %d", what, from, to, got[head+1],
			binary.BigEndian.Uint32(got[head+4:]), want[0], want[1], code, word)
	}
	message := got[head : 14+length]
	if s := pkt.Sum(pseudo, message); s != 0xffff || !six && pkt.Sum(got[14:34]) != 0xffff {
		g.t.Errorf("%s: the checksums add up to %04x and %04x", what, s, pkt.Sum(got[14:34]))
	}
	if about := message[8:]; !bytes.HasPrefix(sent[14:], about) || len(about) < 48 {
		g.t.Errorf("%s: it is about\n%x, sent was\n%x", what, about, sent[14:])
	}
}

func TestErrorsOfTheRouterAboutHairpinnedPackets(t *testing.T) {
	onWires(t, func(g *gateway, wires []*bpftest.Wire) {
		ends := pkt.Eth(clientMAC, lanMAC).IPv4(client, wan, pkt.IPv4Options{TTL: 1}).UDP(4000, 8080).Payload(40).Bytes()
		wires[0].Puts(ends)
		g.wantError(wires[0], "the TTL ends", 11, 0, 0, ends)
		ends = fromTo(clientMAC, lanMAC, client6, wan6).UDP(4000, 8080).Payload(40).Bytes()
		ends[21] = 1
		wires[0].Puts(ends)
		g.wantError(wires[0], "the hop limit ends", 3, 0, 0, ends)

		long := pkt.Eth(clientMAC, lanMAC).IPv4(client, wan, pkt.IPv4Options{DontFragment: true}).UDP(4001, 5353).Payload(1400).Bytes()
		wires[0].Puts(long)
		g.wantError(wires[0], "the guests' network has a smaller MTU", 3, 4, 1300, long)

		g.Action("masq rule port-forwarding append", `{"external-ip":"`+wan+`","external-port":81,"internal-ip":"10.0.1.77","internal-port":80}`)
		gone := fromTo(clientMAC, lanMAC, client, wan).UDP(4002, 81).Payload(40).Bytes()
		wires[0].Puts(gone)
		g.wantError(wires[0], "nobody has the address inside", 3, 1, 0, gone)
	})
}

func TestHairpinnedPacketsThatWait(t *testing.T) {
	onWires(t, func(g *gateway, wires []*bpftest.Wire) {
		g.Action("masq rule port-forwarding append", `{"external-ip":"`+wan+`","external-port":82,"internal-ip":"10.0.1.78","internal-port":80}`)
		wires[0].Puts(fromTo(clientMAC, lanMAC, client, wan).UDP(4000, 82).Payload(40).Bytes())
		asked, err := wires[0].Recv(func(f []byte) bool { return f[12] == 8 && f[13] == 6 && bytes.Equal(f[38:42], []byte{10, 0, 1, 78}) }, bpftest.Patience)
		if err != nil {
			g.t.Fatalf("nobody asks for the host inside: %v", err)
		}
		const found = "02:00:00:00:01:4e"
		answer := pkt.Eth(found, lanMAC).ARPRequest(found, "10.0.1.78", "10.0.1.1").Bytes()
		answer[21] = 2 // a reply
		copy(answer[32:], asked[22:28])
		wires[0].Puts(answer)
		wires[0].Gets(routed(fromTo(lanMAC, found, wan, "10.0.1.78").UDP(4000, 80).Payload(40)))
	})
}

func TestHairpinnedPacketsThatAreCut(t *testing.T) {
	onWires(t, func(g *gateway, wires []*bpftest.Wire) {
		wires[0].Puts(fromTo(clientMAC, lanMAC, client, wan).UDP(4000, 5353).Payload(1400).Bytes())
		whole := fromTo(guestsMAC, guestMAC, wan, guest).UDP(4000, 53).Payload(1400).Bytes()
		at := 0
		for at < 1408 {
			got, err := wires[2].Recv(func(f []byte) bool { return f[12] == 8 && f[13] == 0 && f[23] == 17 }, bpftest.Patience)
			if err != nil {
				g.t.Fatalf("the piece at %d does not come: %v", at, err)
			}
			payload := got[34 : 14+binary.BigEndian.Uint16(got[16:])]
			if offset := int(binary.BigEndian.Uint16(got[20:])&0x1fff) * 8; offset != at || !bytes.Equal(payload, whole[34+at:34+at+len(payload)]) {
				g.t.Fatalf("the piece at %d is %x, want it at %d", offset, payload, at)
			}
			at += len(payload)
		}
	})
}
