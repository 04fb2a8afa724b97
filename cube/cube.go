// SPDX-License-Identifier: Apache-2.0

// Package cube is the contract between the framework and a network function.
//
// A service registers once, from an init function: its YANG model, its eBPF programs compiled for each hook, and a
// constructor. The framework does the rest: decoding, validation, defaults, REST, CLI help, persistence, transactions,
// loading and linking. A cube imports this package and nothing else of the project.
package cube

import (
	"context"
	"io/fs"
	"log/slog"
	"time"

	"github.com/cilium/ebpf"

	"github.com/polycube/polycube/cube/origins"
)

// Hook is a family of kernel hooks; a cube's programs are compiled once for each.
type Hook uint8

// The hooks. XDP serves both the native and the generic (skb) mode.
const (
	TC Hook = iota
	XDP
)

// String returns the hook's name in lower case, as used in the names of objects and pins.
func (h Hook) String() string {
	if h == XDP {
		return "xdp"
	}
	return "tc"
}

// Type is the hook of a cube instance, the model's leaf `type`.
type Type string

// The types of a cube.
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

// Direction is the direction of a packet at a port or a netdev.
type Direction uint8

// Ingress is from the wire towards the cube or the network stack, Egress the reverse.
const (
	Ingress Direction = iota
	Egress
)

// Service is a type of network function.
type Service struct {
	// Files contains, in its root, the YANG module NAME.yang and the compiled programs NAME.tc.o and NAME.xdp.o.
	// Register reads Model and Objects from it.
	Files fs.FS
	// Model is the text of the YANG module, which defines name, version and description.
	Model string
	// Objects contains the compiled program files (ELF) by hook.
	Objects map[Hook][]byte
	// MaxPorts limits the ports of an instance; 0 is the framework's limit.
	MaxPorts int
	// WholeLists puts the entries of lists marked `bulk` into Change.Old and Change.New, like those of any list,
	// instead of Change.Entries: the cost of each change is then proportional to the whole list.
	WholeLists bool
	// Migrate copies the entries of a map to its new layout when a daemon whose programs declare the map
	// differently takes over a cube. Without it such an upgrade is refused. New must depend on Old alone: Migrate
	// is called again for what programs write to the map meanwhile.
	Migrate func(Migration) error
	// New creates an instance; it must not access maps yet, but the steps of the first plan may.
	New func(Env) (Instance, error)
}

// Migration is a map whose declaration differs from that of the programs that wrote it. It is carried out before
// anything of the cube is changed, while packets still use the map. An error refuses the upgrade of the cube, which
// continues to forward with its old programs and maps.
//
// Migrate is called again just before the programs are replaced, if they have written to the map since. Old is then the
// map and New is empty; the framework takes the entries of New that were added, changed or removed since the first
// call. After the programs were replaced, Old contains only the entries that were added in between, and the framework
// adds what Migrate makes of them, except where the new programs have an entry for the same key. Errors of these calls
// are logged.
//
// The framework copies maps that only differ in max_entries.
type Migration struct {
	// Cube and Map are the names of the instance and, as in C, of the map.
	Cube, Map string
	// Old has the entries, and New, empty, the present layout. Close neither.
	Old, New *ebpf.Map
	// Was is the old declaration with its types, or nil if it is unknown.
	Was *ebpf.MapSpec
}

// ActionResult is the result of an action, and its changes of the configuration.
type ActionResult struct {
	// Output marshals to the JSON object of the action's output; nil for none.
	Output any
	// Edits are applied to the configuration in the same transaction, then persisted.
	Edits []Edit
	// Rest, if set, is the part of the action that takes long. It is called after the transaction, while the daemon
	// makes other changes, and not in turn with the functions of the instance (see Env.Do). It returns the output.
	Rest func(ctx context.Context) (output any, err error)
}

// Edit is one change of configuration requested by an action.
type Edit struct {
	// Delete removes the node; otherwise Value (marshalled to JSON) is merged at Path.
	Delete bool
	// Insert adds Value at the position that ends Path, which is an entry of a list marked `positions`: the entries
	// from there on move.
	Insert bool
	Path   []string
	Value  any
}

