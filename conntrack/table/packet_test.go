// SPDX-License-Identifier: Apache-2.0

package table

import (
	_ "embed"
	"encoding/binary"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/cilium/ebpf"

	"github.com/polycube/polycube/conntrack"
	"github.com/polycube/polycube/test/need"
	"github.com/polycube/polycube/test/pkt"
)

var (
	//go:embed testdata/packet.tc.o
	packetTC []byte
	//go:embed testdata/packet.xdp.o
	packetXDP []byte
)

var packetObjects = map[string][]byte{"TC": packetTC, "XDP": packetXDP}

// verdict is struct verdict: zone and options of a packet, and what it is to the table.
type verdict struct {
	Zone, Options, Class uint32
	Refusal              int32
	Number               uint32
	Reply, Accepted      uint8
	Refuse               uint8 // 1: the rules refuse it
	Zero                 uint8
	Zero1                uint32
	Next                 uint64
}

// packetLab is a table with a program that packets go through.
type packetLab struct {
	*lab
	v *verdict
}

// needPackets skips tests that load programs without the linker.
func needPackets(t testing.TB) {
	t.Helper()
	if !need.Linux(t, 6, 8) {
		t.Skip("older kernels know no arguments that are never NULL: only the linker makes programs for them")
	}
}

func newPacketLab(t testing.TB, object []byte, entries uint32) *packetLab {
	t.Helper()
	needPackets(t)
	l := load(t, object, entries)
	return &packetLab{l, mappedOf[verdict](l, "verdicts")}
}

// pass has a packet go through the program; the rules refuse it or not.
func (l *packetLab) pass(frame []byte, refuse uint8) verdict {
	l.t.Helper()
	l.v.Refuse = refuse
	result, err := l.progs["track"].Run(&ebpf.RunOptions{Data: frame, Repeat: 1})
	if err != nil || result != 0 {
		l.t.Fatalf("run a frame: %d, %v", int32(result), err)
	}
	return *l.v
}

// embryos are the half-open connections, by the port of one end. The test fails if there are two with a key.
func (l *packetLab) embryos() map[uint16]Entry {
	l.t.Helper()
	all := map[Key]Entry{}
	for n := range l.young.entries {
		e, _, ok := l.young.read(n)
		if _, twice := all[e.Key]; ok && twice {
			l.t.Errorf("%v is half open twice", e.Key)
		}
		if ok {
			all[e.Key] = e
		}
	}
	byPort := map[uint16]Entry{}
	for k, e := range all {
		byPort[k.Port[0].Number()] = e
	}
	return byPort
}

// The ends of connections.
const hostA, hostB = "10.0.0.1", "10.0.0.2"

func framed(packet []byte) []byte {
	return pkt.Eth("02:00:00:00:00:01", "02:00:00:00:00:02").IP(packet).Bytes()
}

func udpFrame(from, to string, sport, dport uint16) []byte {
	return framed(pkt.IPv4Header{From: from, To: to, Protocol: udp, TTL: 64}.Packet(pkt.UDPDatagram(from, to, sport, dport, nil)))
}

// tcpFrame is a segment without its data, as if the frame was cut off: only the length of the packet says that there are.
func tcpFrame(from, to string, sport, dport uint16, p conntrack.Segment) []byte {
	s := pkt.TCPSegment(from, to, sport, dport, byte(p.Flags), nil)
	binary.BigEndian.PutUint32(s[4:], p.Seq)
	binary.BigEndian.PutUint32(s[8:], p.Ack)
	binary.BigEndian.PutUint16(s[14:], p.Window)
	if p.Scale != conntrack.NoScale {
		s = append(s, 2, 4, 5, 180, 1, 3, 3, p.Scale) // after the maximum segment size and a NOP
		s[12] = 0x70
	}
	b := pkt.IPv4Header{From: from, To: to, Protocol: tcp, TTL: 64}.Packet(s)
	binary.BigEndian.PutUint16(b[2:], uint16(len(b)+int(p.Length)))
	return framed(b)
}

// segmentNear is a segment near those that a connection would have, and sometimes far from them.
func segmentNear(r *rand.Rand, s *conntrack.State, from uint8) conntrack.Segment {
	me, peer := s.Side[from], s.Side[1-from]
	p := conntrack.Segment{
		Seq: []uint32{me.End, me.End, me.End, peer.Ack, s.Syn, r.Uint32()}[r.IntN(6)],
		Ack: []uint32{peer.End, peer.End, me.Ack, s.Syn + 1, r.Uint32()}[r.IntN(5)], Window: uint16(r.IntN(1 << 16)), Scale: conntrack.NoScale,
		Flags: []conntrack.Flag{conntrack.SYN, conntrack.SYN | conntrack.ACK, conntrack.ACK, conntrack.ACK, conntrack.ACK,
			conntrack.FIN | conntrack.ACK, conntrack.RST, conntrack.Flag(r.Uint32())}[r.IntN(8)],
	}
	if p.Flags&conntrack.SYN != 0 && r.IntN(2) == 0 {
		p.Scale = uint8(r.IntN(17))
	}
	if r.IntN(2) == 0 {
		p.Length = uint32(r.IntN(60000))
	}
	return p
}

