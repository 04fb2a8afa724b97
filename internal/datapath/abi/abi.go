// SPDX-License-Identifier: Apache-2.0

// Package abi is the Go side of the interface between the framework's programs and the daemon: the structs of
// bpf/core/abi.h and the names of maps.
package abi

import (
	"math/bits"

	"github.com/polycube/polycube/internal/datapath/graph"
	"github.com/polycube/polycube/internal/datapath/link"
)

// The Go side of bpf/core/abi.h; TestABI compares the two through BTF.

// Entry is struct pcn_entry: where packets of a netdev go.
type Entry struct{ Cube, Port, Page, Slot uint16 }

// Exit is struct pcn_exit: where packets of a port go, or those that a transparent cube redirects to an output.
type Exit struct {
	Ifindex    uint32
	Page, Slot uint16
}

// exitCube is PCN_EXIT_CUBE, exitEgress PCN_EXIT_EGRESS.
const (
	exitCube   = 1 << 31
	exitEgress = 1 << 30
)

// ExitToCube is the exit of a port that leads to a port of a cube.
func ExitToCube(id graph.CubeID, port, page, slot uint16) Exit {
	return Exit{exitCube | uint32(id)<<16 | uint32(port), page, slot}
}

// ExitThroughEgress is the exit of a port whose packets pass the egress program of a transparent cube on its netdev.
func ExitThroughEgress(tcube graph.CubeID, page, slot uint16) Exit {
	return Exit{exitCube | exitEgress | uint32(tcube)<<16, page, slot}
}

// ExitOwn is the exit of a transparent cube to the netdev that it is on.
func ExitOwn(ifindex int) Exit { return Exit{Ifindex: uint32(ifindex)} }

// outputReceived is PCN_OUTPUT_RECEIVED, outputEgress PCN_OUTPUT_EGRESS.
const (
	outputReceived = 1
	outputEgress   = 0x100 // no page of a port
)

// ExitToNetdev is the exit of an output that leads to a netdev, which may receive the packets instead of sending them.
func ExitToNetdev(ifindex int, received bool) Exit {
	e := Exit{Ifindex: uint32(ifindex)}
	if received {
		e.Page = outputReceived
	}
	return e
}

// ExitToEgress is the exit of an output that leads to a netdev through the egress program of a transparent cube on it.
func ExitToEgress(ifindex int, tcube graph.CubeID) Exit {
	return Exit{uint32(ifindex), outputEgress, uint16(tcube)}
}

// Egress returns the transparent cube through whose egress program the exit leads, 0 if there is none.
func (e Exit) Egress() graph.CubeID {
	switch {
	case e.IsCube() && e.Ifindex&exitEgress != 0:
		return graph.CubeID(e.Ifindex >> 16 & (link.MaxCubes - 1))
	case !e.IsCube() && e.Page == outputEgress:
		return graph.CubeID(e.Slot)
	}
	return 0
}

// IsCube reports whether the exit leads to a cube instead of a netdev.
func (e Exit) IsCube() bool { return e.Ifindex&exitCube != 0 }

// Stack is struct pcn_stack: the transparent cubes on a cube's ports that are set apart.
type Stack struct{ Tcube [link.MaxPorts]uint16 }

// Parent is struct pcn_parent: the port on which such a transparent cube is.
type Parent struct {
	Cube, Port uint16
	Pad_       uint32
}

// Slot is struct pcn_slot, the counters of a port.
type Slot struct{ RxPackets, RxBytes, TxPackets, TxBytes uint64 }

// Page is struct pcn_page: the slots in one block of memory.
type Page struct{ Slot [link.Slots + 1]Slot }

// Fates is struct pcn_fates: how often packets of a cube ended for each reason.
type Fates struct{ Count [64]uint64 }

// FloodExit is struct pcn_flood_exit: a netdev to flood to.
type FloodExit struct {
	Ifindex                uint32
	Port, Page, Slot, Pad_ uint16
}

// Flood is struct pcn_flood: where a cube's floods go.
type Flood struct {
	Count, Complex, Tap, Copies, Group, Pad_ uint32
	SimplePorts, ComplexPorts                PortSet
	Exit                                     [link.MaxPorts]FloodExit
}

// FloodSet is struct pcn_flood_set.
type FloodSet struct {
	Ports, Tagged PortSet
	Group         uint32
	Flags, Words  uint8
	Pad_          uint16
}

// Copies is struct pcn_copies.
type Copies struct {
	Count, ForTC uint32
	TCPorts      PortSet
	Port         [link.MaxPorts]uint16
}

// Device is struct bpf_devmap_val: a netdev in a broadcast and the program that its copies pass first, 0 for none.
type Device struct{ Ifindex, Program uint32 }

// ExitKey is the key of pcn_exits and pcn_devices.
func ExitKey(id graph.CubeID, port uint16) uint32 { return uint32(id)*link.MaxPorts + uint32(port) }

// SlotAddress splits a slot into its page and the index there.
func SlotAddress(s uint16) (page, place uint16) { return s / link.Slots, s % link.Slots }

// PortSet has a bit for each port of a cube.
type PortSet [link.MaxPorts / 64]uint64

// Add adds a port to the set.
func (s *PortSet) Add(port uint16) { s[port/64] |= 1 << (port % 64) }

// Has reports whether a port is in the set.
func (s *PortSet) Has(port uint16) bool { return s[port/64]>>(port%64)&1 != 0 }

// All iterates over the ports in ascending order.
func (s *PortSet) All(yield func(uint16) bool) {
	for i, word := range s {
		for ; word != 0; word &= word - 1 {
			if !yield(uint16(i*64 + bits.TrailingZeros64(word))) {
				return
			}
		}
	}
}
