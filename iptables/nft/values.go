// SPDX-License-Identifier: Apache-2.0

package nft

// Values by name and by number.

import (
	"fmt"
	"net/netip"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/polycube/polycube/iptables/language"
)

// number reads a decimal or hexadecimal number.
func number(t string, limit uint64) (uint64, bool) {
	n, err := strconv.ParseUint(t, 0, 64)
	return n, err == nil && n <= limit
}

func protocolOf(t string) (uint8, error) {
	switch t { // names of nft's own
	case "icmpv6":
		return unix.IPPROTO_ICMPV6, nil
	case "comp":
		return unix.IPPROTO_COMP, nil
	}
	if p, ok := language.ProtocolNumber(t); ok {
		return p, nil
	}
	n, ok := number(t, 255)
	if !ok {
		return 0, fmt.Errorf("the protocol %q is not known", t)
	}
	if n == 0 {
		return 0, fmt.Errorf("protocol 0 is any protocol for iptables")
	}
	return uint8(n), nil
}

// icmpTypes and icmpCodes are the names of messages by family.
var icmpTypes = map[language.Family]map[string]uint8{
	language.IPv4: {
		"echo-reply": 0, "destination-unreachable": 3, "source-quench": 4, "redirect": 5, "echo-request": 8, "router-advertisement": 9,
		"router-solicitation": 10, "time-exceeded": 11, "parameter-problem": 12, "timestamp-request": 13, "timestamp-reply": 14,
		"info-request": 15, "info-reply": 16, "address-mask-request": 17, "address-mask-reply": 18,
	},
	language.IPv6: {
		"destination-unreachable": 1, "packet-too-big": 2, "time-exceeded": 3, "parameter-problem": 4, "echo-request": 128, "echo-reply": 129,
		"mld-listener-query": 130, "mld-listener-report": 131, "mld-listener-done": 132, "mld-listener-reduction": 132, "nd-router-solicit": 133,
		"nd-router-advert": 134, "nd-neighbor-solicit": 135, "nd-neighbor-advert": 136, "nd-redirect": 137, "router-renumbering": 138,
		"ind-neighbor-solicit": 141, "ind-neighbor-advert": 142, "mld2-listener-report": 143,
	},
}

var icmpCodes = map[language.Family]map[string]uint8{
	language.IPv4: {
		"net-unreachable": 0, "host-unreachable": 1, "prot-unreachable": 2, "port-unreachable": 3, "frag-needed": 4, "net-prohibited": 9,
		"host-prohibited": 10, "admin-prohibited": 13,
	},
	language.IPv6: {
		"no-route": 0, "admin-prohibited": 1, "addr-unreachable": 3, "port-unreachable": 4, "policy-fail": 5, "reject-route": 6,
	},
}

// bytesOf returns the values of 8 bits of an operand with == or with a comparison, by names.
func bytesOf(o operand, names map[string]uint8) (out []uint64, err error) {
	o, err = o.numbers(255, func(t string) (uint64, bool) {
		if n, ok := names[t]; ok {
			return uint64(n), true
		}
		return number(t, 255)
	})
	if err != nil {
		return nil, err
	}
	seen := map[uint64]bool{}
	for _, i := range o.items {
		first, last := i.ends()
		for n := first; n <= last; n++ {
			if !seen[n] {
				out = append(out, n)
			}
			seen[n] = true
		}
	}
	return out, nil
}

// ends returns the ends of an item of decimal numbers.
func (i item) ends() (first, last uint64) {
	first, _ = strconv.ParseUint(i.first, 10, 64)
	last, _ = strconv.ParseUint(i.last, 10, 64)
	return first, last
}

