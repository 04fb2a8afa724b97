// SPDX-License-Identifier: Apache-2.0

package gtpu

// What scapy writes, this package and programs read, and the other way round.

import (
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"reflect"
	"strings"
	"testing"

	"github.com/cilium/ebpf"

	"github.com/polycube/polycube/test/repeat"
	"github.com/polycube/polycube/test/scapy"
)

// foreign is a message as scapy describes it.
type foreign struct {
	// Bytes is the message, if scapy has written it.
	Bytes string
	// From and To are the outer addresses, if it was read from a frame.
	From, To  string
	Type      Type
	TEID      uint32
	Sequence  *uint16
	PDUNumber *uint8
	// Extensions are the types of extension headers. Unknown: a receiver that does not know the next one has to refuse it.
	Extensions []uint8
	Unknown    bool
	// Ports are those of extension headers of type UDP Port.
	Ports     []uint16
	Session   *Session
	Payload   string
	Recovery  *uint8
	Indicated *indicated
}

// String is readable in a failure.
func (f foreign) String() string {
	b, _ := json.Marshal(f)
	return string(b)
}

type indicated struct {
	TEID    uint32
	Address netip.Addr
}

const portExtension = 0x40

// described describes a message that Parse has returned as scapy does.
func described(m Message, err error) (foreign, error) {
	f := foreign{Type: m.Type, TEID: m.TEID, Sequence: m.Sequence, PDUNumber: m.PDUNumber, Extensions: []uint8{}, Ports: []uint16{}, Payload: hex.EncodeToString(m.Payload)}
	if errors.Is(err, ErrUnknown) {
		f.Unknown, err = true, nil
	}
	for _, x := range m.Extensions {
		f.Extensions = append(f.Extensions, x.Type)
		if x.Type == portExtension {
			f.Ports = append(f.Ports, binary.BigEndian.Uint16(x.Content))
		}
	}
	if s, ok := m.Session(); ok {
		f.Session = &s
	}
	switch {
	case err != nil:
	case m.Type == EchoResponse:
		var elements []Element
		if elements, err = Elements(m.Payload); err == nil {
			f.Recovery = &elements[0].Value[0]
		}
	case m.Type == ErrorIndication:
		f.Indicated = &indicated{}
		f.Indicated.TEID, f.Indicated.Address, err = m.Indicated()
	}
	return f, err
}

