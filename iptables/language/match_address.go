// SPDX-License-Identifier: Apache-2.0

package language

// The matches on addresses: ranges, sets, MAC addresses and the kinds of addresses and frames.

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/polycube/polycube/inet"
)

// IPRange is -m iprange.
type IPRange struct {
	Source, Destination AddressRange
}

// AddressRange is a range of addresses, both ends included. The zero value is any address.
type AddressRange struct {
	First, Last netip.Addr
	Not         bool
}

// Prefixes returns the range as prefixes, in their order.
func (r AddressRange) Prefixes() (out []netip.Prefix) {
	for at := r.First; at.IsValid() && !r.Last.Less(at); {
		bits := at.BitLen()
		end := at
		for bits > 0 { // the longest block that begins here and ends in the range
			p, err := at.Prefix(bits - 1)
			if err != nil || p.Addr() != at || r.Last.Less(lastOf(p)) {
				break
			}
			bits, end = bits-1, lastOf(p)
		}
		out = append(out, netip.PrefixFrom(at, bits))
		at = end.Next()
	}
	return out
}

// lastOf returns the last address of a prefix.
func lastOf(p netip.Prefix) netip.Addr {
	raw := p.Addr().AsSlice()
	for bit := p.Bits(); bit < 8*len(raw); bit++ {
		raw[bit/8] |= 0x80 >> (bit % 8)
	}
	a, _ := netip.AddrFromSlice(raw)
	return a
}

// MAC is -m mac: the source of the frame.
type MAC struct {
	Source inet.MAC
	Not    bool
}

// AddrType is -m addrtype. The types are in the order of iptables: UNSPEC, UNICAST, LOCAL, BROADCAST, ANYCAST,
// MULTICAST, BLACKHOLE, UNREACHABLE, PROHIBIT, THROW, NAT, XRESOLVE.
type AddrType struct {
	Source, Destination       []string
	SourceNot, DestinationNot bool
	LimitIn, LimitOut         bool
}

// PktType is -m pkttype.
type PktType struct {
	// Type is unicast, broadcast, multicast or otherhost.
	Type string
	Not  bool
}

// Set is -m set: an entry of a set of ipset.
type Set struct {
	Set string
	// Dirs are src or dst, one for each dimension of the set.
	Dirs []string
	Not  bool
	// ReturnNoMatch, and SkipCounterUpdate are the options of the same name.
	ReturnNoMatch, SkipCounterUpdate bool
}

func newIPRange(family Family) *builder {
	var m IPRange
	b := &builder{name: "iprange"}
	of := func(to *AddressRange, name string) option {
		return option{names: []string{name}, arity: oneValue, not: true, set: func(v value) (err error) {
			first, last, ranged := strings.Cut(v.text, "-")
			if to.First, err = family.addr(first, false); err != nil {
				return err
			}
			if to.Last = to.First; ranged {
				if to.Last, err = family.addr(last, false); err != nil {
					return err
				}
			}
			if to.Not = v.not; to.Last.Less(to.First) {
				return v.bad("the range is reversed and never matches")
			}
			return nil
		}}
	}
	b.options = []option{of(&m.Source, "--src-range"), of(&m.Destination, "--dst-range")}
	b.finish = func(*context) error {
		if len(b.seen) == 0 {
			return errors.New("--src-range or --dst-range must be specified")
		}
		return nil
	}
	b.match = func() Match { return m }
	return b
}

// Name returns iprange.
func (IPRange) Name() string { return "iprange" }

func (m IPRange) String() string {
	text := func(name string, r AddressRange) string {
		return when(r.First.IsValid(), bang(r.Not, name+" "+addrText(r.First)+"-"+addrText(r.Last)))
	}
	return joined(text("--src-range", m.Source), text("--dst-range", m.Destination))
}

func newMAC(Family) *builder {
	var m MAC
	return &builder{
		name: "mac",
		options: []option{{names: []string{"--mac-source"}, arity: oneValue, not: true, set: func(v value) error {
			parts := strings.Split(v.text, ":")
			for i, p := range parts {
				if len(p) == 1 {
					parts[i] = "0" + p
				}
			}
			mac, err := inet.ParseMAC(strings.ToLower(strings.Join(parts, ":")))
			if err != nil {
				return v.bad("it is not a MAC address")
			}
			m = MAC{Source: mac, Not: v.not}
			return nil
		}}},
		required: "--mac-source",
		finish:   func(c *context) error { return c.only("the match", "PREROUTING", "INPUT", "FORWARD") },
		match:    func() Match { return m },
	}
}

// Name returns mac.
func (MAC) Name() string { return "mac" }

func (m MAC) String() string { return bang(m.Not, "--mac-source "+m.Source.String()) }

var addressTypes = []string{"UNSPEC", "UNICAST", "LOCAL", "BROADCAST", "ANYCAST", "MULTICAST", "BLACKHOLE",
	"UNREACHABLE", "PROHIBIT", "THROW", "NAT", "XRESOLVE"}

