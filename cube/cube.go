// SPDX-License-Identifier: Apache-2.0

// Package cube is the contract between the framework and a network function.
//
// A service registers once, from an init function, what it is: its YANG model, its
// eBPF programs compiled for each hook, and a constructor. The framework does the
// rest: decoding, validation, defaults, REST, CLI help, persistence, transactions,
// loading and linking. A cube imports this package and nothing else of the project.
package cube

import (
	"io/fs"
	"log/slog"
	"time"

	"github.com/cilium/ebpf"
)

// Hook is a family of kernel hooks; a cube's programs are compiled once for each.
type Hook uint8

// The hooks. XDP serves both the native and the generic (skb) mode.
const (
	TC Hook = iota
	XDP
)

// String returns the hook's name in lower case, as objects and pins are named.
func (h Hook) String() string {
	if h == XDP {
		return "xdp"
	}
	return "tc"
}

// Type is where a cube instance runs, the model's leaf `type`.
type Type string

// The types a cube can have.
const (
	TypeTC     Type = "TC"
	TypeXDPSKB Type = "XDP_SKB"
	TypeXDPDRV Type = "XDP_DRV"
)

// Hook returns the hook family of the type.
func (t Type) Hook() Hook {
	if t == TypeTC {
		return TC
	}
	return XDP
}

// Direction says which way a packet goes past a port or a netdev.
type Direction uint8

// Ingress is from the wire towards the cube or the stack, Egress the reverse.
const (
	Ingress Direction = iota
	Egress
)

// Service is a type of network function.
type Service struct {
	// Files has, in its root, the YANG module NAME.yang and the compiled programs NAME.tc.o and NAME.xdp.o. Register reads
	// Model and Objects from it.
	Files fs.FS
	// Model is the text of the YANG module; name, version and description come from it.
	Model string
	// Objects holds the compiled program files (ELF) by hook.
	Objects map[Hook][]byte
	// MaxPorts bounds the ports of an instance; 0 is the framework's limit.
	MaxPorts int
	// WholeLists has the entries of lists marked `bulk` in Change.Old and Change.New, as those of any list, instead of in
	// Change.Entries: each change then costs as much as the whole list.
	WholeLists bool
	// Migrate carries the entries of a map over to its new layout when a daemon whose programs
	// declare the map otherwise takes over a cube. Without it such an upgrade is refused.
	Migrate func(Migration) error
	// New makes an instance; it must not touch maps yet, the steps of the first plan may.
	New func(Env) (Instance, error)
}

// Migration is a map whose declaration is not that of the programs that wrote it. It is carried
// out before anything of the cube is touched, while packets go on using Old; what they write
// meanwhile is not in New. An error refuses the upgrade of the cube, which goes on forwarding
// with its old programs and maps.
//
// Maps that differ in max_entries alone are carried over by the framework.
type Migration struct {
	// Cube and Map are the names of the instance and, as in C, of the map.
	Cube, Map string
	// Old has the entries, and New, empty, the present layout. Neither is to be closed.
	Old, New *ebpf.Map
	// Was is the old declaration with its types, or nil where it is not known.
	Was *ebpf.MapSpec
}

// ActionResult is what an action answers and what it changes in the configuration.
type ActionResult struct {
	// Output marshals to the JSON object of the action's output; nil for none.
	Output any
	// Edits are applied to the configuration in the same transaction, then persisted.
	Edits []Edit
}

// Edit is one change of configuration asked for by an action.
type Edit struct {
	// Delete removes the node; otherwise Value (marshalled to JSON) is merged at Path.
	Delete bool
	Path   []string
	Value  any
}

