// SPDX-License-Identifier: Apache-2.0

// Package floods contains the sets of ports for floods. The cube determines the members, and which of them want the
// tag; this is stored in rows of pcn_flood_sets, pinned like the cube's maps. Programs look up the destinations of
// ports, so at TC a row stays valid whatever is added and removed. XDP copies a packet by a broadcast over a map of
// netdevs, so there a set also has a group (groups.go), which follows the graph.
package floods

import (
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/internal/datapath/abi"
	"github.com/polycube/polycube/internal/datapath/bpfmap"
	"github.com/polycube/polycube/internal/datapath/framework"
	"github.com/polycube/polycube/internal/datapath/graph"
	"github.com/polycube/polycube/internal/datapath/link"
	"github.com/polycube/polycube/internal/datapath/tables"
	"github.com/polycube/polycube/internal/datapath/undo"
	"github.com/polycube/polycube/internal/expedite"
)

// Flags of a set: PCN_SET_WITH, PCN_SET_WITHOUT, PCN_SET_BY_LOOP and PCN_SET_UNTAGS.
const (
	setWith    = 1
	setWithout = 2
	setByLoop  = 4
	setUntags  = 8
)

// setKey is the key of pcn_flood_sets.
func setKey(id graph.CubeID, index uint32) uint32 { return uint32(id)<<16 | index }

// setOwner contains what the sets of a cube depend on, other than the graph's tables.
type setOwner struct {
	name   string
	typ    cube.Type
	egress bool // copies must go through programs
}

// Sets are the sets of all cubes. They have their own lock, which is held while a change is committed but not while it
// is prepared: blocking a port does not wait for the verifier.
type Sets struct {
	log  *slog.Logger
	m    *ebpf.Map // pcn_flood_sets
	loop framework.Loop

	// mu guards the following fields.
	mu     sync.Mutex
	owners map[graph.CubeID]setOwner
	rows   *tables.Rows            // those in use by programs
	sets   map[uint32]abi.FloodSet // as they are in the kernel
	groups *groups
	// sweeping: groups will be removed later; closed: never again.
	sweeping, closed bool
}

// Set replaces sets of a cube; one without members is deleted, and with only, also those that are not named. On an
// error nothing has changed.
func (s *Sets) Set(id graph.CubeID, sets map[uint32][]cube.FloodMember, only bool) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	owner, ok := s.owners[id]
	if !ok {
		return fmt.Errorf("sets of ports of cube %d: %w", id, cube.ErrNotFound)
	}
	now := make(map[uint32]abi.FloodSet, len(sets))
	for index, members := range sets {
		row, err := rowOf(index, members)
		if err != nil {
			return fmt.Errorf("cube %s: %w", owner.name, err)
		}
		if len(members) > 0 {
			now[setKey(id, index)] = row
		}
	}
	var gone []uint32
	for key := range s.sets {
		_, stays := now[key]
		_, named := sets[key&cube.MaxFloodSet]
		if graph.CubeID(key>>16) == id && !stays && (only || named) {
			gone = append(gone, key)
		}
	}
	if owner.typ.Hook() == cube.XDP {
		defer expedite.Begin()()
	}
	var u undo.Stack
	err := s.writeSets(&u, s.rows, now)
	if err == nil {
		err = s.deleteSets(&u, gone)
	}
	if err != nil {
		err = errors.Join(fmt.Errorf("cube %s: %w", owner.name, err), u.Run())
	}
	s.dropGroups()
	return err
}

func rowOf(index uint32, members []cube.FloodMember) (row abi.FloodSet, err error) {
	if index > cube.MaxFloodSet {
		return row, fmt.Errorf("set %d of ports: indexes range from 0 to %d: %w", index, cube.MaxFloodSet, cube.ErrInvalid)
	}
	for _, m := range members {
		if m.Port >= link.MaxPorts {
			return row, fmt.Errorf("set %d of ports: port %d: indexes range from 0 to %d: %w", index, m.Port, link.MaxPorts-1, cube.ErrInvalid)
		}
		if row.Ports.Has(m.Port) {
			return row, fmt.Errorf("set %d of ports: port %d is a member twice: %w", index, m.Port, cube.ErrInvalid)
		}
		row.Ports.Add(m.Port)
		row.Words |= 1 << (m.Port / 64)
		if m.Tagged {
			row.Tagged.Add(m.Port)
		}
	}
	return row, nil
}

