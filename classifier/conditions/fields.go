// SPDX-License-Identifier: Apache-2.0

package conditions

// The conditions about header fields. Without a value, they say nothing.

import (
	"github.com/polycube/polycube/classifier"
	"github.com/polycube/polycube/inet"
)

// VLAN is about the id of the outer tag.
func VLAN(leaf string, id *uint32) Condition {
	return optional(leaf, id, func(m *classifier.Match, id uint32) error { m.VLAN(uint16(id)); return nil })
}

// EtherType is about the type after the VLAN tags.
func EtherType(leaf string, is *inet.EtherType) Condition {
	return optional(leaf, is, func(m *classifier.Match, is inet.EtherType) error { m.Ethertype(uint16(is)); return nil })
}

// SourceMAC is about bits of the source's MAC address.
func SourceMAC(leaf string, is *inet.MACMatch) Condition {
	return optional(leaf, is, func(m *classifier.Match, is inet.MACMatch) error { m.SourceMAC(is.Address, is.Mask); return nil })
}

// DestinationMAC is SourceMAC for the destination.
func DestinationMAC(leaf string, is *inet.MACMatch) Condition {
	return optional(leaf, is, func(m *classifier.Match, is inet.MACMatch) error { m.DestinationMAC(is.Address, is.Mask); return nil })
}

// Protocol is about the protocol above IP.
func Protocol(leaf string, is *inet.Protocol) Condition {
	c := optional(leaf, is, func(m *classifier.Match, is inet.Protocol) error { m.Protocol(uint8(is)); return nil })
	c.protocol = is
	return c
}

// Source is about the source address.
func Source(leaf string, is *inet.Prefix) Condition {
	return optional(leaf, is, func(m *classifier.Match, is inet.Prefix) error { return m.Source(is.Prefix) })
}

// Destination is about the destination address.
func Destination(leaf string, is *inet.Prefix) Condition {
	return optional(leaf, is, func(m *classifier.Match, is inet.Prefix) error { return m.Destination(is.Prefix) })
}

// SourceSet is about the set of addresses that contains the source; "": nothing.
func SourceSet(leaf, name string) Condition {
	return optional(leaf, named(name), (*classifier.Match).SourceSet)
}

// DestinationSet is SourceSet for the destination.
func DestinationSet(leaf, name string) Condition {
	return optional(leaf, named(name), (*classifier.Match).DestinationSet)
}

func named(name string) *string {
	if name == "" {
		return nil
	}
	return &name
}

// DSCP is about the differentiated services code point.
func DSCP(leaf string, is *uint8) Condition {
	return optional(leaf, is, func(m *classifier.Match, is uint8) error { m.DSCP(is); return nil })
}

// SourcePorts is about the source port.
func SourcePorts(leaf string, is inet.PortList) Condition {
	return portList(leaf, is, (*classifier.Match).SourcePorts)
}

// DestinationPorts is about the destination port.
func DestinationPorts(leaf string, is inet.PortList) Condition {
	return portList(leaf, is, (*classifier.Match).DestinationPorts)
}

// portList is about a port in one of several ranges: in the span of the list, and in none of its gaps.
func portList(leaf string, is inet.PortList, set func(m *classifier.Match, first, last uint16) error) Condition {
	if len(is) == 0 {
		return Condition{}
	}
	without := func(m *classifier.Match, ranges []inet.Ports) error {
		for _, r := range ranges {
			if err := except(m, func(one *classifier.Match) error { return set(one, r.First, r.Last) }); err != nil {
				return err
			}
		}
		return nil
	}
	return Condition{
		leaf: leaf,
		is: func(m *classifier.Match) error {
			if err := set(m, is.Span().First, is.Span().Last); err != nil {
				return err
			}
			return without(m, is.Gaps())
		},
		not: func(m *classifier.Match) error { return without(m, is) },
	}
}

// TCPFlags is about the flags of a TCP segment.
func TCPFlags(leaf string, is *inet.TCPFlags) Condition {
	return optional(leaf, is, func(m *classifier.Match, is inet.TCPFlags) error { m.TCPFlags(is.Value, is.Mask); return nil }).implying(inet.TCP)
}

// ICMP is about the type of an ICMP message of IPv4.
func ICMP(leaf string, is *inet.ICMPMatch) Condition {
	return optional(leaf, is, func(m *classifier.Match, is inet.ICMPMatch) error {
		return m.ICMP(is.Type, is.FirstCode, is.LastCode)
	}).implying(inet.ICMP)
}

// ICMPv6 is about the type of an ICMPv6 message.
func ICMPv6(leaf string, is *inet.ICMPMatch) Condition {
	return optional(leaf, is, func(m *classifier.Match, is inet.ICMPMatch) error {
		return m.ICMPv6(is.Type, is.FirstCode, is.LastCode)
	}).implying(inet.ICMPv6)
}
