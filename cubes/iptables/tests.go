// SPDX-License-Identifier: Apache-2.0

package iptables

// Conditions that are tested after the search: test.h.

import (
	"encoding/binary"
	"fmt"
	"math"
	"net/netip"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/hostaddr"
	"github.com/polycube/polycube/iptables/language"
)

// testKind is the kind of a condition: enum iptables_test_kind.
type testKind uint8

// The kinds.
const (
	testIn testKind = iota
	testOut
	testSource
	testDestination
	testSourceRange
	testDestinationRange
	testLaterFragment
	testLength
	testTTL
	testTOS
	testEitherPort
	testLimit
	testHashLimit
	testRandom
	testNth
	testUser
	testGroup
	testSocket
	testPacketType
	testSourceType
	testDestinationType
	testString
	testReply
	testRouting
	testRoutingOther
	testSet
	testSetAdd
	testSetEnd
	testTCPOption
	testCTSource
	testCTDestination
	testCTSourcePort
	testCTDestinationPort
	testCTProtocol
	testConnections
	testState
)

// groups reports whether the condition has a memory for each group of packets.
func (k testKind) groups() bool { return k == testHashLimit || k == testConnections }

// counts reports whether the condition has memory of its own: struct iptables_counted.
func (k testKind) counts() bool { return k == testLimit || k == testNth }

// netdevTest is the condition that a netdev has a name, or that its name begins with a prefix.
func netdevTest(kind testKind, i language.Interface) test {
	t := test{Kind: kind, Negated: i.Not, Number: uint16(len(i.Name))}
	if !i.Prefix {
		t.Number = 16
	}
	copy(t.Data[:], i.Name)
	return t
}

// words16 returns the bits of a mask of addresses, in the place where programs have the address.
func words16(mask netip.Addr) (out [16]byte) {
	if mask.Is4() {
		four := mask.As4()
		copy(out[12:], four[:])
		return out
	}
	return mask.As16()
}

// maskTest is the condition that bits of an address have a value.
func maskTest(kind testKind, a language.Address) test {
	t := test{Kind: kind, Negated: a.Not}
	value, mask := a.Addr.As16(), words16(a.Mask)
	copy(t.Data[:], value[:])
	copy(t.Data[16:], mask[:])
	return t
}

// numbers returns a condition of numbers of 32 bits.
func numbers(kind testKind, not bool, words ...uint32) test {
	t := test{Kind: kind, Negated: not}
	for i, w := range words {
		binary.NativeEndian.PutUint32(t.Data[4*i:], w)
	}
	return t
}

// testsOf returns the conditions of a match that the search does not compare.
func testsOf(family language.Family, m language.Match) ([]test, error) {
	switch m := m.(type) {
	case language.IPRange:
		return rangeTests(m), nil
	case language.Length:
		return []test{numbers(testLength, m.Range.Not, m.Range.First, m.Range.Last)}, nil
	case language.TTL:
		return []test{ttlTest(m)}, nil
	case language.Routing:
		if m.Not { // another routing header, not none
			return []test{{Kind: testRoutingOther, Value: m.Type + 1}}, nil
		}
		return []test{{Kind: testRouting, Value: m.Type + 1}}, nil
	case language.TOS:
		return []test{numbers(testTOS, m.Not, uint32(m.Value), uint32(m.Mask))}, nil
	case language.Multiport:
		return []test{portsTest(m)}, nil
	case language.PktType:
		value := map[string]uint32{"unicast": unix.PACKET_HOST, "broadcast": unix.PACKET_BROADCAST, "multicast": unix.PACKET_MULTICAST, "otherhost": unix.PACKET_OTHERHOST}[m.Type]
		return []test{{Kind: testPacketType, Negated: m.Not, Value: value}}, nil
	case language.AddrType:
		return typeTests(m)
	case language.Owner:
		return ownerTests(m)
	case language.Statistic:
		if m.Every != 0 {
			return []test{numbers(testNth, m.Not, m.Every, m.Packet)}, nil
		}
		return []test{{Kind: testRandom, Negated: m.Not, Value: uint32(math.Round(m.Probability * (1 << 31)))}}, nil
	case language.Limit:
		return limitTest(m.Rate, uint64(m.Burst))
	case language.ConnLimit:
		return []test{connectionsTest(m)}, nil
	case language.HashLimit:
		return hashLimitTest(family, m)
	case language.String:
		return []test{stringTest(m)}, nil
	case language.Conntrack:
		return connectionTests(m)
	}
	return nil, cube.ErrUnsupported
}

// rangeTests are those of ranges of addresses.
func rangeTests(m language.IPRange) (out []test) {
	for _, r := range []struct {
		kind testKind
		is   language.AddressRange
	}{{testSourceRange, m.Source}, {testDestinationRange, m.Destination}} {
		if r.is == (language.AddressRange{}) {
			continue
		}
		t := test{Kind: r.kind, Negated: r.is.Not}
		for i, a := range []netip.Addr{r.is.First, r.is.Last} {
			b := a.As16()
			binary.NativeEndian.PutUint64(t.Data[16*i:], binary.BigEndian.Uint64(b[:]))
			binary.NativeEndian.PutUint64(t.Data[16*i+8:], binary.BigEndian.Uint64(b[8:]))
		}
		out = append(out, t)
	}
	return out
}

func ttlTest(m language.TTL) test {
	first, last := uint32(m.Value), uint32(m.Value)
	switch m.Op {
	case "lt":
		first, last = 0, uint32(m.Value)-1
		if m.Value == 0 {
			first, last = 1, 0 // never
		}
	case "gt":
		first, last = uint32(m.Value)+1, math.MaxUint8
	}
	return numbers(testTTL, m.Not, first, last)
}

// portsTest is the condition that one of a packet's ports is in a list.
func portsTest(m language.Multiport) test {
	kind := map[string]testKind{"ports": testEitherPort}[m.Of]
	t := test{Kind: kind, Negated: m.Not, Number: uint16(len(m.Ports))}
	for i, r := range m.Ports {
		binary.NativeEndian.PutUint16(t.Data[4*i:], r.First)
		binary.NativeEndian.PutUint16(t.Data[4*i+2:], r.Last)
	}
	return t
}

func typeTests(m language.AddrType) (out []test, err error) {
	if m.LimitIn || m.LimitOut {
		return nil, fmt.Errorf("--limit-iface-in and --limit-iface-out are not supported: an address is local on all netdevs of the host: %w", cube.ErrUnsupported)
	}
	for _, side := range []struct {
		kind  testKind
		types []string
		not   bool
	}{{testSourceType, m.Source, m.SourceNot}, {testDestinationType, m.Destination, m.DestinationNot}} {
		if len(side.types) == 0 {
			continue
		}
		t := test{Kind: side.kind, Negated: side.not}
		if t.Value, err = hostaddr.TypesOf(side.types); err != nil {
			return nil, err
		}
		out = append(out, t)
	}
	return out, nil
}

func stringTest(m language.String) test {
	t := test{Kind: testString, Negated: m.Not, Number: uint16(len(m.Pattern))}
	binary.NativeEndian.PutUint32(t.Data[0:], uint32(m.From))
	binary.NativeEndian.PutUint32(t.Data[4:], uint32(m.To))
	pattern := m.Pattern
	if m.IgnoreCase {
		t.Value, pattern = 1, strings.ToLower(pattern)
	}
	copy(t.Data[8:], pattern)
	return t
}
