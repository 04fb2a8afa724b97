// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"testing"

	"github.com/polycube/polycube/test/pkt"
)

const hostMAC, gateMAC = "02:00:00:00:00:01", "02:00:00:00:00:02"

// reset returns the answer to a frame.
func reset(t *testing.T, frame []byte) []byte {
	t.Helper()
	p, err := ParseIP(frame)
	if err != nil {
		t.Fatal(err)
	}
	return Reset(&p, Source(frame), Destination(frame))
}

func TestSegmentsAreReset(t *testing.T) {
	four := func(from, to string, ours bool, sport, dport uint16, f pkt.TCPFlags) []byte {
		e := pkt.Eth(hostMAC, gateMAC)
		if ours {
			e = pkt.Eth(gateMAC, hostMAC)
		}
		return e.IPv4(from, to, pkt.IPv4Options{DontFragment: ours}).TCP(sport, dport, f).Bytes()
	}
	six := func(from, to string, ours bool, sport, dport uint16, f pkt.TCPFlags) []byte {
		e := pkt.Eth(hostMAC, gateMAC)
		if ours {
			e = pkt.Eth(gateMAC, hostMAC)
		}
		return e.IPv6(from, to).TCP(sport, dport, f).Bytes()
	}
	for _, tt := range []struct {
		name    string
		is, won pkt.TCPFlags
	}{
		{"a SYN", pkt.TCPFlags{SYN: true, Seq: 100}, pkt.TCPFlags{RST: true, ACK: true, Ack: 101}},
		{"an ACK", pkt.TCPFlags{ACK: true, Seq: 100, Ack: 7}, pkt.TCPFlags{RST: true, Seq: 7}},
		{"a FIN without ACK", pkt.TCPFlags{FIN: true, Seq: 0xffffffff}, pkt.TCPFlags{RST: true, ACK: true}},
	} {
		for version, c := range map[string]struct{ frame, want []byte }{
			"IPv4": {four("10.0.0.1", "10.0.0.2", false, 1000, 80, tt.is), four("10.0.0.2", "10.0.0.1", true, 80, 1000, tt.won)},
			"IPv6": {six("2001:db8::1", "2001:db8::2", false, 1000, 80, tt.is), six("2001:db8::2", "2001:db8::1", true, 80, 1000, tt.won)},
		} {
			got := reset(t, c.frame)
			want := bytes.Clone(c.want)
			tcp := len(want) - tcpLen
			if len(got) == len(want) { // the window of a reset means nothing
				copy(want[tcp+14:tcp+18], got[tcp+14:tcp+18])
			}
			if !bytes.Equal(got, want) {
				t.Errorf("%s of %s:\n%swant\n%s", tt.name, version, hex.Dump(got), hex.Dump(want))
			}
			if packet, err := ParseIP(got); err != nil || pkt.Sum(pkt.PseudoHeader(packet.Src.String(), packet.Dst.String(), pkt.ProtoTCP, tcpLen), packet.Payload) != 0xffff {
				t.Errorf("%s of %s: the checksum is wrong, or the packet: %v", tt.name, version, err)
			}
		}
	}
}

func TestDataThatIsCutOffCounts(t *testing.T) {
	frame := pkt.Eth(hostMAC, gateMAC).IPv4("10.0.0.1", "10.0.0.2").TCP(1, 2, pkt.TCPFlags{PSH: true, Seq: 1000}).Payload(500).Bytes()
	got := reset(t, frame[:60])
	if len(got) < ethLen+ipv4Len+tcpLen || !bytes.Equal(got[ethLen+ipv4Len+8:ethLen+ipv4Len+12], []byte{0, 0, 0x05, 0xdc}) {
		t.Errorf("the answer is %x, want one that acknowledges 1500", got)
	}
}

