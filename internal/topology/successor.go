// SPDX-License-Identifier: Apache-2.0

package topology

// A cube gets another unit while packets go through it: the same name, numbers, configuration and maps, and code of
// another life or version of its service. It is what a restart does to a cube, in a transaction of a running daemon.

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/internal/datapath"
	"github.com/polycube/polycube/internal/topology/service"
	"github.com/polycube/polycube/internal/topology/unit"
	"github.com/polycube/polycube/internal/topology/world"
)

// successor is a unit that takes the place of another.
type successor struct {
	was *unit.Unit // nil for a cube that could not be restored
	is  *unit.Unit
	// back and settle end what the data plane did, once it did.
	back, settle func()
}

// replacer is a data plane that can open a running cube anew.
type replacer interface {
	ReplaceCube(datapath.Spec) (datapath.Replacement, error)
}

// TakeOver gives cubes of a service to its present life; it returns those that go on as they were.
func (m *Manager) TakeOver(ctx context.Context, svc *service.Service, names []string) (failed []string) {
	for len(names) > 0 {
		err := m.succeed(ctx, svc, names)
		if err == nil {
			break
		}
		var culprit *cubeError
		switch {
		case errors.Is(err, service.ErrClosed) || ctx.Err() != nil:
			return append(failed, names...)
		case errors.As(err, &culprit):
			i := slices.Index(names, culprit.cube)
			if i < 0 {
				return append(failed, names...)
			}
			names = slices.Delete(names, i, i+1)
			failed = append(failed, culprit.cube)
			m.orphaned(ctx, culprit.cube, err)
		case len(names) == 1:
			m.orphaned(ctx, names[0], err)
			return append(failed, names...)
		default: // one by one finds the culprit
			for _, name := range names {
				failed = append(failed, m.TakeOver(ctx, svc, []string{name})...)
			}
			return failed
		}
	}
	return failed
}

// orphaned notes why a cube could not be taken over.
func (m *Manager) orphaned(ctx context.Context, name string, why error) {
	reason := fmt.Sprintf("its service could not take it over: %v", why)
	w := m.view.Load()
	if u := w.Units[name]; u != nil {
		u.Degrade(reason)
	}
	b := w.Broken[name]
	if b == nil || b.Reason == reason {
		return
	}
	m.log.Warn("a cube cannot be taken over by its service, it continues as before", "cube", name, "reason", why)
	_ = m.Exclusively(ctx, func() error { // a daemon that stops needs no reason
		w := m.view.Load().Clone()
		if now := w.Broken[name]; now != nil {
			said := *now
			said.Reason = reason
			w.Broken[name] = &said
			m.view.Store(w)
		}
		return nil
	})
}

// succeed gives all cubes to a service that is loaded already, or none.
func (m *Manager) succeed(ctx context.Context, svc *service.Service, names []string) error {
	return m.transactRestoring(ctx, func(t *editing) error {
		for _, name := range names {
			if err := t.succeed(name, svc); err != nil {
				return blame(name, err)
			}
		}
		return nil
	})
}

// ReplaceAll makes another version of a service the one in use, for all its cubes or not at all.
func (m *Manager) ReplaceAll(ctx context.Context, svc *service.Service) error {
	name := svc.Info.Name
	return m.transactRestoring(ctx, func(t *editing) error {
		before := m.loaded.Load()
		was := before.ByName[name]
		if was == nil {
			if err := m.CheckServiceName(name); err != nil {
				return err
			}
		}
		if was == nil || !service.Same(was.Service, svc.Service) {
			if err := m.dp.CheckObject(name, svc.Objects); err != nil {
				return fmt.Errorf("programs of service %s: %w", name, err)
			}
		}
		m.loaded.Store(before.With(svc))
		t.undo = append(t.undo, func() error {
			m.loaded.Store(before)
			if was == nil {
				m.ForgetObjects(name)
				return nil
			}
			return m.dp.CheckObject(name, was.Objects)
		})
		for _, cubeName := range m.CubesOf(name) {
			if err := t.succeed(cubeName, svc); err != nil {
				return fmt.Errorf("cube %s: %w", cubeName, err)
			}
		}
		r, err := service.Record(*svc.Reg)
		t.also = append(t.also, r)
		return err
	})
}

