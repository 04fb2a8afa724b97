// SPDX-License-Identifier: Apache-2.0

package language

// The matches on what connection tracking knows of a packet.

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
)

// stateNames are the states in the order of iptables. `-m state` has all but SNAT and DNAT.
var stateNames = []string{"INVALID", "NEW", "RELATED", "ESTABLISHED", "UNTRACKED", "SNAT", "DNAT"}

// Conntrack is -m conntrack, or -m state. An option that was not given is the zero value.
type Conntrack struct {
	// Short is `-m state`, which has only --state.
	Short bool
	// State are some of INVALID, NEW, RELATED, ESTABLISHED, UNTRACKED, SNAT and DNAT, in this order.
	State    []string
	StateNot bool
	// Protocol is valid if HasProtocol is set.
	Protocol    Protocol
	HasProtocol bool
	// The addresses of the original direction and of replies.
	OrigSrc, OrigDst, ReplSrc, ReplDst Address
	// The ports, nil if they were not given.
	OrigSrcPort, OrigDstPort, ReplSrcPort, ReplDstPort *PortRange
	// Status are some of EXPECTED, SEEN_REPLY, ASSURED and CONFIRMED, in this order, or NONE alone.
	Status    []string
	StatusNot bool
	// Expire is the remaining time in seconds.
	Expire *Range
	// Dir is ORIGINAL, REPLY, or empty for both.
	Dir string
}

// Range is a range of numbers, both ends included.
type Range struct {
	First, Last uint32
	Not         bool
}

// statusNames are the statuses in the order of iptables, and none of them.
var statusNames = []string{"EXPECTED", "SEEN_REPLY", "ASSURED", "CONFIRMED", "NONE"}

func newState(Family) *builder {
	m := Conntrack{Short: true}
	return &builder{
		name:     "state",
		options:  []option{m.stateOption("--state", stateNames[:5])},
		required: "--state",
		match:    func() Match { return m },
	}
}

func (m *Conntrack) stateOption(name string, names []string) option {
	return option{names: []string{name}, arity: oneValue, not: true, set: func(v value) error {
		n, err := namedBits(v.text, names)
		m.State, m.StateNot = bitNames(n, names), v.not
		return err
	}}
}

func newConntrack(family Family) *builder {
	m := Conntrack{}
	b := &builder{name: "conntrack"}
	b.options = []option{
		m.stateOption("--ctstate", stateNames),
		{names: []string{"--ctproto"}, arity: oneValue, not: true, set: func(v value) (err error) {
			m.Protocol.Number, err = protocol(v.text, family)
			m.Protocol.Not, m.HasProtocol = v.not, true
			if err == nil && v.not && m.Protocol.Number == 0 {
				err = errors.New("! --ctproto all never matches")
			}
			return err
		}},
		ctAddress(&m.OrigSrc, family, "--ctorigsrc"),
		ctAddress(&m.OrigDst, family, "--ctorigdst"),
		ctAddress(&m.ReplSrc, family, "--ctreplsrc"),
		ctAddress(&m.ReplDst, family, "--ctrepldst"),
		ctPort(&m.OrigSrcPort, "--ctorigsrcport"),
		ctPort(&m.OrigDstPort, "--ctorigdstport"),
		ctPort(&m.ReplSrcPort, "--ctreplsrcport"),
		ctPort(&m.ReplDstPort, "--ctrepldstport"),
		{names: []string{"--ctstatus"}, arity: oneValue, not: true, set: func(v value) error {
			n, err := namedBits(v.text, statusNames)
			if n&0xf != 0 {
				n &= 0xf // NONE adds nothing to others
			}
			m.Status, m.StatusNot = bitNames(n, statusNames), v.not
			return err
		}},
		{names: []string{"--ctexpire"}, arity: oneValue, not: true, set: func(v value) error {
			r, err := v.rangeOf(math.MaxUint32)
			m.Expire = &r
			return err
		}},
		{names: []string{"--ctdir"}, arity: oneValue, set: func(v value) error {
			if m.Dir = strings.ToUpper(v.text); m.Dir != "ORIGINAL" && m.Dir != "REPLY" {
				return v.bad("it is ORIGINAL or REPLY")
			}
			return nil
		}},
	}
	b.finish = func(*context) error {
		if len(b.seen) == 0 {
			return errors.New("at least one option is required")
		}
		return nil
	}
	b.match = func() Match { return m }
	return b
}

// namedBits reads names that commas separate.
func namedBits(text string, names []string) (n uint16, err error) {
	for _, part := range strings.Split(text, ",") {
		i := slices.IndexFunc(names, func(name string) bool { return strings.EqualFold(name, part) })
		if i < 0 {
			return 0, fmt.Errorf("bad value %q: it is one or several of %s", part, strings.Join(names, ","))
		}
		n |= 1 << i
	}
	return n, nil
}

