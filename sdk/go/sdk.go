// SPDX-License-Identifier: Apache-2.0

// Package sdk is for external services of Polycube in Go. It resembles package cube: a service with model, objects and
// constructor; instances with Prepare and, if needed, the optional interfaces of interfaces.go. Maps are accessed
// through the daemon: Table has the methods of package cube/table with a context.
package sdk

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"net/netip"
	"slices"
	"time"

	pb "github.com/polycube/polycube/api/polycube/service/v1"
	"github.com/polycube/polycube/cube"
)

// Service is a type of network function. T is the type of its instances, whose methods determine the daemon's calls.
type Service[T Instance] struct {
	// Name is the name in the model, which is the text of the YANG module.
	Name, Model string
	// Objects contains the compiled program files (ELF) by hook.
	Objects map[cube.Hook][]byte
	// MaxPorts limits the ports of an instance; 0 is the daemon's limit.
	MaxPorts int
	// MinKernel is the oldest supported kernel, such as "6.1"; empty means the model's value.
	MinKernel string
	Deadlines Deadlines
	// Migrations convert the maps whose layout differs from that of an earlier version of the service. Without the one for
	// a map, cubes of that version refuse the new one, unless the map is declared with PCN_DISPOSABLE.
	Migrations []Migration
	// New creates an instance; it must not access maps yet.
	New func(Env) (T, error)
}

// Deadlines are the time limits of calls; 0 is the daemon's default.
type Deadlines struct{ Prepare, Commit, State, Action time.Duration }

// Instance is the control plane of one cube. Its methods are called one at a time.
type Instance interface {
	// Prepare checks the step from configuration old to after and returns the plan for it; nothing may change
	// before Commit. Both are the cube's whole configuration as JSON of its model; old is nil for a new cube. An
	// error refuses the change with its message.
	Prepare(ctx context.Context, old, after json.RawMessage) (Plan, error)
}

// Plan carries out a prepared change.
type Plan struct {
	// Constants are new values of PCN_CONFIG variables, by C name: integers, bools and structs of fixed size, with the
	// padding of the C type as blank members.
	Constants map[string]any
	// MapSizes overrides max_entries of maps, by C name.
	MapSizes map[string]uint32
	// Programs changes which programs the cube consists of; nil removes one.
	Programs map[cube.ProgramSlot]*cube.Program
	// Writes are made by the daemon, and undone if the change fails. See Entries.
	Writes []Write
	// After are made by the daemon after the change: once it is durable and no packet runs the programs of before. They
	// free what only these used, and cannot refuse the change.
	After []Write
	// Floods are sets of ports for pcn_pkt_flood_set; they are replaced and undone like Writes.
	Floods Floods
	// Commit does the rest, and Undo reverses it. They may be nil.
	Commit, Undo func(context.Context) error
}

// Floods are sets of ports by their index, each of them replaced in one step; one without members is deleted. With
// Replace, all others are deleted.
type Floods struct {
	Sets    map[uint32][]cube.FloodMember
	Replace bool
}

func (f Floods) message() *pb.FloodWrite {
	if len(f.Sets) == 0 && !f.Replace {
		return nil
	}
	out := &pb.FloodWrite{Replace: f.Replace}
	for _, index := range slices.Sorted(maps.Keys(f.Sets)) {
		set := &pb.FloodSet{Index: index}
		for _, m := range f.Sets[index] {
			if m.Tagged {
				set.Tagged = append(set.Tagged, uint32(m.Port))
			} else {
				set.Ports = append(set.Ports, uint32(m.Port))
			}
		}
		out.Sets = append(out.Sets, set)
	}
	return out
}

// Route is the way on which the host sends packets.
type Route struct {
	// Netdev is where they leave.
	Netdev string
	Index  int
	// Gateway is the next hop, the zero value if the destination is on the link, and Source the host's address.
	Gateway, Source netip.Addr
	// MAC is that of the next hop or the destination, nil while the kernel does not know it.
	MAC net.HardwareAddr
	MTU int
}

// Write is a set of map entries to write.
type Write struct {
	Map string
	// Replace first deletes all entries of the map that are not in it.
	Replace bool
	entries []entry
	err     error
}

type entry struct{ key, value []byte }

// Entries returns entries to be written to a map; see Plan.Writes.
func Entries[K comparable, V any](name string, replace bool, entries map[K]V) Write {
	w := Write{Map: name, Replace: replace}
	for k, v := range entries {
		key, err := encode(k)
		if err != nil {
			w.err = err
		}
		value, err := encode(v)
		if err != nil {
			w.err = err
		}
		w.entries = append(w.entries, entry{key, value})
	}
	return w
}

// Deleting returns keys whose entries are to be deleted; see Plan.Writes.
func Deleting[K comparable](name string, keys ...K) Write {
	w := Write{Map: name}
	for _, k := range keys {
		key, err := encode(k)
		if err != nil {
			w.err = err
		}
		w.entries = append(w.entries, entry{key: key})
	}
	return w
}

// Env is the interface from an instance to the daemon.
type Env interface {
	// Name is the cube's name, UUID identifies the cube as long as it exists, and Type is its hook.
	Name() string
	UUID() string
	Type() cube.Type
	// TakenOver reports whether the cube existed before, so that its maps may have entries.
	TakenOver() bool
	// Logger writes to the cube's log.
	Logger() *slog.Logger
	// PortIndex returns the index of a port in the fast path, and PortName the reverse.
	PortIndex(name string) (uint16, bool)
	PortName(index uint16) (string, bool)
	// Send sends a packet to the fast path.
	Send(*cube.PacketOut) error
	// Every calls fn after each interval d, in turn with the cube's methods, until the cube is closed or stop is
	// called.
	Every(d time.Duration, fn func(context.Context)) (stop func())
	// Floods replaces sets of ports, not as part of a plan.
	Floods(context.Context, Floods) error
	// Route returns the way to a destination, according to the routes of the daemon's network namespace; cube.ErrNotFound
	// if there is none.
	Route(ctx context.Context, to netip.Addr) (Route, error)
	// Metrics replaces the cube's own metrics on /metrics.
	Metrics([]Metric) error

	access() access
}

// Metric is a metric of a cube on /metrics.
type Metric struct {
	// Name matches [a-z][a-z0-9_]*.
	Name, Help string
	Counter    bool
	Labels     map[string]string
	Value      float64
}

// Typed adapts a handler of a native Go configuration to Instance. C is the struct that the cube's configuration decodes
// into; its JSON names are the model's.
type Typed[C any] struct {
	// PrepareConfig is Prepare with decoded configurations; old is nil for a new cube.
	PrepareConfig func(ctx context.Context, old, after *C) (Plan, error)
}

// Prepare implements Instance.
func (t Typed[C]) Prepare(ctx context.Context, old, after json.RawMessage) (Plan, error) {
	var was *C
	if old != nil {
		was = new(C)
		if err := json.Unmarshal(old, was); err != nil {
			return Plan{}, fmt.Errorf("decode the current configuration: %w", err)
		}
	}
	is := new(C)
	if err := json.Unmarshal(after, is); err != nil {
		return Plan{}, fmt.Errorf("decode the configuration: %w", err)
	}
	return t.PrepareConfig(ctx, was, is)
}