// Env is the interface from an instance to the framework.
type Env interface {
	// Name is the cube's name, Type its hook.
	Name() string
	Type() Type
	// Instance is the cube's number, which no other cube has as long as it exists: pcn_instance(md) in its programs.
	Instance() uint16
	// UUID identifies the cube: unlike its name and its number, no other cube ever has it.
	UUID() string
	// Logger logs at the cube's own level.
	Logger() *slog.Logger
	// Map returns one of the instance's maps by its C name. It is available from the steps of the first plan on;
	// before that, and for unknown names, it returns an error.
	Map(name string) (*ebpf.Map, error)
	// Origin returns how one of the instance's maps was created. It is available as soon as Map is.
	Origin(name string) (origins.Origin, error)
	// Inner describes the inner maps of one of the instance's maps of maps; see OpenMapOf.
	Inner(name string) (*ebpf.MapSpec, error)
	// PortIndex returns the index of a port in the fast path, and PortName the reverse.
	PortIndex(name string) (uint16, bool)
	PortName(index uint16) (string, bool)
	// Send sends a packet to the fast path.
	Send(*PacketOut) error
	// Programs changes the programs that the cube consists of.
	Programs() Programs
	// Floods returns the sets of ports for floods of the cube's programs.
	Floods() Floods
	// Every calls fn after each interval d, After once. The calls take turns with the cube's handlers, so fn needs
	// no lock, and begin when the cube has been created. A call that is due while the previous one waits or runs is
	// skipped. The minimum for d is one millisecond. stop ends the calls: once it has returned in a handler, fn is
	// not called any more; elsewhere, a call may be in progress. Deleting the cube and stopping the daemon stop
	// them too.
	Every(d time.Duration, fn func()) (stop func())
	After(d time.Duration, fn func()) (stop func())
	// Do calls fn in turn with the functions of the instance, before packets that wait, and returns when fn has
	// returned. It is for goroutines of the cube's own, such as a protocol server or a health checker; if a
	// function of the instance calls it, it deadlocks. If the cube is closed or its code is not called any more, fn
	// is not called and the error wraps ErrNotFound.
	Do(fn func()) error
}

// Offload is the checksum and segmentation offload state that accompanies a packet through the slow path, so that a 64
// KB TCP superframe survives the round trip.
type Offload struct {
	// GSOSize is the payload of each segment in bytes, 0 for an ordinary packet.
	GSOSize uint16
	// GSOSegs is the number of segments, as counted by the kernel.
	GSOSegs uint16
}

// Trip is the framework's state of a packet; copy it to PacketOut when the packet continues. The zero value is for a
// packet that the cube created.
type Trip struct {
	// Hops is how often the packet turned back or entered the fast path. Beyond the limit it is dropped as
	// hop-limit, which ends loops through user space.
	Hops uint16
	// Netdev is the index of the network interface where the packet entered, whose stack gets it when it is passed.
	// If it is 0, that is the netdev where the cube is attached or, for a standard cube, the peer of the port that
	// the packet is sent to. A cube at the host's stack has no such netdev: a packet without one is refused.
	Netdev int
	// FlowHash and Tenant are those of the metadata; 0 means unknown.
	FlowHash, Tenant uint32
	// Turned says that a transparent cube of the port turned the packet back (pcn_pkt_turn), Offered that its cube offered
	// it to transparent cubes (pcn_pkt_offer), having received it on the port OfferedFrom.
	Turned, Offered bool
	OfferedFrom     uint16
}

// PacketIn is a packet from the fast path.
type PacketIn struct {
	// Port is the index of the port where it entered (ingress) or will leave (egress).
	Port      uint16
	Direction Direction
	// Reason and Metadata are the arguments of pcn_pkt_controller_md.
	Reason   uint16
	Metadata [4]uint32
	// TrafficClass is the packet's class (the skb mark on TC).
	TrafficClass uint32
	// Trip must be copied when the packet is sent on.
	Trip    Trip
	Offload Offload
	// Length is the packet's length on the wire in bytes; Data may be shorter if it was truncated.
	Length int
	// Data is the frame, starting with its Ethernet header, with VLAN tags in place.
	Data []byte
}

// PacketOut is a packet for the fast path.
type PacketOut struct {
	// Port of a standard cube; 0 for transparent cubes.
	Port uint16
	// Direction: for a standard cube, Egress sends out of Port and Ingress makes the packet appear as received
	// there. For a transparent cube, the packet continues in that direction after this cube.
	Direction Direction
	// Namespace sends the packet to the namespace of a shadow cube instead, through the interface of Port.
	Namespace bool
	// Offer offers the packet to the transparent cubes of a standard cube's Port instead, as pcn_pkt_offer does. If
	// none of them turns it, it appears as received on that port, and as offered.
	Offer bool
	// Recirculate makes a transparent cube process the packet again itself.
	Recirculate bool
	// Metadata is for the cube's own programs; after a transparent cube, a packet has none.
	Metadata     [4]uint32
	TrafficClass uint32
	// Trip is copied from the PacketIn that continues, or zero for a new packet.
	Trip    Trip
	Offload Offload
	Data    []byte
}

// Port is a port in a standard cube's configuration; embed it to add members.
type Port struct {
	Name   string   `json:"name"`
	Peer   string   `json:"peer,omitempty"`
	Tcubes []string `json:"tcubes,omitempty"`
}
