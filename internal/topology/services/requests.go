// SPDX-License-Identifier: Apache-2.0

package services

// Requests that add, update and remove services while the daemon runs.

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

// AddService starts a service, loads its programs in a trial, and makes it available. It takes over cubes of the
// service that are in the store.
func (k *Keeper) AddService(ctx context.Context, reg service.Registration) (datapath.TrialReport, error) {
	var trial datapath.TrialReport
	if err := k.checkHost(); err != nil {
		return trial, err
	}
	if err := k.CheckServiceName(reg.Name); err != nil {
		return trial, err
	}
	o := service.NewExternal(reg)
	o.Hold() // until the service is available
	if !k.claim(o) {
		return trial, fmt.Errorf("service %q: the name is in use by another service: %w", reg.Name, cube.ErrExists)
	}
	defer o.Give()
	trial, err := k.beginFirst(ctx, o, reg)
	if err != nil {
		o.End() // for a request that waits for its turn
		k.disclaim(o)
		return trial, err
	}
	k.cubes.TellService(reg.Name, "added", "")
	k.log.Info("service added", append([]any{"service", reg.Name, "type", reg.Type, "uri", reg.URI}, triedAs(trial)...)...)
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.ctx.Err() == nil {
		k.done.Go(func() { k.watch(o) })
	}
	return trial, nil
}

// triedAs is the log text about a trial.
func triedAs(r datapath.TrialReport) []any {
	return []any{"tried", r.Programs, "combinations", r.Combinations, "untried", r.Untried, "took", r.Took.Round(time.Millisecond)}
}

// try loads the programs of a service in a trial, while other changes go on. It ends with ctx.
func (k *Keeper) try(ctx context.Context, svc *service.Service) (datapath.TrialReport, error) {
	return k.dp.Try(ctx, datapath.Trial{
		Service: svc.Info.Name, Objects: svc.Objects, Transparent: svc.Info.Transparent, External: svc.Reg != nil,
	})
}

func (k *Keeper) checkHost() error {
	if k.host == nil {
		return fmt.Errorf("this daemon does not accept external services (option services): %w", cube.ErrUnsupported)
	}
	return nil
}

// claim reserves the name of a service.
func (k *Keeper) claim(o *service.External) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.byName[o.Name] != nil || k.ctx.Err() != nil {
		return false
	}
	k.byName[o.Name] = o
	return true
}

func (k *Keeper) disclaim(o *service.External) {
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.byName, o.Name)
}

// beginFirst starts a service for the first time.
func (k *Keeper) beginFirst(ctx context.Context, o *service.External, reg service.Registration) (trial datapath.TrialReport, err error) {
	start, cancel := context.WithTimeout(ctx, startWait)
	defer cancel()
	life, err := k.host.Start(start, reg, nil)
	if err != nil {
		return trial, fmt.Errorf("service %s: %w", reg.Name, err)
	}
	svc, err := k.admit(reg, life, func(svc *service.Service) (err error) {
		if trial, err = k.try(ctx, svc); err != nil {
			return err
		}
		return k.install(ctx, svc)
	})
	if err != nil {
		return trial, err
	}
	o.Live(reg, life)
	k.cubes.TakeOver(ctx, svc, k.orphans(svc))
	return trial, nil
}

