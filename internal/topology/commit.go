// SPDX-License-Identifier: Apache-2.0

package topology

// The second half of a transaction, DESIGN §4: cubes prepare, the data plane prepares, cubes commit, the data plane
// commits, the store commits. Each step that is done leaves its reverse on the transaction's list.

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"sync"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/internal/topology/unit"
	"github.com/polycube/polycube/internal/topology/world"
	"github.com/polycube/polycube/internal/yang"
)

// carryOut makes the next world real.
func (t *txn) carryOut() error {
	plans, err := t.preparePlans()
	if err != nil {
		return err
	}
	if err := t.createMaps(plans); err != nil {
		return err
	}
	if !t.dry { // others would see the namespaces come and go
		if err := t.ensureShadows(); err != nil {
			return err
		}
		if err := t.alignNetdevs(); err != nil {
			return err
		}
	}
	if err := t.holdEmptied(); err != nil {
		return err
	}
	if err := t.lock(); err != nil {
		return err
	}
	if err := t.changePrograms(plans); err != nil {
		return err
	}
	change, err := t.prepareStanding()
	if err != nil {
		return err
	}
	if t.dry {
		return errDryRun
	}
	if err := t.commitPlans(plans); err != nil {
		return err
	}
	if err := t.commitGraph(change); err != nil {
		return err
	}
	if err := t.alignShadows(); err != nil {
		return err
	}
	if err := t.deleteEmptied(); err != nil {
		return err
	}
	t.plans = plans
	return t.persist()
}

// planned is a cube's answer to Prepare.
type planned struct {
	unit *unit.Unit
	plan cube.Plan
	// shrink returns to the maps before the plan's sizes, nil where there are no others.
	shrink func() error
}

func (t *txn) preparePlans() ([]planned, error) {
	var plans []planned
	for _, name := range t.touched {
		u, rec, was := t.next.Units[name], t.next.Cubes[name], t.before(name)
		if rec == nil {
			continue // deleted
		}
		if t.successor(u) != nil {
			was = nil // its code knows nothing yet
		}
		fresh := was == nil
		if err := t.adoptInto(u, was, rec); err != nil {
			return nil, blame(name, fmt.Errorf("%s: %w", name, err))
		}
		if !fresh && !u.IsDegraded() {
			t.widenPorts(u, was, rec)
			if err := t.dropDependents(name, u, was, rec); err != nil {
				return nil, blame(name, fmt.Errorf("%s: %w", name, err))
			}
		}
		changes := t.entryChanges(u, rec, fresh)
		if !fresh && len(changes) == 0 && string(was.Config.Raw) == string(rec.Config.Raw) {
			continue
		}
		if err := u.Refused(); err != nil {
			if t.direct[name] {
				return nil, err
			}
			continue
		}
		t.widenPorts(u, was, rec)
		plan, err := t.prepareCube(u, was, rec, changes)
		if err != nil {
			return nil, blame(name, fmt.Errorf("%s: %w", name, err))
		}
		t.mergeConstants(rec, plan.Constants)
		plans = append(plans, planned{unit: u, plan: plan})
	}
	return plans, nil
}

// widenPorts lets the cube's code translate ports from before and after while the transaction runs.
func (t *txn) widenPorts(u *unit.Unit, was, rec *world.Cube) {
	before := u.Ports()
	u.SetPorts(unit.NewPortTable(was, rec))
	t.undo = append(t.undo, func() error { u.SetPorts(before); return nil })
}

// prepareCube asks a cube for its plan.
func (t *txn) prepareCube(u *unit.Unit, was, rec *world.Cube, changes []yang.EntryChange) (cube.Plan, error) {
	level := u.LogLevel()
	u.SetLogLevel(unit.SlowLevel(rec.LogLevel))
	t.undo = append(t.undo, func() error { u.SetLogLevel(level); return nil })
	if err := t.makeInstance(u); err != nil {
		return cube.Plan{}, err
	}
	var c cube.Change
	var err error
	if !u.Service.WholeLists {
		c.Entries = entryList(changes)
	}
	if was == nil || u.Service.WholeLists || string(was.Config.Raw) != string(rec.Config.Raw) {
		if c.Old, err = u.ConfigOf(was); err != nil {
			return cube.Plan{}, err
		}
		if c.New, err = u.ConfigOf(rec); err != nil {
			return cube.Plan{}, err
		}
	}
	var plan cube.Plan
	err = t.call(t.ctx, u, func() (err error) {
		u.After.Finish()
		plan, err = u.Instance().Prepare(t.ctx, c)
		return err
	})
	if err != nil {
		return cube.Plan{}, err
	}
	return plan, nil
}

func (t *txn) makeInstance(u *unit.Unit) error {
	if u.Instance().Prepare != nil {
		return nil
	}
	return t.call(t.ctx, u, u.Make)
}

func (t *txn) mergeConstants(rec *world.Cube, fresh map[string]any) {
	if fresh == nil {
		return
	}
	merged := make(map[string]any, len(rec.Constants)+len(fresh))
	for k, v := range rec.Constants {
		merged[k] = v
	}
	for k, v := range fresh {
		merged[k] = v
	}
	rec.Constants = merged
}

