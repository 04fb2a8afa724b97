// SPDX-License-Identifier: Apache-2.0

package pbforwarder

// The conditions of a rule, for package classifier.

import (
	"fmt"

	"github.com/polycube/polycube/classifier"
	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/inet"
)

// match returns the conditions of the rule.
func (r *Rule) match(env cube.Env, m *classifier.Match) error {
	if err := r.compatible(); err != nil {
		return err
	}
	err := r.each(env, func(set func(*classifier.Match) error) error { return set(m) })
	if err != nil || r.Not == nil {
		return err
	}
	err = r.Not.each(env, func(set func(*classifier.Match) error) error {
		var one classifier.Match
		if err := set(&one); err != nil {
			return err
		}
		return m.Except(one)
	})
	if err != nil {
		return fmt.Errorf("not: %w", err)
	}
	return nil
}

// compatible refuses a protocol that another field excludes.
func (f *Fields) compatible() error {
	for _, x := range []struct {
		name string
		set  bool
		of   inet.Protocol
	}{{"tcp_flags", f.TCPFlags != nil, inet.TCP}, {"icmp_type", f.ICMPType != nil, inet.ICMP}, {"icmpv6_type", f.ICMPv6Type != nil, inet.ICMPv6}} {
		if x.set && f.L4Proto != nil && *f.L4Proto != x.of {
			return fmt.Errorf("%s: l4_proto is %s: %w", x.name, f.L4Proto, cube.ErrInvalid)
		}
	}
	if f.ICMPType != nil && f.ICMPv6Type != nil || f.TCPFlags != nil && (f.ICMPType != nil || f.ICMPv6Type != nil) {
		return fmt.Errorf("a rule can have only one of tcp_flags, icmp_type and icmpv6_type: %w", cube.ErrInvalid)
	}
	return nil
}

// each passes each condition on.
func (f *Fields) each(env cube.Env, with func(set func(*classifier.Match) error) error) error {
	for _, x := range []struct {
		name string
		is   bool
		set  func(m *classifier.Match) error
	}{
		{"in_port", f.InPort != "", func(m *classifier.Match) error {
			port, ok := env.PortIndex(f.InPort)
			if !ok {
				return fmt.Errorf("%s: no such port: %w", f.InPort, cube.ErrNotFound)
			}
			m.InPort(port)
			return nil
		}},
		{"vlan", f.VLAN != nil, func(m *classifier.Match) error { m.VLAN(uint16(*f.VLAN)); return nil }},
		{"ethertype", f.EtherType != nil, func(m *classifier.Match) error { m.Ethertype(uint16(*f.EtherType)); return nil }},
		{"src_mac", f.SrcMAC != nil, func(m *classifier.Match) error { m.SourceMAC(f.SrcMAC.Address, f.SrcMAC.Mask); return nil }},
		{"dst_mac", f.DstMAC != nil, func(m *classifier.Match) error { m.DestinationMAC(f.DstMAC.Address, f.DstMAC.Mask); return nil }},
		{"l4_proto", f.L4Proto != nil, func(m *classifier.Match) error { m.Protocol(uint8(*f.L4Proto)); return nil }},
		{"src_ip", f.SrcIP != nil, func(m *classifier.Match) error { return m.Source(f.SrcIP.Prefix) }},
		{"dst_ip", f.DstIP != nil, func(m *classifier.Match) error { return m.Destination(f.DstIP.Prefix) }},
		{"src_set", f.SrcSet != "", func(m *classifier.Match) error { return m.SourceSet(f.SrcSet) }},
		{"dst_set", f.DstSet != "", func(m *classifier.Match) error { return m.DestinationSet(f.DstSet) }},
		{"dscp", f.DSCP != nil, func(m *classifier.Match) error { m.DSCP(*f.DSCP); return nil }},
		{"src_port", f.SrcPort != nil, func(m *classifier.Match) error { return m.SourcePorts(f.SrcPort.First, f.SrcPort.Last) }},
		{"dst_port", f.DstPort != nil, func(m *classifier.Match) error { return m.DestinationPorts(f.DstPort.First, f.DstPort.Last) }},
		{"tcp_flags", f.TCPFlags != nil, func(m *classifier.Match) error { m.TCPFlags(f.TCPFlags.Value, f.TCPFlags.Mask); return nil }},
		{"icmp_type", f.ICMPType != nil, func(m *classifier.Match) error {
			return m.ICMP(f.ICMPType.Type, f.ICMPType.FirstCode, f.ICMPType.LastCode)
		}},
		{"icmpv6_type", f.ICMPv6Type != nil, func(m *classifier.Match) error {
			return m.ICMPv6(f.ICMPv6Type.Type, f.ICMPv6Type.FirstCode, f.ICMPv6Type.LastCode)
		}},
	} {
		if !x.is {
			continue
		}
		if err := with(x.set); err != nil {
			return fmt.Errorf("%s: %w", x.name, err)
		}
	}
	return nil
}
