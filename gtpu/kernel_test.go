// SPDX-License-Identifier: Apache-2.0

package gtpu

// Programs and Go read the same, and packets in tunnels have the bytes that they should have.

import (
	"bytes"
	_ "embed"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"

	"github.com/cilium/ebpf"

	"github.com/polycube/polycube/inet"
	"github.com/polycube/polycube/test/bpftest"
	"github.com/polycube/polycube/test/pkt"
	"github.com/polycube/polycube/test/repeat"
)

var (
	//go:embed testdata/gtpu.tc.o
	programsTC []byte
	//go:embed testdata/gtpu.xdp.o
	programsXDP []byte
)

// read is struct pcn_gtpu.
type read struct {
	TEID, At          uint32
	Payload, Sequence uint16
	Type, Has         uint8
	QFI, Extension    uint8
}

// reading is struct gtpu_case.
type reading struct {
	At, Length, Result, _ uint32
	Got                   read
}

// way is struct gtpu_way.
type way struct {
	Source, Destination inet.Address
	TEID                uint32
	SourcePort          uint16 // in network byte order
	TTL, IPv6           uint8
	QFI, Uplink         uint8
	Reflective          uint8
	_                   [5]uint8
}

func TestTheStructsAreAlike(t *testing.T) {
	bpftest.Layout(t, programsTC, "cases", reading{})
	bpftest.Layout(t, programsTC, "ways", way{})
}

func hooks(t *testing.T, test func(t *testing.T, c *ebpf.Collection)) {
	for hook, object := range map[string][]byte{"TC": programsTC, "XDP": programsXDP} {
		t.Run(hook, func(t *testing.T) { test(t, bpftest.Load(t, object)) })
	}
}

// run runs a program on a frame: its result, and the frame that it has made.
func run(t *testing.T, prog *ebpf.Program, frame []byte) (uint32, []byte) {
	t.Helper()
	opts := ebpf.RunOptions{Data: frame, DataOut: make([]byte, len(frame)+256)}
	result, err := prog.Run(&opts)
	if err != nil {
		t.Fatal(err)
	}
	return result, opts.DataOut
}

// The bits of enum pcn_gtpu_has.
const (
	readSequence   = 1
	readSession    = 2
	readUplink     = 4
	readReflective = 8
)

// expected is what the program has to read of a message that begins at a byte of the frame; the payload is not compared
// after an error.
func expected(at int, message []byte) (result uint32, is read) {
	m, err := Parse(message)
	for i, as := range []error{ErrVersion, ErrMalformed, ErrUnknown} {
		if errors.Is(err, as) {
			return uint32(i + 1), read{TEID: m.TEID, Type: uint8(m.Type)}
		}
	}
	is = read{TEID: m.TEID, Type: uint8(m.Type), Payload: uint16(len(m.Payload))}
	is.At = uint32(at + header + int(binary.BigEndian.Uint16(message[2:])) - len(m.Payload))
	if m.Sequence != nil {
		is.Has, is.Sequence = readSequence, *m.Sequence
	}
	if s, ok := m.Session(); ok {
		is.QFI, is.Has = s.QFI, is.Has|readSession
		if s.Uplink {
			is.Has |= readUplink
		}
		if s.Reflective {
			is.Has |= readReflective
		}
	}
	return 0, is
}

func TestProgramsAndGoReadTheSame(t *testing.T) {
	seed := repeat.Seed(t)
	hooks(t, func(t *testing.T, c *ebpf.Collection) {
		r, results := rand.New(rand.NewPCG(seed, 0)), map[uint32]int{}
		for range 10_000 {
			message, at := drawn(r), 14+r.IntN(60)
			frame := slices.Concat(make([]byte, at), message, make([]byte, r.IntN(2)*20))
			frame[12], frame[13] = 0x88, 0xb5 // no IP packet
			want, is := expected(at, message)
			if err := c.Maps["cases"].Put(uint32(0), reading{At: uint32(at), Length: uint32(len(message))}); err != nil {
				t.Fatal(err)
			}
			run(t, c.Programs["gtpu_read"], frame)
			var got reading
			if err := c.Maps["cases"].Lookup(uint32(0), &got); err != nil {
				t.Fatal(err)
			}
			if want != 0 && len(message) >= header {
				got.Got = read{TEID: got.Got.TEID, Type: got.Got.Type}
			} else if want != 0 {
				got.Got = is
			}
			if got.Result != want || got.Got != is {
				t.Fatalf("% x at %d:\n got %d %+v\nwant %d %+v", message, at, got.Result, got.Got, want, is)
			}
			results[want]++
		}
		if len(results) != 4 || results[0] < 2000 {
			t.Errorf("the cases are one-sided: %v", results)
		}
	})
}

// opaque is a protocol whose packets have no checksum that the program knows.
const opaque = 253

