// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/binary"
	"fmt"
	"testing"

	"github.com/polycube/polycube/flow"
	"github.com/polycube/polycube/ring"
	"github.com/polycube/polycube/test/bpftest"
	"github.com/polycube/polycube/test/pkt"
)

// segment is a packet of TCP with data.
func segment(from, to string, port uint16, sequence uint32, data string) *ring.Packet {
	frame := pkt.Eth("02:00:00:00:00:01", "02:00:00:00:00:02").IPv4(from, to).TCP(port, 443, pkt.TCPFlags{}).Data([]byte(data)).Bytes()
	binary.BigEndian.PutUint32(frame[14+20+4:], sequence)
	return &ring.Packet{Data: frame, Length: len(frame)}
}

func client(port uint16, sequence uint32, data string) *ring.Packet {
	return segment("10.0.0.1", "10.0.0.2", port, sequence, data)
}

func TestSegmentsArePutTogether(t *testing.T) {
	const first = 1<<32 - 3 // sequence numbers wrap
	for _, c := range []struct {
		what     string
		segments []*ring.Packet
		want     string
	}{
		{"in order", []*ring.Packet{client(1, first, "abcd"), client(1, 1, "ef")}, "abcdef"},
		{"again", []*ring.Packet{client(1, first, "abcd"), client(1, first, "abcd"), client(1, 1, "ef")}, "abcdef"},
		{"overlapping", []*ring.Packet{client(1, first, "abcd"), client(1, 0, "def")}, "abcdef"},
		{"with a gap", []*ring.Packet{client(1, first, "abcd"), client(1, 5, "xx")}, "abcd"},
		{"of another connection", []*ring.Packet{client(2, first, "abcd"), client(1, first, "ef")}, "ef"},
		{"of a later connection", []*ring.Packet{client(1, first, "abcd"), client(1, 1<<30, "ef")}, "ef"},
	} {
		a := newAssembly()
		var s *stream
		for _, p := range c.segments {
			if _, s = a.add(p); s == nil {
				t.Fatalf("%s: refused", c.what)
			}
		}
		if string(s.sent) != c.want {
			t.Errorf("%s: %q, want %q", c.what, s.sent, c.want)
		}
	}
}

func TestWhatIsNoSegmentIsRefused(t *testing.T) {
	a, whole := newAssembly(), client(1, 1, "").Data
	for n := range whole {
		if _, s := a.add(&ring.Packet{Data: whole[:n]}); s != nil {
			t.Errorf("%d bytes of a segment are accepted", n)
		}
	}
	if _, s := a.add(&ring.Packet{Data: append(whole, 1, 2, 3)}); s == nil || len(s.sent) > 0 { // and padding
		t.Errorf("a segment without data: %+v", s)
	}
	udp := pkt.Eth("02:00:00:00:00:01", "02:00:00:00:00:02").IPv4("10.0.0.1", "10.0.0.2").UDP(1, 443).Payload(30).Bytes()
	if _, s := a.add(&ring.Packet{Data: udp}); s != nil {
		t.Error("UDP is accepted")
	}
}

func TestTheMemoryForStreamsIsLimited(t *testing.T) {
	a := newAssembly()
	for n := range 10 * generation {
		a.add(client(uint16(n), uint32(n>>16), "a"))
	}
	if n := len(a.young) + len(a.old); n > 2*generation {
		t.Errorf("%d streams", n)
	}
}

func TestBothDirectionsHaveOneKey(t *testing.T) {
	for _, ends := range [][2]string{{"10.0.0.1", "10.0.0.2"}, {"10.0.0.2", "10.0.0.1"}, {"1.2.3.4", "4.3.2.1"}} {
		there, ok := flow.Read(segment(ends[0], ends[1], 443, 1, "").Data)
		back, okBack := flow.Read(segment(ends[1], ends[0], 443, 1, "").Data)
		if !ok || !okBack || keyOf(&there) != keyOf(&back) {
			t.Errorf("%v: %+v, %+v", ends, keyOf(&there), keyOf(&back))
		}
	}
}

func TestHostsAreCounted(t *testing.T) {
	var h hosts
	h.count("a", true)
	for n := range 3 * mostHosts {
		h.count(fmt.Sprint("n", n), false)
		h.count("a", false)
	}
	if len(h.by) != mostHosts || h.by["a"].connections != 3*mostHosts+1 || h.by["a"].blocked != 1 {
		t.Errorf("%d hosts; a: %+v", len(h.by), h.by["a"])
	}
}

func TestTheLayoutsAreThoseOfTheProgram(t *testing.T) {
	for _, object := range [][]byte{tc, xdp} {
		bpftest.Layout(t, object, "connections", decision{})
	}
}
