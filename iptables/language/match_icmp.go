// SPDX-License-Identifier: Apache-2.0

package language

// The matches on ICMP and ICMPv6.

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// ICMP is -m icmp, and in rules of ip6tables -m icmp6.
type ICMP struct {
	Family Family
	// Any is every type: `--icmp-type any`, which ip6tables has not.
	Any  bool
	Type uint8
	// FirstCode and LastCode are the codes: one, or 0 to 255 for all.
	FirstCode, LastCode uint8
	Not                 bool
}

// icmpType is a name of a type, or of a type with a code.
type icmpType struct {
	name string
	kind uint8
	// code is -1 for all.
	code int
}

var icmpTypes = []icmpType{
	{"echo-reply", 0, -1}, {"pong", 0, -1},
	{"destination-unreachable", 3, -1}, {"network-unreachable", 3, 0}, {"host-unreachable", 3, 1},
	{"protocol-unreachable", 3, 2}, {"port-unreachable", 3, 3}, {"fragmentation-needed", 3, 4},
	{"source-route-failed", 3, 5}, {"network-unknown", 3, 6}, {"host-unknown", 3, 7}, {"network-prohibited", 3, 9},
	{"host-prohibited", 3, 10}, {"TOS-network-unreachable", 3, 11}, {"TOS-host-unreachable", 3, 12},
	{"communication-prohibited", 3, 13}, {"host-precedence-violation", 3, 14}, {"precedence-cutoff", 3, 15},
	{"source-quench", 4, -1},
	{"redirect", 5, -1}, {"network-redirect", 5, 0}, {"host-redirect", 5, 1}, {"TOS-network-redirect", 5, 2},
	{"TOS-host-redirect", 5, 3},
	{"echo-request", 8, -1}, {"ping", 8, -1}, {"router-advertisement", 9, -1}, {"router-solicitation", 10, -1},
	{"time-exceeded", 11, -1}, {"ttl-exceeded", 11, -1}, {"ttl-zero-during-transit", 11, 0},
	{"ttl-zero-during-reassembly", 11, 1},
	{"parameter-problem", 12, -1}, {"ip-header-bad", 12, 0}, {"required-option-missing", 12, 1},
	{"timestamp-request", 13, -1}, {"timestamp-reply", 14, -1}, {"address-mask-request", 17, -1},
	{"address-mask-reply", 18, -1},
}

var icmp6Types = []icmpType{
	{"destination-unreachable", 1, -1}, {"no-route", 1, 0}, {"communication-prohibited", 1, 1}, {"beyond-scope", 1, 2},
	{"address-unreachable", 1, 3}, {"port-unreachable", 1, 4}, {"failed-policy", 1, 5}, {"reject-route", 1, 6},
	{"packet-too-big", 2, -1},
	{"time-exceeded", 3, -1}, {"ttl-exceeded", 3, -1}, {"ttl-zero-during-transit", 3, 0},
	{"ttl-zero-during-reassembly", 3, 1},
	{"parameter-problem", 4, -1}, {"bad-header", 4, 0}, {"unknown-header-type", 4, 1}, {"unknown-option", 4, 2},
	{"echo-request", 128, -1}, {"ping", 128, -1}, {"echo-reply", 129, -1}, {"pong", 129, -1},
	{"router-solicitation", 133, -1}, {"router-advertisement", 134, -1},
	{"neighbour-solicitation", 135, -1}, {"neighbor-solicitation", 135, -1},
	{"neighbour-advertisement", 136, -1}, {"neighbor-advertisement", 136, -1}, {"redirect", 137, -1},
}

func newICMP(family Family) *builder {
	m := ICMP{Family: family, LastCode: 255}
	name, protocol, types := "--icmp-type", uint8(protoICMP), icmpTypes
	if family == IPv6 {
		name, protocol, types = "--icmpv6-type", protoICMPv6, icmp6Types
	}
	return &builder{
		name: m.Name(),
		options: []option{{names: []string{name}, arity: oneValue, not: true, set: func(v value) error {
			m.Not = v.not
			return m.read(v.text, types)
		}}},
		required: name,
		finish: func(c *context) error {
			if !c.protocolIn(protocol) {
				return fmt.Errorf("the match requires -p %s", Protocol{Number: protocol})
			}
			return nil
		},
		match: func() Match { return m },
	}
}

func (m *ICMP) read(text string, types []icmpType) error {
	if m.Family == IPv4 && strings.EqualFold(text, "any") {
		m.Any = true
		return nil
	}
	found, err := lookUpICMP(text, types)
	if err != nil {
		return err
	}
	if found != nil {
		m.Type = found.kind
		if found.code >= 0 {
			m.FirstCode, m.LastCode = uint8(found.code), uint8(found.code)
		}
		return nil
	}
	kind, code, coded := strings.Cut(text, "/")
	n, ok := number(kind, 255)
	if !ok {
		return fmt.Errorf("unknown %s type %q", m.Name(), text)
	}
	if m.Type = uint8(n); coded {
		if n, ok = number(code, 255); !ok {
			return fmt.Errorf("unknown %s code %q", m.Name(), code)
		}
		m.FirstCode, m.LastCode = uint8(n), uint8(n)
	}
	if m.Family == IPv4 && m.Type == 255 {
		m.Any, m.Type, m.FirstCode, m.LastCode = true, 0, 0, 255
	}
	return nil
}

// lookUpICMP finds a name or the only name that begins with the text.
func lookUpICMP(text string, types []icmpType) (*icmpType, error) {
	var found *icmpType
	if text == "" {
		return nil, errors.New("the type is empty")
	}
	for i := range types {
		t := &types[i]
		if strings.EqualFold(t.name, text) {
			return t, nil
		}
		if len(text) > len(t.name) || !strings.EqualFold(t.name[:len(text)], text) {
			continue
		}
		if found != nil {
			return nil, fmt.Errorf("ambiguous type %q: %s or %s", text, found.name, t.name)
		}
		found = t
	}
	return found, nil
}

// Name returns icmp or icmp6.
func (m ICMP) Name() string {
	if m.Family == IPv6 {
		return "icmp6"
	}
	return "icmp"
}

func (m ICMP) String() string {
	text := strconv.Itoa(int(m.Type))
	switch {
	case m.Any:
		text = "any"
	case m.FirstCode != 0 || m.LastCode != 255:
		text += "/" + strconv.Itoa(int(m.FirstCode))
	}
	if m.Family == IPv6 {
		return bang(m.Not, "--icmpv6-type "+text)
	}
	return bang(m.Not, "--icmp-type "+text)
}

func (ICMP) match() {}
