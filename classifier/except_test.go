// SPDX-License-Identifier: Apache-2.0

package classifier

import (
	"errors"
	"net/netip"
	"testing"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/test/pkt"
)

// only returns a match with conditions that are valid.
func only(set func(m *Match) error) Match {
	var m Match
	if err := set(&m); err != nil {
		panic(err)
	}
	return m
}

// always makes a function of one that does not fail.
func always(set func(m *Match)) Match {
	return only(func(m *Match) error { set(m); return nil })
}

func TestAnExceptionNeedsTheHeadersItIsAbout(t *testing.T) {
	eth := func() *pkt.Frame { return pkt.Eth("02:00:00:00:00:01", "02:00:00:00:00:02") }
	udp := eth().IPv4("10.0.0.1", "10.0.0.2").UDP(1000, 53).Payload(8).Bytes()
	gre := eth().IP(pkt.IPv4Header{From: "10.0.0.1", To: "10.0.0.2", Protocol: 47}.Packet(make([]byte, 8))).Bytes()
	echo := eth().IP(pkt.IPv4Header{From: "10.0.0.1", To: "10.0.0.2", Protocol: 1}.Packet(pkt.ICMPMessage(8, 0, 0, nil))).Bytes()
	other := eth().Payload(46).Bytes()
	prefix := func(text string) Match {
		return only(func(m *Match) error { return m.Source(netip.MustParsePrefix(text)) })
	}
	port := func(first, last uint16) Match {
		return only(func(m *Match) error { return m.DestinationPorts(first, last) })
	}
	icmp := func(kind uint8) Match { return only(func(m *Match) error { return m.ICMP(kind, 0, 255) }) }
	for _, tt := range []struct {
		name  string
		not   Match
		frame []byte
		want  bool
	}{
		{"the source", prefix("10.0.0.0/8"), udp, false},
		{"another source", prefix("10.0.1.0/24"), udp, true},
		{"a source of IPv6", prefix("2001:db8::/32"), udp, false},
		{"a source of ARP", prefix("10.0.1.0/24"), other, false},
		{"the port", port(50, 60), udp, false},
		{"another port", port(54, 60), udp, true},
		{"a port of GRE", port(54, 60), gre, false},
		{"the protocol", always(func(m *Match) { m.Protocol(17) }), udp, false},
		{"another protocol", always(func(m *Match) { m.Protocol(17) }), gre, true},
		{"the protocol of ARP", always(func(m *Match) { m.Protocol(17) }), other, false},
		{"the type", icmp(8), echo, false},
		{"another type", icmp(0), echo, true},
		{"a type of UDP", icmp(0), udp, false},
		{"TCP flags of UDP", always(func(m *Match) { m.TCPFlags(2, 2) }), udp, false},
		{"the EtherType", always(func(m *Match) { m.Ethertype(0x0800) }), udp, false},
		{"another EtherType", always(func(m *Match) { m.Ethertype(0x0800) }), other, true},
		{"a VLAN of an untagged frame", always(func(m *Match) { m.VLAN(1) }), udp, true},
		{"a fragment", always(func(m *Match) { m.Fragment(true) }), udp, true},
	} {
		var m Match
		if err := m.Except(tt.not); err != nil {
			t.Fatal(err)
		}
		k, _ := KeyOf(tt.frame, 0, 0)
		if got := m.Matches(&k); got != tt.want {
			t.Errorf("not %s: matches %v, want %v", tt.name, got, tt.want)
		}
		l := newLab(t)
		l.apply([]Change{{Order: 1, Rule: &Rule{Match: m}}})
		l.check(&k)
	}
}

func TestExceptionsThatCannotBeAreRefused(t *testing.T) {
	four := only(func(m *Match) error { return m.Source(netip.MustParsePrefix("10.0.0.0/8")) })
	six := only(func(m *Match) error { return m.Source(netip.MustParsePrefix("2001:db8::/32")) })
	port := only(func(m *Match) error { return m.SourcePorts(1, 2) })
	icmp := only(func(m *Match) error { return m.ICMP(8, 0, 255) })
	twice := only(func(m *Match) error { return m.Except(four) })
	most := only(func(m *Match) error {
		for range maxExceptions {
			if err := m.Except(port); err != nil {
				return err
			}
		}
		return nil
	})
	for _, tt := range []struct {
		name    string
		m, not  Match
		because error
	}{
		{"of another IP version", four, six, cube.ErrInvalid},
		{"a type where there are ports", port, icmp, cube.ErrInvalid},
		{"ports where there is a type", icmp, port, cube.ErrInvalid},
		{"with exceptions", port, twice, cube.ErrInvalid},
		{"one too many", most, port, cube.ErrFull},
	} {
		m := tt.m
		if err := m.Except(tt.not); !errors.Is(err, tt.because) || m != tt.m {
			t.Errorf("%s: error %v, want %v; changed: %v", tt.name, err, tt.because, m != tt.m)
		}
	}
}