// reads is what a program has to read of a message at a byte of the frame.
func (f foreign) reads(at int) (result uint32, is read) {
	if f.Unknown {
		return 3, read{TEID: f.TEID, Type: uint8(f.Type)}
	}
	is = read{TEID: f.TEID, Type: uint8(f.Type), Payload: uint16(len(f.Payload) / 2), At: uint32(at + len(f.Bytes)/2 - len(f.Payload)/2)}
	if f.Sequence != nil {
		is.Has, is.Sequence = readSequence, *f.Sequence
	}
	if s := f.Session; s != nil {
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

func TestMessagesOfScapyAreRead(t *testing.T) {
	const count = 3000
	all := scapy.Run[foreign](t, "testdata/messages.py", nil, fmt.Sprint(repeat.Seed(t)), fmt.Sprint(count))
	kinds := map[string]int{}
	for _, f := range all {
		want := f
		want.Bytes = ""
		if got, err := described(Parse(unhex(f.Bytes))); err != nil || !reflect.DeepEqual(got, want) {
			t.Fatalf("%s:\n got %v, %v\nwant %v", f.Bytes, got, err, want)
		}
		kinds[fmt.Sprint(f.Type, len(f.Extensions) > 1, f.Unknown)]++
	}
	if len(all) != count || len(kinds) != 11 {
		t.Errorf("%d messages of these kinds: %v", len(all), kinds)
	}
	hooks(t, func(t *testing.T, c *ebpf.Collection) {
		const at = 42
		for _, f := range all {
			want, is := f.reads(at)
			frame := append(make([]byte, at), unhex(f.Bytes)...)
			frame[12], frame[13] = 0x88, 0xb5 // no IP packet
			if err := c.Maps["cases"].Put(uint32(0), reading{At: at, Length: uint32(len(frame) - at)}); err != nil {
				t.Fatal(err)
			}
			run(t, c.Programs["gtpu_read"], frame)
			var got reading
			if err := c.Maps["cases"].Lookup(uint32(0), &got); err != nil {
				t.Fatal(err)
			}
			if want != 0 {
				got.Got = read{TEID: got.Got.TEID, Type: got.Got.Type}
			}
			if got.Result != want || got.Got != is {
				t.Fatalf("%s:\n got %d %+v\nwant %d %+v", f.Bytes, got.Result, got.Got, want, is)
			}
		}
	})
}

// written is a random message of those that this package writes.
func written(r *rand.Rand) Message {
	m := Message{Type: []Type{PDU, PDU, PDU, EndMarker}[r.IntN(4)], TEID: r.Uint32()}
	switch r.IntN(8) {
	case 0:
		return Echo(r.IntN(2) == 0, uint16(r.Uint32()))
	case 1:
		address := netip.AddrFrom4([4]byte{192, 0, 2, byte(r.Uint32())})
		if r.IntN(2) == 0 {
			address = netip.AddrFrom16([16]byte{0x20, 1, 0xd, 0xb8, 15: byte(1 + r.IntN(255))})
		}
		return Indication(r.Uint32(), address)
	}
	if r.IntN(3) == 0 {
		m.Sequence = pointer(uint16(r.Uint32()))
	}
	if r.IntN(3) == 0 {
		m.PDUNumber = pointer(uint8(r.Uint32()))
	}
	for range []int{0, 1, 1, 2, 8}[r.IntN(5)] {
		s := Session{QFI: uint8(r.IntN(64)), Uplink: r.IntN(2) == 0}
		s.Reflective = !s.Uplink && r.IntN(2) == 0
		x := s.Extension()
		if r.IntN(4) == 0 {
			x = Extension{portExtension, []byte{byte(r.Uint32()), byte(r.Uint32())}}
		}
		m.Extensions = append(m.Extensions, x)
	}
	if m.Type == PDU {
		m.Payload = user(r)
	}
	return m
}

func TestScapyReadsMessages(t *testing.T) {
	seed := repeat.Seed(t)
	r := rand.New(rand.NewPCG(seed, 0))
	var input []string
	var want []foreign
	for range 3000 {
		m := written(r)
		b, err := m.Append(nil)
		if err != nil {
			t.Fatal(err)
		}
		f, err := described(m, nil)
		if err != nil {
			t.Fatal(err)
		}
		input, want = append(input, hex.EncodeToString(b)), append(want, f)
	}
	hooks(t, func(t *testing.T, c *ebpf.Collection) {
		for range 500 {
			packet := user(r)
			w, _ := tunnel(r, packet)
			if err := c.Maps["ways"].Put(uint32(0), w); err != nil {
				t.Fatal(err)
			}
			result, frame := run(t, c.Programs["gtpu_put"], framed(packet))
			if result != 0 {
				t.Fatalf("%+v: %d", w, result)
			}
			f := foreign{From: w.Source.Addr().String(), To: w.Destination.Addr().String(), Type: PDU, TEID: w.TEID, Extensions: []uint8{}, Ports: []uint16{}, Payload: hex.EncodeToString(packet)}
			if w.QFI != 0 {
				f.Extensions = []uint8{sessionContainer}
				f.Session = &Session{Uplink: w.Uplink == 1, QFI: w.QFI, Reflective: w.Reflective == 1}
			}
			input, want = append(input, "frame "+hex.EncodeToString(frame)), append(want, f)
		}
	})
	all := scapy.Run[foreign](t, "testdata/messages.py", input, fmt.Sprint(seed), "0")
	if len(all) != len(input) {
		t.Fatalf("scapy reads %d messages of %d", len(all), len(input))
	}
	for i, got := range all {
		if !reflect.DeepEqual(got, want[i]) {
			t.Fatalf("%s:\n got %v\nwant %v", strings.TrimPrefix(input[i], "frame "), got, want[i])
		}
	}
}
