// SPDX-License-Identifier: Apache-2.0

package topology

// The requests that add, update and remove services while the daemon runs.

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/internal/datapath"
	"github.com/polycube/polycube/internal/store"
	"github.com/polycube/polycube/internal/topology/service"
	"github.com/polycube/polycube/internal/topology/unit"
)

// AddService starts a service, loads its programs on trial, and makes it known. Cubes of it that the store has are taken
// over.
func (m *Manager) AddService(ctx context.Context, reg service.Registration) (datapath.TrialReport, error) {
	var trial datapath.TrialReport
	if err := m.checkHost(); err != nil {
		return trial, err
	}
	if err := m.checkServiceName(reg.Name); err != nil {
		return trial, err
	}
	o := service.NewExternal(reg)
	o.Hold() // until the service is there
	if !m.claim(o) {
		return trial, fmt.Errorf("service %q: there is a service of that name: %w", reg.Name, cube.ErrExists)
	}
	defer o.Give()
	trial, err := m.beginFirst(ctx, o, reg)
	if err != nil {
		o.End() // for a request that waits for its turn
		m.disclaim(o)
		return trial, err
	}
	m.TellService(reg.Name, "added", "")
	m.log.Info("service added", append([]any{"service", reg.Name, "type", reg.Type, "uri", reg.URI}, triedAs(trial)...)...)
	m.outside.mu.Lock()
	defer m.outside.mu.Unlock()
	if m.outside.ctx.Err() == nil {
		m.outside.done.Go(func() { m.watch(o) })
	}
	return trial, nil
}

// triedAs is what the log says of a trial.
func triedAs(r datapath.TrialReport) []any {
	return []any{"tried", r.Programs, "combinations", r.Combinations, "untried", r.Untried, "took", r.Took.Round(time.Millisecond)}
}

// try loads the programs of a service on trial, while others change what they like. It ends with ctx.
func (m *Manager) try(ctx context.Context, svc *service.Service) (datapath.TrialReport, error) {
	return m.dp.Try(ctx, datapath.Trial{
		Service: svc.Info.Name, Objects: svc.Objects, Transparent: svc.Info.Transparent, Outside: svc.Reg != nil,
	})
}

func (m *Manager) checkHost() error {
	if m.outside.host == nil {
		return fmt.Errorf("this daemon takes no services at run time (option services): %w", cube.ErrUnsupported)
	}
	return nil
}

// claim reserves the name of a service.
func (m *Manager) claim(o *service.External) bool {
	m.outside.mu.Lock()
	defer m.outside.mu.Unlock()
	if m.outside.byName[o.Name] != nil || m.outside.ctx.Err() != nil {
		return false
	}
	m.outside.byName[o.Name] = o
	return true
}

func (m *Manager) disclaim(o *service.External) {
	m.outside.mu.Lock()
	defer m.outside.mu.Unlock()
	delete(m.outside.byName, o.Name)
}

// beginFirst starts a service for the first time.
func (m *Manager) beginFirst(ctx context.Context, o *service.External, reg service.Registration) (trial datapath.TrialReport, err error) {
	start, cancel := context.WithTimeout(ctx, startWait)
	defer cancel()
	life, err := m.outside.host.Start(start, reg, nil)
	if err != nil {
		return trial, fmt.Errorf("service %s: %w", reg.Name, err)
	}
	svc, err := m.admit(reg, life, func(svc *service.Service) (err error) {
		if trial, err = m.try(ctx, svc); err != nil {
			return err
		}
		return m.install(ctx, svc)
	})
	if err != nil {
		return trial, err
	}
	o.Live(reg, life)
	m.takeOver(ctx, svc, m.orphans(svc))
	return trial, nil
}

// admit makes a service of what a life says of itself, if then agrees. When something fails or panics, the life ends.
func (m *Manager) admit(reg service.Registration, life service.Life, then func(*service.Service) error) (svc *service.Service, err error) {
	err = unit.Guard(func() (err error) {
		if svc, err = m.meet(reg, life); err != nil {
			return err
		}
		return then(svc)
	})
	if err == nil {
		return svc, nil
	}
	if svc != nil {
		svc.Schema.Close()
	}
	life.Close()
	if p := (*unit.PanicError)(nil); errors.As(err, &p) {
		m.log.Error("panic while a service was admitted, undone", "service", reg.Name, "value", p.Value, "stack", string(p.Stack))
	}
	return nil, err
}

