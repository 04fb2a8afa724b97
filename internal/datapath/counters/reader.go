// SPDX-License-Identifier: Apache-2.0

package counters

import (
	"fmt"
	"unsafe"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/internal/datapath/abi"
	"github.com/polycube/polycube/internal/datapath/graph"
	"github.com/polycube/polycube/internal/datapath/link"
)

// Counters of many ports at once, for measurements at a bounded cost.

// CounterReader returns a function that reads counters of ports like PortCounters. It caches, so that thousands of
// ports take few system calls, and is for one goroutine and one pass.
func (c *Counters) CounterReader() func(slot uint16) (PortCounters, error) {
	pages := map[uint16][link.Slots + 1]abi.Slot{}
	raw := func(s uint16) (PortCounters, error) {
		if s > graph.MaxSlot {
			return PortCounters{}, fmt.Errorf("counter slot %d is above %d: %w", s, graph.MaxSlot, cube.ErrInvalid)
		}
		number, place := abi.SlotAddress(s)
		sums, ok := pages[number]
		if !ok {
			var perCPU []abi.Page
			if err := c.raws.Lookup(uint32(number), &perCPU); err != nil {
				return PortCounters{}, fmt.Errorf("counters of slot %d: %w", s, err)
			}
			sums = sumPages(perCPU)
			pages[number] = sums
		}
		return PortCounters(sums[place]), nil
	}
	return func(s uint16) (PortCounters, error) { return c.settled(s, raw) }
}

func sumPages(perCPU []abi.Page) (sums [link.Slots + 1]abi.Slot) {
	for i := range perCPU {
		for place, s := range perCPU[i].Slot {
			sums[place].RxPackets += s.RxPackets
			sums[place].RxBytes += s.RxBytes
			sums[place].TxPackets += s.TxPackets
			sums[place].TxBytes += s.TxBytes
		}
	}
	return sums
}

// The two types of counters have the same members in the same order.
var _ = [1]struct{}{}[unsafe.Sizeof(PortCounters{})-unsafe.Sizeof(abi.Slot{})]
