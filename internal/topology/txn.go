// SPDX-License-Identifier: Apache-2.0

package topology

// A change of the topology is a transaction: trees are edited, the next world derived, the cubes and the data plane
// asked to prepare, then all commit, then the disk. Whatever fails, what was done is undone in reverse, and the world
// that readers see is the old one until the very end.

import (
	"context"
	"errors"
	"slices"

	"github.com/polycube/polycube/internal/store"
	"github.com/polycube/polycube/internal/topology/announce"
	"github.com/polycube/polycube/internal/topology/history"
	"github.com/polycube/polycube/internal/topology/unit"
	"github.com/polycube/polycube/internal/topology/world"
	"github.com/polycube/polycube/internal/yang"
)

// txn is a transaction that runs. Its owner holds the writer's token.
type txn struct {
	*parts
	ctx context.Context
	old *unit.Snapshot
	// next is the world that is being made.
	next *unit.Snapshot
	// origins are those of the requests that are made together.
	origins []history.Origin
	// edits are what they change, for those who are told.
	edits announce.Edits
	// touched are the cubes to derive again, in the order in which they were first edited.
	touched []string
	// direct are the cubes that the request itself names: a degraded one refuses.
	direct map[string]bool
	// given are the tcubes of ports that the request makes.
	given []givenChain
	// parents are the netdevs that new transparent cubes are to be attached to.
	parents []givenParent
	created []*unit.Unit
	removed []*unit.Unit
	undo    []func() error
	// restoring keeps what a stored configuration names even where it is not there at the moment.
	restoring bool
	// settled is asked when the next world is complete, before anything is done; nil is content.
	settled func() error
	// dry ends the transaction with errDryRun when all have prepared.
	dry bool
	// note is what the history says of the change beside the request.
	note string
	// made are the ports whose interfaces in namespaces are new, alignments what the change does to those interfaces.
	made       map[world.Place]bool
	alignments []alignment
	// meets are the ports, or the cubes with all of theirs, whose netdevs have appeared or that were stated anew.
	meets map[world.Place]bool
	// held are the units whose gate the transaction has: from the first call of a cube's code until the end, so that the
	// data plane is locked after the last wait for a handler (see programs.go).
	held map[*unit.Unit]bool
	// successors are units that take the place of others.
	successors []*successor
	// also are records of the store that are no cube's.
	also []store.Record
	// entries are the differences of large lists.
	entries map[*unit.Unit][]yang.EntryChange
	// emptied are the lists whose state is deleted when everything else is done.
	emptied []emptied
	// extent is how far the transaction reaches, once the next world is settled.
	extent *world.Reach
	// locked says that the transaction has the plane lock.
	locked bool
}

// givenChain are the tcubes that a new port's configuration names.
type givenChain struct {
	at     world.Place
	tcubes []string
}

// givenParent is a member parent in the body of a new transparent cube.
type givenParent struct{ cube, parent string }

// cubeError is an error that one cube is the cause of.
type cubeError struct {
	cube string
	err  error
}

func (e *cubeError) Error() string { return e.err.Error() }
func (e *cubeError) Unwrap() error { return e.err }

func blame(cube string, err error) error {
	if err == nil {
		return nil
	}
	return &cubeError{cube, err}
}

// call runs a cube's code. From then on until the end of the transaction the cube gets no packets.
func (t *txn) call(ctx context.Context, u *unit.Unit, fn func() error) error {
	if err := t.hold(ctx, u); err != nil {
		return err
	}
	return u.Call(ctx, fn)
}

// hold enters a unit's gate, unless the transaction has it already.
func (t *txn) hold(ctx context.Context, u *unit.Unit) error {
	if t.held[u] {
		return nil
	}
	if err := u.EnterGate(ctx); err != nil {
		return err
	}
	t.held[u] = true
	return nil
}

// lock takes the plane lock. No cube's handler is waited for from here on.
func (t *txn) lock() error {
	if err := t.inUse.Lock(t.ctx); err != nil {
		return err
	}
	t.locked = true
	return nil
}

// unlock gives back what the transaction holds.
func (t *txn) unlock() {
	if t.locked {
		t.locked = false
		t.inUse.Unlock()
	}
	for u := range t.held {
		u.LeaveGate()
	}
	clear(t.held)
}

func begin(ctx context.Context, p *parts) *txn {
	old := p.view.Load()
	return &txn{parts: p, ctx: ctx, old: old, next: old.Clone(), direct: map[string]bool{}, held: map[*unit.Unit]bool{}, edits: announce.Edits{},
		entries: map[*unit.Unit][]yang.EntryChange{}}
}

// run takes the transaction through its phases: fn edits, the next world is settled, the cubes and the data plane carry it
// out, and when it is durable it is published. If anything fails before that, all is undone.
func (t *txn) run(fn func(*txn) error) error {
	x := &execution{txn: t}
	err := unit.Guard(func() error {
		if err := fn(t); err != nil {
			return err
		}
		if err := t.settle(); err != nil {
			return err
		}
		return x.carryOut()
	})
	if err != nil {
		t.rollback(err)
		return err
	}
	(&committed{x}).publish()
	return nil
}

// rollback undoes what was done, last first, and ends the units that will not live.
func (t *txn) rollback(err error) {
	var p *unit.PanicError
	if errors.As(err, &p) {
		t.log.Error("panic in a transaction, undone", "value", p.Value, "stack", string(p.Stack))
	}
	for _, undo := range slices.Backward(t.undo) {
		if err := unit.Guard(undo); err != nil {
			t.log.Error("undo a change", "error", err)
		}
	}
	defer t.dropSuccessors()
	if t.restoring {
		t.unlock()
		return
	}
	for _, u := range t.created {
		u.End()
	}
	t.unlock()
	for _, u := range t.created {
		u.Close()
	}
}

// own returns a cube's record that this transaction may change.
func (t *txn) own(name string) *world.Cube {
	rec := t.next.Cubes[name]
	if rec != nil && rec == t.old.Cubes[name] {
		rec = rec.Clone()
		t.next.Cubes[name] = rec
	}
	return rec
}

// before returns a cube's record before the transaction, nil if the cube is new; another one may have had its name.
func (t *txn) before(name string) *world.Cube {
	return t.next.Before(t.old, name)
}

// edit changes a cube's tree, to be reversed if the transaction fails.
func (t *txn) edit(u *unit.Unit, op yang.Op, path yang.Path, body []byte) error {
	return t.request(u, op, path, body, false)
}

// request is edit with a body that may have been typed in words.
func (t *txn) request(u *unit.Unit, op yang.Op, path yang.Path, body []byte, words bool) error {
	edit := u.Tree.Edit
	if words {
		edit = u.Tree.EditWords
	}
	change, err := edit(t.ctx, op, path, body)
	if err != nil {
		return err
	}
	t.edited(u, change)
	return nil
}

// amend is edit for members that only the framework may change once they are set.
func (t *txn) amend(u *unit.Unit, path yang.Path, body []byte) error {
	change, err := u.Tree.Amend(t.ctx, yang.Merge, path, body)
	if err != nil {
		return err
	}
	t.edited(u, change)
	return nil
}

func (t *txn) edited(u *unit.Unit, change *yang.Change) {
	t.undo = append(t.undo, func() error { return change.Revert() })
	t.edits.Note(u.Name, change)
	t.entries[u] = append(t.entries[u], change.Entries()...)
	if !change.Empty() || t.before(u.Name) == nil {
		t.touch(u.Name)
	}
}

func (t *txn) touch(name string) {
	if !slices.Contains(t.touched, name) {
		t.touched = append(t.touched, name)
	}
}