// bitNames returns the names in their order.
func bitNames(n uint16, names []string) (out []string) {
	for i, name := range names {
		if n&(1<<i) != 0 {
			out = append(out, name)
		}
	}
	return out
}

// ctAddress reads an address. Unlike those of -s it keeps its host bits, as iptables does, and cannot be of any mask.
func ctAddress(to *Address, family Family, name string) option {
	return option{names: []string{name}, arity: oneValue, not: true, set: func(v value) error {
		host, _, _ := strings.Cut(v.text, "/")
		a, err := family.address(v.text)
		if err != nil {
			return err
		}
		if a.Any() {
			a.Mask = maskOf(family, 0)
		}
		if _, ok := maskBits(a.Mask); !ok {
			return v.bad("the mask is no prefix")
		}
		if a.Addr, err = family.addr(host, true); err != nil {
			return err
		}
		if a.Not = v.not; a.Not && a.Mask.IsUnspecified() {
			return fmt.Errorf("! %s %s never matches", v.option, v.text)
		}
		*to = a
		return nil
	}}
}

func ctPort(to **PortRange, name string) option {
	return option{names: []string{name}, arity: oneValue, not: true, set: func(v value) error {
		r, err := ports(v.text, ":", true)
		r.Not = v.not
		*to = &r
		return err
	}}
}

// rangeOf reads N or N:M, of which either may be left out.
func (v value) rangeOf(limit uint32) (r Range, err error) {
	first, last, ranged := strings.Cut(v.text, ":")
	r.Not, r.Last = v.not, limit
	if first != "" || !ranged {
		n, ok := number(first, uint64(limit))
		if !ok {
			return r, v.bad(fmt.Sprintf("it is a number from 0 to %d, or a range FIRST:LAST", limit))
		}
		r.First = uint32(n)
	}
	if !ranged {
		r.Last = r.First
		return r, nil
	}
	if last != "" {
		n, ok := number(last, uint64(limit))
		if !ok {
			return r, v.bad(fmt.Sprintf("it is a number from 0 to %d, or a range FIRST:LAST", limit))
		}
		r.Last = uint32(n)
	}
	if r.First > r.Last {
		return r, v.bad("the range is reversed and never matches")
	}
	return r, nil
}

func (r Range) text() string {
	if r.First == r.Last {
		return strconv.FormatUint(uint64(r.First), 10)
	}
	return fmt.Sprintf("%d:%d", r.First, r.Last)
}

// Name returns conntrack or state.
func (m Conntrack) Name() string {
	if m.Short {
		return "state"
	}
	return "conntrack"
}

func (m Conntrack) String() string {
	state := strings.Join(m.State, ",")
	if m.Short {
		return bang(m.StateNot, "--state "+state)
	}
	out := []string{when(m.State != nil, bang(m.StateNot, "--ctstate "+state))}
	if m.HasProtocol {
		out = append(out, bang(m.Protocol.Not, "--ctproto "+strconv.Itoa(int(m.Protocol.Number))))
	}
	out = append(out, ctAddressText("--ctorigsrc", m.OrigSrc), ctAddressText("--ctorigdst", m.OrigDst),
		ctAddressText("--ctreplsrc", m.ReplSrc), ctAddressText("--ctrepldst", m.ReplDst),
		ctPortText("--ctorigsrcport", m.OrigSrcPort), ctPortText("--ctorigdstport", m.OrigDstPort),
		ctPortText("--ctreplsrcport", m.ReplSrcPort), ctPortText("--ctrepldstport", m.ReplDstPort))
	if m.Status != nil {
		out = append(out, bang(m.StatusNot, "--ctstatus "+strings.Join(m.Status, ",")))
	}
	if m.Expire != nil {
		out = append(out, bang(m.Expire.Not, "--ctexpire "+m.Expire.text()))
	}
	return joined(append(out, when(m.Dir != "", "--ctdir "+m.Dir))...)
}

func ctAddressText(name string, a Address) string {
	if a.Any() {
		return ""
	}
	text := addrText(a.Addr)
	if bits, ok := maskBits(a.Mask); ok && bits != a.Addr.BitLen() {
		text += "/" + strconv.Itoa(bits)
	}
	return bang(a.Not, name+" "+text)
}

func ctPortText(name string, r *PortRange) string {
	if r == nil {
		return ""
	}
	return bang(r.Not, name+" "+r.text(":"))
}

func (Conntrack) match() {}
