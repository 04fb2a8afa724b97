// SPDX-License-Identifier: Apache-2.0

package balance

// Tables without slots, for small pools: highest random weight (Thaler and Ravishankar, "Using name-based mappings to increase
// hit rates", 1998), with weights as in Schindelhauer and Schomaker, "Weighted distributed hash tables", 2005. For each flow,
// pcn_balance_rendezvous gives every server a random number, from the flow's hash and the server's seed, and takes the smallest, divided
// by the weight. A table of slots that moves as few flows would take 32 KB for 32 servers; this one fits in a cache line for 3.

import (
	"encoding/binary"
	"math/bits"
)

// The numbers of <pcn/balance.h>.
const (
	rendezvousDiffer = 0
	rendezvousList   = 8
	rendezvousSpace  = 640
)

// rendezvousSeeds returns where the seeds begin.
func rendezvousSeeds(members int) int { return (rendezvousList + 4*members + 7) &^ 7 }

// rendezvousBytes returns the bytes of a table.
func rendezvousBytes(members int) int { return rendezvousSeeds(members) + 12*members }

// writeRendezvous writes a table of members, which are sorted by key: of two that are equal for a hash, the first one has it.
func writeRendezvous(to []byte, members []Member) {
	clear(to)
	seeds := rendezvousSeeds(len(members))
	inverses := seeds + 8*len(members)
	for rank := range members {
		m := &members[rank]
		if m.Weight != members[0].Weight {
			to[rendezvousDiffer] = 1
		}
		binary.NativeEndian.PutUint32(to[rendezvousList+4*rank:], m.Server)
		binary.NativeEndian.PutUint64(to[seeds+8*rank:], m.Key.hash(0x9e3779b97f4a7c15))
		binary.NativeEndian.PutUint32(to[inverses+4*rank:], inverse(m.Weight))
	}
	binary.NativeEndian.PutUint16(to[rendezvousList-2:], uint16(len(members)))
}

// inverse returns one divided by a weight, which is not 0: 2^23 divided by what the weight is of the greatest power of two in it, and
// above these 24 bits the power.
func inverse(weight uint32) uint32 {
	power := bits.Len32(weight) - 1
	return uint32((1<<(23+power)+uint64(weight)/2)/uint64(weight)) | uint32(power)<<24
}
