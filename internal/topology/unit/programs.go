// SPDX-License-Identifier: Apache-2.0

package unit

// The programs of a cube change with a plan, or by themselves when the cube's code requests it, often while it handles
// a packet. A transaction that changes the same cube waits for that handler, so the handler must not wait for the
// transaction. Therefore the data plane has a lock of its own, taken last: a transaction first takes the gates of all
// cubes that it will call, then locks the data plane, and waits for no handler while it holds the lock.

import (
	"context"
	"fmt"
	"maps"
	"time"

	"github.com/polycube/polycube/cube"
	linker "github.com/polycube/polycube/internal/datapath/link"
)

// ProgramSet are the programs of a cube that differ from the usual ones; a slot without a function is empty.
type ProgramSet map[cube.ProgramSlot]cube.Program

// programTimeout limits how long a cube's code waits for a change of its programs.
const programTimeout = 20 * time.Second

// commitGrace is how long a change of programs waits for the steps of the cube's own plan to end, before it is assumed
// to come from one of them.
const commitGrace = time.Second

// Chosen returns the programs in the form for the data plane.
func (u *Unit) Chosen() ProgramSet {
	if set := u.programs.Load(); set != nil {
		return *set
	}
	return nil
}

// change returns a copy of the set with one change.
func (s ProgramSet) change(by map[cube.ProgramSlot]*cube.Program) (ProgramSet, error) {
	next := maps.Clone(s)
	if next == nil {
		next = ProgramSet{}
	}
	for slot, p := range by {
		switch {
		case slot.Direction > cube.Egress || slot.Index < 0 || slot.Index >= cube.MaxPrograms:
			return nil, fmt.Errorf("%s: indexes range from 0 to %d: %w", where(slot), cube.MaxPrograms-1, cube.ErrInvalid)
		case p == nil && slot == cube.ProgramSlot{}:
			return nil, fmt.Errorf("%s: packets enter there, so it can be replaced but not removed: %w", where(slot), cube.ErrInvalid)
		case p == nil && slot.Index > 0:
			delete(next, slot)
		case p == nil:
			next[slot] = cube.Program{}
		case p.Function == "":
			return nil, fmt.Errorf("%s: it has no function: %w", where(slot), cube.ErrInvalid)
		default:
			next[slot] = *p
		}
	}
	return next, nil
}

func where(s cube.ProgramSlot) string {
	if s.Direction == cube.Egress {
		return fmt.Sprintf("egress program %d", s.Index)
	}
	return fmt.Sprintf("ingress program %d", s.Index)
}

// ChangePrograms applies a plan's changes to the unit's programs, which the data plane gets with the next graph. The
// lock of the data plane is held.
func (u *Unit) ChangePrograms(by map[cube.ProgramSlot]*cube.Program) (back func() error, err error) {
	next, err := u.Chosen().change(by)
	if err != nil {
		return nil, err
	}
	before := u.programs.Swap(&next)
	u.SetReady(u.Ready()) // transient maps of the same name are others now
	return func() error { u.programs.Store(before); return nil }, nil
}

// AllPrograms are the programs of the cube, including the usual ones; a slot without a function is empty.
func (u *Unit) AllPrograms() map[cube.ProgramSlot]cube.Program {
	return u.env.programs.complete(u.Chosen())
}

// Plane is the part of the data plane that a change of a cube's programs needs.
type Plane interface {
	// Lock waits until nobody else changes the data plane; unlock releases it.
	Lock(ctx context.Context) error
	Unlock()
	// Runs returns an error for a unit whose cube is not in the fast path, and for every unit once the manager is
	// closed. The lock is held.
	Runs(u *Unit) error
	// Restate derives the graph again from the current snapshot, with the current programs of units, and switches
	// to it. The lock is held.
	Restate() error
	// HasFunction reports whether a service's programs have a function.
	HasFunction(service string, h cube.Hook, name string) bool
}

// programs implements cube.Programs.
type programs struct {
	plane Plane
	u     *Unit
}

// Reload implements cube.Programs.
func (p programs) Reload(slot cube.ProgramSlot, program cube.Program) error {
	return p.ReloadAll(map[cube.ProgramSlot]*cube.Program{slot: &program})
}

