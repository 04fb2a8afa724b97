// SPDX-License-Identifier: Apache-2.0

package iptables

// Conditions that are tested after the search: test.h.

import (
	"encoding/binary"

	language "github.com/polycube/polycube/internal/iptables"
)

// testKind is the kind of a condition: enum iptables_test_kind.
type testKind uint8

// The kinds.
const (
	testIn testKind = iota
	testOut
	testSource
	testDestination
	testLaterFragment
	testLength
)

// netdevTest is the condition that a netdev has a name, or that its name begins with a prefix.
func netdevTest(kind testKind, i language.Interface) test {
	t := test{Kind: kind, Negated: i.Not, Number: uint16(len(i.Name))}
	if !i.Prefix {
		t.Number = 16
	}
	copy(t.Text[:], i.Name)
	return t
}

// words are the condition's numbers.
func (t *test) words(words ...uint32) {
	for i, w := range words {
		binary.NativeEndian.PutUint32(t.Text[4*i:], w)
	}
}
