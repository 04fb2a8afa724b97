// SPDX-License-Identifier: Apache-2.0

package floods

// Where XDP copies a packet to: a map of netdevs for the broadcast, and the ports of the copies that come back through
// the loop to enter a program. The two form a group. One group serves all floods, of cubes and of sets, that lead to
// the same places in the same way, and it never changes: a flood that leads elsewhere gets another group. A group that
// is no longer used stays for a while, because copies of its last floods may still be in the queue of the loop, and
// need its ports.

import (
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/internal/datapath/abi"
	"github.com/polycube/polycube/internal/datapath/framework"
	"github.com/polycube/polycube/internal/datapath/tables"
	"github.com/polycube/polycube/internal/expedite"
)

// copyUntagged is PCN_COPY_UNTAGGED.
const copyUntagged = 1 << 15

// lastGroup is the highest ID of a group: PCN_LOOP_VALUE.
const lastGroup = 1<<24 - 1

// GroupGrace is how long an unused group stays. Copies are in the queue of the loop for milliseconds at most while a
// CPU is free to process them.
const GroupGrace = 10 * time.Second

type group struct {
	id   uint32
	key  string
	sets int // rows of sets that use it
}

// groups are the groups of all cubes. The lock of floodSets guards them.
type groups struct {
	log       *slog.Logger
	outer     *ebpf.Map // by ID, the maps of netdevs
	copies    *ebpf.Map // by ID, the ports
	inner     *ebpf.MapSpec
	programs  map[tables.ExitKind]*ebpf.Program // that copies pass on egress to a netdev
	loop      bool
	byContent map[string]*group
	byID      map[uint32]*group
	unset     map[uint32]bool // IDs of groups without a set
	taken     map[uint32]bool // IDs of groups in the kernel
	stale     []uint32        // those of a previous daemon
	leaving   []leavingGroup  // unused ones, the longest unused first
	next      uint32          // an ID that may be free
}

type leavingGroup struct {
	id    uint32
	since time.Time
}

func newGroups(log *slog.Logger, outer, copies *ebpf.Map, inner *ebpf.MapSpec) *groups {
	return &groups{
		log: log, outer: outer, copies: copies, inner: inner,
		byContent: map[string]*group{}, byID: map[uint32]*group{}, unset: map[uint32]bool{}, taken: map[uint32]bool{}, next: 1,
	}
}

// openGroups finds the groups of a previous daemon. They stay until the first change has replaced them.
func openGroups(log *slog.Logger, fw *framework.Framework, loop framework.Loop) (*groups, error) {
	g := newGroups(log, fw.Maps[abi.MapGroups], fw.Maps[abi.MapCopies], fw.Objects[cube.XDP].Maps[abi.MapGroups].InnerMap)
	g.loop = loop.Out != 0
	out := fw.Downs["loop-out"]
	g.programs = map[tables.ExitKind]*ebpf.Program{tables.Untagged: fw.Downs["untag-out"], tables.ByLoop: out, tables.ByLoopUntagged: out, tables.ForTC: out}
	var id, inner uint32
	devices := g.outer.Iterate()
	for devices.Next(&id, &inner) {
		g.taken[id] = true
	}
	var row abi.Copies
	ports := g.copies.Iterate()
	for ports.Next(&id, &row) {
		g.taken[id] = true
	}
	for id := range g.taken {
		g.stale = append(g.stale, id)
	}
	return g, errors.Join(devices.Err(), ports.Err())
}

// of returns the group with that content, and creates it if there is none. Its ID is 0 if there are copies for programs
// but no loop: then user space makes them all.
func (g *groups) of(ways []tables.Way) (*group, error) {
	if !g.loop && slices.ContainsFunc(ways, func(w tables.Way) bool { return w.Kind >= tables.ByLoop }) {
		return &group{}, nil
	}
	content := make([]byte, 0, 8*len(ways))
	for _, w := range ways {
		content = binary.NativeEndian.AppendUint32(content, w.Ifindex)
		content = binary.NativeEndian.AppendUint16(content, uint16(w.Kind))
		content = binary.NativeEndian.AppendUint16(content, w.Port)
	}
	key := string(content)
	if made := g.byContent[key]; made != nil {
		return made, nil
	}
	for g.next == 0 || g.taken[g.next] {
		g.next = (g.next + 1) & lastGroup
	}
	made := &group{id: g.next, key: key}
	err := g.write(made.id, ways)
	for errors.Is(err, unix.E2BIG) && len(g.leaving) > 0 {
		g.forgetFirst()
		err = g.write(made.id, ways)
	}
	if err != nil {
		g.forget(made.id)
		if errors.Is(err, unix.E2BIG) {
			err = fmt.Errorf("too many flood groups of netdevs, the limit for all cubes is %d: %w", len(g.byID), cube.ErrFull)
		}
		return nil, err
	}
	g.byContent[key], g.byID[made.id], g.unset[made.id], g.taken[made.id] = made, made, true, true
	return made, nil
}

