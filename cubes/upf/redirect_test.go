// SPDX-License-Identifier: Apache-2.0

package upf_test

// HTTP requests that are redirected.

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/polycube/polycube/gtpu"
	"github.com/polycube/polycube/pdusession"
	"github.com/polycube/polycube/test/bpftest"
	"github.com/polycube/polycube/test/mobile"
	"github.com/polycube/polycube/test/netns"
	"github.com/polycube/polycube/wire"
)

const portal = "http://portal.example/start?device=7"

// segment is a segment of a phone, in its tunnel.
func segment(s wire.Segment) []byte { return uplink(257, 9, s.Frame(wire.MAC{}, wire.MAC{})[14:]) }

// answered sends a segment of a phone, and returns the answer that comes to the phone.
func (c *core) answered(wires []*bpftest.Wire, s wire.Segment) wire.Segment {
	c.t.Helper()
	wires[0].Puts(segment(s))
	frame, err := wires[0].Recv(isTunnel, bpftest.Patience)
	if err != nil {
		c.t.Fatal(err)
	}
	is, err := mobile.ReadTunnel(frame)
	if err != nil || is.Message.Type != gtpu.PDU || is.Message.TEID != 1025 {
		c.t.Fatalf("%+v, %v", is, err)
	}
	ip, err := wire.ParseIP(mobile.Frame(gatewayMAC, stationMAC, is.Message.Payload))
	if err != nil {
		c.t.Fatal(err)
	}
	got, ok := ip.Segment()
	if !ok || got.Src != s.Dst || got.Dst != s.Src {
		c.t.Fatalf("%+v is no answer to %+v", got, s)
	}
	if len(ip.Data) > 1280 {
		c.t.Errorf("an answer of %d bytes", len(ip.Data))
	}
	return got
}

// flags are those of a segment, as letters.
func flags(s wire.Segment) (text string) {
	for letter, set := range map[string]bool{"F": s.FIN, "S": s.SYN, "R": s.RST, "P": s.PSH, "A": s.ACK} {
		if set {
			text += letter
		}
	}
	letters := []byte(text)
	slices.Sort(letters)
	return string(letters)
}

// redirecting is a session that redirects.
func redirecting(url string) *pdusession.Session {
	s := session()
	s.Rules[0].Forward.Redirect = url
	return s
}

func TestRequestsAreRedirected(t *testing.T) {
	each(t, "", func(t *testing.T, c *core) {
		wires := c.Wires()
		long := portal + "&" + strings.Repeat("x", pdusession.MaxURL-len(portal)-1)
		rows := c.put(nil, redirecting(portal))
		for i, way := range []struct{ phone, server, url string }{{phone, server, portal}, {phone6, server6, long}} {
			if way.url != portal {
				rows = c.put(rows, redirecting(way.url))
			}
			s := wire.Segment{
				Src: netip.AddrPortFrom(addr(way.phone), 40000), Dst: netip.AddrPortFrom(addr(way.server), 80),
				Seq: 0xfffffff0, SYN: true, Window: 1000, MSS: 1400,
			}
			got := c.answered(wires, s)
			if flags(got) != "AS" || got.Ack != s.Seq+1 || got.Window == 0 || len(got.Payload) != 0 {
				t.Fatalf("SYN: %+v", got)
			}
			if again := c.answered(wires, s); again.Seq != got.Seq {
				t.Errorf("the SYN again: %d instead of %d", again.Seq, got.Seq)
			}
			other := s
			other.Src = netip.AddrPortFrom(s.Src.Addr(), 40001)
			if again := c.answered(wires, other); again.Seq == got.Seq {
				t.Errorf("two connections have the sequence number %d", got.Seq)
			}
			s.SYN, s.ACK, s.PSH = false, true, true
			s.MSS, s.Seq, s.Ack, s.Payload = 0, s.Seq+1, got.Seq+1, []byte("GET /news HTTP/1.1\r\nHost: news.example\r\n\r\n")
			for range 2 { // the second time, the first answer was lost
				answer := c.answered(wires, s)
				want := "HTTP/1.1 302 Found\r\nLocation: " + way.url + "\r\n"
				if flags(answer) != "AFP" || answer.Seq != s.Ack || answer.Ack != s.Seq+uint32(len(s.Payload)) ||
					!strings.HasPrefix(string(answer.Payload), want) || !strings.HasSuffix(string(answer.Payload), "\r\n\r\n") {
					t.Fatalf("request: %+v\n%s", answer, answer.Payload)
				}
				got = answer
			}
			s.PSH, s.FIN, s.Seq, s.Ack, s.Payload = false, true, got.Ack, got.Seq+uint32(len(got.Payload))+1, nil
			if last := c.answered(wires, s); flags(last) != "A" || last.Ack != s.Seq+1 || last.Seq != s.Ack {
				t.Errorf("FIN: %+v", last)
			}
			if n := c.Read("u messages http-redirected"); n != fmt.Sprint(2+2*i) {
				t.Errorf("%s requests were redirected, want %d", n, 2+2*i)
			}
		}
		s := session()
		c.put(rows, s)
		c.leaves("not any more", 257, 9, segmentTo(80)[14:])
	})
}

