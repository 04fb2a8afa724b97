// SPDX-License-Identifier: Apache-2.0

package gtpu

import (
	"bytes"
	"encoding/hex"
	"errors"
	"math/rand/v2"
	"net/netip"
	"reflect"
	"strings"
	"testing"

	"github.com/polycube/polycube/test/repeat"
)

// golden are messages as their standards write them.
var golden = []struct {
	name, bytes string
	is          Message
}{
	{"a packet without options", "30ff0004 00000102 45000000", Message{Type: PDU, TEID: 0x102, Payload: unhex("45000000")}},
	{"a downlink packet in flow 9", "34ff000c 00000001 00000085 01000900 60000000", Message{Type: PDU, TEID: 1, Extensions: []Extension{{0x85, []byte{0, 9}}}, Payload: unhex("60000000")}},
	{"an uplink packet in flow 63, with a sequence number", "36ff000a ffffffff 12340085 01103f00 0102",
		Message{Type: PDU, TEID: 0xffffffff, Sequence: pointer(uint16(0x1234)), Extensions: []Extension{{0x85, []byte{0x10, 0x3f}}}, Payload: []byte{1, 2}}},
	{"two extension headers", "34ff0010 00000007 00000040 01086885 02000001 02030400",
		Message{Type: PDU, TEID: 7, Extensions: []Extension{{0x40, []byte{8, 0x68}}, {0x85, []byte{0, 0, 1, 2, 3, 4}}}, Payload: []byte{}}},
	{"an N-PDU number", "31ff0004 00000007 00002a00", Message{Type: PDU, TEID: 7, PDUNumber: pointer(uint8(42)), Payload: []byte{}}},
	{"Echo Request", "32010004 00000000 00050000", Echo(false, 5)},
	{"Echo Response", "32020006 00000000 00050000 0e00", Echo(true, 5)},
	{"Error Indication", "321a0010 00000000 00000000 10 00000102 85 0004 c0000201", Indication(0x102, netip.MustParseAddr("192.0.2.1"))},
	{"Supported Extension Headers Notification", "321f0007 00000000 00000000 8d 01 85", Supported()},
	{"End Marker", "30fe0000 00000102", End(0x102)},
}

func pointer[T any](v T) *T { return &v }

func unhex(text string) []byte {
	b, err := hex.DecodeString(strings.ReplaceAll(text, " ", ""))
	if err != nil {
		panic(err)
	}
	return b
}

// alike compares messages; no payload is an empty one.
func alike(a, b Message) bool {
	if len(a.Payload) == 0 && len(b.Payload) == 0 {
		a.Payload, b.Payload = nil, nil
	}
	return reflect.DeepEqual(a, b)
}

func TestMessagesHaveTheBytesOfTheStandards(t *testing.T) {
	for _, tt := range golden {
		if got, err := tt.is.Append(nil); err != nil || !bytes.Equal(got, unhex(tt.bytes)) {
			t.Errorf("%s: % x, %v, want %s", tt.name, got, err, tt.bytes)
		}
		if got, err := Parse(append(unhex(tt.bytes), 0xee)); err != nil || !alike(got, tt.is) { // what follows is no part of it
			t.Errorf("%s: %+v, %v, want %+v", tt.name, got, err, tt.is)
		}
	}
}

func TestWhatIsNoMessageIsRefused(t *testing.T) {
	for _, tt := range []struct {
		name, bytes string
		as          error
	}{
		{"nothing", "", ErrMalformed},
		{"seven bytes", "30ff0000 000001", ErrMalformed},
		{"version 2", "48200000 00000000", ErrVersion},
		{"GTP'", "2eff0000 00000000", ErrVersion},
		{"longer than the datagram", "30ff0001 00000000", ErrMalformed},
		{"without room for the sequence number", "32ff0003 00000000 000000", ErrMalformed},
		{"without the extension header that it announces", "34ff0004 00000000 00000085", ErrMalformed},
		{"an extension header of no length", "34ff0008 00000000 00000085 00000000", ErrMalformed},
		{"an extension header that ends after the message", "34ff0008 00000000 00000085 02000000", ErrMalformed},
		{"an extension header to know", "34ff0008 00000000 000000c0 01000000", ErrUnknown},
		{"nine extension headers", "34ff0028 00000000 00000001" + strings.Repeat("01000001", 9), ErrMalformed},
	} {
		if m, err := Parse(unhex(tt.bytes)); !errors.Is(err, tt.as) {
			t.Errorf("%s: %+v, %v, want %v", tt.name, m, err, tt.as)
		}
	}
	long := Message{Type: PDU, Payload: make([]byte, 0x10000)}
	odd := Message{Type: PDU, Extensions: []Extension{{0x85, []byte{1}}}}
	many := Message{Type: PDU, Extensions: make([]Extension, 9)}
	for name, m := range map[string]Message{"too long": long, "odd extension header": odd, "nine extension headers": many} {
		if b, err := m.Append([]byte{1}); !errors.Is(err, ErrMalformed) || len(b) != 1 {
			t.Errorf("%s: %d bytes, %v", name, len(b), err)
		}
	}
}

