// SPDX-License-Identifier: Apache-2.0

package classifier

import (
	"errors"
	"net/netip"
	"testing"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/test/pkt"
)

func TestMessagesAreMatchedByTypeAndCode(t *testing.T) {
	message := func(kind, code byte) []byte {
		h := pkt.IPv4Header{From: "10.0.0.1", To: "10.0.0.2", Protocol: pkt.ProtoICMP}
		return pkt.Eth("02:00:00:00:00:01", "02:00:00:00:00:02").IP(h.Packet(pkt.ICMPMessage(kind, code, 7<<16, nil))).Bytes()
	}
	// A datagram whose ports are the type and the code of a message.
	datagram := pkt.Eth("02:00:00:00:00:01", "02:00:00:00:00:02").IPv4("10.0.0.1", "10.0.0.2").UDP(0, 3<<8|4).Payload(8).Bytes()
	for _, tt := range []struct {
		name              string
		kind, first, last uint8
		frame             []byte
		want              bool
	}{
		{"any code", 3, 0, 255, message(3, 4), true},
		{"the code", 3, 4, 4, message(3, 4), true},
		{"another code", 3, 5, 255, message(3, 4), false},
		{"another type", 4, 0, 255, message(3, 4), false},
		{"ports are not a type", 3, 0, 255, datagram, false},
		{"a message that is cut off", 3, 0, 255, message(3, 4)[:14+20+7], false},
	} {
		var m Match
		if err := m.ICMP(tt.kind, tt.first, tt.last); err != nil {
			t.Fatal(err)
		}
		if k, ok := KeyOf(tt.frame, 0, 0); !ok || m.Matches(&k) != tt.want {
			t.Errorf("%s: matches %v, want %v", tt.name, m.Matches(&k), tt.want)
		}
	}
}

func TestMessagesHaveNoPortsAndOneVersion(t *testing.T) {
	four, six := netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("2001:db8::/32")
	for _, tt := range []struct {
		name string
		set  func(m *Match) error
		want error
	}{
		{"ports first", func(m *Match) error { return errors.Join(m.SourcePorts(1, 2), m.ICMP(8, 0, 255)) }, cube.ErrInvalid},
		{"ports afterwards", func(m *Match) error { return errors.Join(m.ICMP(8, 0, 255), m.DestinationPorts(0, 65535)) }, cube.ErrInvalid},
		{"codes in reverse", func(m *Match) error { return m.ICMP(8, 2, 1) }, cube.ErrInvalid},
		{"ICMP to IPv6", func(m *Match) error { return errors.Join(m.Destination(six), m.ICMP(8, 0, 255)) }, cube.ErrInvalid},
		{"ICMPv6 to IPv4", func(m *Match) error { return errors.Join(m.ICMPv6(128, 0, 255), m.Destination(four)) }, cube.ErrInvalid},
		{"ICMPv6 to IPv6", func(m *Match) error { return errors.Join(m.ICMPv6(128, 0, 255), m.Destination(six)) }, nil},
	} {
		if err := tt.set(&Match{}); !errors.Is(err, tt.want) {
			t.Errorf("%s: error %v, want %v", tt.name, err, tt.want)
		}
	}
}