// numbers returns the operand with decimal numbers up to limit, and with == or !=: comparisons are ranges.
func (o operand) numbers(limit uint64, of func(string) (uint64, bool)) (operand, error) {
	out := operand{op: o.op, set: o.set, flags: o.flags}
	for _, i := range o.items {
		first, ok := of(i.first)
		last, okLast := of(i.last)
		if !ok || !okLast || i.bits >= 0 || first > last {
			return o, fmt.Errorf("%s-%s is no range of numbers up to %d", i.first, i.last, limit)
		}
		out.items = append(out.items, item{strconv.FormatUint(first, 10), strconv.FormatUint(last, 10), -1})
	}
	if o.flags || o.op == "in" {
		return o, fmt.Errorf("the operator %q is for flags", o.op)
	}
	if o.op == "==" || o.op == "!=" {
		return out, nil
	}
	if len(out.items) != 1 || out.items[0].ranged() {
		return o, fmt.Errorf("%s needs one number", o.op)
	}
	n, _ := out.items[0].ends()
	first, last := uint64(0), limit
	switch {
	case o.op == ">=":
		first = n
	case o.op == "<=":
		last = n
	case o.op == ">" && n < limit:
		first = n + 1
	case o.op == "<" && n > 0:
		last = n - 1
	default:
		return o, errNever
	}
	out.op, out.items = "==", []item{{strconv.FormatUint(first, 10), strconv.FormatUint(last, 10), -1}}
	return out, nil
}

// address returns an item as ADDRESS, ADDRESS/LENGTH or FIRST-LAST; the ends of a range are first and last.
func (i item) address(family language.Family) (word, first, last string, err error) {
	parse := func(t string) (netip.Addr, error) {
		a, err := netip.ParseAddr(t)
		if err != nil || a.Zone() != "" || a.Is4() != (family == language.IPv4) {
			return a, fmt.Errorf("%q is no address of %s", t, family)
		}
		return a, nil
	}
	from, err := parse(i.first)
	if err != nil {
		return "", "", "", err
	}
	to, err := parse(i.last)
	if err != nil {
		return "", "", "", err
	}
	if i.bits >= 0 {
		p, err := from.Prefix(i.bits)
		if err != nil {
			return "", "", "", fmt.Errorf("%s/%d is no prefix", i.first, i.bits)
		}
		raw := p.Addr().AsSlice()
		for at := i.bits; at < 8*len(raw); at++ {
			raw[at/8] |= 0x80 >> (at % 8)
		}
		to, _ = netip.AddrFromSlice(raw)
		return p.String(), p.Addr().String(), to.String(), nil
	}
	if i.ranged() {
		if to.Less(from) {
			return "", "", "", fmt.Errorf("the range %s-%s is reversed", i.first, i.last)
		}
		return "", from.String(), to.String(), nil
	}
	return from.String(), from.String(), from.String(), nil
}

// flagNames are the bits of TCP's flags that iptables compares.
var flagNames = []string{"fin", "syn", "rst", "psh", "ack", "urg"}

// tcpFlags reads flags: names or numbers.
func tcpFlags(v any) (bits uint64, err error) {
	if t, ok := scalar(v); ok {
		for i, name := range flagNames {
			if t == name {
				return 1 << i, nil
			}
		}
		n, ok := number(t, 255)
		if !ok || n >= 1<<len(flagNames) {
			return 0, fmt.Errorf("iptables cannot compare the TCP flags %q", t)
		}
		return n, nil
	}
	list, ok := v.([]any)
	if kind, value, isOne := only(v); !ok && isOne && kind == "|" {
		list, ok = value.([]any)
	}
	if !ok {
		return 0, fmt.Errorf("iptables cannot compare the TCP flags %s", text(v))
	}
	for _, one := range list {
		n, err := tcpFlags(one)
		if err != nil {
			return 0, err
		}
		bits |= n
	}
	return bits, nil
}

// flagWords prints flags for --tcp-flags.
func flagWords(bits uint64) string {
	var names []string
	for i, name := range flagNames {
		if bits&(1<<i) != 0 {
			names = append(names, strings.ToUpper(name))
		}
	}
	if names == nil {
		return "NONE"
	}
	return strings.Join(names, ",")
}
