// SPDX-License-Identifier: Apache-2.0

// Package services manages the services that cubes are instances of: it loads the daemon's own, and starts, watches,
// updates and removes external ones. The topology's transactions change their cubes.
package services

// Which services exist, and which cubes are theirs.

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/internal/datapath"
	"github.com/polycube/polycube/internal/store"
	"github.com/polycube/polycube/internal/topology/service"
	"github.com/polycube/polycube/internal/topology/unit"
	"github.com/polycube/polycube/internal/topology/world"
)

// Load reads the models of the daemon's own services.
func (k *Keeper) Load(services []cube.Service) error {
	for i, s := range services {
		svc, err := service.Load(s)
		if err != nil {
			return fmt.Errorf("service %d: %w", i, err)
		}
		if err := k.CheckServiceName(svc.Info.Name); err != nil {
			svc.Schema.Close()
			return err
		}
		k.loaded.Store(k.loaded.Load().With(svc))
		k.dp.AddObjects(svc.Info.Name, s.Objects)
	}
	return nil
}

// CheckServiceName returns an error if a new service cannot have a name.
func (k *Keeper) CheckServiceName(name string) error {
	switch {
	case !world.ValidName(name):
		return fmt.Errorf("service %.80q: a name must have 1 to 64 characters from A-Z a-z 0-9 . _ + -, and begin with a letter or digit: %w",
			name, cube.ErrInvalid)
	case world.Reserved[name]:
		return fmt.Errorf("service %q: the name is reserved for the command line, choose another one: %w", name, cube.ErrInvalid)
	case k.loaded.Load().ByName[name] != nil:
		return fmt.Errorf("service %q: the name is in use by another service: %w", name, cube.ErrExists)
	}
	w := k.view.Load()
	if rec := w.Cubes[name]; rec != nil {
		return fmt.Errorf("service %q: a %s has that name, and names must be unique: %w", name, rec.Service, cube.ErrExists)
	}
	if w.Broken[name] != nil {
		return fmt.Errorf("service %q: a stored cube has that name, and names must be unique: %w", name, cube.ErrExists)
	}
	return nil
}

// CloseSchemas frees the models of all services, once no cube uses them any more.
func (k *Keeper) CloseSchemas() {
	for _, s := range k.loaded.Load().ByName {
		s.Schema.Close()
	}
}

// Datapath is the part of the data plane that services need.
type Datapath interface {
	// CheckObject parses a service's compiled programs once, when it registers.
	CheckObject(service string, objects map[cube.Hook][]byte) error
	// AddObjects does the same for a service that is a part of the daemon, when a cube first needs its programs.
	AddObjects(service string, objects map[cube.Hook][]byte)
	// Try loads a service's programs in a trial; the first one refused is returned as a datapath.TrialError.
	Try(ctx context.Context, t datapath.Trial) (datapath.TrialReport, error)
}

// Cubes changes the cubes of services.
type Cubes interface {
	// TakeOver connects cubes of a service to its current run; it returns those for which that failed.
	TakeOver(ctx context.Context, svc *service.Service, names []string) (failed []string)
	// ReplaceAll switches to another version of a service, for all its cubes or for none.
	ReplaceAll(ctx context.Context, svc *service.Service) error
	// Exclusively runs fn while nothing else makes changes.
	Exclusively(ctx context.Context, fn func() error) error
	// Write stores a record that belongs to no cube, as a revision of its own, within Exclusively.
	Write(ctx context.Context, r store.Record, note string) error
	// TellService publishes that the state of a service changed.
	TellService(name, state, reason string)
}

// Keeper has the loaded services, and keeps external ones running. Its methods may be called from any goroutine once
// Open has returned.
type Keeper struct {
	view   *atomic.Pointer[unit.Snapshot]
	loaded *atomic.Pointer[service.Registry]
	dp     Datapath
	log    *slog.Logger
	cubes  Cubes

	host   service.Host
	ctx    context.Context
	cancel context.CancelFunc
	done   sync.WaitGroup
	// mu guards byName, the external services.
	mu     sync.Mutex
	byName map[string]*service.External
}

// New returns a keeper without services. view and loaded are what readers load, cubes changes the cubes of services.
func New(view *atomic.Pointer[unit.Snapshot], loaded *atomic.Pointer[service.Registry], dp Datapath,
	log *slog.Logger, cubes Cubes) *Keeper {
	return &Keeper{view: view, loaded: loaded, dp: dp, log: log, cubes: cubes}
}

// unitsOf lists the living cubes of a service.
func (k *Keeper) unitsOf(name string) []*unit.Unit {
	w := k.view.Load()
	var list []*unit.Unit
	for cubeName, rec := range w.Cubes {
		if rec.Service == name {
			list = append(list, w.Units[cubeName])
		}
	}
	return list
}

// orphans are the cubes of a service that do not use its current run, are degraded or could not be restored.
func (k *Keeper) orphans(svc *service.Service) []string {
	w := k.view.Load()
	var names []string
	for name, u := range w.Units {
		if u.Service.Info.Name == svc.Info.Name && (u.Service != svc || u.IsDegraded()) {
			names = append(names, name)
		}
	}
	for name, b := range w.Broken {
		if b.Stored.Service == svc.Info.Name {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// ForgetObjects makes the data plane forget the programs of a service that is no longer loaded.
func (k *Keeper) ForgetObjects(name string) {
	if dp, ok := k.dp.(interface{ ForgetService(string) }); ok {
		dp.ForgetService(name)
	}
}

// builtIn reports whether a service is part of the daemon.
func (k *Keeper) builtIn(name string) bool {
	s := k.loaded.Load().ByName[name]
	return s != nil && s.Reg == nil
}

// CubesOf lists the cubes of a service, including those that could not be restored.
func (k *Keeper) CubesOf(name string) []string {
	w := k.view.Load()
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
