// SPDX-License-Identifier: Apache-2.0

package datapath

import "github.com/polycube/polycube/internal/datapath/link"

// The Go side of bpf/core/abi.h; TestABI compares the two through BTF.

type entry struct{ Cube, Port, Page, Slot uint16 }

type exit struct {
	Ifindex    uint32
	Page, Slot uint16
}

type slot struct{ RxPackets, RxBytes, TxPackets, TxBytes uint64 }

type page struct{ Slot [link.Slots + 1]slot }

type fates struct{ Count [64]uint64 }

type floodExit struct {
	Ifindex                uint32
	Port, Page, Slot, Pad_ uint16
}

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
