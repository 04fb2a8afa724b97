// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"bytes"
	"encoding/binary"
	"errors"
	"net/netip"
	"testing"

	"github.com/polycube/polycube/test/pkt"
)

func TestDatagramsAreWrittenAndRead(t *testing.T) {
	for _, a := range [][2]string{{"192.0.2.1", "192.0.2.2"}, {"2001:db8::1", "2001:db8::2"}} {
		for n := range 3 {
			d := Datagram{netip.AddrPortFrom(netip.MustParseAddr(a[0]), 4000), netip.AddrPortFrom(netip.MustParseAddr(a[1]), 2152), make([]byte, n)}
			got := d.Frame(MAC{2, 0, 0, 0, 0, 2}, MAC{2, 0, 0, 0, 0, 1})
			var want []byte
			payload := pkt.UDPDatagram(a[0], a[1], 4000, 2152, d.Payload)
			if d.Src.Addr().Is4() {
				want = pkt.Eth("02:00:00:00:00:01", "02:00:00:00:00:02").IP(pkt.IPv4Header{From: a[0], To: a[1], Protocol: pkt.ProtoUDP, TTL: hopLimit, Fragment: 0x4000}.Packet(payload)).Bytes()
			} else {
				want = pkt.Eth("02:00:00:00:00:01", "02:00:00:00:00:02").IP(pkt.IPv6Header{From: a[0], To: a[1], Next: pkt.ProtoUDP, HopLimit: hopLimit}.Packet(payload)).Bytes()
			}
			if !bytes.Equal(got, want) {
				t.Errorf("%+v:\n got %x\nwant %x", d, got, want)
			}
			p, err := ParseIP(got)
			if err != nil {
				t.Fatal(err)
			}
			if again, ok := p.Datagram(); !ok || again.Src != d.Src || again.Dst != d.Dst || !bytes.Equal(again.Payload, d.Payload) {
				t.Errorf("%+v was read as %+v, %v", d, again, ok)
			}
			if p, err = ParseIP(got[:len(got)-n]); err == nil && n > 0 {
				if _, ok := p.Datagram(); ok {
					t.Error("a datagram that was cut off is read")
				}
			}
		}
	}
}

func TestSuperframesAreCut(t *testing.T) {
	data := make([]byte, 2500)
	for i := range data {
		data[i] = byte(i * 7)
	}
	for _, six := range []bool{false, true} {
		for _, tcp := range []bool{false, true} {
			from, to := "192.0.2.1", "192.0.2.2"
			if six {
				from, to = "2001:db8::1", "2001:db8::2"
			}
			proto, body, header := byte(pkt.ProtoUDP), pkt.UDPDatagram(from, to, 1, 2, data), 8
			if tcp {
				proto, body, header = pkt.ProtoTCP, pkt.TCPSegment(from, to, 1, 2, 0x80|0x18|0x01, data), 20
			}
			body[header-2] ^= 0x55 // UDP: the checksum, which is computed again; TCP: the urgent pointer, which stays
			packet := pkt.IPv4Header{From: from, To: to, Protocol: proto, TTL: 5, TOS: 3, ID: 0xffff, Fragment: 0x4000}.Packet
			if six {
				packet = pkt.IPv6Header{From: from, To: to, Next: proto, HopLimit: 5, Class: 3}.Packet
			}
			p, err := ParseIP(pkt.Eth("02:00:00:00:00:01", "02:00:00:00:00:02").IP(packet(body)).Bytes())
			if err != nil {
				t.Fatal(err)
			}
			frames, err := p.Segments(1000)
			if err != nil || len(frames) != 3 {
				t.Fatalf("%d segments: %v", len(frames), err)
			}
			var got []byte
			for i, f := range frames {
				s, err := ParseIP(f)
				if err != nil {
					t.Fatal(err)
				}
				if pkt.Sum(pkt.PseudoHeader(from, to, proto, len(s.Payload)), s.Payload) != 0xffff || s.TTL != 5 || len(s.Data) != len(f)-14 {
					t.Errorf("segment %d: %x", i, f)
				}
				if !six && (pkt.Sum(s.Data[:20]) != 0xffff || s.ID != uint32(uint16(0xffff+i)) || !s.DontFragment) {
					t.Errorf("the header of IPv4 of segment %d: %x", i, s.Data[:20])
				}
				if tcp {
					want := []byte{0x90, 0x10, 0x19}[i]
					if seq := binary.BigEndian.Uint32(s.Payload[4:]); s.Payload[13] != want || seq != uint32(i*1000) {
						t.Errorf("segment %d has flags %#02x and sequence number %d", i, s.Payload[13], seq)
					}
				}
				got = append(got, s.Payload[header:]...)
			}
			if !bytes.Equal(got, data) {
				t.Error("the segments have other data")
			}
			for _, size := range []int{0, -1} {
				if _, err := p.Segments(size); !errors.Is(err, ErrMalformed) {
					t.Errorf("segments of %d bytes: %v", size, err)
				}
			}
			if p, err = ParseIP(frames[0][:len(frames[0])-1]); err == nil {
				if _, err := p.Segments(100); !errors.Is(err, ErrMalformed) {
					t.Errorf("a packet that was cut off: %v", err)
				}
			}
		}
	}
}
