// SPDX-License-Identifier: Apache-2.0

package pbforwarder

// The conditions of a rule, for package classifier.

import (
	"fmt"

	"github.com/polycube/polycube/classifier"
	"github.com/polycube/polycube/classifier/conditions"
	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/inet"
)

// match returns the conditions of the rule.
func (r *Rule) match(env cube.Env, m *classifier.Match) error {
	var not conditions.List
	if r.Not != nil {
		not = r.Not.conditions(env)
	}
	return conditions.Match(m, r.conditions(env), not)
}

func (f *Fields) conditions(env cube.Env) conditions.List {
	return conditions.List{
		f.inPort(env),
		conditions.VLAN("vlan", f.VLAN), conditions.EtherType("ethertype", f.EtherType),
		conditions.SourceMAC("src_mac", f.SrcMAC), conditions.DestinationMAC("dst_mac", f.DstMAC),
		conditions.Protocol("l4_proto", f.L4Proto),
		conditions.Source("src_ip", f.SrcIP), conditions.Destination("dst_ip", f.DstIP),
		conditions.SourceSet("src_set", f.SrcSet), conditions.DestinationSet("dst_set", f.DstSet),
		conditions.DSCP("dscp", f.DSCP),
		conditions.SourcePorts("src_port", ports(f.SrcPort)), conditions.DestinationPorts("dst_port", ports(f.DstPort)),
		conditions.TCPFlags("tcp_flags", f.TCPFlags), conditions.ICMP("icmp_type", f.ICMPType), conditions.ICMPv6("icmpv6_type", f.ICMPv6Type),
	}
}

func (f *Fields) inPort(env cube.Env) conditions.Condition {
	if f.InPort == "" {
		return conditions.Condition{}
	}
	return conditions.Of("in_port", func(m *classifier.Match) error {
		port, ok := env.PortIndex(f.InPort)
		if !ok {
			return fmt.Errorf("%s: no such port: %w", f.InPort, cube.ErrNotFound)
		}
		m.InPort(port)
		return nil
	})
}

func ports(p *inet.Ports) inet.PortList {
	if p == nil {
		return nil
	}
	return inet.PortList{*p}
}
