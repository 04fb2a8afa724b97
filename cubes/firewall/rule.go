// SPDX-License-Identifier: Apache-2.0

package firewall

// A rule: what it matches, and what it does.

import (
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/polycube/polycube/bucket"
	"github.com/polycube/polycube/classifier"
	"github.com/polycube/polycube/classifier/conditions"
	"github.com/polycube/polycube/conntrack"
	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/inet"
)

// Rule is an entry of the list `rule`. Its ID is the order that the framework gives to it.
type Rule struct {
	ID uint32 `json:"id"`
	RuleFields
}

// RuleFields are the grouping `rule-fields`.
type RuleFields struct {
	Fields
	Conntrack   *States    `json:"conntrack,omitempty"`
	Not         Fields     `json:"not"`
	Action      *Action    `json:"action"`
	RejectWith  RejectWith `json:"reject-with,omitempty"`
	Limit       *Rate      `json:"limit,omitempty"`
	LimitBurst  uint32     `json:"limit-burst,omitempty"`
	LimitBy     LimitBy    `json:"limit-by,omitempty"`
	Description *string    `json:"description,omitempty"`
}

// Fields are the header fields that a rule compares, or the negated ones. Those that are nil or empty match anything.
type Fields struct {
	Src        *inet.Prefix    `json:"src,omitempty"`
	Dst        *inet.Prefix    `json:"dst,omitempty"`
	L4Proto    *inet.Protocol  `json:"l4proto,omitempty"`
	SPort      inet.PortList   `json:"sport,omitempty"`
	DPort      inet.PortList   `json:"dport,omitempty"`
	TCPFlags   *inet.TCPFlags  `json:"tcpflags,omitempty"`
	ICMPType   *inet.ICMPMatch `json:"icmp_type,omitempty"`
	ICMPv6Type *inet.ICMPMatch `json:"icmpv6_type,omitempty"`
	DSCP       *uint8          `json:"dscp,omitempty"`
	Class      *uint32         `json:"traffic-class,omitempty"`
	SrcSet     string          `json:"src_set,omitempty"`
	DstSet     string          `json:"dst_set,omitempty"`
	SrcMAC     *inet.MACMatch  `json:"src_mac,omitempty"`
	DstMAC     *inet.MACMatch  `json:"dst_mac,omitempty"`
	VLAN       *uint32         `json:"vlan,omitempty"`
	EtherType  *inet.EtherType `json:"ethertype,omitempty"`
	InIface    string          `json:"in-iface,omitempty"`
	OutIface   string          `json:"out-iface,omitempty"`
}

func (f *Fields) conditions(x *interfaces) conditions.List {
	return conditions.List{
		conditions.Of("in-iface", x.condition(f.InIface, inShift, inMask)), conditions.Of("out-iface", x.condition(f.OutIface, outShift, outMask)),
		conditions.VLAN("vlan", f.VLAN), conditions.EtherType("ethertype", f.EtherType),
		conditions.SourceMAC("src_mac", f.SrcMAC), conditions.DestinationMAC("dst_mac", f.DstMAC),
		conditions.Protocol("l4proto", f.L4Proto),
		conditions.Source("src", f.Src), conditions.Destination("dst", f.Dst),
		conditions.SourceSet("src_set", f.SrcSet), conditions.DestinationSet("dst_set", f.DstSet),
		conditions.DSCP("dscp", f.DSCP), f.class(),
		conditions.SourcePorts("sport", f.SPort), conditions.DestinationPorts("dport", f.DPort),
		conditions.TCPFlags("tcpflags", f.TCPFlags), conditions.ICMP("icmp_type", f.ICMPType), conditions.ICMPv6("icmpv6_type", f.ICMPv6Type),
	}
}

// class is the condition about the traffic class.
func (f *Fields) class() conditions.Condition {
	if f.Class == nil {
		return conditions.Condition{}
	}
	return conditions.Of("traffic-class", func(m *classifier.Match) error {
		m.Mark(*f.Class, math.MaxUint32)
		return nil
	})
}

// Action is the leaf `action`; the values are those of the program.
type Action uint32

// The actions.
const (
	Drop Action = iota
	Accept
	Reject
	Log
)

// actionNames are the names of the actions.
var actionNames = []string{"DROP", "ACCEPT", "REJECT", "LOG"}

// UnmarshalText parses the model's name.
func (a *Action) UnmarshalText(text []byte) (err error) {
	*a, err = cube.Enum[Action]("action", text, actionNames...)
	return err
}

func (a Action) String() string { return actionNames[a] }

// RejectWith is the leaf `reject-with`.
type RejectWith uint32

// What REJECT answers.
const (
	RejectDefault RejectWith = iota
	TCPReset
	PortUnreachable
	HostUnreachable
	AdminProhibited
)

// UnmarshalText parses the model's name.
func (r *RejectWith) UnmarshalText(text []byte) error {
	is, err := cube.Enum[RejectWith]("reject-with", text, "tcp-reset", "port-unreachable", "host-unreachable", "admin-prohibited")
	*r = is + TCPReset
	return err
}

// LimitBy is the leaf `limit-by`.
type LimitBy uint32

// What a limit is for.
const (
	ByRule LimitBy = iota
	BySource
)

// UnmarshalText parses the model's name.
func (l *LimitBy) UnmarshalText(text []byte) (err error) {
	*l, err = cube.Enum[LimitBy]("limit-by", text, "RULE", "SOURCE")
	return err
}

// Rate is the leaf `limit`.
type Rate struct {
	Packets uint64
	Per     time.Duration
}

