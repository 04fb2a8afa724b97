// SPDX-License-Identifier: Apache-2.0

package topology

// A change of the topology is a transaction: trees are edited, the next world derived, the cubes and the data plane
// asked to prepare, then all commit, then the disk. Whatever fails, what was done is undone in reverse, and the world
// that readers see is the old one until the very end.

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"reflect"
	"slices"
	"time"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/internal/datapath"
	"github.com/polycube/polycube/internal/store"
	"github.com/polycube/polycube/internal/yang"
)

// prepareTimeout bounds what a transaction may take; a cube that does not answer must not stop all others for good.
const prepareTimeout = 60 * time.Second

// txn is a transaction that runs. Its owner holds the writer's token.
type txn struct {
	m   *Manager
	ctx context.Context
	old *world
	// next is the world that is being made.
	next *world
	// touched are the cubes to derive again, in the order in which they were first edited.
	touched []string
	// direct are the cubes that the request itself names: a degraded one refuses.
	direct map[string]bool
	// given are the tcubes of ports that the request makes.
	given []givenChain
	// parents are the netdevs that new transparent cubes are to be attached to.
	parents []givenParent
	created []*unit
	removed []*unit
	undo    []func() error
	// restoring keeps what a stored configuration names even where it is not there at the moment.
	restoring bool
	graph     *datapath.Graph
}