// tracked is a connection of the model.
type tracked struct {
	state      conntrack.State
	generation uint32
	moved      bool // to the large table
}

// halfOpen reports whether a connection in a state stays where half-open ones are.
func halfOpen(s *conntrack.State) bool {
	return s.State == conntrack.Unreplied || s.State == conntrack.Closed || s.State >= conntrack.SynSent && s.State < conntrack.Open
}

// zoneModel tracks the connections of one zone in Go.
type zoneModel struct {
	of         map[uint16]*tracked // by the port of one end
	generation uint32
	options    conntrack.Options
}

// pass returns the verdict of a packet, without its number, and whether it has a connection afterwards.
func (m *zoneModel) pass(port uint16, side uint8, p *conntrack.Segment, refuse uint8) (v verdict, connected bool) {
	c := m.of[port]
	var next conntrack.State
	if c != nil {
		next = c.state
	}
	var class conntrack.Class
	if p != nil {
		class = next.TCP(side, *p, m.options)
	} else {
		class = next.UDP(side)
	}
	v = verdict{Class: uint32(class), Refuse: refuse}
	if c != nil {
		if class == conntrack.Established {
			c.state = next
			c.moved = c.moved || !halfOpen(&next)
		}
		v.Reply = c.state.Opener() ^ side
		if c.generation == m.generation {
			v.Accepted = 1
		}
	}
	switch {
	case class == conntrack.Established && v.Accepted == 1:
	case refuse == 1:
		if class == conntrack.Established {
			delete(m.of, port)
		}
	case class == conntrack.New && c == nil:
		m.of[port] = &tracked{next, m.generation, false}
	case class == conntrack.New || class == conntrack.Established:
		c.state, c.generation = next, m.generation
	}
	return v, m.of[port] != nil
}

// TestProgramsAndGoClassifyAlike sends random packets of several connections, some of which the rules refuse, and
// compares classes and the states in the table with those of a model.
func TestProgramsAndGoClassifyAlike(t *testing.T) {
	for hook, object := range packetObjects {
		t.Run(hook, func(t *testing.T) {
			seed := rand.Uint64()
			r := rand.New(rand.NewPCG(seed, 0))
			l := newPacketLab(t, object, 1024)
			m := &zoneModel{of: map[uint16]*tracked{}, options: conntrack.Options{PickUp: r.IntN(2) == 0, MaxRetrans: 3}}
			l.v.Zone, l.v.Options = 7, m.options.Bits()
			classes := map[conntrack.Class]int{}
			for i := range 4000 {
				port, side, refuse := uint16(1000+r.IntN(4)), uint8(r.IntN(2)), uint8(r.IntN(8)/7)
				ends, ports := [2]string{hostA, hostB}, [2]uint16{port, 80}
				from, to := side, 1-side
				var p *conntrack.Segment
				frame := udpFrame(ends[from], ends[to], ports[from], ports[to])
				if port != 1000 {
					var s conntrack.State
					if c := m.of[port]; c != nil {
						s = c.state
					}
					near := segmentNear(r, &s, side)
					p = &near
					frame = tcpFrame(ends[from], ends[to], ports[from], ports[to], near)
				}
				want, connected := m.pass(port, side, p, refuse)
				got := l.pass(frame, refuse)
				classes[conntrack.Class(got.Class)]++
				n := got.Number
				got.Number, got.Zone, got.Options = 0, 0, 0
				if got != want {
					t.Fatalf("seed %d, packet %d, %+v of side %d of %d: %+v, want %+v", seed, i, p, side, port, got, want)
				}
				if !connected {
					continue
				}
				e, c := *l.entry(n), m.of[port]
				if n == 0 {
					e = l.embryos()[port]
				}
				if (n == 0) == c.moved || e.State != c.state || e.Generation != c.generation || e.Status != open {
					t.Fatalf("seed %d, packet %d, %+v of side %d of %d: entry %d is %+v, want %+v", seed, i, p, side, port, n, e, c)
				}
				if r.IntN(50) == 0 {
					l.NextGeneration(7)
					m.generation++
				}
				if r.IntN(100) == 0 {
					l.remove(none) // those that were refused
				}
			}
			if n := l.check() + len(l.embryos()) - len(m.of); n != 0 {
				t.Errorf("seed %d: the table has %d connections more than the model", seed, n)
			}
			for _, c := range []conntrack.Class{conntrack.Invalid, conntrack.New, conntrack.Established} {
				if classes[c] < 100 {
					t.Errorf("seed %d: only %d packets are %v", seed, classes[c], c)
				}
			}
		})
	}
}

