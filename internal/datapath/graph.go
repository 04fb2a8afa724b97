// SPDX-License-Identifier: Apache-2.0

// Package datapath turns a graph of cubes into programs in the kernel: it creates the
// cubes' maps, links the cubes of each component into one program per hook (chain
// fusion), attaches shared root programs to netdevs, swaps generations without losing a
// packet and reads the counters.
//
// The graph below is pure data, the desired state. A caller prepares a whole new graph,
// then commits or aborts it.
package datapath

import (
	"time"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/internal/datapath/link"
)

// CubeID identifies a cube in the fast path: in tables, counters and slow-path records.
// 0 is no cube. The caller allocates it, and keeps it as long as the cube lives, across
// restarts of the daemon too.
type CubeID uint16

// Limits of the fast path.
const (
	// MaxCubeID is the largest CubeID.
	MaxCubeID = link.MaxCubes - 1
	// MaxPorts is the number of ports that one cube can have.
	MaxPorts = link.MaxPorts
	// MaxSlot is the largest counter slot.
	MaxSlot = link.Pages*link.Slots - 1
	// SlotsPerPage is the number of counter slots in one page of per-CPU memory.
	SlotsPerPage = link.Slots
)

// LogLevel orders what a cube logs; records above the cube's level are compiled out.
type LogLevel uint32

// The levels, in the order of the model's enum loglevel.
const (
	LogTrace LogLevel = iota
	LogDebug
	LogInfo
	LogWarn
	LogErr
	LogCritical
	LogOff
)

// Graph is the desired state of the data plane. It is not changed once handed over.
type Graph struct {
	Cubes map[CubeID]*Node
	// Netdevs holds every netdev that is a port's peer or has transparent cubes, by name.
	Netdevs map[string]*Netdev
	// Trace is what sessions want to see of packets; nil for nothing. It is not changed either.
	Trace *link.Trace
}

// Node is a cube in the graph.
type Node struct {
	ID   CubeID
	Name string
	Type cube.Type
	// LogLevel is compiled into the programs, as are Constants: values of PCN_CONFIG
	// variables by C name (see cube.Plan).
	LogLevel  LogLevel
	Constants map[string]any
	// Maps is another number when ResizeMaps made other maps for the cube.
	Maps uint64
	// Programs are what the cube consists of besides, or instead of, pcn_ingress and pcn_egress of the service's objects,
	// which stand at index 0 of their directions unless that slot is named here. A Program without a Function is none.
	Programs map[cube.ProgramSlot]cube.Program
	// Ports of a standard cube by index; nil for a transparent cube.
	Ports map[uint16]*Port
	// Shadow is set for a cube with a namespace (TC).
	Shadow *Shadow
}

// Port is a standard cube's port.
type Port struct {
	Index uint16
	Name  string
	// Slot is where the port's counters and its exit are: unique among all ports, 0..MaxSlot.
	Slot uint16
	Peer Peer
	// Tcubes are the transparent cubes on the port, index 0 innermost (next to the cube).
	Tcubes []CubeID
}

// Peer is the other end of a port: a netdev, a cube's port, or nothing.
type Peer struct {
	Netdev string
	Cube   CubeID
	Port   uint16
}

// Netdev is a network device that the graph uses.
type Netdev struct {
	Name string
	// Index is its interface index; 0 while the device does not exist.
	Index int
	// MTU in bytes; 0 asks the kernel.
	MTU int
	// Down is set when the device exists and is switched off: nothing is sent to it.
	Down bool
	// Carrier tells that the link works, Flaps how often it went and came back; when one of them changes, the other end
	// is looked at again.
	Carrier bool
	Flaps   int
	// Tcubes are the transparent cubes on the netdev, listed first to last towards the
	// stack (or the port whose peer it is) on ingress; egress runs them in reverse.
	Tcubes []CubeID
}

// Spec is what a cube needs to come into being.
type Spec struct {
	ID          CubeID
	UUID        string
	Name        string
	Service     string
	Type        cube.Type
	Transparent bool
	// MapSizes overrides max_entries by map name.
	MapSizes map[string]uint32
	// Migrate is the service's; nil if it has none.
	Migrate func(cube.Migration) error
	// Outside marks a cube whose programs are not part of the daemon: they are verified on their own and called, never
	// copied into those of others.
	Outside bool
}

// PortCounters are totals since the port was made.
type PortCounters struct {
	RxPackets, RxBytes, TxPackets, TxBytes uint64
}

// Fate is one way that packets ended in a cube, with its counter.
type Fate struct {
	// Name is the verdict or drop reason: "pass", "slowpath", "no-peer", "hop-limit", or
	// one of the cube's own.
	Name string
	// Drop tells reasons of drops from other fates.
	Drop    bool
	Packets uint64
}

// CubeStatus says how a cube's programs run.
type CubeStatus struct {
	// Mode is "call" or "inline"; "" while no program of the cube is in use.
	Mode string
	// Reason says why the cube is not inlined, "" if it is.
	Reason string
	// Segment is the number of the cube's segment among the Segments of its connected part of
	// the graph, from 1, and Cubes how many cubes are in the segment.
	Segment, Segments, Cubes int
	// Instructions is the size of the kernel program that the cube is part of, Verified how many
	// instructions the verifier looked at for it, and Load how long that took.
	Instructions, Verified int
	Load                   time.Duration
}
