// SPDX-License-Identifier: Apache-2.0

package sketch

// Space-Saving: the heaviest keys.

import (
	"cmp"
	"slices"

	"github.com/polycube/polycube/inet"
)

// ways is the number of keys of a set.
const ways = 8

// Key is struct pcn_sketch_key.
type Key struct {
	Address inet.Address
	Number  uint64
}

// Set is struct pcn_sketch_set: eight keys of a CPU.
type Set struct {
	Hash, Sum, Error [ways]uint64
	Key              [ways]Key
}

// Heavy is a key with its sum, of which at most Error may be of keys that it has replaced: the true sum is from Sum-Error to
// Sum.
type Heavy struct {
	Key
	Sum, Error uint64
}

// Add does what pcn_sketch_top_add does in the set of the key.
func (s *Set) Add(hash uint64, key Key, amount uint64) {
	if hash == 0 {
		hash = 1
	}
	at := slices.Index(s.Hash[:], hash)
	if at < 0 {
		at = 0
		for i, sum := range s.Sum {
			if sum < s.Sum[at] {
				at = i
			}
		}
		s.Hash[at], s.Error[at], s.Key[at] = hash, s.Sum[at], key
	}
	s.Sum[at] += amount
}

// SetOf returns the index of the set of a hash.
func SetOf(sets int, hash uint64) int { return int(hash >> (64 - bitsOfRow) & uint64(sets-1)) }

// Top returns up to k keys of the sets of a PCN_SKETCH_TOP, the heaviest first. next returns the sets with the same index on
// each CPU. A key that a program is writing at the same time is left out: its hash is not that of seed.
//
// A key whose sum on one CPU exceeds an eighth of all that this CPU has added to its set is never missing (Metwally, Agrawal,
// El Abbadi, 2005, theorem 2, for a set).
func Top(seed Seed, k int, each func(yield func(perCPU []Set))) []Heavy {
	var all []Heavy
	each(func(perCPU []Set) { all = append(all, merged(seed, perCPU)...) })
	slices.SortFunc(all, func(a, b Heavy) int {
		return cmp.Or(cmp.Compare(b.Sum, a.Sum), a.Address.Addr().Compare(b.Address.Addr()), cmp.Compare(a.Number, b.Number))
	})
	return slices.Clip(all[:min(k, len(all))])
}

// merged returns the keys of the sets with the same index.
func merged(seed Seed, perCPU []Set) []Heavy {
	var keys []Heavy
	at := map[Key]int{}
	for c := range perCPU {
		for i, key := range perCPU[c].Key {
			hash := perCPU[c].Hash[i]
			if hash == 0 || hash != max(1, seed.Hash(key.Address, key.Number)) {
				continue
			}
			if _, ok := at[key]; !ok {
				at[key] = len(keys)
				keys = append(keys, Heavy{Key: key})
			}
		}
	}
	for i := range keys {
		h := &keys[i]
		hash := max(1, seed.Hash(h.Address, h.Number))
		for c := range perCPU {
			sum, err := perCPU[c].of(hash)
			h.Sum += sum
			h.Error += err
		}
	}
	return keys
}

// of returns the sum of a hash and its possible error. A key that is not there may have been replaced by the lightest.
func (s *Set) of(hash uint64) (sum, err uint64) {
	if i := slices.Index(s.Hash[:], hash); i >= 0 {
		return s.Sum[i], s.Error[i]
	}
	least := slices.Min(s.Sum[:])
	return least, least
}