// Env is what the framework offers an instance.
type Env interface {
	// Name is the cube's name, Type where it runs.
	Name() string
	Type() Type
	// Logger writes at the cube's own level.
	Logger() *slog.Logger
	// Map returns one of the instance's maps by its C name. It is available from the
	// steps of the first plan on; before, and for unknown names, an error is returned.
	Map(name string) (*ebpf.Map, error)
	// Inner says what the maps inside one of the instance's maps of maps are like; see OpenMapOf.
	Inner(name string) (*ebpf.MapSpec, error)
	// PortIndex returns the index that the fast path knows a port by, and PortName the reverse.
	PortIndex(name string) (uint16, bool)
	PortName(index uint16) (string, bool)
	// Send puts a packet back into the fast path.
	Send(*PacketOut) error
	// Programs changes the programs that the cube consists of.
	Programs() Programs
	// Floods are the sets of ports that the cube's programs flood to.
	Floods() Floods
	// Every calls fn each time that d has passed, After once. The calls take turns with the cube's handlers, so fn needs
	// no lock, and begin when the cube has been made. A call that is due while the last one waits or runs is left out.
	// A d below a millisecond is taken for one. stop ends it: once it has returned in a handler, fn is not called any
	// more; elsewhere, a call may be on its way. Deleting the cube and stopping the daemon stop it too.
	Every(d time.Duration, fn func()) (stop func())
	After(d time.Duration, fn func()) (stop func())
	// Do calls fn in turn with the functions of the instance, before packets that wait, and returns when fn has returned. It
	// is for goroutines of the cube's own, such as a protocol server or a health checker; a function of the instance that calls it
	// waits for itself. If the cube is closed or its code is not called any more, fn is not called and the error wraps ErrNotFound.
	Do(fn func()) error
}

// Offload is the state of checksum and segmentation offload that travels with a packet
// through the slow path, so that a 64 KB TCP superframe survives the round trip.
type Offload struct {
	// GSOSize is the payload of each segment in bytes, 0 for an ordinary packet.
	GSOSize uint16
	// GSOSegs is the number of segments the kernel counted.
	GSOSegs uint16
}

// Trip is what the framework keeps of a packet's way; copy it to PacketOut when the packet
// goes on. The zero value is a packet that the cube made itself.
type Trip struct {
	// Hops is how often the packet turned back or entered the fast path; one that does so
	// too often is dropped as hop-limit, which ends loops that lead through user space.
	Hops uint16
	// Netdev is the index of the network interface where the packet entered, whose stack
	// gets it when it is passed. When it is 0, that is the netdev where the cube is attached
	// or, for a standard cube, the peer of the port that the packet is sent to.
	Netdev int
	// FlowHash and Tenant are those of the metadata; 0 is unknown.
	FlowHash, Tenant uint32
	// Turned says that a transparent cube of the port turned the packet back (pcn_pkt_turn), Offered that its cube offered
	// it to transparent cubes (pcn_pkt_offer), having received it on the port OfferedFrom.
	Turned, Offered bool
	OfferedFrom     uint16
}

// PacketIn is a packet from the fast path.
type PacketIn struct {
	// Port is the index of the port where it entered (ingress) or would leave (egress).
	Port      uint16
	Direction Direction
	// Reason and Metadata are what the program gave to pcn_pkt_controller_md.
	Reason   uint16
	Metadata [4]uint32
	// TrafficClass is the packet's class (the skb mark on TC).
	TrafficClass uint32
	// Trip is to be copied to what is sent on.
	Trip    Trip
	Offload Offload
	// Length is the packet's length on the wire in bytes; Data may hold less when it was truncated.
	Length int
	// Data is the frame from its Ethernet header on, VLAN tags in their place.
	Data []byte
}

// PacketOut is a packet for the fast path.
type PacketOut struct {
	// Port of a standard cube. Transparent cubes leave it 0.
	Port uint16
	// Direction: for a standard cube, Egress sends out of Port and Ingress makes the
	// packet appear as received there. For a transparent cube, the packet goes on in
	// that direction behind this cube.
	Direction Direction
	// Namespace gives the packet to the namespace of a shadow cube instead, by the interface of Port.
	Namespace bool
	// Offer offers the packet to the transparent cubes of a standard cube's Port instead, as pcn_pkt_offer does. If none of
	// them turns it, it appears as received on that port, and offered.
	Offer bool
	// Recirculate makes a transparent cube see the packet again itself.
	Recirculate bool
	// Metadata is for the cube's own programs; what goes on behind a transparent cube has none.
	Metadata     [4]uint32
	TrafficClass uint32
	// Trip is that of the PacketIn that goes on, or zero for a new packet.
	Trip    Trip
	Offload Offload
	Data    []byte
}

// Port is a port as every standard cube's configuration holds it; embed it to add members.
type Port struct {
	Name   string   `json:"name"`
	Peer   string   `json:"peer,omitempty"`
	Tcubes []string `json:"tcubes,omitempty"`
}
