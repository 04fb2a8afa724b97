// SPDX-License-Identifier: Apache-2.0

package topology

// The execution of a settled transaction (phases.go): cubes prepare, the data plane prepares, cubes commit, the data plane
// commits, the store commits. Each step that is done leaves its undo on the transaction's list.

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/internal/expedite"
	"github.com/polycube/polycube/internal/topology/unit"
	"github.com/polycube/polycube/internal/topology/world"
	"github.com/polycube/polycube/internal/yang"
)

// carryOut makes the next world real.
func (x *execution) carryOut() error {
	if err := x.preparePlans(); err != nil {
		return err
	}
	if err := x.createMaps(); err != nil {
		return err
	}
	if !x.dry { // others would see the namespaces come and go
		if err := x.ensureShadows(); err != nil {
			return err
		}
		if err := x.alignNetdevs(); err != nil {
			return err
		}
	}
	if err := x.holdEmptied(); err != nil {
		return err
	}
	if err := x.lock(x.ctx); err != nil {
		return err
	}
	if err := x.changePrograms(); err != nil {
		return err
	}
	change, err := x.prepareStanding()
	if err != nil {
		return err
	}
	if x.dry {
		return errDryRun
	}
	if err := x.commitPlans(); err != nil {
		return err
	}
	if err := x.commitGraph(change); err != nil {
		return err
	}
	if err := x.alignShadows(); err != nil {
		return err
	}
	if err := x.deleteEmptied(); err != nil {
		return err
	}
	return x.persist()
}

// planned is a cube's answer to Prepare.
type planned struct {
	unit *unit.Unit
	plan cube.Plan
	// shrink returns to the maps before the plan's sizes, nil where there are no others.
	shrink func() error
}

// preparePlans asks the cubes that the change concerns.
func (x *execution) preparePlans() error {
	for _, name := range x.touched {
		u, rec, was := x.next.Units[name], x.next.Cubes[name], x.known(name)
		if rec == nil {
			continue // deleted
		}
		changes := x.entryChanges(u, rec, was == nil)
		if was != nil && len(changes) == 0 && string(was.Config.Raw) == string(rec.Config.Raw) {
			continue
		}
		if err := u.Refused(); err != nil {
			if x.direct[name] {
				return err
			}
			continue
		}
		x.widenPorts(u, was, rec)
		plan, err := x.prepareCube(u, was, rec, changes)
		if err != nil {
			return blame(name, fmt.Errorf("%s: %w", name, err))
		}
		x.mergeConstants(rec, plan.Constants)
		x.plans = append(x.plans, planned{unit: u, plan: plan})
	}
	return nil
}

// widenPorts lets the cube's code translate ports from before and after while the transaction runs.
func (t *txn) widenPorts(u *unit.Unit, was, rec *world.Cube) {
	if rec.SamePorts(was) {
		return
	}
	before := u.Ports()
	u.SetPorts(unit.NewPortTable(was, rec))
	t.undo = append(t.undo, func() error { u.SetPorts(before); return nil })
}