// Members returns the members of a cube's set, as programs see it. It does not wait for a change of the graph.
func (s *Sets) Members(id graph.CubeID, index uint32) []cube.FloodMember {
	var row abi.FloodSet
	if err := s.m.Lookup(setKey(id, index), &row); err != nil {
		return nil // no such set
	}
	return membersOf(row)
}

func membersOf(row abi.FloodSet) (out []cube.FloodMember) {
	for port := range row.Ports.All {
		out = append(out, cube.FloodMember{Port: port, Tagged: row.Tagged.Has(port)})
	}
	return out
}

// All returns the sets of a cube.
func (s *Sets) All(id graph.CubeID) map[uint32][]cube.FloodMember {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := map[uint32][]cube.FloodMember{}
	for key, row := range s.sets {
		if graph.CubeID(key>>16) == id {
			out[key&cube.MaxFloodSet] = membersOf(row)
		}
	}
	return out
}

// writeSets writes rows whose members are known, with their groups according to the tables.
func (s *Sets) writeSets(u *undo.Stack, t *tables.Rows, rows map[uint32]abi.FloodSet) error {
	for _, key := range slices.Sorted(maps.Keys(rows)) {
		row, ways := s.resolve(t, graph.CubeID(key>>16), rows[key])
		if len(ways) > 1 {
			group, err := s.groups.of(ways)
			if err != nil {
				return fmt.Errorf("set %d of ports: %w", key&cube.MaxFloodSet, err)
			}
			row.Group = group.id
		}
		was, had := s.sets[key]
		if had && was == row {
			continue
		}
		if err := s.m.Put(key, row); errors.Is(err, unix.E2BIG) {
			return fmt.Errorf("set %d of ports: too many sets, the limit for all cubes is %d: %w", key&cube.MaxFloodSet, len(s.sets), cube.ErrFull)
		} else if err != nil {
			return fmt.Errorf("set %d of ports: %w", key&cube.MaxFloodSet, err)
		}
		s.groups.count(was.Group, -1)
		s.groups.count(row.Group, 1)
		s.sets[key] = row
		u.Push(func() error { return s.restoreSet(key, was, had) })
	}
	return nil
}

func (s *Sets) deleteSets(u *undo.Stack, keys []uint32) error {
	for _, key := range keys {
		was := s.sets[key]
		if err := s.restoreSet(key, abi.FloodSet{}, false); err != nil {
			return err
		}
		u.Push(func() error { return s.restoreSet(key, was, true) })
	}
	return nil
}

// restoreSet restores a row, or removes it.
func (s *Sets) restoreSet(key uint32, row abi.FloodSet, had bool) error {
	s.groups.count(s.sets[key].Group, -1)
	if !had {
		delete(s.sets, key)
		if err := s.m.Delete(key); err != nil && !errors.Is(err, ebpf.ErrKeyNotExist) {
			return fmt.Errorf("remove set %d of ports: %w", key&cube.MaxFloodSet, err)
		}
		return nil
	}
	s.groups.count(row.Group, 1)
	s.sets[key] = row
	if err := s.m.Put(key, row); err != nil {
		return fmt.Errorf("set %d of ports: %w", key&cube.MaxFloodSet, err)
	}
	return nil
}

