// SPDX-License-Identifier: Apache-2.0

package iptables

// Conditions that are tested after the search: test.h.

import (
	"encoding/binary"
	"fmt"

	"github.com/polycube/polycube/cube"
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

// maskTest is the condition that bits of an address have a value.
func maskTest(kind testKind, a language.Address) test {
	t := test{Kind: kind, Negated: a.Not}
	copy(t.Text[:], a.Addr.AsSlice())
	copy(t.Text[4:], a.Mask.AsSlice())
	return t
}

// testsOf returns the conditions of a match that the search does not compare.
func testsOf(_ *language.Rule, m language.Match) ([]test, error) {
	switch m := m.(type) {
	case language.TCP:
		if m.Option == 0 {
			return nil, nil
		}
	case language.Conntrack:
		return nil, nil
	case language.Length:
		t := test{Kind: testLength, Negated: m.Range.Not}
		t.words(m.Range.First, m.Range.Last)
		return []test{t}, nil
	}
	return nil, fmt.Errorf("not supported: %w", cube.ErrUnsupported)
}

// words are the condition's numbers.
func (t *test) words(words ...uint32) {
	for i, w := range words {
		binary.NativeEndian.PutUint32(t.Text[4*i:], w)
	}
}