func TestWhatIsNotReset(t *testing.T) {
	syn := pkt.TCPFlags{SYN: true}
	for name, frame := range map[string][]byte{
		"a reset":           pkt.Eth(hostMAC, gateMAC).IPv4("10.0.0.1", "10.0.0.2").TCP(1, 2, pkt.TCPFlags{RST: true}).Bytes(),
		"UDP":               pkt.Eth(hostMAC, gateMAC).IPv4("10.0.0.1", "10.0.0.2").UDP(1, 2).Payload(30).Bytes(),
		"a fragment":        pkt.Eth(hostMAC, gateMAC).IPv4("10.0.0.1", "10.0.0.2", pkt.IPv4Options{MoreFragments: true}).TCP(1, 2, syn).Bytes(),
		"to a group":        pkt.Eth(hostMAC, pkt.Broadcast).IPv4("10.0.0.1", "10.0.0.2").TCP(1, 2, syn).Bytes(),
		"a multicast":       pkt.Eth(hostMAC, gateMAC).IPv4("10.0.0.1", "224.0.0.9").TCP(1, 2, syn).Bytes(),
		"half a TCP header": pkt.Eth(hostMAC, gateMAC).IPv4("10.0.0.1", "10.0.0.2").TCP(1, 2, syn).Bytes()[:ethLen+ipv4Len+12],
	} {
		if got := reset(t, frame); got != nil {
			t.Errorf("%s is answered by %x", name, got)
		}
	}
}

func TestPacketsInALine(t *testing.T) {
	const macs = "MAC=02:00:00:00:00:02:02:00:00:00:00:01:"
	for _, tt := range []struct {
		frame []byte
		want  string
	}{
		{pkt.Eth(hostMAC, gateMAC).IPv4("10.0.0.1", "10.0.0.2", pkt.IPv4Options{TOS: 0xb8, ID: 9, DontFragment: true}).TCP(1, 2, pkt.TCPFlags{SYN: true, ACK: true}).Bytes(),
			macs + "08:00 SRC=10.0.0.1 DST=10.0.0.2 LEN=40 TOS=0x18 PREC=0xA0 TTL=64 ID=9 DF PROTO=TCP SPT=1 DPT=2 WINDOW=65535 RES=0x00 ACK SYN URGP=0"},
		{pkt.Eth(hostMAC, gateMAC).VLAN(7).IPv4("10.0.0.1", "10.0.0.2").Echo(3, 4).Bytes(),
			macs + "81:00 SRC=10.0.0.1 DST=10.0.0.2 LEN=28 TOS=0x00 PREC=0x00 TTL=64 ID=0 PROTO=ICMP TYPE=8 CODE=0 ID=3 SEQ=4"},
		{pkt.Eth(hostMAC, gateMAC).IPv4("10.0.0.1", "10.0.0.2", pkt.IPv4Options{Offset: 185}).Protocol(17).Payload(8).Bytes(),
			macs + "08:00 SRC=10.0.0.1 DST=10.0.0.2 LEN=28 TOS=0x00 PREC=0x00 TTL=64 ID=0 FRAG:185 PROTO=UDP"},
		{pkt.Eth(hostMAC, gateMAC).IPv6("2001:db8::1", "2001:db8::2").UDP(1, 53).Payload(4).Bytes(),
			macs + "86:dd SRC=2001:db8::1 DST=2001:db8::2 LEN=52 TC=0 HOPLIMIT=64 FLOWLBL=0 PROTO=UDP SPT=1 DPT=53 LEN=12"},
		{pkt.Eth(hostMAC, gateMAC).IPv4("10.0.0.1", "10.0.0.2").TCP(1, 2, pkt.TCPFlags{}).Bytes()[:ethLen+ipv4Len+5],
			macs + "08:00 SRC=10.0.0.1 DST=10.0.0.2 LEN=40 TOS=0x00 PREC=0x00 TTL=64 ID=0 PROTO=TCP INCOMPLETE [5 bytes]"},
		{pkt.Eth(hostMAC, gateMAC).ARPRequest(hostMAC, "10.0.0.1", "10.0.0.2").Bytes(), macs + "08:06"},
		{nil, "TRUNCATED"},
	} {
		if got := Line(tt.frame); got != tt.want {
			t.Errorf("got  %s\nwant %s", got, tt.want)
		}
	}
}