// admit makes a service from the description that a run gives, if then returns no error. If anything fails or panics,
// the run is ended.
func (k *Keeper) admit(reg service.Registration, life service.Life, then func(*service.Service) error) (svc *service.Service, err error) {
	err = unit.Guard(func() (err error) {
		if svc, err = k.meet(reg, life); err != nil {
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
		k.log.Error("panic while a service was admitted, undone", "service", reg.Name, "value", p.Value, "stack", string(p.Stack))
	}
	return nil, err
}

// install makes a service available; it replaces one of the same name with the same model and programs.
func (k *Keeper) install(ctx context.Context, svc *service.Service) error {
	return k.cubes.Exclusively(ctx, func() error {
		name := svc.Info.Name
		if k.loaded.Load().ByName[name] != nil {
			k.loaded.Store(k.loaded.Load().With(svc))
			return nil
		}
		if err := k.CheckServiceName(name); err != nil {
			return err
		}
		if err := k.dp.CheckObject(name, svc.Objects); err != nil {
			return fmt.Errorf("programs of service %s: %w", name, err)
		}
		r, err := service.Record(*svc.Reg)
		if err == nil {
			err = k.cubes.Write(ctx, r, "service "+name+" was added")
		}
		if err != nil {
			k.ForgetObjects(name)
			return err
		}
		k.loaded.Store(k.loaded.Load().With(svc))
		return nil
	})
}

// externalService finds an external service.
func (k *Keeper) externalService(name string) (*service.External, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if o := k.byName[name]; o != nil {
		return o, nil
	}
	if k.loaded.Load().ByName[name] != nil {
		return nil, fmt.Errorf("service %s is built into the daemon, it cannot be changed or removed: %w", name, cube.ErrUnsupported)
	}
	return nil, fmt.Errorf("service %.80q: %w", name, cube.ErrNotFound)
}

// RemoveService ends a service that has no cubes.
func (k *Keeper) RemoveService(ctx context.Context, name string) error {
	o, err := k.externalService(name)
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
	svc := k.loaded.Load().ByName[name]
	if svc != nil && svc.Reg == nil {
		svc = nil // the daemon has a service of that name by now
	}
	err = k.cubes.Exclusively(ctx, func() error {
		if cubes := k.CubesOf(name); len(cubes) > 0 && !k.builtIn(name) {
			return fmt.Errorf("service %s has cubes, delete them first: %s: %w", name, listed(cubes), cube.ErrInUse)
		}
		if err := k.cubes.Write(ctx, store.Record{Key: service.Key + name}, "service "+name+" was removed"); err != nil {
			return err
		}
		if svc != nil {
			k.loaded.Store(k.loaded.Load().Without(name))
			k.ForgetObjects(name)
		}
		return nil
	})
	if err != nil {
		return err
	}
	o.End()
	k.disclaim(o)
	if _, life, _ := o.Now(); life != nil {
		o.Dead(life, service.ErrClosed)
		life.Close()
	}
	if svc != nil {
		service.Retire(svc)
	}
	k.cubes.TellService(name, "removed", "")
	k.log.Info("service removed", "service", name)
	return nil
}

// listed joins a list of names, shortened if it is long.
func listed(names []string) string {
	const few = 8
	if len(names) > few {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:few], ", "), len(names)-few)
	}
	return strings.Join(names, ", ")
}

// UpdateService starts another version of a service, loads its programs in a trial, and moves all cubes with their
// state to it, or changes nothing. Empty fields of reg keep their values.
func (k *Keeper) UpdateService(ctx context.Context, reg service.Registration) (trial datapath.TrialReport, err error) {
	o, err := k.externalService(reg.Name)
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
	if k.builtIn(reg.Name) {
		return trial, fmt.Errorf("service %s: the name is in use by a built-in service: %w", reg.Name, cube.ErrExists)
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
	life, err := k.host.Start(start, reg, nil)
	if err != nil {
		return trial, fmt.Errorf("service %s: the new version: %w", reg.Name, err)
	}
	before := k.loaded.Load().ByName[reg.Name]
	_, err = k.admit(reg, life, func(svc *service.Service) (err error) {
		if trial, err = k.try(ctx, svc); err != nil {
			return err
		}
		return k.cubes.ReplaceAll(ctx, svc)
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
	k.cubes.TellService(reg.Name, "updated", "")
	k.log.Info("service updated", append([]any{"service", reg.Name, "type", reg.Type, "uri", reg.URI}, triedAs(trial)...)...)
	return trial, nil
}

// ServiceSeries lists the latest figures of services.
func (k *Keeper) ServiceSeries() []service.Series {
	k.mu.Lock()
	list := slices.Collect(maps.Values(k.byName))
	k.mu.Unlock()
	var out []service.Series
	for _, o := range list {
		out = append(out, o.Series()...)
	}
	slices.SortFunc(out, func(a, b service.Series) int {
		return cmp.Or(strings.Compare(a.Service, b.Service), strings.Compare(a.Cube, b.Cube), strings.Compare(a.Name, b.Name))
	})
	return out
}

// ServiceStates lists the external services, by name.
func (k *Keeper) ServiceStates() []service.State {
	k.mu.Lock()
	list := slices.Collect(maps.Values(k.byName))
	k.mu.Unlock()
	slices.SortFunc(list, func(a, b *service.External) int { return strings.Compare(a.Name, b.Name) })
	states := make([]service.State, 0, len(list))
	for _, o := range list {
		states = append(states, o.State())
	}
	return states
}