// segmentTo is a SYN of the phone to a port of the server, as a plain frame.
func segmentTo(port uint16) []byte {
	s := wire.Segment{Src: netip.AddrPortFrom(addr(phone), 40000), Dst: netip.AddrPortFrom(addr(server), port), SYN: true}
	return s.Frame(wire.MAC{}, wire.MAC{})
}

func TestConnectionsThatWereNotAcceptedAreReset(t *testing.T) {
	each(t, "", func(t *testing.T, c *core) {
		wires := c.Wires()
		c.put(nil, redirecting(portal))
		s := wire.Segment{Src: netip.AddrPortFrom(addr(phone), 40000), Dst: netip.AddrPortFrom(addr(server), 80), Seq: 7, Ack: 99, ACK: true, Payload: []byte("GET / HTTP/1.1\r\n\r\n")}
		if got := c.answered(wires, s); flags(got) != "R" || got.Seq != 99 {
			t.Errorf("data of no connection: %+v", got)
		}
		s.SYN, s.ACK, s.Payload = true, false, nil
		first := c.answered(wires, s).Seq
		s.SYN, s.ACK, s.FIN, s.Seq, s.Ack = false, true, true, 8, first+1
		if got := c.answered(wires, s); flags(got) != "AF" || got.Ack != 9 {
			t.Errorf("the end of a connection without a request: %+v", got)
		}
		wires[0].Puts(segment(wire.Segment{Src: s.Src, Dst: s.Dst, RST: true, ACK: true, Seq: 8}))
		wires[0].Puts(segment(wire.Segment{Src: s.Src, Dst: s.Dst, PSH: true, Seq: 8}))                 // neither SYN nor ACK
		wires[0].Puts(segment(wire.Segment{Src: s.Src, Dst: s.Dst, ACK: true, Seq: 8, Ack: first + 1})) // has no answer
		short := segmentTo(80)[14:]
		short[32] = 0xf0 // a header that is longer than the packet
		wires[0].Puts(uplink(257, 9, short))
		netns.Eventually(t, bpftest.Patience, func() error {
			if n := c.Read("u messages http-invalid"); n != "3" {
				return fmt.Errorf("%s were invalid, want 3", n)
			}
			return nil
		})
		if n := c.Read("u messages http-redirected"); n != "0" {
			t.Errorf("%s requests were redirected", n)
		}
	})
}

func TestOtherPacketsAreNotRedirected(t *testing.T) {
	each(t, "", func(t *testing.T, c *core) {
		c.put(nil, redirecting(portal))
		c.fate("another port", "veth1", uplink(257, 9, segmentTo(443)[14:]), "redirected")
		c.fate("UDP", "veth1", uplink(257, 9, fromPhone(80)), "redirected")
		fragment := segmentTo(80)[14:]
		fragment[6], fragment[7] = 0x20, 0 // more fragments follow
		c.fate("a fragment", "veth1", uplink(257, 9, fragment), "redirected")
		c.enters("to the phone", toPhone(80), station, 1025, 9)
		c.fate("port 80", "veth1", uplink(257, 9, segmentTo(80)[14:]), "slowpath")
	})
}

// TestManyRequestsAreTooMany: user space takes a limited number, of all devices.
func TestManyRequestsAreTooMany(t *testing.T) {
	c := newCore(t, bpftest.New(t, bpftest.Options{Hosts: 2}), "")
	wires := c.Wires()
	c.put(nil, redirecting(portal))
	frame := uplink(257, 9, segmentTo(80)[14:])
	netns.Eventually(t, bpftest.Patience, func() error {
		for range 10_000 {
			wires[0].Puts(frame)
		}
		if c.Fates("u")["flooded"] == 0 {
			return fmt.Errorf("all packets go to user space")
		}
		return nil
	})
}
