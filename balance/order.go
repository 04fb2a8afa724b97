// SPDX-License-Identifier: Apache-2.0

package balance

// Tables in which servers take turns, for round robin.

// Order is how a table has its servers.
type Order uint8

const (
	// Spread is Maglev's: a flow's hash decides, and few flows move when servers come and go.
	Spread Order = iota
	// Turns has the servers one after the other, each as often as its weight says: pcn_balance_turn.
	Turns
)

// fillTurns fills the slots with positions in the members, by smooth weighted round robin: for each slot, all members get
// their weight as credit, and the one with the most credit takes the slot and pays the sum of the weights. With weights 5,
// 1 and 1, the first one does not take five slots in a row.
func fillTurns(slots []uint16, members []Member) {
	credit := make([]int64, len(members))
	var total int64
	for _, m := range members {
		total += int64(m.Weight)
	}
	for slot := range slots {
		best := 0
		for i := range members {
			credit[i] += int64(members[i].Weight)
			if credit[i] > credit[best] {
				best = i
			}
		}
		credit[best] -= total
		slots[slot] = uint16(best)
	}
}
