// SPDX-License-Identifier: Apache-2.0

package nft

// Matches: what each selector is in the language of iptables.

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/polycube/polycube/iptables/language"
)

// errNever is the error of a rule that no packet of a family matches.
var errNever = errors.New("no packet matches it")

// matchers are the selectors without mask.
var matchers = map[string]func(*draft, operand) error{
	"meta nfproto": (*draft).family, "meta protocol": (*draft).family, "meta l4proto": (*draft).protocol,
	"meta iifname": (*draft).inNetdev, "meta iif": (*draft).inNetdev, "meta oifname": (*draft).outNetdev, "meta oif": (*draft).outNetdev,
	"meta pkttype": (*draft).pktType, "ct state": (*draft).state,
	"ip protocol": (*draft).protocol, "ip saddr": (*draft).source, "ip daddr": (*draft).destination,
	"ip6 saddr": (*draft).source, "ip6 daddr": (*draft).destination, "ip ttl": (*draft).ttl, "ip6 hoplimit": (*draft).ttl,
	"ip dscp": (*draft).dscp, "ip6 dscp": (*draft).dscp, "ip length": (*draft).length,
	"icmp type": (*draft).icmpType, "icmp code": (*draft).icmpCode, "icmpv6 type": (*draft).icmpType, "icmpv6 code": (*draft).icmpCode,
	"tcp flags": (*draft).anyFlag,
}

// stackOnly are the selectors that only the network stack compares.
var stackOnly = []string{"meta pkttype", "ip ttl", "ip6 hoplimit", "ip length"}

// payloads are the protocols that a match of a field implies.
var payloads = map[string]uint8{
	"tcp": unix.IPPROTO_TCP, "udp": unix.IPPROTO_UDP, "sctp": unix.IPPROTO_SCTP, "dccp": unix.IPPROTO_DCCP, "udplite": unix.IPPROTO_UDPLITE, "icmp": unix.IPPROTO_ICMP, "icmpv6": unix.IPPROTO_ICMPV6,
}

// versions are the families that a match of a field implies.
var versions = map[string]language.Family{"ip": language.IPv4, "icmp": language.IPv4, "ip6": language.IPv6, "icmpv6": language.IPv6}

// match adds a match.
func (d *draft) match(left any, op string, right any) error {
	s, err := selectorOf(left)
	if err != nil {
		return err
	}
	header, field, _ := strings.Cut(s.key, " ")
	if v, ok := versions[header]; ok && v != d.of {
		return errNever
	}
	if p, ok := payloads[header]; ok {
		if err := d.only([]uint8{p}); err != nil {
			return err
		}
	}
	if s.mask != nil && s.key == "tcp flags" {
		return d.flags(op, s.mask, right)
	}
	o, err := d.operandOf(op, right)
	if err != nil {
		return err
	}
	if len(o.items) == 0 {
		return errNever
	}
	switch {
	case s.key == "meta mark":
		return d.mark(s.mask, o)
	case s.mask != nil && (field == "saddr" || field == "daddr") && versions[header] != 0:
		return d.masked(map[string]string{"saddr": "-s", "daddr": "-d"}[field], s.mask, o)
	case s.mask != nil:
		return fmt.Errorf("iptables has no mask for %s", s.key)
	case (field == "sport" || field == "dport") && (header == "th" || payloads[header] != 0):
		return d.ports(field, o)
	case s.key == "ip6 nexthdr":
		return errors.New("ip6 nexthdr is the first header, where iptables looks for the last: write meta l4proto")
	}
	matcher := matchers[s.key]
	if matcher == nil || d.exact && slices.Contains(stackOnly, s.key) {
		return fmt.Errorf("%s cannot be imported", s.key)
	}
	return matcher(d, o)
}

// equals refuses operators other than == and !=, and returns whether it is the latter.
func (o operand) equals() (not bool, err error) {
	if o.flags || o.op != "==" && o.op != "!=" {
		return false, fmt.Errorf("the operator %q cannot be imported here", o.op)
	}
	return o.op == "!=", nil
}

// family restricts the rule to packets of IPv4 or IPv6.
func (d *draft) family(o operand) error {
	not, err := o.equals()
	if err != nil {
		return err
	}
	name := map[language.Family][]string{language.IPv4: {"ipv4", "ip", "2"}, language.IPv6: {"ipv6", "ip6", "10"}}[d.of]
	if slices.ContainsFunc(o.items, func(i item) bool { return slices.Contains(name, i.first) }) == not {
		return errNever
	}
	return nil
}

// protocol restricts the protocols.
func (d *draft) protocol(o operand) error {
	not, err := o.equals()
	if err != nil {
		return err
	}
	var all []uint8
	for _, i := range o.items {
		p, err := protocolOf(i.first)
		if err != nil {
			return err
		}
		if i.ranged() {
			return errors.New("iptables has no ranges of protocols")
		}
		all = append(all, p)
	}
	if not {
		d.except = append(d.except, all...)
		return nil
	}
	return d.only(all)
}

