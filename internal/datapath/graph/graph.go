// SPDX-License-Identifier: Apache-2.0

// Package graph is the desired state of the data plane, and what can be derived from it alone: which cube a netdev
// leads to, which cubes a change affects, how a connected part is split into segments. All of it is pure data without
// kernel objects. A graph is not changed after it was passed on.
package graph

import (
	"slices"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/internal/datapath/link"
)

// CubeID identifies a cube in the fast path: in tables, counters and slow-path records. 0 is no cube. The caller
// allocates it, and keeps it as long as the cube exists, also across restarts of the daemon.
type CubeID uint16

// Limits of the fast path.
const (
	// MaxCubeID is the largest CubeID.
	MaxCubeID = link.MaxCubes - 1
	// MaxPorts is the maximum number of ports of a cube.
	MaxPorts = link.MaxPorts
	// MaxSlot is the largest counter slot.
	MaxSlot = link.Pages*link.Slots - 1
	// SlotsPerPage is the number of counter slots in one page of per-CPU memory.
	SlotsPerPage = link.Slots
)

// LogLevel is the minimum level of a cube's log records; others are compiled out.
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

// Graph is the desired state of the data plane. It is not changed after it was passed on.
type Graph struct {
	Cubes map[CubeID]*Node
	// Netdevs contains every netdev that is a port's peer, has transparent cubes or is the destination of an output, by
	// name.
	Netdevs map[string]*Netdev
	// Host is nil if no cubes are between the netdevs and the host's stack. It is not changed either.
	Host *Host
	// Trace is what trace sessions observe; nil for nothing. It is not changed either.
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
	// Maps changes when ResizeMaps creates other maps for the cube.
	Maps uint64
	// Programs are programs in addition to, or instead of, pcn_ingress and pcn_egress of the service's objects,
	// which are at index 0 of their directions unless that slot is named here. A Program without a Function means
	// none.
	Programs map[cube.ProgramSlot]cube.Program
	// Ports of a standard cube by index; nil for a transparent cube.
	Ports map[uint16]*Port
	// Outputs of a transparent cube by ascending number, those with a destination.
	Outputs []Output
	// Shadow is set for a cube with a namespace (TC).
	Shadow *Shadow
}

// Port is a standard cube's port.
type Port struct {
	Index uint16
	Name  string
	// Slot is the slot of the port's counters and its exit: unique among all ports, 0..MaxSlot.
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

// Output is the destination of packets that a transparent cube redirects: a netdev, or a port of a cube.
type Output struct {
	Number uint16
	Netdev string
	// Received is set if the netdev receives the packets instead of sending them (TC).
	Received bool
	Cube     CubeID
	Port     uint16
}

// Netdev is a network device that the graph uses.
type Netdev struct {
	Name string
	// Index is its interface index; 0 while the device does not exist.
	Index int
	// MTU in bytes; 0 asks the kernel.
	MTU int
	// Down is set if the device exists and is down: nothing is sent to it.
	Down bool
	// Carrier says that the link works, Flaps how often it was lost and restored; when one of them changes, the
	// other end is checked again.
	Carrier bool
	Flaps   int
	// Tcubes are the transparent cubes on the netdev, listed first to last towards the
	// stack (or the port whose peer it is) on ingress; egress runs them in reverse.
	Tcubes []CubeID
}

// Host contains the transparent cubes between the netdevs and the host's stack (TC).
type Host struct {
	// Tcubes are listed first to last towards the stack; what the host sends passes them in reverse.
	Tcubes []CubeID
	// Netdevs are all those that lead to the stack, by index.
	Netdevs []HostNetdev
}

// HostNetdev is a netdev that leads to the host's stack.
type HostNetdev struct {
	Index int
	Name  string
}

// Same reports whether two are equal, or both nil.
func (h *Host) Same(o *Host) bool {
	return h == o || h != nil && o != nil && slices.Equal(h.Tcubes, o.Tcubes) && slices.Equal(h.Netdevs, o.Netdevs)
}

// cubes are its transparent cubes, none if it is nil.
func (h *Host) cubes() []CubeID {
	if h == nil {
		return nil
	}
	return h.Tcubes
}

// Shadow is a cube's namespace.
type Shadow struct {
	// Span gives the namespace a copy of all packets that the cube's ports receive and send.
	Span bool
	// Ends are the interface indexes of the outer ends, by port.
	Ends map[uint16]int
}