// FuzzAnswers: whatever a frame contains, it has a line, and an answer that can be parsed, or none.
func TestSegmentsAreReadAndWritten(t *testing.T) {
	for version, frame := range map[string][]byte{
		"IPv4": pkt.Eth(hostMAC, gateMAC).IPv4("10.0.0.1", "10.0.0.2", pkt.IPv4Options{DontFragment: true}).TCP(1000, 80, pkt.TCPFlags{ACK: true, Seq: 100, Ack: 7}).Payload(33).Bytes(),
		"IPv6": pkt.Eth(hostMAC, gateMAC).IPv6("2001:db8::1", "2001:db8::2").TCP(1000, 80, pkt.TCPFlags{ACK: true, Seq: 100, Ack: 7}).Payload(33).Bytes(),
	} {
		p, err := ParseIP(frame)
		if err != nil {
			t.Fatal(err)
		}
		s, ok := p.Segment()
		if !ok || s.Src.Port() != 1000 || s.Dst.Port() != 80 || s.Seq != 100 || s.Ack != 7 || s.flags() != tcpACK || len(s.Payload) != 33 {
			t.Fatalf("%s: %+v", version, s)
		}
		if got := s.Frame(Destination(frame), Source(frame)); !bytes.Equal(got, frame) {
			t.Errorf("%s:\n%swant\n%s", version, hex.Dump(got), hex.Dump(frame))
		}
		p.Payload = p.Payload[:40] // cut off
		if s, ok := p.Segment(); ok {
			t.Errorf("%s, cut off: %+v", version, s)
		}
		s.SYN, s.MSS, s.Payload = true, 1220, nil
		syn, err := ParseIP(s.Frame(Destination(frame), Source(frame)))
		if err != nil || !bytes.Equal(syn.Payload[tcpLen:], []byte{2, 4, 0x04, 0xc4}) || syn.Payload[12] != 6<<4 {
			t.Errorf("%s, with an MSS: %x, %v", version, syn.Payload, err)
		}
	}
}

func FuzzAnswers(f *testing.F) {
	f.Add(pkt.Eth(hostMAC, gateMAC).IPv4("10.0.0.1", "10.0.0.2").TCP(1, 2, pkt.TCPFlags{SYN: true}).Bytes())
	f.Add(pkt.Eth(hostMAC, gateMAC).VLAN(7).IPv6("2001:db8::1", "2001:db8::2").TCP(1, 2, pkt.TCPFlags{ACK: true}).Bytes())
	f.Fuzz(func(t *testing.T, frame []byte) {
		if line := Line(frame); line == "" || bytes.ContainsAny([]byte(line), "\n\x00") {
			t.Errorf("%x has the line %q", frame, line)
		}
		p, err := ParseIP(frame)
		if err != nil {
			return
		}
		if is, ok := p.Segment(); ok {
			again, err := ParseIP(is.Frame(Source(frame), Destination(frame)))
			if err != nil {
				t.Fatalf("%x is written as another packet: %v", frame, err)
			}
			got, ok := again.Segment()
			if !ok || got.Src != is.Src || got.Seq != is.Seq || got.flags() != is.flags() || !bytes.Equal(got.Payload, is.Payload) {
				t.Errorf("%x is written as %+v instead of %+v", frame, got, is)
			}
		}
		if got := Reset(&p, Source(frame), Destination(frame)); got != nil {
			if _, err := ParseIP(got); err != nil {
				t.Errorf("%x is answered by %x: %v", frame, got, err)
			}
		}
	})
}

func TestChecksumsThatAreNotThereYetAreCompleted(t *testing.T) {
	for what, frame := range map[string][]byte{
		"IPv4": pkt.Eth(hostMAC, gateMAC).IPv4("10.0.0.1", "10.0.0.2").TCP(1000, 80, pkt.TCPFlags{ACK: true}).Payload(33).Bytes(),
		"IPv6": pkt.Eth(hostMAC, gateMAC).IPv6("2001:db8::1", "2001:db8::2").TCP(1000, 80, pkt.TCPFlags{ACK: true}).Payload(32).Bytes(),
	} {
		p, err := ParseIP(frame)
		if err != nil {
			t.Fatal(err)
		}
		want := bytes.Clone(frame)
		p.CompleteTCP()
		if !bytes.Equal(frame, want) {
			t.Errorf("%s: a complete checksum was changed", what)
		}
		for _, length := range []int{len(p.Payload), 0} { // of superframes, some drivers leave the length out
			binary.BigEndian.PutUint16(p.Payload[16:], ^fold(p.transportPseudo(length)))
			p.CompleteTCP()
			if !bytes.Equal(frame, want) {
				t.Errorf("%s: the frame is\n% x, want\n% x", what, frame, want)
			}
		}
		p.Payload[16] ^= 1
		wrong := bytes.Clone(frame)
		p.CompleteTCP()
		if !bytes.Equal(frame, wrong) {
			t.Errorf("%s: a wrong checksum was changed", what)
		}
	}
}
