// SPDX-License-Identifier: Apache-2.0

package classifier

// The order of rules, as numbers that leave room for others in between.

import (
	"slices"

	"github.com/tidwall/btree"

	"github.com/polycube/polycube/classifier"
)

// position is where a rule comes: its priority, then its id.
type position uint64

func positionOf(priority, id uint32) position { return position(uint64(priority)<<32 | uint64(id)) }

// ranks are the numbers of the rules by which package classifier sorts them.
type ranks struct{ of *btree.Map[position, uint32] }

func newRanks() ranks { return ranks{of: new(btree.Map[position, uint32])} }

// copied returns ranks that can be changed without changing these.
func (r ranks) copied() ranks { return ranks{of: r.of.Copy()} }

// apart is the room between rules that come one after the other.
const apart = 1 << 15

// put gives new positions their numbers. moved: there was no room, and all rules have got others.
func (r ranks) put(fresh []position) (moved bool) {
	slices.Sort(fresh)
	for i, p := range fresh {
		number, ok := r.between(p)
		if !ok {
			for _, p := range fresh[i:] {
				r.of.Set(p, 0)
			}
			r.spread()
			return true
		}
		r.of.Set(p, number)
	}
	return false
}

// between returns a number for a position that lies between those of its neighbours; false if there is none.
func (r ranks) between(p position) (uint32, bool) {
	least, most := int64(-1), int64(classifier.MaxOrder)+1
	hasLess, hasMore := false, false
	r.of.Descend(p, func(_ position, number uint32) bool {
		least, hasLess = int64(number), true
		return false
	})
	r.of.Ascend(p, func(_ position, number uint32) bool {
		most, hasMore = int64(number), true
		return false
	})
	switch {
	case most-least < 2:
		return 0, false
	case hasLess && !hasMore && most-least > apart:
		return uint32(least + apart), true
	case hasMore && !hasLess && most-least > apart:
		return uint32(most - apart), true
	}
	return uint32(least + (most-least)/2), true
}

// spread gives all positions numbers with the same room between them.
func (r ranks) spread() {
	step, number := int64(classifier.MaxOrder)/int64(r.of.Len()+1), int64(0)
	for _, p := range r.of.Keys() {
		number += step
		r.of.Set(p, uint32(number))
	}
}

// number returns that of a position.
func (r ranks) number(p position) uint32 {
	number, _ := r.of.Get(p)
	return number
}
