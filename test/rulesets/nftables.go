// SPDX-License-Identifier: Apache-2.0

package rulesets

// Rules in the syntax of nftables.

import (
	"encoding/binary"
	"fmt"
	"net"
	"net/netip"
	"strings"
)

// Nftables returns the conditions of a rule in nftables syntax: two alternatives where the DSCP of either IP version
// counts. A mark of 0 means that the packet is no later fragment; port i is the device veth<i+1>.
func (r *Rule) Nftables() []string {
	if !hasDSCP(r) || versioned(r) || r.Not != nil && versioned(r.Not) {
		return []string{nftLine(r, isSix(r) || r.Not != nil && isSix(r.Not))}
	}
	return []string{nftLine(r, false), nftLine(r, true)}
}

func hasDSCP(r *Rule) bool { return r.DSCP != nil || r.Not != nil && r.Not.DSCP != nil }

func versioned(r *Rule) bool { return r.Src.IsValid() || r.Dst.IsValid() || r.ICMP != nil }

func isSix(r *Rule) bool {
	return r.Src.Addr().Is6() || r.Dst.Addr().Is6() || r.ICMP != nil && r.ICMP.V6
}

// nftLine is a rule; six is the IP version of a DSCP.
func nftLine(r *Rule, six bool) string {
	says := nftFields(r, six, "==")
	if r.Not != nil {
		says = append(says, nftFields(r.Not, six, "!=")...)
	}
	return strings.Join(says, " ")
}

// nftFields are the conditions of a rule, each of which holds or not, by the operator.
func nftFields(r *Rule, six bool, op string) (says []string) {
	say := func(format string, args ...any) {
		says = append(says, strings.ReplaceAll(fmt.Sprintf(format, args...), "OP", op))
	}
	if r.InPort != nil {
		say(`iifname OP "veth%d"`, *r.InPort+1)
	}
	if r.VLAN != nil {
		say("vlan id OP %d", *r.VLAN)
	}
	for name, mac := range map[string]*[6]byte{"saddr": r.SrcMAC, "daddr": r.DstMAC} {
		switch {
		case mac == nil:
		case name == "saddr" && r.SrcMask != nil:
			say("ether saddr & %s OP %s", net.HardwareAddr(r.SrcMask[:]), net.HardwareAddr(mac[:]))
		default:
			say("ether %s OP %s", name, net.HardwareAddr(mac[:]))
		}
	}
	for name, prefix := range map[string]netip.Prefix{"saddr": r.Src, "daddr": r.Dst} {
		family := map[bool]string{true: "ip", false: "ip6"}[prefix.Addr().Is4()]
		switch {
		case !prefix.IsValid():
		case prefix.Bits() == 0:
			say("meta protocol OP %s", family)
		default:
			say("%s %s OP %s", family, name, prefix)
		}
	}
	if r.DSCP != nil {
		say("%s dscp OP %d", map[bool]string{true: "ip6", false: "ip"}[six], *r.DSCP)
	}
	if r.Protocol != nil {
		say("meta l4proto OP %d", *r.Protocol)
	}
	return append(says, nftTransport(r, op)...)
}

// nftTransport are the conditions on the header after the IP header.
func nftTransport(r *Rule, op string) (says []string) {
	say := func(format string, args ...any) {
		says = append(says, strings.ReplaceAll(fmt.Sprintf(format, args...), "OP", op))
	}
	if r.SrcPort != nil || r.DstPort != nil {
		say("meta mark 0 meta l4proto { tcp, udp, sctp, dccp, udplite }") // th reads the bytes, whatever they are
	}
	for name, p := range map[string]*Ports{"sport": r.SrcPort, "dport": r.DstPort} {
		if p != nil {
			say("th %s OP %d-%d", name, p.First, p.Last)
		}
	}
	if r.Flags != nil {
		// By offset, as the type of ICMP below: nft would refuse rules that never match.
		say("meta mark 0 meta l4proto 6 @th,104,8 & %d OP %d", r.Flags.Mask, r.Flags.Value)
	}
	if i := r.ICMP; i != nil {
		family, protocol := "ip", 1
		if i.V6 {
			family, protocol = "ip6", 58
		}
		say("meta mark 0 meta protocol %s meta l4proto %d @th,0,8 OP %d", family, protocol, i.Type)
		if i.First == i.Last {
			say("@th,8,8 OP %d", i.First)
		}
	}
	return says
}

// Authenticated reports whether an authentication header precedes other IPv6 headers: nftables treats it as the
// protocol, we as an extension header.
func Authenticated(frame []byte) bool {
	ip := frame[12:]
	if binary.BigEndian.Uint16(ip) == 0x8100 {
		ip = ip[4:]
	}
	return binary.BigEndian.Uint16(ip) == 0x86dd && ip[2+6] == 51
}
