// SPDX-License-Identifier: Apache-2.0

package balance

// Maglev's table (Eisenbud et al., "Maglev: A Fast and Reliable Software Network Load Balancer", NSDI 2016, section 3.4)
// with weights. Each server has a permutation of all slots, which depends on nothing but its key, and servers take turns
// to take the first slot of theirs that is free. A server has a share of the turns, and in the end of the slots, that is
// that of its weight. So a table depends on the set of servers alone, and small changes of the set move few slots.

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"slices"
)

// Key identifies a server: by its address and what else belongs to its identity. It decides which slots the server has.
type Key [24]byte

// Member is a server in a pool.
type Member struct {
	Key Key
	// Server is its number in the data plane.
	Server uint32
	// Weight is its share of the flows, compared with the weights of the others; 0: no flows.
	Weight uint32
}

// free is a slot without a server.
const free = 1<<16 - 1

// mix changes each bit of its result with a probability of one half if one bit of x changes: pcn_hash_mix of <pcn/hash.h>.
func mix(x uint64) uint64 {
	x = (x ^ x>>32) * 0xd6e8feb86659fd93
	x = (x ^ x>>32) * 0xd6e8feb86659fd93
	return x ^ x>>32
}

// hash returns the hash of a key with a seed.
func (k *Key) hash(seed uint64) uint64 {
	for i := 0; i < len(k); i += 8 {
		seed = mix(seed ^ binary.LittleEndian.Uint64(k[i:]))
	}
	return seed
}

// sorted returns the members with a weight, in the order of their keys.
func sorted(members []Member) []Member {
	in := make([]Member, 0, len(members))
	for _, m := range members {
		if m.Weight > 0 {
			in = append(in, m)
		}
	}
	slices.SortFunc(in, func(a, b Member) int { return bytes.Compare(a.Key[:], b.Key[:]) })
	return in
}

// quotas returns how many of the slots each member gets: its share, rounded down or up.
func quotas(members []Member, slots int) []int {
	var total uint64
	for _, m := range members {
		total += uint64(m.Weight)
	}
	quota, order, rest := make([]int, len(members)), make([]int, len(members)), slots
	for i, m := range members {
		quota[i] = int(uint64(slots) * uint64(m.Weight) / total)
		rest -= quota[i]
		order[i] = i
	}
	remainder := func(i int) uint64 { return uint64(slots) * uint64(members[i].Weight) % total }
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(remainder(b), remainder(a)) })
	for _, i := range order[:rest] {
		quota[i]++
	}
	return quota
}

// turn is the state of a member while a table is filled.
type turn struct {
	slot, skip uint32 // where its permutation is, and its step
	quota      int    // slots it gets
	left       int    // slots that it does not have yet
	credit     int    // has one turn for each `most` of it
}

// Fill fills the slots of a table with positions in the members, which are sorted by key and have weights. The number of
// slots is a prime, and there are at least as many slots as members. A member has the number of slots that its weight
// says, rounded up or down. It takes about 1.5 ms for 100 members and 65,537 slots.
func Fill(slots []uint16, members []Member) {
	for i := range slots {
		slots[i] = free
	}
	if len(members) == 0 {
		return
	}
	size := uint32(len(slots))
	turns := make([]turn, len(members))
	most := 0
	for i, quota := range quotas(members, len(slots)) {
		k := &members[i].Key
		turns[i] = turn{
			slot: uint32(k.hash(0x9e3779b97f4a7c15) % uint64(size)), skip: uint32(k.hash(0xc2b2ae3d27d4eb4f)%uint64(size-1)) + 1,
			quota: quota, left: quota,
		}
		most = max(most, quota)
	}
	for left := len(slots); left > 0; {
		for i := range turns {
			t := &turns[i]
			if t.credit += t.quota; t.credit < most || t.left == 0 {
				continue
			}
			t.credit -= most
			for slots[t.slot] != free {
				t.next(size)
			}
			slots[t.slot] = uint16(i)
			t.next(size)
			t.left--
			left--
		}
	}
}

// next moves to the next slot of the permutation.
func (t *turn) next(size uint32) {
	if t.slot += t.skip; t.slot >= size {
		t.slot -= size
	}
}
