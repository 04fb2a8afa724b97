// SPDX-License-Identifier: Apache-2.0

package inet

import (
	"encoding"
	"encoding/json"
	"errors"
	"net/netip"
	"regexp"
	"strings"
	"testing"

	"github.com/polycube/polycube/cube"
	models "github.com/polycube/polycube/yang"
)

func TestMACAddresses(t *testing.T) {
	for text, want := range map[string]MAC{"aa:bb:cc:dd:ee:ff": 0xffeeddccbbaa, "02:00:00:00:00:01": 0x010000000002} {
		got, err := ParseMAC(strings.ToUpper(text))
		if err != nil || got != want || got.String() != text || MACOf(got.Hardware()) != got {
			t.Errorf("%s is %#x and prints as %s, want %#x (%v)", text, uint64(got), got, uint64(want), err)
		}
	}
	for _, text := range []string{"", "02:00:00:00:00", "02:00:00:00:00:00:00:01", "02-00"} {
		if a, err := ParseMAC(text); !errors.Is(err, cube.ErrInvalid) {
			t.Errorf("%q is %v, error %v", text, a, err)
		}
	}
}

func TestAddressesOfMapsAreThoseOfPackages(t *testing.T) {
	for text, want := range map[string]Address{
		"10.0.0.1":           {10: 0xff, 11: 0xff, 12: 10, 15: 1},
		"2001:db8::1":        {0x20, 0x01, 0x0d, 0xb8, 15: 1},
		"fe80::1%eth0":       {0xfe, 0x80, 15: 1},
		"::ffff:192.0.2.255": {10: 0xff, 11: 0xff, 12: 192, 14: 2, 15: 255},
	} {
		addr := netip.MustParseAddr(text)
		if got := AddressOf(addr); got != want || got.Addr() != addr.WithZone("").Unmap() {
			t.Errorf("%s is %x, and %s again, want %x", text, got, got.Addr(), want)
		}
	}
	if none := AddressOf(netip.Addr{}); none != (Address{}) || none.Addr() != netip.IPv6Unspecified() {
		t.Errorf("no address is %x, and %s again", none, none.Addr())
	}
}

// texts are values of the models, and their parsed form; no want is an error.
var texts = []struct {
	into encoding.TextUnmarshaler
	text string
	want any
}{
	{new(MAC), "02:00:00:00:00:01", MAC(0x010000000002)},
	{new(MAC), "02:00:00:00:00", nil},
	{new(EtherType), "0x0806", EtherType(0x0806)},
	{new(EtherType), "0x10000", nil},
	{new(EtherType), "ARP", nil},
	{new(MACMatch), "01:80:C2:00:00:00/ff:ff:ff:ff:ff:f0", MACMatch{[6]byte{1, 0x80, 0xc2}, [6]byte{255, 255, 255, 255, 255, 0xf0}}},
	{new(MACMatch), "02:00:00:00:00:01", MACMatch{[6]byte{2, 0, 0, 0, 0, 1}, [6]byte{255, 255, 255, 255, 255, 255}}},
	{new(MACMatch), "02:00:00:00:00:01:02:03", nil},
	{new(MACMatch), "02:00:00:00:00:01/", nil},
	{new(Prefix), "10.0.0.1", "10.0.0.1/32"},
	{new(Prefix), "10.0.0.1/8", "10.0.0.0/8"},
	{new(Prefix), "2001:db8::1", "2001:db8::1/128"},
	{new(Prefix), "2001:db8::1/32", "2001:db8::/32"},
	{new(Prefix), "::/0", "::/0"},
	{new(Prefix), "10.0.0", nil},
	{new(Prefix), "10.0.0.0/33", nil},
	{new(Prefix), "fe80::1%eth0/64", nil},
	{new(Prefix), "fe80::1%eth0", nil},
	{new(TCPFlags), "SYN", TCPFlags{SYN, SYN}},
	{new(TCPFlags), "SYN,!ACK", TCPFlags{SYN, SYN | ACK}},
	{new(TCPFlags), "!FIN,SYN,!RST,ACK", TCPFlags{SYN | ACK, FIN | SYN | RST | ACK}},
	{new(TCPFlags), "FIN,SYN,RST,PSH,ACK,URG,ECE,CWR", TCPFlags{255, 255}},
	{new(TCPFlags), "", nil},
	{new(TCPFlags), "SYN,", nil},
	{new(TCPFlags), "!!SYN", nil},
	{new(TCPFlags), "syn", nil},
	{new(TCPFlags), "SYN,!SYN", nil},
}

func TestTextsAreRead(t *testing.T) {
	for _, tt := range texts {
		err := tt.into.UnmarshalText([]byte(tt.text))
		check(t, tt.text, err, tt.want, value(tt.into))
	}
}

// check compares the parsed form of a text with the expected one; nothing is an error.
func check(t *testing.T, text string, err error, want, got any) {
	t.Helper()
	if want == nil {
		if !errors.Is(err, cube.ErrInvalid) {
			t.Errorf("%q: read as %v, error %v, want one that wraps ErrInvalid", text, got, err)
		}
	} else if err != nil || got != want {
		t.Errorf("%q: read as %v, error %v, want %v", text, got, err, want)
	}
}

// value is the parsed value, in a comparable form.
func value(read any) any {
	switch v := read.(type) {
	case *MAC:
		return *v
	case *MACMatch:
		return *v
	case *Prefix:
		return v.String()
	case *TCPFlags:
		return *v
	case *Ports:
		return *v
	case *EtherType:
		return *v
	case *ICMPMatch:
		return *v
	case *Protocol:
		return *v
	}
	return nil
}