// user is a random packet of a user.
func user(r *rand.Rand) []byte {
	ports, payload := [2]uint16{uint16(r.Uint32()), uint16(r.Uint32())}, make([]byte, r.IntN(100))
	for i := range payload {
		payload[i] = byte(r.Uint32())
	}
	from, to := "10.1.0.1", "192.0.2.1"
	six := r.IntN(2) == 1
	if six {
		from, to = "2001:db8::1", "2001:db8:ffff::2"
	}
	var body []byte
	var protocol byte
	switch r.IntN(3) {
	case 0:
		protocol, body = pkt.ProtoUDP, pkt.UDPDatagram(from, to, ports[0], ports[1], payload)
	case 1:
		protocol, body = pkt.ProtoTCP, pkt.TCPSegment(from, to, ports[0], ports[1], 0x10, payload)
	default:
		protocol, body = opaque, payload
	}
	class := byte(r.Uint32())
	if six {
		return pkt.IPv6Header{From: from, To: to, Next: protocol, HopLimit: 3, Class: class}.Packet(body)
	}
	return pkt.IPv4Header{From: from, To: to, Protocol: protocol, TTL: 3, TOS: class, ID: uint16(r.Uint32())}.Packet(body)
}

// framed is a packet in a frame between the stations of the test.
func framed(packet []byte) []byte {
	kind := uint16(0x0800)
	if packet[0]>>4 == 6 {
		kind = 0x86dd
	}
	return pkt.EthernetFrame([]byte{2, 0, 0, 0, 0, 2}, []byte{2, 0, 0, 0, 0, 4}, kind, packet)
}

// tunnel is a random tunnel, and the frame that a packet becomes in it.
func tunnel(r *rand.Rand, packet []byte) (w way, frame []byte) {
	source, destination := "192.0.2.10", "192.0.2.20"
	w = way{TEID: r.Uint32(), TTL: 64, QFI: uint8([]int{0, 1, 9, 63}[r.IntN(4)]), Uplink: uint8(r.IntN(2)), IPv6: uint8(r.IntN(2))}
	if w.Uplink == 0 {
		w.Reflective = uint8(r.IntN(2))
	}
	if w.IPv6 == 1 {
		source, destination = "2001:db8:a::10", "2001:db8:a::20"
	}
	sport := uint16(1024 + r.IntN(60000))
	w.SourcePort = sport<<8 | sport>>8
	w.Source, w.Destination = inet.AddressOf(netip.MustParseAddr(source)), inet.AddressOf(netip.MustParseAddr(destination))
	m := Message{Type: PDU, TEID: w.TEID, Payload: packet}
	if w.QFI != 0 {
		m.Extensions = []Extension{Session{Uplink: w.Uplink == 1, QFI: w.QFI, Reflective: w.Reflective == 1}.Extension()}
	}
	message, err := m.Append(nil)
	if err != nil {
		panic(err)
	}
	datagram := pkt.UDPDatagram(source, destination, sport, Port, message)
	protocol, class := packet[9], packet[1]
	if packet[0]>>4 == 6 {
		protocol, class = packet[6], packet[0]<<4|packet[1]>>4
	}
	if w.IPv6 == 0 || protocol == opaque {
		datagram[6], datagram[7] = 0, 0 // no checksum
	}
	if w.IPv6 == 1 {
		return w, framed(pkt.IPv6Header{From: source, To: destination, Next: pkt.ProtoUDP, HopLimit: 64, Class: class}.Packet(datagram))
	}
	return w, framed(pkt.IPv4Header{From: source, To: destination, Protocol: pkt.ProtoUDP, TTL: 64, TOS: class, Fragment: 0x4000}.Packet(datagram))
}

func TestPacketsGoIntoTunnelsAndComeOutAgain(t *testing.T) {
	seed := repeat.Seed(t)
	hooks(t, func(t *testing.T, c *ebpf.Collection) {
		r, kinds := rand.New(rand.NewPCG(seed, 0)), map[string]int{}
		for range 2000 {
			packet := user(r)
			w, want := tunnel(r, packet)
			if err := c.Maps["ways"].Put(uint32(0), w); err != nil {
				t.Fatal(err)
			}
			result, got := run(t, c.Programs["gtpu_put"], framed(packet))
			if result != 0 || !bytes.Equal(got, want) {
				t.Fatalf("%+v: %d\n   of %x\n  got %x\n want %x", w, result, packet, got, want)
			}
			result, got = run(t, c.Programs["gtpu_take"], want)
			if result != 0 || !bytes.Equal(got, framed(packet)) {
				t.Fatalf("out of a tunnel: %d\n  got %x\n want %x", result, got, framed(packet))
			}
			kinds[fmt.Sprint(packet[0]>>4, w.IPv6, w.QFI > 0)]++
		}
		if len(kinds) != 8 {
			t.Errorf("only these: %v", kinds)
		}
	})
}

func TestWhatIsNoPacketStaysInItsTunnel(t *testing.T) {
	hooks(t, func(t *testing.T, c *ebpf.Collection) {
		for name, payload := range map[string][]byte{"nothing": {}, "another version": {0x15, 1, 2, 3}} {
			message, err := (&Message{Type: PDU, Payload: payload}).Append(nil)
			if err != nil {
				t.Fatal(err)
			}
			datagram := pkt.UDPDatagram("192.0.2.1", "192.0.2.2", 1, Port, message)
			frame := framed(pkt.IPv4Header{From: "192.0.2.1", To: "192.0.2.2", Protocol: pkt.ProtoUDP, TTL: 64}.Packet(datagram))
			if result, got := run(t, c.Programs["gtpu_take"], frame); result != 3 || !bytes.Equal(got, frame) {
				t.Errorf("%s: %d, %x", name, result, got)
			}
		}
	})
}
