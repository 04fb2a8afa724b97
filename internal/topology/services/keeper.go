// SPDX-License-Identifier: Apache-2.0

// Package services keeps the services that cubes are made of: it loads the daemon's own, and starts, watches, updates and
// removes those that are not part of the daemon. Their cubes are changed by the topology's transactions.
package services

// Which services there are, and which cubes are theirs.

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

// Load reads the models and checks the programs of the daemon's own services.
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
		if err := k.dp.CheckObject(svc.Info.Name, s.Objects); err != nil {
			return fmt.Errorf("programs of service %s: %w", svc.Info.Name, err)
		}
	}
	return nil
}

// CheckServiceName says whether a new service can have a name.
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

// CloseSchemas frees the models of all services, when no cube uses them any more.
func (k *Keeper) CloseSchemas() {
	for _, s := range k.loaded.Load().ByName {
		s.Schema.Close()
	}
}

// Datapath is what services need of the data plane.
type Datapath interface {
	// CheckObject parses a service's compiled programs once, when it registers.
	CheckObject(service string, objects map[cube.Hook][]byte) error
	// Try loads a service's programs on trial; the first that is refused is a datapath.TrialError.
	Try(ctx context.Context, t datapath.Trial) (datapath.TrialReport, error)
}

// Cubes are the cubes of services, as their keeper changes them.
type Cubes interface {
	// TakeOver gives cubes of a service to its present life; it returns those that go on as they were.
	TakeOver(ctx context.Context, svc *service.Service, names []string) (failed []string)
	// ReplaceAll makes another version of a service the one in use, for all its cubes or not at all.
	ReplaceAll(ctx context.Context, svc *service.Service) error
	// Exclusively runs fn while nobody changes anything.
	Exclusively(ctx context.Context, fn func() error) error
	// Write stores a record that belongs to no cube, as a revision of its own, within exclusively.
	Write(ctx context.Context, r store.Record, note string) error
	// TellService tells that a service is in another state.
	TellService(name, state, reason string)
}

// Keeper has the services that are loaded, and keeps those running that are not part of the daemon. Its methods may be
// called from any goroutine once open has returned.
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

// orphans are the cubes of a service that its code does not look after.
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

// ForgetObjects has the data plane forget the programs of a service that is not loaded any more.
func (k *Keeper) ForgetObjects(name string) {
	if dp, ok := k.dp.(interface{ ForgetService(string) }); ok {
		dp.ForgetService(name)
	}
}

// builtIn says whether a service is part of the daemon.
func (k *Keeper) builtIn(name string) bool {
	s := k.loaded.Load().ByName[name]
	return s != nil && s.Reg == nil
}

// CubesOf lists the cubes of a service, those that could not be restored too.
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