// createMaps brings new cubes into the data plane, and makes maps of other sizes for those that want them.
func (t *txn) createMaps(plans []planned) error {
	for i, p := range plans {
		u, rec := p.unit, t.next.Cubes[p.unit.Name]
		if s := t.successor(u); s != nil {
			if err := t.reopen(s, p, rec); err != nil {
				return err
			}
			continue
		}
		if !slices.Contains(t.created, u) {
			if err := t.resizeMaps(&plans[i], rec); err != nil {
				return err
			}
			continue
		}
		if u.Ready() {
			continue
		}
		if err := t.m.dp.CreateCube(u.Spec(rec, p.plan.MapSizes)); err != nil {
			return blame(u.Name, fmt.Errorf("%s: making its maps: %w", u.Name, err))
		}
		u.SetReady(true)
		t.m.byID.Store(u.ID, u)
		if t.restoring {
			continue // the maps hold state that outlives a failed start
		}
		t.undo = append(t.undo, func() error {
			t.m.byID.Delete(u.ID)
			u.SetReady(false)
			return t.m.dp.DeleteCube(u.ID)
		})
	}
	return nil
}

// resizeMaps makes the maps of the plan's sizes.
func (t *txn) resizeMaps(p *planned, rec *world.Cube) error {
	if len(p.plan.MapSizes) == 0 {
		return nil
	}
	undo, err := t.m.dp.ResizeMaps(p.unit.ID, p.plan.MapSizes)
	if err != nil {
		return blame(p.unit.Name, fmt.Errorf("%s: sizes of its maps: %w", p.unit.Name, err))
	}
	if undo == nil {
		return nil
	}
	rec.Maps++
	p.unit.SetReady(true)
	p.shrink = sync.OnceValue(func() error {
		defer p.unit.SetReady(true)
		return undo()
	})
	t.undo = append(t.undo, p.shrink)
	return nil
}

// prepareGraph returns nil when the data plane has nothing to do.
func (t *txn) prepareGraph() (Change, error) {
	if t.m.inUse.graph != nil && reflect.DeepEqual(t.graph, t.m.inUse.graph) {
		return nil, nil
	}
	change, err := t.m.dp.Prepare(t.ctx, t.graph)
	if err != nil && t.stopsTracing(err) {
		change, err = t.m.dp.Prepare(t.ctx, t.graph)
	}
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

// commitPlans carries out the steps that come before the flip.
func (t *txn) commitPlans(plans []planned) error {
	for _, p := range plans {
		if len(p.plan.Before) == 0 {
			continue
		}
		var done cube.Undo
		t.undo = append(t.undo, func() error { return t.undoPlan(p, &done) })
		if err := t.commitPlan(t.ctx, p.unit, func() error { return cube.Carry(p.plan.Before, &done) }); err != nil {
			return blame(p.unit.Name, fmt.Errorf("%s: %w", p.unit.Name, err))
		}
	}
	return nil
}

// undoPlan takes back the steps of a plan that were carried out.
func (t *txn) undoPlan(p planned, done *cube.Undo) error {
	if p.shrink != nil { // the steps are undone in the maps from before
		if err := p.shrink(); err != nil {
			return fmt.Errorf("%s: %w", p.unit.Name, err)
		}
	}
	if err := t.commitPlan(context.WithoutCancel(t.ctx), p.unit, done.Run); err != nil {
		p.unit.Degrade("undoing a change: " + err.Error())
		return fmt.Errorf("%s: %w", p.unit.Name, err)
	}
	return nil
}

// commitPlan runs steps of a plan or their undo. Meanwhile the cube cannot change its programs: it would wait for itself.
func (t *txn) commitPlan(ctx context.Context, u *unit.Unit, fn func() error) error {
	u.BeginCommit()
	defer u.EndCommit()
	return t.call(ctx, u, fn)
}

func (t *txn) commitGraph(change Change) error {
	if change == nil {
		return nil
	}
	before := t.m.inUse.graph
	err := t.commitStanding(change)
	if err == nil {
		t.m.inUse.graph = t.graph
	} else if p := (*unit.PanicError)(nil); errors.As(err, &p) {
		t.m.inUse.graph = nil // how far it came is not known
	}
	if err != nil {
		return fmt.Errorf("data plane: %w", err)
	}
	t.undo = append(t.undo, func() error {
		t.restoreCubes()
		return t.m.inUse.returnTo(context.WithoutCancel(t.ctx), before)
	})
	return nil
}

// changePrograms makes the changes that the plans ask for. The plane lock is held.
func (t *txn) changePrograms(plans []planned) error {
	for _, p := range plans {
		if len(p.plan.Programs) == 0 {
			continue
		}
		u := p.unit
		back, err := u.ChangePrograms(p.plan.Programs)
		if err != nil {
			return blame(u.Name, fmt.Errorf("%s: %w", u.Name, err))
		}
		t.undo = append(t.undo, back)
	}
	return nil
}