func TestSessionsAreRead(t *testing.T) {
	for _, s := range []Session{{QFI: 9}, {QFI: 63, Reflective: true}, {QFI: 1, Uplink: true}} {
		m := Message{Type: PDU, Extensions: []Extension{{0x20, []byte{1, 2}}, s.Extension()}}
		if got, ok := m.Session(); !ok || got != s {
			t.Errorf("%+v, %v, want %+v", got, ok, s)
		}
	}
	if _, ok := (&Message{}).Session(); ok {
		t.Error("a message without a container has a session")
	}
}

func TestErrorIndicationsAreRead(t *testing.T) {
	for _, address := range []string{"192.0.2.1", "2001:db8::1"} {
		m := Indication(77, netip.MustParseAddr(address))
		if teid, from, err := m.Indicated(); err != nil || teid != 77 || from.String() != address {
			t.Errorf("%d, %s, %v", teid, from, err)
		}
	}
	for _, payload := range []string{"", "10 0000", "10 00000001", "85 0004 c0000201", "10 00000001 85 0003 c00002", "10 00000001 85 00", "03", "8d", "8d 05 01"} {
		if teid, from, err := (&Message{Payload: unhex(payload)}).Indicated(); !errors.Is(err, ErrMalformed) {
			t.Errorf("%q: %d, %s, %v", payload, teid, from, err)
		}
	}
}

// drawn is a random message; most are valid.
func drawn(r *rand.Rand) []byte {
	m := Message{Type: []Type{PDU, PDU, PDU, EchoRequest, EndMarker, Type(r.Uint32())}[r.IntN(6)], TEID: r.Uint32()}
	if r.IntN(3) == 0 {
		m.Sequence = pointer(uint16(r.Uint32()))
	}
	if r.IntN(5) == 0 {
		m.PDUNumber = pointer(uint8(r.Uint32()))
	}
	for range []int{0, 1, 1, 1, 2, 3, 8}[r.IntN(7)] {
		x := Extension{[]uint8{0x85, 0x85, 0x85, 0x40, 0x20, 0xc0, 1 + uint8(r.IntN(255))}[r.IntN(7)], make([]byte, 2+4*[]int{0, 0, 0, 1, 5}[r.IntN(5)])}
		for i := range x.Content {
			x.Content[i] = byte(r.Uint32())
		}
		m.Extensions = append(m.Extensions, x)
	}
	m.Payload = make([]byte, r.IntN(40))
	b, err := m.Append(nil)
	if err != nil {
		panic(err)
	}
	for range []int{0, 0, 1, 3}[r.IntN(4)] {
		b[r.IntN(min(len(b), 24))] = byte(r.Uint32())
	}
	if r.IntN(6) == 0 {
		b = b[:r.IntN(len(b)+1)]
	}
	return b
}

func TestMessagesAreTheSameAfterwards(t *testing.T) {
	r := rand.New(rand.NewPCG(repeat.Seed(t), 0))
	for range 20_000 {
		m, err := Parse(drawn(r))
		if err != nil {
			continue
		}
		b, err := m.Append(nil)
		if err != nil {
			t.Fatalf("%+v: %v", m, err)
		}
		if again, err := Parse(b); err != nil || !alike(again, m) {
			t.Fatalf("%+v became %+v, %v", m, again, err)
		}
	}
}

func FuzzParse(f *testing.F) {
	for _, tt := range golden {
		f.Add(unhex(tt.bytes))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		m, err := Parse(b)
		if err != nil {
			return
		}
		_, _, _ = m.Indicated()
		again, err := m.Append(nil)
		if err != nil {
			t.Fatal(err)
		}
		if n, err := Parse(again); err != nil || !alike(n, m) {
			t.Fatalf("%+v became %+v, %v", m, n, err)
		}
	})
}
