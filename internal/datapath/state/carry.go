// SPDX-License-Identifier: Apache-2.0

package state

// State from one layout to another. A map whose declaration changed gets a successor beside it,
// filled while packets still use the old one. Both live until programs that use the successor are
// in place; then it takes over the pin. Until that moment everything can be as if nothing had
// happened, whatever fails and whenever the daemon dies.

import (
	"errors"
	"fmt"
	"runtime/debug"

	"github.com/cilium/ebpf"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/internal/datapath/bpfmap"
	"github.com/polycube/polycube/internal/datapath/undo"
)

// move is a pin that goes over to a successor once programs use that one.
type move struct {
	path string
	now  *ebpf.Map
}

// succession is a map that was replaced by one of another size: what programs have added since it
// was copied follows after the swap.
type succession struct {
	was, now *ebpf.Map
	copied   bpfmap.KeySet
}

// carry returns m if its layout is as spec says, else a successor with its entries.
func (in *Instance) carry(name string, m *ebpf.Map, spec *ebpf.MapSpec, u *undo.Stack) (*ebpf.Map, error) {
	was := in.was[name]
	kind, what := bpfmap.Compare(m, was, spec)
	if kind == bpfmap.Same {
		return m, nil
	}
	if kind == bpfmap.Other && in.spec.Migrate == nil {
		return nil, fmt.Errorf("map %s has another layout (%s), and the service cannot carry its entries over: %w",
			name, what, cube.ErrUnsupported)
	}
	s := spec.Copy()
	s.Pinning = ebpf.PinNone
	next, err := bpfmap.New(s)
	if err != nil {
		return nil, fmt.Errorf("creating map %s: %w", name, err)
	}
	u.Push(next.Close)
	if kind == bpfmap.Resized {
		copied, err := bpfmap.Copy(m, next)
		if err != nil {
			return nil, fmt.Errorf("map %s (%s): %w", name, what, err)
		}
		in.late = append(in.late, succession{m, next, copied})
		return next, nil
	}
	step := cube.Migration{Cube: in.spec.Name, Map: name, Old: m, New: next, Was: was}
	if err := migrate(in.spec.Migrate, step); err != nil {
		return nil, fmt.Errorf("map %s has another layout (%s), and its entries cannot be carried over: %w", name, what, err)
	}
	return next, nil
}

// migrate calls the service's function, whose panic is an error like any other.
func migrate(fn func(cube.Migration) error, step cube.Migration) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("panic in the service's Migrate: %v\n%s", v, debug.Stack())
		}
	}()
	return fn(step)
}

// settled closes a map that programs may still use once they do not.
func (in *Instance) settled(m *ebpf.Map) { in.olds = append(in.olds, m) }

// takeOver gives the successors the pins, now that programs use them, and brings along what was
// written to maps of another size since they were copied.
func (cs *State) takeOver(in *Instance) error {
	var errs []error
	for _, mv := range in.moves {
		errs = append(errs, bpfmap.Repin(mv.now, mv.path))
	}
	for _, place := range in.commons {
		if c := cs.commons.byPlace[place]; c.moved {
			errs = append(errs, bpfmap.Repin(c.m, cs.place(place)))
			c.moved = false
		}
	}
	late, olds := in.late, in.olds
	if len(in.moves) > 0 {
		in.taken++
	}
	in.moves, in.late, in.olds = nil, nil, nil
	for i := range late { // the cube may be gone before it is their turn
		next, err := late[i].now.Clone()
		if err != nil {
			return errors.Join(append(errs, fmt.Errorf("keeping a map open: %w", err))...)
		}
		late[i].now = next
		olds = append(olds, next)
	}
	if len(olds) > 0 {
		cs.collect.Add(func() error { return lastWords(late, olds) })
	}
	return errors.Join(errs...)
}

// lastWords copies what programs added to maps before they left them, and closes those. What had been
// copied before does not follow: where it is not there any more, it was deleted since.
func lastWords(late []succession, olds []*ebpf.Map) error {
	var errs []error
	for _, s := range late {
		switch s.was.Type() {
		case ebpf.Hash, ebpf.LRUHash, ebpf.PerCPUHash, ebpf.LRUCPUHash, ebpf.LPMTrie:
			if err := s.follow(); err != nil {
				errs = append(errs, fmt.Errorf("entries written while a map was copied: %w", err))
			}
		default: // an array's entries are all there
		}
	}
	for _, m := range olds {
		_ = m.Close()
	}
	return errors.Join(errs...)
}

// follow copies the entries that came after the others.
func (s succession) follow() error {
	return bpfmap.EachKey(s.was, func(key []byte) error {
		if s.copied.Contains(key) {
			return nil
		}
		return bpfmap.CopyEntry(s.was, s.now, key, ebpf.UpdateNoExist)
	})
}