func (g *groups) write(id uint32, ways []tables.Way) error {
	var list abi.Copies
	var devices []abi.Device
	for _, w := range ways {
		d := abi.Device{Ifindex: w.Ifindex}
		if program := g.programs[w.Kind]; program != nil {
			d.Program = uint32(program.FD())
		}
		if w.Kind != tables.ForTC || list.ForTC == 0 {
			devices = append(devices, d)
		}
		switch w.Kind {
		case tables.ByLoop, tables.ByLoopUntagged:
			list.Port[list.Count] = w.Port
			if w.Kind == tables.ByLoopUntagged {
				list.Port[list.Count] |= copyUntagged
			}
			list.Count++
		case tables.ForTC:
			list.ForTC = 1
			list.TCPorts.Add(w.Port)
		case tables.AsItIs, tables.Untagged:
		}
	}
	spec := g.inner.Copy()
	spec.MaxEntries = uint32(len(devices))
	inner, err := ebpf.NewMap(spec)
	if err != nil {
		return fmt.Errorf("group of %d netdevs: %w", len(devices), err)
	}
	defer func() { _ = inner.Close() }()
	for n, d := range devices {
		if err := inner.Put(uint32(n), d); errors.Is(err, unix.EINVAL) {
			continue // the netdev is gone, and the event for it has not arrived yet
		} else if err != nil {
			return fmt.Errorf("group of netdevs, netdev %d: %w", d.Ifindex, err)
		}
	}
	if list != (abi.Copies{}) {
		if err := g.copies.Put(id, list); err != nil {
			return fmt.Errorf("group of netdevs, %d copies by the loop: %w", list.Count, err)
		}
	}
	if err := g.outer.Put(id, inner); err != nil {
		return fmt.Errorf("group of %d netdevs: %w", len(devices), err)
	}
	return nil
}

// count records that a set uses a group, or no longer does.
func (g *groups) count(id uint32, by int) {
	known := g.byID[id]
	if known == nil {
		return
	}
	known.sets += by
	if known.sets > 0 {
		delete(g.unset, id)
	} else {
		g.unset[id] = true
	}
}

// drop marks groups as unused that neither sets nor these rows use.
func (g *groups) drop(floods map[uint32]*abi.Flood) {
	if len(g.unset) == 0 {
		return
	}
	flooded := make(map[uint32]bool, len(floods))
	for _, row := range floods {
		flooded[row.Group] = true
	}
	for id := range g.unset {
		if flooded[id] {
			continue
		}
		delete(g.byContent, g.byID[id].key)
		delete(g.byID, id)
		delete(g.unset, id)
		g.leave(id)
	}
}

// dropStale marks the groups of a previous daemon as unused.
func (g *groups) dropStale() {
	for _, id := range g.stale {
		g.leave(id)
	}
	g.stale = nil
}

func (g *groups) leave(id uint32) {
	g.leaving = append(g.leaving, leavingGroup{id, time.Now()})
}

// forgetFirst removes the group that has been unused longest.
func (g *groups) forgetFirst() {
	id := g.leaving[0].id
	g.leaving = g.leaving[1:]
	g.forget(id)
	delete(g.taken, id)
}

func (g *groups) forget(id uint32) {
	for _, m := range []*ebpf.Map{g.outer, g.copies} {
		if err := m.Delete(id); err != nil && !errors.Is(err, ebpf.ErrKeyNotExist) {
			g.log.Warn("remove a group of netdevs", "err", err)
		}
	}
}

// Group assigns groups to rows whose destinations have changed. s.mu is held.
func (s *Sets) Group(old, now *tables.Rows) error {
	for id, ways := range now.Ways {
		if slices.Equal(old.Ways[id], ways) {
			continue
		}
		g, err := s.groups.of(ways)
		if err != nil {
			return fmt.Errorf("ports of cube %d to flood to: %w", id, err)
		}
		now.Floods[id].Group = g.id
	}
	return nil
}

// dropGroups marks unused groups. s.mu is held.
func (s *Sets) dropGroups() {
	s.groups.drop(s.rows.Floods)
	s.sweepLater()
}

// sweepLater schedules the removal of groups that have been unused long enough. s.mu is held.
func (s *Sets) sweepLater() {
	if s.sweeping || s.closed || len(s.groups.leaving) == 0 {
		return
	}
	s.sweeping = true
	time.AfterFunc(time.Until(s.groups.leaving[0].since.Add(GroupGrace)), func() {
		for s.SweepOne(time.Now().Add(-GroupGrace)) {
		}
	})
}

// SweepOne removes a group that became unused before a time. It returns false if there is no other one. The kernel
// waits for programs that use the group, so a change of a set gets the lock between two of them.
func (s *Sets) SweepOne(before time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	g := s.groups
	if s.closed {
		return false
	}
	if len(g.leaving) == 0 || g.leaving[0].since.After(before) {
		s.sweeping = false
		s.sweepLater()
		return false
	}
	defer expedite.Begin()()
	g.forgetFirst()
	return true
}
