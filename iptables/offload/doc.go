// SPDX-License-Identifier: Apache-2.0

// Package offload decides which rules of a host's firewall can be offloaded to a program in front of the host's stack, such that
// every packet gets the same verdict as without the program, and every rule counts it once. It parses the output of iptables-save
// and nft, compiles the chains of a hook for package classifier, and reports rule by rule what was offloaded and why the rest was
// not. It reads no kernel state itself.
//
// The program walks the same chains as the kernel. A rule that it cannot apply is a barrier: packets that the rule might
// match are a Miss, which the stack processes from the start. These are a superset of its packets, by those of the rule's
// conditions that can be compared; a rule without any ends its chain. So a verdict is only given where all preceding rules
// were evaluated exactly.
package offload

import (
	"github.com/polycube/polycube/iptables/language"
)

// Rule is a rule of the host.
type Rule struct {
	// Text is the rule as iptables-save prints it, without -A and the chain, or as nft prints it.
	Text string
	// Is are the equivalent iptables rules, of which a packet matches at most one: for iptables, the rule itself. If Why is not
	// empty, it says why the rule cannot be parsed; Is then has some of its conditions, or is nil if none could be parsed.
	Is  []language.Rule
	Why string
	// Uncounted is whether the kernel does not count its packets; Packets and Bytes are the kernel's counters otherwise.
	Uncounted      bool
	Packets, Bytes uint64
}

// Chain is a chain of the host.
type Chain struct {
	Name string
	// Policy is ACCEPT or DROP, or - for a user-defined chain. Uncounted, Packets and Bytes are its counters, as for a rule.
	Policy         string
	Uncounted      bool
	Packets, Bytes uint64
	Rules          []Rule
}

// Table is a table of the host.
type Table struct {
	Name   string
	Chains []Chain
	// Both is whether packets of both families traverse its chains, and are counted there.
	Both bool
}

// Base is a base chain of a hook, with its table. Accepting a packet there ends only this chain.
type Base struct {
	Table    *Table
	Chain    string
	Priority int
}

// BasesOf returns the chain of a hook in the filter table of iptables; none if there is none.
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
