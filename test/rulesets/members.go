// SPDX-License-Identifier: Apache-2.0

package rulesets

// Rules in the form of the API.

import (
	"fmt"
	"net"

	"github.com/polycube/polycube/inet"
)

// Members are the members of a rule in the API of a cube. Those in names are called otherwise there than in a
// pbforwarder.
func (r *Rule) Members(names map[string]string) map[string]any {
	m := map[string]any{}
	for name, value := range r.fields() {
		if other, there := names[name]; there {
			name = other
		}
		m[name] = value
	}
	if r.Not != nil {
		m["not"] = r.Not.Members(names)
	}
	return m
}

// fields are the fields of a rule, without those that must differ.
func (r *Rule) fields() map[string]any {
	m := map[string]any{}
	if r.Src.IsValid() {
		m["src_ip"] = r.Src.String()
	}
	if r.Dst.IsValid() {
		m["dst_ip"] = r.Dst.String()
	}
	if r.Protocol != nil {
		m["l4_proto"] = *r.Protocol
	}
	for name, p := range map[string]*Ports{"src_port": r.SrcPort, "dst_port": r.DstPort} {
		switch {
		case p == nil:
		case p.First == p.Last:
			m[name] = p.First
		default:
			m[name] = fmt.Sprintf("%d-%d", p.First, p.Last)
		}
	}
	for name, mac := range map[string]*[6]byte{"src_mac": r.SrcMAC, "dst_mac": r.DstMAC} {
		if mac != nil {
			m[name] = net.HardwareAddr(mac[:]).String()
		}
	}
	if r.SrcMask != nil {
		m["src_mac"] = fmt.Sprintf("%s/%s", m["src_mac"], net.HardwareAddr(r.SrcMask[:]))
	}
	if r.VLAN != nil {
		m["vlan"] = *r.VLAN
	}
	if r.InPort != nil {
		m["in_port"] = fmt.Sprintf("p%d", *r.InPort+1)
	}
	if r.EtherType != nil {
		m["ethertype"] = fmt.Sprintf("0x%04x", *r.EtherType)
	}
	if r.DSCP != nil {
		m["dscp"] = *r.DSCP
	}
	if r.Flags != nil {
		m["tcp_flags"] = inet.TCPFlags{Value: r.Flags.Value, Mask: r.Flags.Mask}.String()
	}
	if i := r.ICMP; i != nil {
		m[map[bool]string{false: "icmp_type", true: "icmpv6_type"}[i.V6]] = icmpText(i)
	}
	return m
}

// icmpText returns a type with one code, or with all.
func icmpText(i *ICMP) any {
	if i.First == 0 && i.Last == 255 {
		return i.Type
	}
	return fmt.Sprintf("%d/%d", i.Type, i.First)
}
