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
	"github.com/polycube/polycube/internal/topology/trial"
	"github.com/polycube/polycube/internal/topology/unit"
	"github.com/polycube/polycube/internal/topology/world"
	"github.com/polycube/polycube/internal/yang"
)

// txn is a transaction that runs: what all its phases have (phases.go). Its owner holds the writer's token.
type txn struct {
	*parts
	gates
	asked
	ctx context.Context
	old *unit.Snapshot
	// next is the world that is being made.
	next *unit.Snapshot
	// touched are the cubes to derive again, in the order in which they were first edited.
	touched []string
	created []*unit.Unit
	removed []*unit.Unit
	// successors are units that take the place of others.
	successors []*successor
	// entries are the differences of large lists.
	entries map[*unit.Unit][]yang.EntryChange
	// restoring keeps what a stored configuration names even where it is not there at the moment.
	restoring bool
	// made are the ports whose interfaces in namespaces are new.
	made map[world.Place]bool
	// extent is how far the transaction reaches, once the next world is settled.
	extent *world.Reach
	undo   []func() error
}

// asked is what the requests said beyond the configuration. It is written while the transaction is edited.
type asked struct {
	// origins are those of the requests that are made together.
	origins []history.Origin
	// edits are what they change, for those who are told.
	edits announce.Edits
	// direct are the cubes that the request itself names: a degraded one refuses.
	direct map[string]bool
	// dry ends the transaction with errDryRun when all have prepared.
	dry bool
	// note is what the history says of the change beside the request.
	note string
	// also are records of the store that are no cube's.
	also []store.Record
	// trial is the trial that begins with the change, endsTrial whether one ends with it.
	trial     *trial.Trial
	endsTrial bool
	// emptied are the lists whose state is deleted when everything else is done.
	emptied []emptied
}

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

func begin(ctx context.Context, p *parts) *txn {
	old := p.view.Load()
	return &txn{parts: p, gates: gates{plane: p.inUse, held: map[*unit.Unit]bool{}},
		asked: asked{direct: map[string]bool{}, edits: announce.Edits{}},
		ctx:   ctx, old: old, next: old.Clone(), entries: map[*unit.Unit][]yang.EntryChange{}}
}

// run takes the transaction through its phases: fn edits, the next world is settled, the cubes and the data plane carry it
// out, and when it is durable it is published. If anything fails before that, all is undone.
func (t *txn) run(fn func(*editing) error) error {
	x := &execution{txn: t}
	err := unit.Guard(func() error {
		e := &editing{txn: t}
		if err := fn(e); err != nil {
			return err
		}
		if err := (&settling{e}).settle(); err != nil {
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

func (t *txn) touch(name string) {
	if !slices.Contains(t.touched, name) {
		t.touched = append(t.touched, name)
	}
}