// succeed has a cube taken over.
func (t *editing) succeed(name string, svc *service.Service) error {
	if b := t.next.Broken[name]; b != nil {
		return t.succeedBroken(b)
	}
	was, rec := t.next.Units[name], t.own(name)
	if rec == nil {
		return nil // deleted meanwhile
	}
	if rec.Transparent != svc.Info.Transparent {
		return fmt.Errorf("the service changed from transparent to standard, or the other way round: %w", cube.ErrInvalid)
	}
	u := t.units.make(svc, name, rec.UUID, rec.ID)
	t.successors = append(t.successors, &successor{was: was, is: u})
	if err := u.Inherit(was); err != nil {
		return fmt.Errorf("its configuration: %w", err)
	}
	u.SetType(rec.Type)
	u.TakeOver()
	u.SetPorts(unit.NewPortTable(rec))
	u.SetReady(true)
	rec.Constants = nil
	t.next.Units[name] = u
	t.touch(name)
	if was.EnterGate(t.ctx) == nil { // else its code hangs, and is not to be waited for
		t.held[was] = true
	}
	return nil
}

// succeedBroken has a cube of the store taken over that its service could not restore before.
func (t *editing) succeedBroken(b *world.Broken) error {
	s, err := t.units.stage(b.Stored)
	if err != nil {
		return err
	}
	name := s.rec.Name
	t.successors = append(t.successors, &successor{is: s.unit})
	s.unit.SetReady(true)
	delete(t.next.Broken, name)
	s.rec.Revision = t.next.Revision
	t.next.Cubes[name], t.next.Units[name] = s.rec, s.unit
	t.touch(name)
	return nil
}

// successor finds what takes over a unit's cube; nil where nothing does.
func (t *txn) successor(u *unit.Unit) *successor {
	if i := slices.IndexFunc(t.successors, func(s *successor) bool { return s.is == u }); i >= 0 {
		return t.successors[i]
	}
	return nil
}

// reopen opens the maps of a cube that is taken over.
func (x *execution) reopen(s *successor, p planned, rec *world.Cube) error {
	u := s.is
	dp, ok := x.dp.(replacer)
	if !ok {
		return fmt.Errorf("the data plane cannot re-open a running cube: %w", cube.ErrUnsupported)
	}
	r, err := dp.ReplaceCube(u.Spec(rec, &p.plan))
	if err != nil {
		return blame(u.Name, fmt.Errorf("%s: its maps: %w", u.Name, err))
	}
	u.SetReady(true)
	if r.Relink {
		rec.Maps++
	}
	s.back, s.settle = sync.OnceFunc(r.Back), r.Settle
	x.undo = append(x.undo, func() error { s.back(); return nil })
	return nil
}

// restoreCubes makes the data plane's cubes those before the change, which is to be undone.
func (x *execution) restoreCubes() {
	for _, s := range x.successors {
		if s.back != nil {
			s.back()
		}
	}
}

// dropSuccessors ends units whose transaction failed.
func (t *txn) dropSuccessors() {
	for _, s := range t.successors {
		s.is.End()
		s.is.Close()
	}
}

// introduce has packets and messages go to the successors.
func (c *committed) introduce() {
	for _, s := range c.successors {
		c.byID.Store(s.is.ID, s.is)
		if s.was != nil {
			s.was.End()
		}
	}
}

// retirePredecessors ends the units that were replaced.
func (c *committed) retirePredecessors() {
	for _, s := range c.successors {
		if s.was != nil {
			s.was.Close()
		}
		if s.settle != nil {
			s.settle()
		}
		c.events.Cube(s.is.Name, s.is.Service.Info.Name, "adopted", "")
	}
}
