// SPDX-License-Identifier: Apache-2.0

package language

import (
	"net/netip"
)

// Family is the program that a rule is for.
type Family uint8

// The families: rules of iptables, and of ip6tables.
const (
	IPv4 Family = 4
	IPv6 Family = 6
)

// Command is one command line.
type Command struct {
	Family Family
	// Table is filter, nat, mangle or raw.
	Table string
	// Op is the letter of the short option: A append, I insert, D delete, R replace, C check, L list, S list as
	// commands, F flush, Z zero, N new chain, X delete chain, E rename chain, P policy.
	Op byte
	// Chain is empty if L, S, F, Z or X are for all chains.
	Chain string
	// Number is the position of I (1 if none was given), D, R, L, S or Z; 0 if there is none.
	Number int
	// Rules are those of A, I, D, R and C. A list of addresses gives several, which are applied one after the other: I
	// inserts each at Number, so that the last one becomes the first.
	Rules []Rule
	// Name is the new name of E, or the policy of P.
	Name string
	// Zero is -Z together with L or S.
	Zero bool

	Numeric, Exact, LineNumbers, Verbose bool
	// Wait is -w. WaitSeconds is how long, 0 for ever.
	Wait        bool
	WaitSeconds int
}

// Rule is one rule, without its chain. The zero value matches every packet, and only counts.
type Rule struct {
	Family              Family
	Source, Destination Address
	In, Out             Interface
	Fragment            Fragment
	Protocol            Protocol
	// Matches are in the order of the command. Each is a value of one of the types of this package that have Name and
	// String.
	Matches []Match
	// Target is nil if packets are only counted.
	Target Target
	// Packets and Bytes are the counters of -c or of the save format.
	Packets, Bytes uint64
}

// Counted returns the rule with other counters.
func (r Rule) Counted(packets, bytes uint64) Rule {
	r.Packets, r.Bytes = packets, bytes
	return r
}

// Match is one -m.
type Match interface {
	// Name is the name after -m.
	Name() string
	// String returns the options as `iptables -S` prints them, without the name.
	String() string
	match()
}

// Target is what becomes of packets that match: a value of the type Verdict, Jump, Reject, Log, NFLog, SetMark,
// ModifySet, NoTrack or NAT.
type Target interface {
	// Name is the name after -j or -g.
	Name() string
	// String returns the options as `iptables -S` prints them, without the name.
	String() string
	target()
}

// Address is an address and the bits of it that are compared, which need not be a prefix. The zero value is any
// address.
type Address struct {
	Addr, Mask netip.Addr
	Not        bool
}

// Any reports whether every address matches.
func (a Address) Any() bool { return !a.Addr.IsValid() }

// Prefix returns the address as a prefix; ok is false if it is any address, or if its mask is no prefix.
func (a Address) Prefix() (p netip.Prefix, ok bool) {
	if a.Any() {
		return p, false
	}
	bits, ok := maskBits(a.Mask)
	if !ok {
		return p, false
	}
	return netip.PrefixFrom(a.Addr, bits), true
}

// Interface is the name of a network interface. The zero value is any interface.
type Interface struct {
	Name string
	// Prefix is `NAME+`: all interfaces whose names begin with Name.
	Prefix, Not bool
}

// Fragment is -f: which fragments of a packet match.
type Fragment uint8

// Which fragments match: all, those after the first (-f), or the first and whole packets (! -f).
const (
	AnyFragment Fragment = iota
	LaterFragments
	FirstFragment
)

// Protocol is the protocol of a packet. The zero value is any protocol.
type Protocol struct {
	Number uint8
	Not    bool
}

// PortRange is a range of ports, both ends included. 0 to 65535 without Not is every port, as if there were no option.
type PortRange struct {
	First, Last uint16
	Not         bool
}

// Any reports whether every port matches.
func (r PortRange) Any() bool { return r.First == 0 && r.Last == 65535 }

var anyPort = PortRange{Last: 65535}