// UnmarshalText parses PACKETS/PERIOD.
func (r *Rate) UnmarshalText(text []byte) error {
	number, period, _ := strings.Cut(string(text), "/")
	packets, err := strconv.ParseUint(number, 10, 32)
	per := map[string]time.Duration{"second": time.Second, "minute": time.Minute, "hour": time.Hour, "day": 24 * time.Hour}[period]
	if err != nil || packets == 0 || per == 0 {
		return fmt.Errorf("limit %.40s: it is like 10/second, and not 0: %w", text, cube.ErrInvalid)
	}
	*r = Rate{packets, per}
	return nil
}

// defaultBurst is that of iptables.
const defaultBurst = 5

// limit is struct firewall_limit.
type limit struct {
	Of       bucket.Limit
	BySource uint64
}

// limit returns the limit of the rule, nil if it has none.
func (r *RuleFields) limit() (*limit, error) {
	if r.Limit == nil {
		if r.LimitBurst != 0 || r.LimitBy != ByRule {
			return nil, fmt.Errorf("limit-burst and limit-by need a limit: %w", cube.ErrInvalid)
		}
		return nil, nil
	}
	if *r.Action != Accept {
		return nil, fmt.Errorf("limit: the action is %s, and only ACCEPT has a limit: %w", *r.Action, cube.ErrInvalid)
	}
	burst := r.LimitBurst
	if burst == 0 {
		burst = defaultBurst
	}
	of, err := bucket.New(r.Limit.Packets, r.Limit.Per, burst)
	if err != nil {
		return nil, fmt.Errorf("limit: %w", err)
	}
	return &limit{of, uint64(r.LimitBy)}, nil
}

// States is a set of classes of packets: the leaf `conntrack`, a bit for each conntrack.Class.
type States uint8

// UnmarshalText parses names of states that commas separate.
func (s *States) UnmarshalText(text []byte) error {
	*s = 0
	for name := range strings.SplitSeq(string(text), ",") {
		known := false
		for class := conntrack.Invalid; class <= conntrack.Untracked; class++ {
			if class.String() == name {
				*s |= 1 << class
				known = true
			}
		}
		if !known {
			return fmt.Errorf("conntrack %.40s: it is one or more of NEW, ESTABLISHED, RELATED, INVALID and UNTRACKED: %w", text, cube.ErrInvalid)
		}
	}
	return nil
}

// neighbourDiscovery is a bit of a packet's state: NEIGHBOUR_DISCOVERY in C.
const neighbourDiscovery = 0x80

// EtherTypes that have a chain of rules.
const (
	etherIPv4 = 0x0800
	etherIPv6 = 0x86dd
)

// family returns the family that the rule names, and whether all of its packets are IP.
func (f *Fields) family() (family Family, ip bool) {
	of := func(p *inet.Prefix) Family {
		switch {
		case p == nil:
			return NoFamily
		case p.Addr().Is4():
			return IPv4
		}
		return IPv6
	}
	if f.EtherType != nil && *f.EtherType != etherIPv4 && *f.EtherType != etherIPv6 {
		return NoFamily, false
	}
	family = max(of(f.Src), of(f.Dst))
	switch {
	case f.EtherType != nil && *f.EtherType == etherIPv4, f.ICMPType != nil:
		family = IPv4
	case f.EtherType != nil, f.ICMPv6Type != nil:
		family = IPv6
	}
	return family, true
}

// isNeighbourDiscovery reports whether the rule is about neighbour discovery (RFC 4861).
func (f *Fields) isNeighbourDiscovery() bool {
	return f.ICMPv6Type != nil && f.ICMPv6Type.Type >= 133 && f.ICMPv6Type.Type <= 137
}

// match returns the conditions of the rule in a chain, without what only concerns one set of rules.
func (r *RuleFields) match(d Direction, x *interfaces) (m classifier.Match, err error) {
	if err := conditions.Match(&m, r.conditions(x), r.Not.conditions(x)); err != nil {
		return m, err
	}
	if d == Ingress && r.OutIface+r.Not.OutIface != "" {
		return m, fmt.Errorf("out-iface: where packets of the chain INGRESS leave is not known yet; use the chain EGRESS: %w", cube.ErrInvalid)
	}
	if r.RejectWith != RejectDefault && *r.Action != Reject {
		return m, fmt.Errorf("reject-with: the action is %s: %w", *r.Action, cube.ErrInvalid)
	}
	if r.RejectWith == TCPReset && (r.L4Proto == nil || *r.L4Proto != inet.TCP) && r.TCPFlags == nil {
		return m, fmt.Errorf("reject-with tcp-reset needs l4proto TCP: %w", cube.ErrInvalid)
	}
	return m, nil
}

// withState adds the states of connections, and that of packets which are not neighbour discovery, unless the rule is
// about that.
func (r *RuleFields) withState(m classifier.Match) classifier.Match {
	states := ^States(0)
	if r.Conntrack != nil {
		states = *r.Conntrack
	}
	if r.isNeighbourDiscovery() {
		states |= neighbourDiscovery
	} else {
		states &^= neighbourDiscovery
	}
	m.State(0, uint8(^states))
	return m
}

// withLength is an address as users see it.
func withLength(p *inet.Prefix) string {
	if p == nil {
		return ""
	}
	return p.Prefix.String()
}

// decodeRule decodes the members of a rule, as an action gets them.
func decodeRule(input json.RawMessage) (r RuleFields, err error) {
	if err := json.Unmarshal(input, &r); err != nil {
		return r, fmt.Errorf("decode the rule: %w", err)
	}
	return r, nil
}
