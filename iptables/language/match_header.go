// SPDX-License-Identifier: Apache-2.0

package language

// The matches on the header of the packet: its length, DSCP, TOS and TTL or hop limit.

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// Length is -m length: the length of the packet with its IP header.
type Length struct{ Range Range }

// DSCP is -m dscp.
type DSCP struct {
	Value uint8
	Not   bool
}

// TOS is -m tos: the whole byte, and the bits of it that are compared.
type TOS struct {
	Value, Mask uint8
	Not         bool
}

// TTL is -m ttl, and in rules of ip6tables -m hl.
type TTL struct {
	Family Family
	// Op is eq, lt or gt.
	Op    string
	Value uint8
	Not   bool
}

func newLength(Family) *builder {
	var m Length
	return &builder{
		name: "length",
		options: []option{{names: []string{"--length"}, arity: oneValue, not: true, set: func(v value) (err error) {
			m.Range, err = v.rangeOf(65535)
			return err
		}}},
		required: "--length",
		match:    func() Match { return m },
	}
}

// Name returns length.
func (Length) Name() string { return "length" }

func (m Length) String() string { return bang(m.Range.Not, "--length "+m.Range.text()) }

// dscpClasses are the classes but CSn and AFnm.
var dscpClasses = map[string]uint8{"BE": 0, "EF": 0x2e}

func dscpClass(text string) (uint8, bool) {
	name := strings.ToUpper(text)
	if v, ok := dscpClasses[name]; ok {
		return v, true
	}
	digit := func(i int, low, high byte) bool { return name[i] >= low && name[i] <= high }
	switch {
	case len(name) == 3 && name[:2] == "CS" && digit(2, '0', '7'):
		return (name[2] - '0') << 3, true
	case len(name) == 4 && name[:2] == "AF" && digit(2, '1', '4') && digit(3, '1', '3'):
		return (name[2]-'0')<<3 | (name[3]-'0')<<1, true
	}
	return 0, false
}

func newDSCP(Family) *builder {
	var m DSCP
	b := &builder{name: "dscp"}
	b.options = []option{
		{names: []string{"--dscp"}, arity: oneValue, not: true, excludes: []string{"--dscp-class"},
			set: func(v value) error {
				n, err := v.numberOf(0, 63)
				m = DSCP{Value: uint8(n), Not: v.not}
				return err
			}},
		{names: []string{"--dscp-class"}, arity: oneValue, not: true, excludes: []string{"--dscp"},
			set: func(v value) error {
				n, ok := dscpClass(v.text)
				if m = (DSCP{Value: n, Not: v.not}); !ok {
					return v.bad("it is BE, EF, CS0 to CS7 or AF11 to AF43")
				}
				return nil
			}},
	}
	b.finish = func(*context) error {
		if len(b.seen) == 0 {
			return errors.New("--dscp or --dscp-class must be specified")
		}
		return nil
	}
	b.match = func() Match { return m }
	return b
}

// Name returns dscp.
func (DSCP) Name() string { return "dscp" }

func (m DSCP) String() string { return bang(m.Not, fmt.Sprintf("--dscp 0x%02x", m.Value)) }

var tosNames = map[string]uint8{"minimize-delay": 16, "maximize-throughput": 8, "maximize-reliability": 4,
	"minimize-cost": 2, "normal-service": 0}

func newTOS(Family) *builder {
	m := TOS{Mask: 0xff}
	return &builder{
		name: "tos",
		options: []option{{names: []string{"--tos"}, arity: oneValue, not: true, set: func(v value) error {
			m.Not = v.not
			if n, ok := tosNames[strings.ToLower(v.text)]; ok {
				m.Value, m.Mask = n, 0x3f
				return nil
			}
			text, mask, masked := strings.Cut(v.text, "/")
			n, ok := number(text, 255)
			if m.Value = uint8(n); masked && ok {
				n, ok = number(mask, 255)
				m.Mask = uint8(n)
			}
			if !ok {
				return v.bad("it is a number up to 255, alone or with a mask, or the name of a service")
			}
			return nil
		}}},
		required: "--tos",
		match:    func() Match { return m },
	}
}

// Name returns tos.
func (TOS) Name() string { return "tos" }

func (m TOS) String() string { return bang(m.Not, fmt.Sprintf("--tos 0x%02x/0x%02x", m.Value, m.Mask)) }

func newTTL(family Family) *builder {
	m := TTL{Family: family}
	name := m.Name()
	eq, lt, gt := "--"+name+"-eq", "--"+name+"-lt", "--"+name+"-gt"
	b := &builder{name: name}
	op := func(op string, not bool, names ...string) option {
		return option{names: names, arity: oneValue, not: not, excludes: []string{eq, lt, gt}, set: func(v value) error {
			n, err := v.numberOf(0, 255)
			m.Op, m.Value, m.Not = op, uint8(n), v.not
			return err
		}}
	}
	b.options = []option{op("eq", true, eq, "--"+name), op("lt", false, lt), op("gt", false, gt)}
	b.finish = func(*context) error {
		if m.Op == "" {
			return fmt.Errorf("one of %s, %s and %s must be specified", eq, lt, gt)
		}
		return nil
	}
	b.match = func() Match { return m }
	return b
}

// Name returns ttl or hl.
func (m TTL) Name() string {
	if m.Family == IPv6 {
		return "hl"
	}
	return "ttl"
}

func (m TTL) String() string {
	return bang(m.Not, "--"+m.Name()+"-"+m.Op+" "+strconv.Itoa(int(m.Value)))
}

func (Length) match() {}
func (DSCP) match()   {}
func (TOS) match()    {}
func (TTL) match()    {}
