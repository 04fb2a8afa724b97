// SPDX-License-Identifier: Apache-2.0

package classifier

// The sets of addresses that the rules of a set match: each has a bit in the key, that of source addresses another one than
// that of destination addresses. Programs read which they are from a block before the forest, so they see rules and sets
// of the same change.

import (
	"fmt"
	"slices"

	"github.com/polycube/polycube/cube"
)

const (
	// maxUsed, ofDestination, bitShift and hasUsed are PCN_CLASSIFY_USED_SETS, PCN_CLASSIFY_OF_DESTINATION,
	// PCN_CLASSIFY_BIT and PCN_CLASSIFY_HAS_USED.
	maxUsed       = 32
	ofDestination = 1 << 10
	bitShift      = 11
	hasUsed       = 1 << 31
	// usedShift is the place of the first bit in the word of the mark.
	usedShift = 32
)

// use is a set of addresses that rules match.
type use struct {
	name        string
	destination bool
}

// used are the sets that rules match, in the order of their bits. Bits of sets that no rule matches any more are free
// again when all rules are written.
type used struct {
	sets    []use
	numbers []uint32 // of the sets; nil until the first rules that match them are committed, then not changed
}

// uses returns the sets that conditions match.
func (c *conditions) uses() (all []use) {
	for i, name := range c.sets {
		if name != "" {
			all = append(all, use{name, i == 1})
		}
	}
	return all
}

// with returns the sets, and those that rules match in addition; nil if there are too many.
func (u *used) with(rules []*rule) *used {
	out := u
	note := func(c *conditions) {
		for _, x := range c.uses() {
			if !slices.Contains(out.sets, x) {
				out = &used{sets: append(slices.Clip(out.sets), x)}
			}
		}
	}
	for _, r := range rules {
		note(&r.conditions)
		for e := range r.exceptions {
			note(e)
		}
	}
	if len(out.sets) > maxUsed {
		return nil
	}
	return out
}

// tooManySets returns the error of rules that match too many.
func tooManySets() error {
	return fmt.Errorf("the rules match more than %d sets of addresses, those of source and of destination addresses counted apart: %w",
		maxUsed, cube.ErrFull)
}

// bits returns what the word of the mark must have for conditions. A set without a bit is matched by no packet: its rule
// was taken back.
func (u *used) bits(c *conditions) (value, mask uint64) {
	for _, x := range c.uses() {
		bit := slices.Index(u.sets, x)
		if bit < 0 {
			return 1 << usedShift, 0
		}
		mask |= 1 << (usedShift + bit)
	}
	return mask, mask
}

// names are the names of the sets.
func (u *used) names() []string {
	names := make([]string, len(u.sets))
	for i, x := range u.sets {
		names[i] = x.name
	}
	return names
}

// forest returns the run of blocks of a forest.
func (u *used) forest(at uint32) run {
	if len(u.sets) == 0 {
		return run{at, 1}
	}
	return run{at - 1, 2}
}

// write writes the block before a forest, with both uses of a set next to each other.
func (u *used) write(block []byte) {
	all := make([]uint16, len(u.sets))
	for i, x := range u.sets {
		all[i] = uint16(u.numbers[i]) | uint16(i)<<bitShift
		if x.destination {
			all[i] |= ofDestination
		}
	}
	slices.SortFunc(all, func(x, y uint16) int { return int(x&(addressSets-1)) - int(y&(addressSets-1)) })
	clear(block)
	for i, x := range all {
		native.PutUint16(block[2*i:], x)
	}
}