// exclusively runs fn while nobody changes anything.
func (m *Manager) exclusively(ctx context.Context, fn func() error) error {
	select {
	case <-m.writer:
	case <-ctx.Done():
		return fmt.Errorf("waiting for another change to end: %w", ctx.Err())
	}
	defer func() { m.writer <- struct{}{} }()
	if m.closed {
		return errClosed
	}
	return fn()
}

// install makes a service known, in place of one of the same name with the same model and programs if there is one.
func (m *Manager) install(ctx context.Context, svc *service.Service) error {
	return m.exclusively(ctx, func() error {
		name := svc.Info.Name
		if m.loaded.Load().ByName[name] != nil {
			m.loaded.Store(m.loaded.Load().With(svc))
			return nil
		}
		if err := m.checkServiceName(name); err != nil {
			return err
		}
		if err := m.dp.CheckObject(name, svc.Objects); err != nil {
			return fmt.Errorf("programs of service %s: %w", name, err)
		}
		r, err := service.Record(*svc.Reg)
		if err == nil {
			err = m.write(ctx, r, "service "+name+" was added")
		}
		if err != nil {
			m.forgetObjects(name)
			return err
		}
		m.loaded.Store(m.loaded.Load().With(svc))
		return nil
	})
}

// write stores a record that belongs to no cube, as a revision of its own: its number is that of the store's
// transaction. The caller has the writer's token.
func (m *Manager) write(ctx context.Context, r store.Record, note string) error {
	w := m.view.Load().Clone()
	w.Revision++
	if m.commit != nil {
		if err := m.commit([]store.Record{r, revisionRecord(w.Revision, note, OriginOf(ctx))}); err != nil {
			return fmt.Errorf("writing the configuration to disk: %w", err)
		}
	}
	m.view.Store(w)
	return nil
}

// forgetObjects has the data plane forget the programs of a service that is not loaded any more.
func (m *Manager) forgetObjects(name string) {
	if dp, ok := m.dp.(interface{ ForgetService(string) }); ok {
		dp.ForgetService(name)
	}
}

// outsiderOf finds a service that is not part of the daemon.
func (m *Manager) outsiderOf(name string) (*service.External, error) {
	m.outside.mu.Lock()
	defer m.outside.mu.Unlock()
	if o := m.outside.byName[name]; o != nil {
		return o, nil
	}
	if m.loaded.Load().ByName[name] != nil {
		return nil, fmt.Errorf("service %s is built into the daemon, it cannot be changed or removed: %w", name, cube.ErrUnsupported)
	}
	return nil, fmt.Errorf("service %.80q: %w", name, cube.ErrNotFound)
}

// RemoveService ends a service that has no cubes.
func (m *Manager) RemoveService(ctx context.Context, name string) error {
	o, err := m.outsiderOf(name)
	if err != nil {
		return err
	}
	if err := o.Take(ctx); err != nil {
		return err
	}
	defer o.Give()
	if o.Removed() {
		return fmt.Errorf("service %.80q: %w", name, cube.ErrNotFound)
	}
	svc := m.loaded.Load().ByName[name]
	if svc != nil && svc.Reg == nil {
		svc = nil // the daemon has one of that name by now
	}
	err = m.exclusively(ctx, func() error {
		if cubes := m.cubesOf(name); len(cubes) > 0 && !m.builtIn(name) {
			return fmt.Errorf("service %s has cubes, delete them first: %s: %w", name, listed(cubes), cube.ErrInUse)
		}
		if err := m.write(ctx, store.Record{Key: service.Key + name}, "service "+name+" was removed"); err != nil {
			return err
		}
		if svc != nil {
			m.loaded.Store(m.loaded.Load().Without(name))
			m.forgetObjects(name)
		}
		return nil
	})
	if err != nil {
		return err
	}
	o.End()
	m.disclaim(o)
	if _, life, _ := o.Now(); life != nil {
		o.Dead(life, errClosed)
		life.Close()
	}
	if svc != nil {
		service.Retire(svc)
	}
	m.TellService(name, "removed", "")
	m.log.Info("service removed", "service", name)
	return nil
}

