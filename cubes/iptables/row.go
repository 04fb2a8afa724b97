// SPDX-License-Identifier: Apache-2.0

package iptables

// What a rule says beyond the fields that the search compares: rule.h.

// verb is what becomes of a packet that a rule matches: enum iptables_verb.
type verb uint32

// The verbs.
const (
	verbDrop verb = iota
	verbAccept
	verbReturn
	verbCount
	verbJump
	verbGoto
	verbReject
	verbLog
	verbMark
	verbNoTrack
)

// maxTests is IPTABLES_TESTS.
const maxTests = 8

// test is struct iptables_test: a condition that is tested after the search.
type test struct {
	Kind    testKind
	Negated bool
	Number  uint16
	Value   uint32
	Data    [72]byte
}

// row is struct iptables_row.
type row struct {
	Chain, Value, Mask, Tests uint32
	Test                      [maxTests]test
}
