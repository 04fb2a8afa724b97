// SPDX-License-Identifier: Apache-2.0

package datapath

import (
	"math/bits"

	"github.com/polycube/polycube/internal/datapath/link"
)

// The Go side of bpf/core/abi.h; TestABI compares the two through BTF.

// entry is struct pcn_entry: where packets of a netdev go.
type entry struct{ Cube, Port, Page, Slot uint16 }

// exit is struct pcn_exit: where packets of a port go.
type exit struct {
	Ifindex    uint32
	Page, Slot uint16
}

// slot is struct pcn_slot, the counters of a port.
type slot struct{ RxPackets, RxBytes, TxPackets, TxBytes uint64 }

// page is struct pcn_page: the slots that are in one piece of memory.
type page struct{ Slot [link.Slots + 1]slot }

// fates is struct pcn_fates: how often packets of a cube ended for each reason.
type fates struct{ Count [64]uint64 }

// floodExit is struct pcn_flood_exit: a netdev to flood to.
type floodExit struct {
	Ifindex                uint32
	Port, Page, Slot, Pad_ uint16
}

// flood is struct pcn_flood: where packets go that a cube floods.
type flood struct {
	Count, Complex, Tap, Copies, Group, Pad_ uint32
	SimplePorts, ComplexPorts                portSet
	Exit                                     [link.MaxPorts]floodExit
}

// floodSet is struct pcn_flood_set.
type floodSet struct {
	Ports, Tagged portSet
	Group         uint32
	Flags, Words  uint8
	Pad_          uint16
}

// copies is struct pcn_copies.
type copies struct {
	Count, ForTC uint32
	TCPorts      portSet
	Port         [link.MaxPorts]uint16
}

// device is struct bpf_devmap_val: a netdev in a broadcast and the program that copies for it
// pass first, 0 for none.
type device struct{ Ifindex, Program uint32 }

// exitKey is the key of pcn_exits and pcn_devices.
func exitKey(id CubeID, port uint16) uint32 { return uint32(id)*link.MaxPorts + uint32(port) }

// slotAddress splits a slot into its page and the place there.
func slotAddress(s uint16) (page, place uint16) { return s / link.Slots, s % link.Slots }

// portSet has a bit for each port of a cube.
type portSet [link.MaxPorts / 64]uint64

// add puts a port into the set.
func (s *portSet) add(port uint16) { s[port/64] |= 1 << (port % 64) }

// has tells whether a port is in the set.
func (s *portSet) has(port uint16) bool { return s[port/64]>>(port%64)&1 != 0 }

// all goes through the ports in ascending order.
func (s *portSet) all(yield func(uint16) bool) {
	for i, word := range s {
		for ; word != 0; word &= word - 1 {
			if !yield(uint16(i*64 + bits.TrailingZeros64(word))) {
				return
			}
		}
	}
}
