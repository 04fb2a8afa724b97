// SPDX-License-Identifier: Apache-2.0

package external

// Converts a plan of a service to one of package cube. All changes of maps can be undone here, so that a service that
// dies in the middle leaves nothing half done.

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	pb "github.com/polycube/polycube/api/polycube/service/v1"
	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/cube/foreign"
)

func prepareTime(d deadlines) time.Duration { return d.prepare }
func commitTime(d deadlines) time.Duration  { return d.commit }
func stateTime(d deadlines) time.Duration   { return d.state }
func actionTime(d deadlines) time.Duration  { return d.action }

// checkPlan checks a plan. begun is set when it is carried out.
func (i *instance) checkPlan(number uint64, p *pb.Plan, begun *atomic.Bool) (cube.Plan, error) {
	var out cube.Plan
	if len(p.GetConstants()) > maxChanges || len(p.GetMapSizes()) > maxChanges || len(p.GetPrograms()) > maxChanges {
		return out, invalid("it has more than %d constants, sizes or programs", maxChanges)
	}
	for name, value := range p.GetConstants() {
		if err := checkName("constant", name); err != nil {
			return out, err
		}
		if len(value) == 0 || len(value) > maxConst {
			return out, invalid("constant %s has %d bytes", name, len(value))
		}
		if out.Constants == nil {
			out.Constants = map[string]any{}
		}
		out.Constants[name] = value
	}
	for name, entries := range p.GetMapSizes() {
		if err := checkName("map", name); err != nil {
			return out, err
		}
		if entries > foreign.MaxEntries {
			return out, invalid("map %s would have %d entries, the limit is %d", name, entries, foreign.MaxEntries)
		}
	}
	out.MapSizes = p.GetMapSizes()
	var err error
	if out.Programs, err = changesOf(p.GetPrograms()); err != nil {
		return out, err
	}
	for _, writes := range [][]*pb.MapWrite{p.GetWrites(), p.GetAfter()} {
		if err := checkWrites(writes); err != nil {
			return out, err
		}
	}
	if _, err := floodSets(p.GetFloods()); err != nil {
		return out, invalid("%w", err)
	}
	for _, w := range p.GetAfter() {
		out.After = append(out.After, cube.Effect(func() (func() error, error) { return nil, i.write(w, nil) }))
	}
	if p.GetCommit() || len(p.GetWrites()) > 0 || p.GetFloods() != nil {
		c := &commitment{i: i, number: number, writes: p.GetWrites(), floods: p.GetFloods(), ask: p.GetCommit()}
		out.Before = []cube.Step{cube.Effect(func() (func() error, error) {
			begun.Store(true)
			return c.undo, c.commit()
		})}
	}
	return out, nil
}

func checkWrites(writes []*pb.MapWrite) error {
	entries := 0
	for _, w := range writes {
		if err := checkName("map", w.GetMap()); err != nil {
			return err
		}
		entries += len(w.GetEntries()) + 1
	}
	if entries > maxBatch {
		return invalid("it writes %d entries, the limit is %d", entries, maxBatch)
	}
	return nil
}

// commitment carries a plan out.
type commitment struct {
	i      *instance
	number uint64
	writes []*pb.MapWrite
	floods *pb.FloodWrite // nil for none
	// ask says that the service wants to be called.
	ask bool
	// ours and theirs are the changes of this side, and of the service.
	ours, theirs journal
}

func (c *commitment) commit() error {
	err := c.write()
	if err == nil && c.ask {
		err = c.call("Commit")
	}
	if err != nil {
		return errors.Join(err, c.theirs.back(c.i), c.ours.back(c.i))
	}
	return nil
}

func (c *commitment) write() error {
	for _, w := range c.writes {
		if err := c.i.write(w, &c.ours); err != nil {
			return err
		}
	}
	if c.floods != nil {
		return c.i.writeFloods(c.floods, &c.ours)
	}
	return nil
}

// call asks the service to commit or undo; its changes meanwhile are recorded.
func (c *commitment) call(what string) error {
	c.i.note(&c.theirs)
	defer c.i.note(nil)
	return c.i.call(context.Background(), what, commitTime, func(ctx context.Context) error {
		req := &pb.PlanRequest{Cube: c.i.handle, Plan: c.number}
		var err error
		if what == "Commit" {
			_, err = c.i.l.client.Commit(ctx, req)
		} else {
			_, err = c.i.l.client.Undo(ctx, req)
		}
		return err
	})
}

// undo reverses a commit. What a service can no longer undo is undone for it.
func (c *commitment) undo() error {
	if c.ask && c.call("Undo") != nil {
		return errors.Join(c.theirs.back(c.i), c.ours.back(c.i))
	}
	return c.ours.back(c.i)
}

// note starts or stops recording the map changes of the service.
func (i *instance) note(j *journal) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.undo = j
}

// maxJournal limits the size of a journal, in bytes.
const maxJournal = 64 << 20