// ReloadAll implements cube.Programs.
func (p programs) ReloadAll(by map[cube.ProgramSlot]*cube.Program) error {
	return p.alter(func(ProgramSet) (map[cube.ProgramSlot]*cube.Program, error) { return by, nil })
}

// AddProgram implements cube.Programs.
func (p programs) AddProgram(d cube.Direction, program cube.Program) (int, error) {
	slot := cube.ProgramSlot{Direction: d}
	err := p.alter(func(set ProgramSet) (map[cube.ProgramSlot]*cube.Program, error) {
		set = p.complete(set)
		for slot.Index = range cube.MaxPrograms {
			if set[slot].Function == "" {
				return map[cube.ProgramSlot]*cube.Program{slot: &program}, nil
			}
		}
		return nil, fmt.Errorf("all %d indexes are in use: %w", cube.MaxPrograms, cube.ErrFull)
	})
	if err != nil {
		return 0, err
	}
	return slot.Index, nil
}

// DelProgram implements cube.Programs.
func (p programs) DelProgram(slot cube.ProgramSlot) error {
	return p.alter(func(set ProgramSet) (map[cube.ProgramSlot]*cube.Program, error) {
		if slot != (cube.ProgramSlot{}) && p.complete(set)[slot].Function == "" {
			return nil, fmt.Errorf("%s: %w", where(slot), cube.ErrNotFound)
		}
		return map[cube.ProgramSlot]*cube.Program{slot: nil}, nil
	})
}

// List implements cube.Programs.
func (p programs) List() map[cube.ProgramSlot]cube.Program {
	set := p.complete(p.u.Chosen())
	maps.DeleteFunc(set, func(_ cube.ProgramSlot, program cube.Program) bool { return program.Function == "" })
	return set
}

// complete is the set including the usual programs.
func (p programs) complete(set ProgramSet) ProgramSet {
	all := maps.Clone(set)
	if all == nil {
		all = ProgramSet{}
	}
	usual := func(d cube.Direction, function string) {
		slot := cube.ProgramSlot{Direction: d}
		if _, named := all[slot]; !named {
			all[slot] = cube.Program{Function: function}
		}
	}
	usual(cube.Ingress, linker.Ingress)
	if p.plane.HasFunction(p.u.Service.Info.Name, p.u.env.typ.Hook(), linker.Egress) {
		usual(cube.Egress, linker.Egress)
	}
	return all
}

// alter changes the programs of a living cube and swaps them in.
func (p programs) alter(ask func(ProgramSet) (map[cube.ProgramSlot]*cube.Program, error)) error {
	if err := p.enter(); err != nil {
		return fmt.Errorf("%s: change its programs: %w", p.u.Name, err)
	}
	defer p.plane.Unlock()
	if err := p.alterLocked(ask); err != nil {
		return fmt.Errorf("%s: change its programs: %w", p.u.Name, err)
	}
	return nil
}

// enter takes the lock of the data plane, unless the caller's own transaction holds it.
func (p programs) enter() error {
	ctx, cancel := context.WithTimeout(context.Background(), programTimeout)
	defer cancel()
	for {
		once, done := context.WithTimeout(ctx, commitGrace)
		err := p.plane.Lock(once)
		done()
		switch {
		case err == nil:
			return nil
		case p.u.committing.Load():
			return fmt.Errorf("not allowed in Commit and Undo, use Plan.Programs: %w", cube.ErrInUse)
		case ctx.Err() != nil:
			return err
		}
	}
}

func (p programs) alterLocked(ask func(ProgramSet) (map[cube.ProgramSlot]*cube.Program, error)) error {
	u := p.u
	if err := p.plane.Runs(u); err != nil {
		return err
	}
	before := u.programs.Load()
	by, err := ask(u.Chosen())
	if err != nil || len(by) == 0 {
		return err
	}
	next, err := u.Chosen().change(by)
	if err != nil {
		return err
	}
	u.programs.Store(&next)
	if err := p.plane.Restate(); err != nil {
		u.programs.Store(before)
		return err
	}
	return nil
}
