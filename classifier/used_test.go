// SPDX-License-Identifier: Apache-2.0

package classifier

import (
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strconv"
	"testing"

	"github.com/polycube/polycube/cube"
)

func (h *heap) refer(names []string) (numbers []uint32, err error) {
	for _, name := range names {
		h.kept[name] = true
		if !slices.Contains(h.sets, name) {
			h.sets = append(h.sets, name)
		}
		numbers = append(numbers, uint32(slices.Index(h.sets, name)))
	}
	return numbers, nil
}

func (h *heap) unrefer(but []string) {
	maps.DeleteFunc(h.kept, func(name string, _ bool) bool { return !slices.Contains(but, name) })
}

// setsOf is pcn_classify_sets_of.
func (l *lab) setsOf(block []byte, k *Key) {
	l.t.Helper()
	for i := range maxUsed {
		number := native.Uint16(block[2*i:])
		if number == 0 {
			break
		}
		name, word := l.heap.sets[number&(addressSets-1)], wordSource
		if !l.heap.kept[name] {
			l.t.Fatalf("packets look for set %q, which is not in use", name)
		}
		if number&ofDestination != 0 {
			word = wordDestination
		}
		if contains(name, k.address(word)) {
			k[wordMark] |= 1 << (usedShift + number>>bitShift)
		}
	}
}

// contains says which addresses are in sets of these tests: those that have a bit, whose number is the name.
func contains(set string, address netip.Addr) bool {
	bit, err := strconv.Atoi(set)
	if err != nil {
		panic(err)
	}
	b := address.AsSlice()
	return b[bit/8%len(b)]>>(bit%8)&1 == 1
}

// inSet is a rule on a set of source addresses.
func inSet(name string) *Rule {
	var r Rule
	if err := r.SourceSet(name); err != nil {
		panic(err)
	}
	return &r
}

func TestRulesMatchUpTo32Sets(t *testing.T) {
	l := newLab(t)
	for i := range maxUsed {
		l.apply([]Change{{Order: uint32(i), Rule: inSet(strconv.Itoa(i))}})
	}
	if _, err := l.prepare([]Change{{Order: 100, Rule: inSet("100")}}); !errors.Is(err, cube.ErrFull) {
		t.Errorf("another set: the error is %v, want %v", err, cube.ErrFull)
	}
	l.apply([]Change{{Order: 7, Rule: inSet("100")}}) // instead of one of them
	for i := range 128 {
		k := Key{wordLink: kindIP | kindIPv6}
		k[wordSource+i/64*(wordSourceLow-wordSource)] = 1 << (i % 64)
		l.check(&k)
	}
	if err := cube.Carry(l.after, nil); err != nil {
		t.Fatal(err)
	}
	if l.heap.kept["7"] || !l.heap.kept["100"] {
		t.Errorf("sets in use are %v, want 100 instead of 7", slices.Sorted(maps.Keys(l.heap.kept)))
	}
}

func TestARuleMatchesOneSetForEachAddress(t *testing.T) {
	var m Match
	for i, tt := range []struct {
		err  error
		want error
	}{{m.SourceSet(""), cube.ErrInvalid}, {m.SourceSet("a"), nil}, {m.SourceSet("a"), nil}, {m.DestinationSet("b"), nil},
		{m.SourceSet("b"), cube.ErrInvalid}, {m.DestinationSet("a"), cube.ErrInvalid}} {
		if !errors.Is(tt.err, tt.want) {
			t.Errorf("%d: the error is %v, want %v", i, tt.err, tt.want)
		}
	}
	if got, want := fmt.Sprint(m.sets), "[a b]"; got != want {
		t.Errorf("the sets are %s, want %s", got, want)
	}
}