// TestPacketsOutsideOfConnections: what has no connection, and what must have one, but is malformed.
func TestPacketsOutsideOfConnections(t *testing.T) {
	of4 := func(protocol byte, fragment uint16, payload []byte) []byte {
		return framed(pkt.IPv4Header{From: hostA, To: hostB, Protocol: protocol, TTL: 64, Fragment: fragment}.Packet(payload))
	}
	of6 := func(kind byte) []byte {
		message := pkt.ICMPv6Message("fe80::1", "fe80::2", kind, 0, 0, make([]byte, 60))
		return framed(pkt.IPv6Header{From: "fe80::1", To: "fe80::2", Next: icmpv6, HopLimit: 255}.Packet(message))
	}
	malformed := udpFrame(hostA, hostB, 1, 2)
	malformed[14] = 0x44 // a header of 16 bytes
	syn := pkt.TCPSegment(hostA, hostB, 5, 6, byte(conntrack.SYN), nil)
	long := pkt.TCPSegment(hostA, hostB, 5, 7, byte(conntrack.SYN), nil)
	long[12] = 0x60 // a header of 24 bytes, in a packet that has 20
	tests := map[string]struct {
		frame []byte
		want  conntrack.Class
	}{
		"ARP":                     {pkt.Eth("02:00:00:00:00:01", "ff:ff:ff:ff:ff:ff").ARPRequest("02:00:00:00:00:01", hostA, hostB).Bytes(), conntrack.Untracked},
		"another EtherType":       {pkt.Eth("02:00:00:00:00:01", "02:00:00:00:00:02").EtherType(0x88cc).Data(make([]byte, 50)).Bytes(), conntrack.Untracked},
		"neighbour discovery":     {of6(135), conntrack.Untracked},
		"an echo request":         {of6(128), conntrack.New},
		"an echo reply":           {of6(129), conntrack.Invalid},
		"an error":                {of6(1), conntrack.Invalid},
		"a router solicitation":   {of4(icmp, 0, pkt.ICMPMessage(10, 0, 0, nil)), conntrack.Untracked},
		"a later fragment":        {of4(47, 100, make([]byte, 40)), conntrack.Untracked}, // the first one of UDP is known
		"the first fragment":      {of4(udp, 0x2000, pkt.UDPDatagram(hostA, hostB, 3, 4, nil)), conntrack.New},
		"GRE":                     {of4(47, 0, make([]byte, 40)), conntrack.New},
		"a short header of IP":    {malformed, conntrack.Invalid},
		"half of the ports":       {of4(udp, 0, make([]byte, 2)), conntrack.Invalid},
		"TCP without flags":       {of4(tcp, 0, make([]byte, 12)), conntrack.Invalid},
		"a SYN":                   {of4(tcp, 0, syn), conntrack.New},
		"TCP without its options": {of4(tcp, 0, long), conntrack.Invalid},
	}
	for hook, object := range packetObjects {
		l := newPacketLab(t, object, 1024)
		for name, tt := range tests {
			if got := conntrack.Class(l.pass(tt.frame, 0).Class); got != tt.want {
				t.Errorf("%s: %s is %v, want %v", hook, name, got, tt.want)
			}
		}
	}
}

// TestErrorsAreRelatedToConnections: an ICMP error is a packet of the other direction, which changes nothing.
func TestErrorsAreRelatedToConnections(t *testing.T) {
	about := func(to string, frame []byte) []byte {
		return framed(pkt.IPv4Header{From: "10.9.9.9", To: to, Protocol: icmp, TTL: 64}.Packet(pkt.ICMPMessage(11, 0, 0, frame[14:])))
	}
	for hook, object := range packetObjects {
		l := newPacketLab(t, object, 1024)
		there, back := udpFrame(hostA, hostB, 1000, 53), udpFrame(hostB, hostA, 53, 1000)
		l.pass(there, 0)
		for _, half := range []bool{true, false} {
			if !half {
				l.pass(back, 0)
			}
			before, _ := l.Page(0, 2, nil)
			for name, tt := range map[string]struct {
				frame []byte
				class conntrack.Class
				reply uint8
			}{
				"to the opener":            {about(hostA, there), conntrack.Related, 1},
				"to the other side":        {about(hostB, back), conntrack.Related, 0},
				"to neither":               {about("10.0.0.3", there), conntrack.Invalid, 0},
				"to the wrong side":        {about(hostB, there), conntrack.Invalid, 0},
				"about another connection": {about(hostA, udpFrame(hostA, hostB, 1001, 53)), conntrack.Invalid, 0},
			} {
				got := l.pass(tt.frame, 1)
				if conntrack.Class(got.Class) != tt.class || got.Reply != tt.reply || (got.Number > 0) != (tt.class == conntrack.Related && !half) {
					t.Errorf("%s: an error %s: %+v, want %v and reply %d", hook, name, got, tt.class, tt.reply)
				}
			}
			if after, _ := l.Page(0, 2, nil); len(before) != 1 || !slices.Equal(after, before) {
				t.Errorf("%s: the connections are %+v after errors, were %+v", hook, after, before)
			}
		}
	}
}

// TestCostsOfPackets: what the verifier processes once in a program.
func TestCostsOfPackets(t *testing.T) {
	for hook, object := range packetObjects {
		l := newPacketLab(t, object, 256)
		n := l.instructions("track") - l.instructions("nothing")
		t.Logf("%s: %d instructions", hook, n)
		if n > 40000 {
			t.Errorf("%s: classifying a packet takes %d instructions, want at most 40,000", hook, n)
		}
	}
}
