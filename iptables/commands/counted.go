// SPDX-License-Identifier: Apache-2.0

package commands

import "slices"

// Counted is a counter to be set after edits: that of the rule which is At then, or of the policy if At is -1.
type Counted struct {
	Table, Chain string
	At           int
	To           Counts
}

// CountedBy returns the counters that edits set, which differ from those that the rules have anyway.
func CountedBy(edits []Edit) (out []Counted) {
	for _, e := range edits {
		switch e.Op {
		case InsertRule:
			out = shifted(out, &e, 1)
		case DeleteRule:
			out = shifted(out, &e, -1)
		default:
		}
		if e.Op == SetCounts || e.Counts != (Counts{}) {
			out = append(out, Counted{e.Table, e.Chain, e.At, e.Counts})
		}
	}
	return out
}

// shifted returns counters after a rule was inserted or deleted.
func shifted(all []Counted, e *Edit, by int) []Counted {
	there := func(c Counted) bool { return c.Table == e.Table && c.Chain == e.Chain }
	all = slices.DeleteFunc(all, func(c Counted) bool { return by < 0 && there(c) && c.At == e.At })
	for i, c := range all {
		if there(c) && c.At >= e.At {
			all[i].At += by
		}
	}
	return all
}
