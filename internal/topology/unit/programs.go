// SPDX-License-Identifier: Apache-2.0

package unit

// The programs of a cube change with a plan, or alone, when the cube's code asks for it, often in the middle of handling
// a packet. A transaction that wants to change the same cube waits for that handler: so what the handler waits for must
// not be the transaction. Hence a lock of its own for the data plane, taken last: a transaction goes through the gates of
// all cubes that it will call first, locks the plane then, and waits for no handler while it has it.

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

// programTimeout bounds how long a cube's code waits for a change of its programs.
const programTimeout = 20 * time.Second

// commitGrace is how long a change of programs waits for the steps of the cube's own plan to end, before it is taken for one that
// comes from within.
const commitGrace = time.Second

// Chosen returns what the data plane is given.
func (u *Unit) Chosen() ProgramSet {
	if set := u.programs.Load(); set != nil {
		return *set
	}
	return nil
}

// change returns the set with a change made to it.
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

// ChangePrograms makes a plan's changes of the unit's programs, which the data plane gets with the next graph. The lock of
// the data plane is held.
func (u *Unit) ChangePrograms(by map[cube.ProgramSlot]*cube.Program) (back func() error, err error) {
	next, err := u.Chosen().change(by)
	if err != nil {
		return nil, err
	}
	before := u.programs.Swap(&next)
	return func() error { u.programs.Store(before); return nil }, nil
}

// AllPrograms are the programs of the cube, the usual ones too; a slot without a function is empty.
func (u *Unit) AllPrograms() map[cube.ProgramSlot]cube.Program {
	return u.env.programs.complete(u.Chosen())
}

// Plane is what a change of a cube's programs needs of the data plane.
type Plane interface {
	// Lock waits until nobody else changes the data plane; unlock ends that.
	Lock(ctx context.Context) error
	Unlock()
	// Runs refuses a unit whose cube is not in the fast path, and any after the end. The lock is held.
	Runs(u *Unit) error
	// Restate makes the graph of the present snapshot, with the programs that units have now, the one in use. The lock is
	// held.
	Restate() error
	// HasFunction says whether a service's programs have a function.
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

// complete is the set with the usual programs in it.
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

// enter takes the plane lock, unless it is the caller's own transaction that has it.
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