// documents are values that are numbers or texts in JSON.
var documents = []struct {
	into json.Unmarshaler
	text string
	want any
}{
	{new(Ports), `0`, Ports{}},
	{new(Ports), `443`, Ports{443, 443}},
	{new(Ports), `"443"`, Ports{443, 443}},
	{new(Ports), `"0-65535"`, Ports{0, 65535}},
	{new(Ports), `"7-7"`, Ports{7, 7}},
	{new(Ports), `"9-8"`, nil},
	{new(Ports), `"1-65536"`, nil},
	{new(Ports), `"-"`, nil},
	{new(Ports), `"+1"`, nil},
	{new(ICMPMatch), `8`, ICMPMatch{8, 0, 255}},
	{new(ICMPMatch), `"3/4"`, ICMPMatch{3, 4, 4}},
	{new(ICMPMatch), `"256"`, nil},
	{new(ICMPMatch), `"3/"`, nil},
	{new(ICMPMatch), `"3/4/5"`, nil},
	{new(Protocol), `"TCP"`, TCP},
	{new(Protocol), `"UDPLITE"`, UDPLite},
	{new(Protocol), `255`, Protocol(255)},
	{new(Protocol), `"6"`, TCP},
	{new(Protocol), `256`, nil},
	{new(Protocol), `"X"`, nil},
	{new(Protocol), `"tcp"`, nil},
}

func TestDocumentsAreRead(t *testing.T) {
	for _, tt := range documents {
		err := json.Unmarshal([]byte(tt.text), tt.into)
		check(t, tt.text, err, tt.want, value(tt.into))
	}
}

// Invalid input leaves the previous value.
func TestAnErrorChangesNothing(t *testing.T) {
	ports, protocol, prefix := Ports{1, 2}, TCP, Prefix{}
	if err := json.Unmarshal([]byte(`"3-2"`), &ports); err == nil || ports != (Ports{1, 2}) {
		t.Errorf("ports are %v, error %v", ports, err)
	}
	if err := json.Unmarshal([]byte(`"no"`), &protocol); err == nil || protocol != TCP {
		t.Errorf("the protocol is %v, error %v", protocol, err)
	}
	if err := prefix.UnmarshalText([]byte("10.0.0.0/40")); err == nil || prefix.IsValid() {
		t.Errorf("the prefix is %v, error %v", prefix, err)
	}
}

func TestPrefixesKnowWhetherALengthWasGiven(t *testing.T) {
	for text, want := range map[string]bool{"10.0.0.1": true, "10.0.0.1/32": false, "2001:db8::1": true, "2001:db8::/64": false} {
		if _, alone, err := ParsePrefix("address", text); alone != want || err != nil {
			t.Errorf("%s: alone is %v, error %v", text, alone, err)
		}
	}
	if _, _, err := ParsePrefix("external address", "x"); err == nil || !strings.HasPrefix(err.Error(), `external address "x": `) {
		t.Errorf("the error is %v", err)
	}
}

// The names of protocols are in the model and in the code.
func TestProtocolsHaveTheNumbersOfTheModel(t *testing.T) {
	model, err := models.FS.ReadFile("polycube-inet.yang")
	if err != nil {
		t.Fatal(err)
	}
	_, text, _ := strings.Cut(string(model), "typedef protocol-match")
	text, _, _ = strings.Cut(text, "type uint8")
	found := regexp.MustCompile(`enum (\w+) \{\s*description\s*"(\d+),`).FindAllStringSubmatch(text, -1)
	if len(found) != len(Protocols) {
		t.Errorf("the model has %d names, the code %d", len(found), len(Protocols))
	}
	for _, m := range found {
		var p Protocol
		if err := json.Unmarshal([]byte(`"`+m[1]+`"`), &p); err != nil {
			t.Error(err)
			continue
		}
		if got, err := json.Marshal(p); err != nil || string(got) != m[2] || p.String() != m[1] {
			t.Errorf("%s is %s and prints as %s (error %v), the model says %s", m[1], got, p, err, m[2])
		}
	}
	if got := Protocol(200).String(); got != "200" {
		t.Errorf("a protocol without a name prints as %s", got)
	}
}

func TestSomeProtocolsInLowerCase(t *testing.T) {
	some := Protocols.LowerCase(TCP, ICMPv6)
	for p, want := range map[Protocol]string{TCP: "tcp", ICMPv6: "icmpv6", UDP: "17"} {
		if got := some.Name(p); got != want {
			t.Errorf("protocol %d is %s, want %s", p, got, want)
		}
		if got, ok := some.Parse(want); !ok || got != p {
			t.Errorf("%s is protocol %d, want %d", want, got, p)
		}
	}
	if p, ok := some.Parse("udp"); ok {
		t.Errorf("udp is read as %d", p)
	}
}

func TestCountsAreSummed(t *testing.T) {
	if got, want := Sum([]Count{{1, 64}, {}, {2, 3000}}), (Count{3, 3064}); got != want {
		t.Errorf("the sum is %v, want %v", got, want)
	}
	if got := Sum(nil); got != (Count{}) {
		t.Errorf("the sum of nothing is %v", got)
	}
}

func TestClassesOfQueues(t *testing.T) {
	for text, want := range map[string]QueueClass{"1:a0": 0x100a0, "ffff:0": 0xffff0000} {
		var q QueueClass
		if err := q.UnmarshalText([]byte(text)); err != nil || q != want {
			t.Errorf("%s: %#x, %v, want %#x", text, q, err, want)
		}
	}
	for _, text := range []string{"", "1", "1:", "x:1", "10000:1"} {
		var q QueueClass
		if err := q.UnmarshalText([]byte(text)); !errors.Is(err, cube.ErrInvalid) || q != 0 {
			t.Errorf("%q: %#x, %v", text, q, err)
		}
	}
}