// builtIn says whether a service is part of the daemon.
func (m *Manager) builtIn(name string) bool {
	s := m.loaded.Load().ByName[name]
	return s != nil && s.Reg == nil
}

// cubesOf lists the cubes of a service, those that could not be restored too.
func (m *Manager) cubesOf(name string) []string {
	w := m.view.Load()
	var list []string
	for _, rec := range w.InOrder() {
		if rec.Service == name {
			list = append(list, rec.Name)
		}
	}
	for _, cubeName := range slices.Sorted(maps.Keys(w.Broken)) {
		if w.Broken[cubeName].Stored.Service == name {
			list = append(list, cubeName)
		}
	}
	return list
}

// listed names a few of many.
func listed(names []string) string {
	const few = 8
	if len(names) > few {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:few], ", "), len(names)-few)
	}
	return strings.Join(names, ", ")
}

// UpdateService starts another version of a service, loads its programs on trial, and has it take over all cubes with
// their state, or changes nothing. What reg leaves empty stays as it is.
func (m *Manager) UpdateService(ctx context.Context, reg service.Registration) (trial datapath.TrialReport, err error) {
	o, err := m.outsiderOf(reg.Name)
	if err != nil {
		return trial, err
	}
	if err := o.Take(ctx); err != nil {
		return trial, err
	}
	defer o.Give()
	if o.Removed() {
		return trial, fmt.Errorf("service %.80q: %w", reg.Name, cube.ErrNotFound)
	}
	if m.builtIn(reg.Name) {
		return trial, fmt.Errorf("service %s: the daemon has a service of that name: %w", reg.Name, cube.ErrExists)
	}
	was, _, _ := o.Now()
	if reg.Type == "" {
		reg.Type = was.Type
	}
	if reg.URI == "" {
		reg.URI = was.URI
	}
	start, cancel := context.WithTimeout(ctx, startWait)
	defer cancel()
	life, err := m.outside.host.Start(start, reg, nil)
	if err != nil {
		return trial, fmt.Errorf("service %s: the new version: %w", reg.Name, err)
	}
	before := m.loaded.Load().ByName[reg.Name]
	_, err = m.admit(reg, life, func(svc *service.Service) (err error) {
		if trial, err = m.try(ctx, svc); err != nil {
			return err
		}
		return m.replaceAll(ctx, svc)
	})
	if err != nil {
		return trial, err
	}
	if before != nil {
		service.Retire(before)
	}
	if before := o.Live(reg, life); before != nil {
		before.Close()
	}
	m.TellService(reg.Name, "updated", "")
	m.log.Info("service updated", append([]any{"service", reg.Name, "type", reg.Type, "uri", reg.URI}, triedAs(trial)...)...)
	return trial, nil
}

// ServiceSeries lists the figures that services gave last.
func (m *Manager) ServiceSeries() []service.Series {
	m.outside.mu.Lock()
	list := slices.Collect(maps.Values(m.outside.byName))
	m.outside.mu.Unlock()
	var out []service.Series
	for _, o := range list {
		out = append(out, o.Series()...)
	}
	slices.SortFunc(out, func(a, b service.Series) int {
		return cmp.Or(strings.Compare(a.Service, b.Service), strings.Compare(a.Cube, b.Cube), strings.Compare(a.Name, b.Name))
	})
	return out
}

// ServiceStates lists the services that are not part of the daemon, by name.
func (m *Manager) ServiceStates() []service.State {
	m.outside.mu.Lock()
	list := slices.Collect(maps.Values(m.outside.byName))
	m.outside.mu.Unlock()
	slices.SortFunc(list, func(a, b *service.External) int { return strings.Compare(a.Name, b.Name) })
	states := make([]service.State, 0, len(list))
	for _, o := range list {
		states = append(states, o.State())
	}
	return states
}
