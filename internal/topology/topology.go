// SPDX-License-Identifier: Apache-2.0

// Package topology owns the cubes: their life from a request or the store to their end, their configuration, how ports
// and netdevs are linked and which transparent cubes are attached where. Every change of any of it is one transaction
// that happens whole or not at all, and survives a restart.
//
// Two kinds of state are kept apart. The world is data: readers take the current one and wait for nobody. Units are
// living cubes: their code is called one call at a time, and may panic without harm to others.
//
// Each part of the state has one owner:
//
//	writer       the token that every change needs, the queue of changes, and whether changes are still made
//	txn          the next world while it is made, in phases (phases.go)
//	graphInUse   the graph that the data plane has
//	units        the numbers of cubes
//	restoration  the stored cubes that are not restored yet
//	slowPath     which unit gets the packets of a cube
//
// Packages services, follow and neighbours own what they know of services and netdevs; read, history, announce and align
// own no state of the topology.
package topology

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/cube/compile"
	"github.com/polycube/polycube/internal/events"
	"github.com/polycube/polycube/internal/netdev"
	"github.com/polycube/polycube/internal/store"
	"github.com/polycube/polycube/internal/topology/align"
	"github.com/polycube/polycube/internal/topology/follow"
	"github.com/polycube/polycube/internal/topology/history"
	"github.com/polycube/polycube/internal/topology/service"
	"github.com/polycube/polycube/internal/topology/services"
	"github.com/polycube/polycube/internal/topology/trial"
)

// Options of New. Datapath is required.
type Options struct {
	Datapath Datapath
	// Store keeps the configuration; nil keeps it in memory only. State is what the store held when it was opened.
	Store *store.Store
	State *store.State
	// Services are the types of cube that can be made. Host runs more of them at run time; nil refuses that.
	Services []cube.Service
	Host     service.Host
	// Netdevs are the network devices; nil means those of the kernel.
	Netdevs Netdevs
	// Shadows makes the namespaces of shadow cubes; without it such cubes are refused.
	Shadows Shadows
	// Compile compiles C for cubes that ask for it; nil refuses that.
	Compile func(context.Context, compile.Source) ([]byte, error)
	// Logger gets the topology's and, with attributes service and cube, the cubes' lines; nil means slog.Default.
	Logger *slog.Logger
	// Version is the daemon's.
	Version string
	// Events keeps what happens, for those who follow it; nil keeps nothing.
	Events *events.Log
}

// Manager owns the cubes, and answers requests. Its methods may be called from any goroutine.
type Manager struct {
	*parts
	*writer
	*history.Past
	*services.Keeper
	follower   *follow.Follower
	namespaces *namespaces
	version    string
}

// New loads the services' models and restores the stored cubes.
func New(o Options) (*Manager, error) {
	if o.Store == nil {
		return newManager(o, nil, func(uint64) {})
	}
	m, err := newManager(o, o.Store.Commit, o.Store.Pin)
	if err == nil {
		m.Past = history.New(o.Store, m.ModelOf, m.Revision)
		m.trials.Start()
	}
	return m, err
}

// newManager is New with another way to make records durable, nil for none, and to keep a revision.
func newManager(o Options, commit func([]store.Record) error, pin func(revision uint64)) (*Manager, error) {
	if o.Datapath == nil {
		return nil, errors.New("topology: no data plane given")
	}
	p := newParts(o, commit)
	m := &Manager{parts: p, writer: newWriter(p), version: o.Version}
	p.editOwn = m.writer.editOwn
	p.trials = trial.NewKeeper(m.expire, pin)
	p.trials.Restore(o.State)
	m.namespaces = &namespaces{parts: p, writer: m.writer}
	m.follower = follow.New(&p.view, p.netdevs, p.neighbours, p.events, p.log, &netdevChanges{parts: p, writer: m.writer, namespaces: m.namespaces})
	p.aligner = align.New(p.netdevs, p.neighbours, p.log, m.follower.Synced)
	m.Past = history.New(nil, m.ModelOf, m.Revision)
	m.Keeper = services.New(&p.view, &p.loaded, p.dp, p.log, m)
	err := m.Load(o.Services)
	if err == nil {
		m.Keeper.Open(o.Host, o.State)
		err = (&restoration{parts: p, writer: m.writer, follower: m.follower}).restore(context.Background(), o.State)
	}
	if err != nil {
		m.Keeper.Close()
		m.CloseSchemas()
		return nil, fmt.Errorf("topology: %w", err)
	}
	m.writer.start()
	m.namespaces.start()
	m.Keeper.WatchAll()
	return m, nil
}

// Close ends the cubes' code. The fast path and the store stay as they are.
func (m *Manager) Close(ctx context.Context) error {
	defer m.Keeper.Close()
	m.trials.Stop()
	if err := m.writer.close(ctx, m.CloseSchemas); err != nil {
		return fmt.Errorf("topology: close: %w", err)
	}
	return nil
}

// NetdevEvent handles an event of a netdev.
func (m *Manager) NetdevEvent(e netdev.Event) { m.NetdevEvents([]netdev.Event{e}) }

// NetdevEvents handles events of netdevs, in their order. It is called from one goroutine at a time.
func (m *Manager) NetdevEvents(list []netdev.Event) { m.follower.Events(list) }

// Events returns the event log; nil when events are not kept.
func (m *Manager) Events() *events.Log { return m.events.Events() }

// TellService announces that a service is in another state.
func (m *Manager) TellService(name, state, reason string) { m.events.Service(name, state, reason) }

// Version is the daemon's.
func (m *Manager) Version() string { return m.version }