// givenChain are the tcubes that a new port's configuration names.
type givenChain struct {
	at     place
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

// transact runs one transaction: fn edits, the rest follows.
func (m *Manager) transact(ctx context.Context, fn func(*txn) error) error {
	select {
	case <-m.writer:
	case <-ctx.Done():
		return fmt.Errorf("waiting for another change to end: %w", ctx.Err())
	}
	defer func() { m.writer <- struct{}{} }()
	if m.closed {
		return errClosed
	}
	ctx, cancel := context.WithTimeout(ctx, prepareTimeout)
	defer cancel()
	t := m.begin(ctx)
	if err := t.run(fn); err != nil {
		t.rollback()
		return err
	}
	t.publish()
	return nil
}

var errClosed = errors.New("the daemon is stopping")

func (m *Manager) begin(ctx context.Context) *txn {
	old := m.view.Load()
	return &txn{m: m, ctx: ctx, old: old, next: old.clone(), direct: map[string]bool{}}
}

// run does everything up to the point where the change is durable.
func (t *txn) run(fn func(*txn) error) error {
	err := guard(func() error {
		if err := fn(t); err != nil {
			return err
		}
		if err := t.settle(); err != nil {
			return err
		}
		return t.carryOut()
	})
	var p *panicError
	if errors.As(err, &p) {
		t.m.log.Error("panic in a transaction, undone", "value", p.value, "stack", string(p.stack))
	}
	return err
}

// own returns a cube's record that this transaction may change.
func (t *txn) own(name string) *record {
	rec := t.next.cubes[name]
	if rec != nil && rec == t.old.cubes[name] {
		rec = rec.clone()
		t.next.cubes[name] = rec
	}
	return rec
}

// edit changes a cube's tree, to be reversed if the transaction fails.
func (t *txn) edit(u *unit, op yang.Op, path yang.Path, body []byte) error {
	change, err := u.tree.Edit(op, path, body)
	if err != nil {
		return err
	}
	t.edited(u, change)
	return nil
}

// amend is edit for members that only the framework may change once they are set.
func (t *txn) amend(u *unit, path yang.Path, body []byte) error {
	change, err := u.tree.Amend(yang.Merge, path, body)
	if err != nil {
		return err
	}
	t.edited(u, change)
	return nil
}

func (t *txn) edited(u *unit, change *yang.Change) {
	t.undo = append(t.undo, func() error { return change.Revert() })
	if !change.Empty() || t.old.cubes[u.name] == nil {
		t.touch(u.name)
	}
}

func (t *txn) touch(name string) {
	if !slices.Contains(t.touched, name) {
		t.touched = append(t.touched, name)
	}
}

// carryOut is DESIGN §4: instances prepare, the data plane prepares, instances commit, the data plane commits, the
// store commits.
func (t *txn) carryOut() error {
	plans, err := t.preparePlans()
	if err != nil {
		return err
	}
	if err := t.createMaps(plans); err != nil {
		return err
	}
	t.graph = t.next.graph()
	change, err := t.prepareGraph()
	if err != nil {
		return err
	}
	if err := t.commitPlans(plans); err != nil {
		return err
	}
	if err := t.commitGraph(change); err != nil {
		return err
	}
	return t.persist()
}

// planned is a cube's answer to Prepare.
type planned struct {
	unit *unit
	plan cube.Plan
}

func (t *txn) preparePlans() ([]planned, error) {
	var plans []planned
	for _, name := range t.touched {
		u, rec, was := t.next.units[name], t.next.cubes[name], t.old.cubes[name]
		if rec == nil {
			continue // deleted
		}
		fresh := was == nil
		if !fresh && string(was.conf.raw) == string(rec.conf.raw) {
			continue
		}
		if reason := u.degraded.Load(); reason != nil {
			if t.direct[name] {
				return nil, fmt.Errorf("%s is degraded (%s), delete the cube and create it again: %w", name, *reason, cube.ErrUnsupported)
			}
			continue
		}
		t.widenPorts(u, was, rec)
		plan, err := t.prepareOne(u, was, rec)
		if err != nil {
			return nil, blame(name, fmt.Errorf("%s: %w", name, err))
		}
		t.mergeConstants(rec, plan.Constants)
		plans = append(plans, planned{u, plan})
	}
	return plans, nil
}

// widenPorts lets the cube's code translate ports from before and after while the transaction runs.
func (t *txn) widenPorts(u *unit, was, rec *record) {
	before := u.env.ports.Load()
	u.env.ports.Store(newPortTable(was, rec))
	t.undo = append(t.undo, func() error { u.env.ports.Store(before); return nil })
}

func (t *txn) prepareOne(u *unit, was, rec *record) (plan cube.Plan, err error) {
	var before json.RawMessage
	if was != nil {
		before = was.conf.raw
	}
	u.env.level.Set(logLevels[levelName(rec.level)].slow)
	if was != nil {
		t.undo = append(t.undo, func() error { u.env.level.Set(logLevels[levelName(was.level)].slow); return nil })
	}
	err = u.call(t.ctx, func() error {
		if u.inst == nil {
			inst, err := u.svc.New(u.env)
			if err != nil {
				return err
			}
			u.inst = inst
		}
		plan, err = u.inst.Prepare(t.ctx, before, rec.conf.raw)
		return err
	})
	if err == nil && was != nil && plan.MapSizes != nil {
		err = fmt.Errorf("sizes of maps can be set only when the cube is made: %w", cube.ErrUnsupported)
	}
	return plan, err
}

func levelName(l datapath.LogLevel) string {
	for name, v := range logLevels {
		if v.fast == l {
			return name
		}
	}
	return "INFO"
}

func (t *txn) mergeConstants(rec *record, fresh map[string]any) {
	if fresh == nil {
		return
	}
	merged := make(map[string]any, len(rec.constants)+len(fresh))
	for k, v := range rec.constants {
		merged[k] = v
	}
	for k, v := range fresh {
		merged[k] = v
	}
	rec.constants = merged
}

// createMaps brings new cubes into the data plane.
func (t *txn) createMaps(plans []planned) error {
	for _, p := range plans {
		u, rec := p.unit, t.next.cubes[p.unit.name]
		if !slices.Contains(t.created, u) || u.env.ready.Load() {
			continue
		}
		spec := datapath.Spec{ID: u.id, UUID: u.uuid, Name: u.name, Service: u.svc.info.Name, Type: rec.typ,
			Transparent: rec.transparent, MapSizes: p.plan.MapSizes}
		if err := t.m.dp.CreateCube(spec); err != nil {
			return blame(u.name, fmt.Errorf("%s: making its maps: %w", u.name, err))
		}
		u.env.ready.Store(true)
		t.m.byID.Store(u.id, u)
		if t.restoring {
			continue // the maps hold state that outlives a failed start
		}
		t.undo = append(t.undo, func() error {
			t.m.byID.Delete(u.id)
			u.env.ready.Store(false)
			return t.m.dp.DeleteCube(u.id)
		})
	}
	return nil
}

// prepareGraph returns nil when the data plane has nothing to do.
func (t *txn) prepareGraph() (Change, error) {
	if t.m.graph != nil && reflect.DeepEqual(t.graph, t.m.graph) {
		return nil, nil
	}
	change, err := t.m.dp.Prepare(t.ctx, t.graph)
	if err != nil {
		return nil, fmt.Errorf("data plane: %w", err)
	}
	open := true
	t.undo = append(t.undo, func() error {
		if open {
			change.Abort()
		}
		return nil
	})
	return &onceChange{change, &open}, nil
}

// onceChange notes that a change was committed, or undid itself: it is not to be aborted then.
type onceChange struct {
	Change
	open *bool
}

func (c *onceChange) Commit() error {
	*c.open = false
	return c.Change.Commit()
}

func (t *txn) commitPlans(plans []planned) error {
	for _, p := range plans {
		if p.plan.Commit == nil {
			continue
		}
		if err := p.unit.call(t.ctx, p.plan.Commit); err != nil {
			return blame(p.unit.name, fmt.Errorf("%s: %w", p.unit.name, err))
		}
		t.undo = append(t.undo, func() error {
			if p.plan.Undo == nil {
				return nil
			}
			if err := p.unit.call(context.WithoutCancel(t.ctx), p.plan.Undo); err != nil {
				p.unit.degrade("undoing a change: " + err.Error())
				return fmt.Errorf("%s: %w", p.unit.name, err)
			}
			return nil
		})
	}
	return nil
}

func (t *txn) commitGraph(change Change) error {
	if change == nil {
		return nil
	}
	if err := change.Commit(); err != nil {
		return fmt.Errorf("data plane: %w", err)
	}
	before := t.m.graph
	t.m.graph = t.graph
	t.undo = append(t.undo, func() error { return t.m.returnTo(context.WithoutCancel(t.ctx), before) })
	return nil
}

// returnTo makes an earlier graph the one in use again. If that is refused, m.graph stays nil: the next transaction
// states the whole graph again.
func (m *Manager) returnTo(ctx context.Context, before *datapath.Graph) error {
	m.graph = nil
	g := before
	if g == nil {
		g = newWorld().graph()
	}
	change, err := m.dp.Prepare(ctx, g)
	if err != nil {
		return fmt.Errorf("returning to the old graph: %w", err)
	}
	if err := change.Commit(); err != nil {
		return fmt.Errorf("returning to the old graph: %w", err)
	}
	m.graph = before
	return nil
}

// persist writes what changed to the store, as one transaction of its own.
func (t *txn) persist() error {
	recs, err := t.storeRecords()
	if err != nil || len(recs) == 0 || t.m.commit == nil {
		return err
	}
	if err := t.m.commit(recs); err != nil {
		return fmt.Errorf("writing the configuration to disk: %w", err)
	}
	return nil
}

// rollback undoes what was done, last first, and ends the units that will not live.
func (t *txn) rollback() {
	for _, undo := range slices.Backward(t.undo) {
		if err := guard(undo); err != nil {
			t.m.log.Error("undoing a change", "error", err)
		}
	}
	if t.restoring {
		return
	}
	for _, u := range t.created {
		t.m.endUnit(u)
	}
}

// publish shows the next world to readers, then tells the cubes concerned and forgets those that were deleted.
func (t *txn) publish() {
	for name, rec := range t.next.cubes {
		if was := t.old.cubes[name]; was != rec {
			t.next.units[name].env.ports.Store(newPortTable(rec))
		}
	}
	for _, u := range t.removed {
		t.m.byID.Delete(u.id)
	}
	t.m.view.Store(t.next)
	for _, u := range t.removed {
		t.m.endUnit(u)
		if err := guard(func() error { return t.m.dp.DeleteCube(u.id) }); err != nil {
			t.m.log.Error("removing a cube's maps", "cube", u.name, "error", err)
		}
	}
	t.notify()
}

// endUnit closes what a unit holds.
func (m *Manager) endUnit(u *unit) {
	ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
	defer cancel()
	u.close(ctx)
	u.tree.Close()
}

// closeTimeout bounds the wait for a cube's code to return when the cube goes.
const closeTimeout = 5 * time.Second

// storeRecords encodes what differs from the store.
func (t *txn) storeRecords() ([]store.Record, error) {
	var recs []store.Record
	for _, rec := range t.next.inOrder() {
		if t.old.cubes[rec.name] == rec {
			continue
		}
		blob, err := rec.encode()
		if err != nil {
			return nil, err
		}
		if string(blob) != string(rec.blob) {
			rec.blob = blob
			recs = append(recs, store.Record{Key: cubeKey + rec.name, Value: blob})
		}
	}
	for _, name := range sortedKeys(t.old.cubes) {
		if t.next.cubes[name] == nil {
			recs = append(recs, store.Record{Key: cubeKey + name})
		}
	}
	for _, name := range sortedKeys(t.old.broken) {
		if t.next.broken[name] == nil && t.next.cubes[name] == nil {
			recs = append(recs, store.Record{Key: cubeKey + name})
		}
	}
	return append(recs, t.chainRecords()...), nil
}

// chainRecords encodes the netdevs whose transparent cubes changed.
func (t *txn) chainRecords() []store.Record {
	var recs []store.Record
	for _, name := range sortedKeys(t.old.chains) {
		if len(t.next.chains[name]) == 0 {
			recs = append(recs, store.Record{Key: netdevKey + name})
		}
	}
	for _, name := range sortedKeys(t.next.chains) {
		if chain := t.next.chains[name]; !slices.Equal(chain, t.old.chains[name]) {
			blob, _ := json.Marshal(storedChain{Tcubes: chain}) // strings always marshal
			recs = append(recs, store.Record{Key: netdevKey + name, Value: blob})
		}
	}
	return recs
}

// logger returns the logger of a new cube, which has a level of its own.
func (m *Manager) logger(service, name string, level *slog.LevelVar) *slog.Logger {
	return slog.New(cubeHandler{m.log.Handler(), level}).With("service", service, "cube", name)
}