// resolve completes a row, except for its group, with the destinations of its ports according to the tables, and
// returns the contents of the group.
func (s *Sets) resolve(t *tables.Rows, id graph.CubeID, members abi.FloodSet) (abi.FloodSet, []tables.Way) {
	row := abi.FloodSet{Ports: members.Ports, Tagged: members.Tagged, Words: members.Words}
	owner, ok := s.owners[id]
	at := t.Floods[uint32(id)]
	if !ok || owner.typ.Hook() != cube.XDP || at == nil {
		return row, nil
	}
	for i := range row.Ports {
		if row.Tagged[i] != 0 {
			row.Flags |= setWith
		}
		if row.Ports[i]&^row.Tagged[i] != 0 {
			row.Flags |= setWithout
		}
	}
	mixed := row.Flags == setWith|setWithout
	loop := uint32(s.loop.Exit(owner.typ))
	var ways []tables.Way
	for port := range row.Ports.All {
		dev, there := t.Exits[abi.ExitKey(id, port)]
		w := tables.Way{Ifindex: dev.Ifindex}
		strip := mixed && !row.Tagged.Has(port)
		switch {
		case at.ComplexPorts.Has(port), there && owner.egress:
			w = tables.Way{Ifindex: loop, Kind: tables.ByLoop, Port: port}
			if strip {
				w.Kind = tables.ByLoopUntagged
			}
		case !there:
			continue
		case strip && owner.typ == cube.TypeXDPSKB:
			w = tables.Way{Ifindex: loop, Kind: tables.ForTC, Port: port}
		case strip:
			w.Kind = tables.Untagged
			row.Flags |= setUntags
		}
		if w.Kind >= tables.ByLoop {
			row.Flags |= setByLoop
		}
		ways = append(ways, w)
	}
	return row, ways
}

// Move updates the sets of the affected cubes to the graph, until its commit is over. throughEgress is that of the
// rows. s.mu is held.
func (s *Sets) Move(u *undo.Stack, g *graph.Graph, now *tables.Rows, concerned graph.Stale, throughEgress func(*graph.Node) bool) error {
	was := s.rows
	u.Push(func() error { s.rows = was; return nil })
	s.rows = now
	for id, n := range g.Cubes {
		if owner, ok := s.owners[id]; ok && concerned.Has(id) {
			egress := throughEgress(n) || g.Trace.Captures(uint16(id))
			s.owners[id] = setOwner{owner.name, owner.typ, egress}
			u.Push(func() error { s.owners[id] = owner; return nil })
		}
	}
	moved := map[uint32]abi.FloodSet{}
	for key, row := range s.sets {
		if concerned.Has(graph.CubeID(key >> 16)) {
			moved[key] = row
		}
	}
	return s.writeSets(u, now, moved)
}

// Finish frees what a change has left unused; the first one also what a previous daemon left. s.mu is held.
func (s *Sets) Finish(first bool) {
	if first {
		var u undo.Stack
		for key := range s.sets {
			if _, ok := s.owners[graph.CubeID(key>>16)]; !ok {
				if err := s.deleteSets(&u, []uint32{key}); err != nil {
					s.log.Warn("remove the flood sets of a deleted cube", "err", err)
				}
			}
		}
		s.groups.dropStale()
	}
	s.dropGroups()
}

// Forget removes the sets of a cube.
func (s *Sets) Forget(id graph.CubeID) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	var u undo.Stack
	var gone []uint32
	for key := range s.sets {
		if graph.CubeID(key>>16) == id {
			gone = append(gone, key)
		}
	}
	err := s.deleteSets(&u, gone)
	s.dropGroups()
	return err
}

// Open reads the sets of a previous daemon. now are its rows.
func Open(log *slog.Logger, fw *framework.Framework, loop framework.Loop, now *tables.Rows) (*Sets, error) {
	g, err := openGroups(log, fw, loop)
	s := &Sets{
		log: log, m: fw.Maps[abi.MapFloodSets], loop: loop,
		owners: map[graph.CubeID]setOwner{}, rows: now, sets: map[uint32]abi.FloodSet{}, groups: g,
	}
	return s, errors.Join(err, bpfmap.ReadHash(s.m, s.sets))
}

// Lock locks the sets until Unlock, while a change is committed.
func (s *Sets) Lock() { s.mu.Lock() }

// Unlock unlocks the sets.
func (s *Sets) Unlock() { s.mu.Unlock() }

// SetOwner enables sets for a cube. egress says that its copies must go through programs.
func (s *Sets) SetOwner(id graph.CubeID, name string, typ cube.Type, egress bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.owners[id] = setOwner{name, typ, egress}
}

// RemoveOwner disables them.
func (s *Sets) RemoveOwner(id graph.CubeID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.owners, id)
}

// Close prevents further access to the kernel.
func (s *Sets) Close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
}