// prepareCube asks a cube for its plan.
func (x *execution) prepareCube(u *unit.Unit, was, rec *world.Cube, changes []yang.EntryChange) (cube.Plan, error) {
	level := u.LogLevel()
	u.SetLogLevel(unit.SlowLevel(rec.LogLevel))
	x.undo = append(x.undo, func() error { u.SetLogLevel(level); return nil })
	if err := x.makeInstance(u); err != nil {
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
	err = x.call(x.ctx, u, func() (err error) {
		u.After.Finish()
		plan, err = u.Instance().Prepare(x.ctx, c)
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

func (x *execution) mergeConstants(rec *world.Cube, fresh map[string]any) {
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
func (x *execution) createMaps() error {
	for i, p := range x.plans {
		u, rec := p.unit, x.next.Cubes[p.unit.Name]
		if s := x.successor(u); s != nil {
			if err := x.reopen(s, p, rec); err != nil {
				return err
			}
			continue
		}
		if !slices.Contains(x.created, u) {
			if err := x.resizeMaps(&x.plans[i], rec); err != nil {
				return err
			}
			continue
		}
		if u.Ready() {
			continue
		}
		if err := x.dp.CreateCube(u.Spec(rec, &p.plan)); err != nil {
			return blame(u.Name, fmt.Errorf("%s: create its maps: %w", u.Name, err))
		}
		u.SetReady(true)
		x.byID.Store(u.ID, u)
		if x.restoring {
			continue // the maps hold state that outlives a failed start
		}
		x.undo = append(x.undo, func() error {
			x.byID.Delete(u.ID)
			u.SetReady(false)
			return x.dp.DeleteCube(u.ID)
		})
	}
	return nil
}

// resizeMaps makes the maps of the plan's sizes.
func (x *execution) resizeMaps(p *planned, rec *world.Cube) error {
	if len(p.plan.MapSizes) == 0 {
		return nil
	}
	undo, err := x.dp.ResizeMaps(p.unit.ID, p.plan.MapSizes)
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
	x.undo = append(x.undo, p.shrink)
	return nil
}

// prepareGraph returns nil when the data plane has nothing to do.
func (x *execution) prepareGraph() (Change, error) {
	if x.inUse.is(x.graph) {
		return nil, nil
	}
	change, err := x.dp.Prepare(x.ctx, x.graph)
	if err != nil && x.stopsTracing(err) {
		change, err = x.dp.Prepare(x.ctx, x.graph)
	}
	if err != nil {
		return nil, fmt.Errorf("data plane: %w", err)
	}
	open := true
	x.undo = append(x.undo, func() error {
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
func (x *execution) commitPlans() error {
	for _, p := range x.plans {
		if len(p.plan.Before) == 0 {
			continue
		}
		var done cube.Undo
		x.undo = append(x.undo, func() error { return x.undoPlan(p, &done) })
		if err := x.commitPlan(x.ctx, p.unit, func() error { return cube.Carry(p.plan.Before, &done) }); err != nil {
			return blame(p.unit.Name, fmt.Errorf("%s: %w", p.unit.Name, err))
		}
	}
	return nil
}

// undoPlan takes back the steps of a plan that were carried out.
func (x *execution) undoPlan(p planned, done *cube.Undo) error {
	if p.shrink != nil { // the steps are undone in the maps from before
		if err := p.shrink(); err != nil {
			return fmt.Errorf("%s: %w", p.unit.Name, err)
		}
	}
	if err := x.commitPlan(context.WithoutCancel(x.ctx), p.unit, done.Run); err != nil {
		p.unit.Degrade("undoing a change: " + err.Error())
		return fmt.Errorf("%s: %w", p.unit.Name, err)
	}
	return nil
}

// commitPlan runs steps of a plan or their undo, which may wait until no packet reads what they replace. Meanwhile the cube
// cannot change its programs: it would wait for itself.
func (x *execution) commitPlan(ctx context.Context, u *unit.Unit, fn func() error) error {
	defer expedite.Begin()()
	u.BeginCommit()
	defer u.EndCommit()
	return x.call(ctx, u, fn)
}

func (x *execution) commitGraph(change Change) error {
	if change == nil {
		return nil
	}
	before := x.inUse.graph
	err := x.commitStanding(change)
	if err = x.inUse.became(x.graph, err); err != nil {
		return err
	}
	x.undo = append(x.undo, func() error {
		x.restoreCubes()
		return x.inUse.returnTo(context.WithoutCancel(x.ctx), before)
	})
	return nil
}

// changePrograms makes the changes that the plans ask for. The plane lock is held.
func (x *execution) changePrograms() error {
	for _, p := range x.plans {
		if len(p.plan.Programs) == 0 {
			continue
		}
		u := p.unit
		back, err := u.ChangePrograms(p.plan.Programs)
		if err != nil {
			return blame(u.Name, fmt.Errorf("%s: %w", u.Name, err))
		}
		x.undo = append(x.undo, back)
	}
	return nil
}
