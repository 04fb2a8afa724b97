// SPDX-License-Identifier: Apache-2.0

// Package offload decides which rules of a host's firewall a program in front of the host's stack may carry out, such that
// every packet ends as it would without the program, and every rule counts it once. It reads what iptables-save and nft print,
// compiles the chains of a hook for package classifier, and reports rule by rule what was offloaded and why the rest was not.
// It reads no kernel state itself.
//
// The program walks the same chains as the kernel. A rule that it cannot carry out is a barrier: packets that the rule might
// match are a Miss, which the stack judges from the beginning. What may match is a superset, by those of the rule's
// conditions that can be compared; a rule without any ends its chain. So a verdict is only given where all rules in front
// of it were evaluated exactly.
package offload

import (
	"github.com/polycube/polycube/iptables/language"
)

// Rule is a rule of the host.
type Rule struct {
	// Text is the rule as iptables-save prints it, without -A and the chain, or as nft does.
	Text string
	// Is are the rules of iptables that it is, one of which a packet matches at most: for iptables the rule itself. If Why is not
	// empty, it says why the rule cannot be read. Then Is are conditions that it has among others, or nil if none could be read.
	Is  []language.Rule
	Why string
	// Uncounted is whether the kernel does not count its packets; Packets and Bytes are the kernel's counters otherwise.
	Uncounted      bool
	Packets, Bytes uint64
}

// Chain is a chain of the host.
type Chain struct {
	Name string
	// Policy is ACCEPT or DROP, or - for a chain of the user. Uncounted, Packets and Bytes are about it, as those of a rule.
	Policy         string
	Uncounted      bool
	Packets, Bytes uint64
	Rules          []Rule
}

// Table is a table of the host.
type Table struct {
	Name   string
	Chains []Chain
	// Both is whether packets of both families meet its chains, and are counted there.
	Both bool
}

// Base is a chain where packets of a hook meet rules, with those of its table. Accepting a packet there ends this chain only.
type Base struct {
	Table    *Table
	Chain    string
	Priority int
}

// BasesOf returns the chain of a hook in the table filter of iptables; none if there is none.
func BasesOf(filter *Table, hook string) []Base {
	if filter == nil || filter.chain(hook) == nil {
		return nil
	}
	return []Base{{Table: filter, Chain: hook}}
}

// chain returns a chain by its name, or nil.
func (t *Table) chain(name string) *Chain {
	for i := range t.Chains {
		if t.Chains[i].Name == name {
			return &t.Chains[i]
		}
	}
	return nil
}

// The hooks whose rules are offloaded, by the names of their chains.
const (
	Input   = "INPUT"
	Forward = "FORWARD"
)

// Hooks are Input and Forward.
var Hooks = [...]string{Input, Forward}