// onlyIPv4Types are the types that the kernel does not match in IPv6.
var onlyIPv4Types = []string{"BROADCAST", "BLACKHOLE", "PROHIBIT", "THROW", "NAT", "XRESOLVE"}

func newAddrType(Family) *builder {
	var m AddrType
	of := func(to *[]string, not *bool, name string) option {
		return option{names: []string{name}, arity: oneValue, not: true, set: func(v value) error {
			n, err := namedBits(v.text, addressTypes)
			if err != nil {
				return err
			}
			*to, *not = bitNames(n, addressTypes), v.not
			return nil
		}}
	}
	in, out := flag(&m.LimitIn, "--limit-iface-in"), flag(&m.LimitOut, "--limit-iface-out")
	in.excludes, out.excludes = out.names, in.names
	return &builder{
		name: "addrtype",
		options: []option{of(&m.Source, &m.SourceNot, "--src-type"), of(&m.Destination, &m.DestinationNot, "--dst-type"),
			in, out},
		finish: func(c *context) error {
			if m.Source == nil && m.Destination == nil {
				return errors.New("--src-type or --dst-type must be specified")
			}
			for _, name := range append(slices.Clone(m.Source), m.Destination...) {
				if c.family == IPv6 && slices.Contains(onlyIPv4Types, name) {
					return fmt.Errorf("type %s does not exist in IPv6", name)
				}
			}
			if m.LimitIn && slices.Contains([]string{"OUTPUT", "POSTROUTING"}, c.chain) {
				return fmt.Errorf("--limit-iface-in cannot be used in %s", c.chain)
			}
			if m.LimitOut && slices.Contains([]string{"INPUT", "PREROUTING"}, c.chain) {
				return fmt.Errorf("--limit-iface-out cannot be used in %s", c.chain)
			}
			return nil
		},
		match: func() Match { return m },
	}
}

// Name returns addrtype.
func (AddrType) Name() string { return "addrtype" }

func (m AddrType) String() string {
	text := func(name string, types []string, not bool) string {
		return when(types != nil, bang(not, name+" "+strings.Join(types, ",")))
	}
	return joined(text("--src-type", m.Source, m.SourceNot), text("--dst-type", m.Destination, m.DestinationNot),
		when(m.LimitIn, "--limit-iface-in"), when(m.LimitOut, "--limit-iface-out"))
}

var packetTypes = map[string]string{"unicast": "unicast", "host": "unicast", "broadcast": "broadcast",
	"bcast": "broadcast", "multicast": "multicast", "mcast": "multicast", "otherhost": "otherhost"}

func newPktType(Family) *builder {
	var m PktType
	return &builder{
		name: "pkttype",
		options: []option{{names: []string{"--pkt-type"}, arity: oneValue, not: true, set: func(v value) (err error) {
			if m.Type, m.Not = packetTypes[strings.ToLower(v.text)], v.not; m.Type == "" {
				return v.bad("it is unicast, broadcast, multicast or otherhost")
			}
			return nil
		}}},
		required: "--pkt-type",
		match:    func() Match { return m },
	}
}

// Name returns pkttype.
func (PktType) Name() string { return "pkttype" }

func (m PktType) String() string { return bang(m.Not, "--pkt-type "+m.Type) }

func newSet(Family) *builder {
	var m Set
	return &builder{
		name: "set",
		options: []option{
			{names: []string{"--match-set"}, arity: twoValues, not: true, set: func(v value) (err error) {
				m.Set, m.Not = v.text, v.not
				m.Dirs, err = setDirs(v.text, v.second)
				return err
			}},
			flag(&m.ReturnNoMatch, "--return-nomatch"),
			{names: []string{"--update-counters"}, not: true, set: func(v value) error {
				m.SkipCounterUpdate = v.not
				return nil
			}},
		},
		required: "--match-set",
		match:    func() Match { return m },
	}
}

// setDirs checks the name of a set and reads its dimensions.
func setDirs(name, text string) ([]string, error) {
	if name == "" || len(name) > 31 || strings.ContainsAny(name, " \t\n\r\x00\"'\\") || name[0] == '-' {
		return nil, fmt.Errorf("bad name of a set %q", name)
	}
	dirs := strings.Split(text, ",")
	for _, d := range dirs {
		if d != "src" && d != "dst" {
			return nil, fmt.Errorf("bad direction %q of set %s: it is src or dst", d, name)
		}
	}
	if len(dirs) > 6 {
		return nil, fmt.Errorf("too many directions of set %s: at most 6", name)
	}
	return dirs, nil
}

// Name returns set.
func (Set) Name() string { return "set" }

func (m Set) String() string {
	return joined(bang(m.Not, "--match-set "+m.Set+" "+strings.Join(m.Dirs, ",")),
		when(m.ReturnNoMatch, "--return-nomatch"), when(m.SkipCounterUpdate, "! --update-counters"))
}

func (IPRange) match()  {}
func (MAC) match()      {}
func (AddrType) match() {}
func (PktType) match()  {}
func (Set) match()      {}