func (d *draft) source(o operand) error      { return d.address("-s", "--src-range", o) }
func (d *draft) destination(o operand) error { return d.address("-d", "--dst-range", o) }

// address adds a match of addresses: the first prefix by -s or -d, others as ranges.
func (d *draft) address(option, ranged string, o operand) error {
	not, err := o.equals()
	if err != nil {
		return err
	}
	if d.exact && !not {
		if o.items, err = d.prefixes(o.items); err != nil {
			return err
		}
	}
	var all [][]string
	for _, i := range o.items {
		word, first, last, err := i.address(d.of)
		if err != nil {
			return err
		}
		words := append([]string{"-m", "iprange"}, bang(not, ranged, first+"-"+last)...)
		if word != "" && !d.used[option] && (!not || len(o.items) == 1) {
			words = bang(not, option, word)
		}
		all = append(all, words)
	}
	d.used[option] = true
	if not {
		all = [][]string{slices.Concat(all...)}
	}
	d.alternatives = append(d.alternatives, all)
	return nil
}

// bang returns an option, negated or not.
func bang(not bool, option, value string) []string {
	if not {
		return []string{"!", option, value}
	}
	return []string{option, value}
}

// masked adds a match of some bits of an address.
func (d *draft) masked(option string, mask any, o operand) error {
	not, err := o.equals()
	bits, ok := scalar(mask)
	if err != nil || !ok || len(o.items) != 1 || o.items[0].ranged() || o.items[0].bits >= 0 || d.used[option] {
		return errors.New("iptables compares masked addresses with one value, once")
	}
	for _, a := range []string{bits, o.items[0].first} {
		if _, _, _, err := (item{a, a, -1}).address(d.of); err != nil {
			return err
		}
	}
	d.used[option] = true
	return d.add(bang(not, option, o.items[0].first+"/"+bits))
}

func (d *draft) inNetdev(o operand) error  { return d.netdev("-i", o) }
func (d *draft) outNetdev(o operand) error { return d.netdev("-o", o) }

// netdev adds a match of names of netdevs.
func (d *draft) netdev(option string, o operand) error {
	not, err := o.equals()
	if err != nil {
		return err
	}
	if not && len(o.items) > 1 {
		return errors.New("iptables excludes one netdev in a rule")
	}
	var all [][]string
	for _, i := range o.items {
		name, wildcard := strings.CutSuffix(i.first, "*")
		if i.ranged() || strings.ContainsAny(name, `*\+`) || strings.Trim(name, "0123456789") == "" && !wildcard {
			return fmt.Errorf("%q is no name of a netdev for iptables", i.first)
		}
		if wildcard {
			name += "+"
		}
		all = append(all, bang(not, option, name))
	}
	d.alternatives = append(d.alternatives, all)
	return nil
}

func (d *draft) pktType(o operand) error {
	names := map[string]string{"host": "unicast", "unicast": "unicast", "broadcast": "broadcast", "multicast": "multicast"}
	return d.each(o, func(not bool, i item) ([]string, error) {
		if names[i.first] == "" {
			return nil, fmt.Errorf("the packet type %q cannot be imported", i.first)
		}
		return append([]string{"-m", "pkttype"}, bang(not, "--pkt-type", names[i.first])...), nil
	})
}

// each adds a match that has an option of its own for each value.
func (d *draft) each(o operand, words func(not bool, i item) ([]string, error)) error {
	not, err := o.equals()
	if err != nil {
		return err
	}
	var all [][]string
	for _, i := range o.items {
		one, err := words(not, i)
		if err != nil {
			return err
		}
		if i.ranged() {
			return errors.New("iptables has no ranges here")
		}
		all = append(all, one)
	}
	if not {
		all = [][]string{slices.Concat(all...)}
	}
	d.alternatives = append(d.alternatives, all)
	return nil
}

// state adds a match of connection states. A packet has exactly one.
func (d *draft) state(o operand) error {
	if o.flags && o.op != "in" || o.op != "in" && o.op != "==" && o.op != "!=" {
		return fmt.Errorf("ct state %s with several flags cannot be imported: write a set", o.op)
	}
	var names []string
	for _, i := range o.items {
		if !slices.Contains([]string{"invalid", "new", "established", "related", "untracked"}, i.first) {
			return fmt.Errorf("the state %q is not known", i.first)
		}
		names = append(names, strings.ToUpper(i.first))
	}
	return d.add(append([]string{"-m", "conntrack"}, bang(o.op == "!=", "--ctstate", strings.Join(names, ","))...))
}

// mark adds a match of the packet's mark.
func (d *draft) mark(mask any, o operand) error {
	suffix := ""
	if mask != nil {
		t, ok := scalar(mask)
		if _, isNumber := number(t, 1<<32-1); !ok || !isNumber {
			return fmt.Errorf("%s is no mask of a mark", text(mask))
		}
		suffix = "/" + t
	}
	d.marks, d.several = true, len(o.items) > 1 && o.op != "!="
	return d.each(o, func(not bool, i item) ([]string, error) {
		if _, ok := number(i.first, 1<<32-1); !ok {
			return nil, fmt.Errorf("%q is no mark", i.first)
		}
		return append([]string{"-m", "mark"}, bang(not, "--mark", i.first+suffix)...), nil
	})
}

