// SPDX-License-Identifier: Apache-2.0

// Package source is about the rules of a host that are to be imported, wherever they come from: what they become here, and which of
// them cannot be imported. It reads those that iptables-save has printed.
package source

import (
	"slices"

	"github.com/polycube/polycube/iptables/language"
)

// Set is the rules of a host, as far as they can become rules of the table filter.
type Set struct {
	// Chains are those of the table filter by family. A family that the source says nothing about is missing.
	Chains map[language.Family][]language.Chain
	Rules  []Rule
	// Handles is whether At are handles of nftables, not lines of a file.
	Handles bool
}

// Rule is a rule, or a policy, of the host.
type Rule struct {
	// At is the number of its line, or its handle.
	At uint64
	// Text is the rule as its source writes it, Where the table and chain if the text lacks them.
	Where, Text string
	// Chain is the chain of the table filter whose rules it becomes.
	Chain string
	// Rules are what it becomes: none if it cannot be imported or has no effect, and several if it is about both families or
	// about a set of values.
	Rules []language.Rule
	// Reasons say why it, or a part of it, cannot be imported.
	Reasons []string
	Effect  Effect
}

// Leave notes why the rule cannot be imported for a family, and drops what it has become there.
func (r *Rule) Leave(family language.Family, why error) {
	r.Rules = slices.DeleteFunc(slices.Clone(r.Rules), func(one language.Rule) bool { return one.Family == family })
	if !slices.Contains(r.Reasons, why.Error()) {
		r.Reasons = append(r.Reasons, why.Error())
	}
}

// Effect is what may become of packets if a rule is left out.
type Effect uint8

// The effects of a rule that is left out.
const (
	NoEffect    Effect = iota // verdicts stay
	MayPass                   // the rule drops packets
	MayDrop                   // the rule accepts packets
	MayDiffer                 // both, as where a rule leads to another chain
	NotChanged                // the rule changes packets, such as addresses or marks
	effectCount = iota
)

var effectTexts = [effectCount]string{
	"verdicts stay", "packets may pass", "packets may be dropped", "packets may pass or be dropped", "packets are not changed",
}

// String says what becomes of packets.
func (e Effect) String() string { return effectTexts[e] }

// EffectOf returns the effect of a target by its name, empty if there is none.
func EffectOf(target string) Effect {
	switch {
	case slices.Contains([]string{"", "LOG", "NFLOG", "ULOG", "TRACE", "AUDIT"}, target):
		return NoEffect
	case target == "DROP" || target == "REJECT":
		return MayPass
	case target == "ACCEPT":
		return MayDrop
	case slices.Contains([]string{"NFQUEUE", "QUEUE", "SYNPROXY"}, target):
		return MayDiffer
	case language.IsTarget(target) && target != "RETURN":
		return NotChanged
	}
	return MayDiffer
}