// journal are the entries before they were changed.
type journal struct {
	entries []before
	size    int
	// floods restore sets of ports.
	floods []func() error
}

// before is a previous entry; value is nil if there was none.
type before struct {
	table      string
	inner      []byte
	key, value []byte
}

// add records an entry that is about to be changed.
func (j *journal) add(t *table, key []byte) error {
	if j == nil {
		return nil
	}
	value, err := t.get(key)
	if err != nil {
		return err
	}
	if j.size += len(key) + len(value) + 64; j.size > maxJournal {
		return fmt.Errorf("map %s: undoing the change would need more than %d MB: %w", t.name, maxJournal>>20, cube.ErrFull)
	}
	j.entries = append(j.entries, before{t.name, t.inner, key, value})
	return nil
}

// back restores everything, last first.
func (j *journal) back(i *instance) error {
	var errs []error
	for n := len(j.entries) - 1; n >= 0; n-- {
		b := j.entries[n]
		t, err := i.table(b.table, b.inner)
		if err == nil {
			if b.value == nil {
				_, err = t.delete(b.key)
			} else {
				err = t.put(b.key, b.value, 0)
			}
			t.close()
		}
		if err != nil {
			errs = append(errs, err)
		}
	}
	for n := len(j.floods) - 1; n >= 0; n-- {
		if err := j.floods[n](); err != nil {
			errs = append(errs, err)
		}
	}
	*j = journal{}
	if len(errs) > 0 {
		return fmt.Errorf("undo changes of maps: %w", errors.Join(errs[0], fmt.Errorf("and %d more", len(errs)-1)))
	}
	return nil
}

// changesOf checks changes of programs.
func changesOf(list []*pb.ProgramChange) (map[cube.ProgramSlot]*cube.Program, error) {
	if len(list) == 0 {
		return nil, nil
	}
	out := make(map[cube.ProgramSlot]*cube.Program, len(list))
	for _, c := range list {
		dir, err := directionOf(c.GetDirection())
		if err != nil {
			return nil, err
		}
		slot := cube.ProgramSlot{Direction: dir, Index: int(min(c.GetIndex(), cube.MaxPrograms))}
		if _, twice := out[slot]; twice {
			return nil, invalid("two programs at index %d", slot.Index)
		}
		if c.GetFunction() == "" {
			out[slot] = nil
			continue
		}
		program, err := programOf(c)
		if err != nil {
			return nil, err
		}
		out[slot] = program
	}
	return out, nil
}

// programOf checks a program.
func programOf(c *pb.ProgramChange) (*cube.Program, error) {
	if err := checkName("function", c.GetFunction()); err != nil {
		return nil, err
	}
	program := &cube.Program{Function: c.GetFunction()}
	if len(c.GetObjects()) == 0 {
		return program, nil
	}
	var err error
	if program.Objects, err = objectsOf(c.GetObjects()); err != nil {
		return nil, fmt.Errorf("function %s: %w", c.GetFunction(), err)
	}
	return program, nil
}

func directionOf(d pb.Direction) (cube.Direction, error) {
	switch d {
	case pb.Direction_DIRECTION_INGRESS:
		return cube.Ingress, nil
	case pb.Direction_DIRECTION_EGRESS:
		return cube.Egress, nil
	case pb.Direction_DIRECTION_UNSPECIFIED:
	}
	return cube.Ingress, invalid("direction %d is neither ingress nor egress", d)
}

// programsRequest changes programs. It waits for the data plane, so it runs concurrently with other requests of the
// service.
func (l *life) programsRequest(r *pb.ProgramsRequest) {
	select {
	case l.programs <- struct{}{}:
	case <-l.done:
		return
	}
	go func() { // the data plane may be slow, and the end of the session does not wait for it
		defer func() { <-l.programs }()
		reply := &pb.ProgramsReply{Id: r.GetId()}
		index, err := l.changePrograms(r)
		if err != nil {
			reply.Fault = fault(err)
		}
		reply.Index = uint32(index)
		l.answer(&pb.ToService{Message: &pb.ToService_Programs{Programs: reply}})
	}()
}

func (l *life) changePrograms(r *pb.ProgramsRequest) (int, error) {
	i, err := l.cube(r.GetCube())
	if err != nil {
		return 0, err
	}
	if len(r.GetChanges()) > maxChanges {
		return 0, fmt.Errorf("%d changes, the limit is %d: %w", len(r.GetChanges()), maxChanges, cube.ErrInvalid)
	}
	if r.GetAdd() == nil {
		changes, err := changesOf(r.GetChanges())
		if err != nil {
			return 0, err
		}
		return 0, i.env.Programs().ReloadAll(changes)
	}
	dir, err := directionOf(r.GetAdd().GetDirection())
	if err != nil {
		return 0, err
	}
	program, err := programOf(r.GetAdd())
	if err != nil {
		return 0, err
	}
	return i.env.Programs().AddProgram(dir, *program)
}