func (d *draft) ttl(o operand) error {
	name := map[language.Family]string{language.IPv4: "ttl", language.IPv6: "hl"}[d.of]
	option := map[string]string{"==": "-eq", "!=": "-eq", "<": "-lt", ">": "-gt"}[o.op]
	if option == "" {
		return fmt.Errorf("iptables has no %s here", o.op)
	}
	if option != "-eq" && len(o.items) == 1 {
		return d.add([]string{"-m", name, "--" + name + option, o.items[0].first})
	}
	return d.each(o, func(not bool, i item) ([]string, error) {
		return append([]string{"-m", name}, bang(not, "--"+name+option, i.first)...), nil
	})
}

func (d *draft) dscp(o operand) error {
	return d.each(o, func(not bool, i item) ([]string, error) {
		option := "--dscp-class"
		if _, ok := number(i.first, 63); ok {
			option = "--dscp"
		}
		return append([]string{"-m", "dscp"}, bang(not, option, i.first)...), nil
	})
}

func (d *draft) length(o operand) error {
	o, err := o.numbers(65535, func(t string) (uint64, bool) { return number(t, 65535) })
	if err != nil || len(o.items) != 1 {
		return errors.New("iptables compares the length with one range")
	}
	first, last := o.items[0].ends()
	return d.add(append([]string{"-m", "length"}, bang(o.op == "!=", "--length", portText(first, last))...))
}

func (d *draft) icmpType(o operand) (err error) {
	if d.icmp.types != nil {
		return errors.New("the ICMP type is compared twice")
	}
	d.icmp.types, err = bytesOf(o, icmpTypes[d.of])
	if d.exact && slices.Contains(d.icmp.types, 255) {
		return errors.New("iptables takes type 255 for any")
	}
	d.icmp.not = o.op == "!="
	return err
}

func (d *draft) icmpCode(o operand) (err error) {
	if o.op == "!=" || d.icmp.codes != nil {
		return errors.New("iptables compares ICMP codes with the type, once, and cannot exclude them")
	}
	d.icmp.codes, err = bytesOf(o, icmpCodes[d.of])
	return err
}

// anyFlag adds a match of packets that have one of some TCP flags.
func (d *draft) anyFlag(o operand) error {
	if o.op != "in" {
		return errors.New("iptables compares TCP flags with a mask: write tcp flags & (fin | syn | rst | psh | ack | urg) == and the flags")
	}
	bits := uint64(0)
	for _, i := range o.items {
		n, err := tcpFlags(i.first)
		if err != nil {
			return err
		}
		bits |= n
	}
	d.transport = true
	return d.add([]string{"!", "--tcp-flags", flagWords(bits), "NONE"})
}

// flags adds a match of TCP flags with a mask.
func (d *draft) flags(op string, mask, right any) error {
	if op != "==" && op != "!=" || d.used["flags"] {
		return fmt.Errorf("the operator %q cannot be imported for TCP flags", op)
	}
	bits, err := tcpFlags(mask)
	if err != nil {
		return err
	}
	value, err := tcpFlags(right)
	if err != nil {
		return err
	}
	d.transport, d.used["flags"] = true, true
	words := []string{"--tcp-flags", flagWords(bits), flagWords(value)}
	if op == "!=" {
		words = append([]string{"!"}, words...)
	}
	return d.add(words)
}

// ports adds a match of ports: one or a range by the protocol's own option, lists by multiport.
func (d *draft) ports(field string, o operand) error {
	o, err := o.numbers(65535, func(t string) (uint64, bool) { return number(t, 65535) })
	if err != nil {
		return err
	}
	not := o.op == "!="
	d.hasPorts = true
	if len(o.items) == 1 && !d.used[field] {
		first, last := o.items[0].ends()
		d.used[field] = true
		d.single = append(d.single, port{not, field, portText(first, last)})
		return nil
	}
	var all [][]string
	slots, list := 0, []string{}
	flush := func() {
		if len(list) > 0 {
			all = append(all, append([]string{"-m", "multiport"}, bang(not, "--"+field+"s", strings.Join(list, ","))...))
		}
		slots, list = 0, nil
	}
	for _, i := range o.items {
		first, last := i.ends()
		need := 1
		if first != last {
			need = 2
		}
		if slots+need > 15 {
			flush()
		}
		slots, list = slots+need, append(list, portText(first, last))
	}
	flush()
	if not {
		all = [][]string{slices.Concat(all...)}
	}
	d.alternatives = append(d.alternatives, all)
	return nil
}

func portText(first, last uint64) string {
	if first == last {
		return strconv.FormatUint(first, 10)
	}
	return strconv.FormatUint(first, 10) + ":" + strconv.FormatUint(last, 10)
}
