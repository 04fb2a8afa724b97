// SPDX-License-Identifier: Apache-2.0

// Package topology owns the cubes: their life from a request or the store to their end, their configuration, how ports
// and netdevs are linked and which transparent cubes are attached where. Every change of any of it is one transaction
// that happens whole or not at all, and survives a restart.
//
// Two kinds of state are kept apart. The world is data: readers take the current one and wait for nobody. Units are
// living cubes: their code is called one call at a time, and may panic without harm to others.
package topology

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/internal/datapath"
	"github.com/polycube/polycube/internal/events"
	"github.com/polycube/polycube/internal/store"
	"github.com/polycube/polycube/internal/topology/announce"
	"github.com/polycube/polycube/internal/topology/history"
	"github.com/polycube/polycube/internal/topology/neighbours"
	"github.com/polycube/polycube/internal/topology/read"
	"github.com/polycube/polycube/internal/topology/service"
	"github.com/polycube/polycube/internal/topology/services"
	"github.com/polycube/polycube/internal/topology/unit"
	"github.com/polycube/polycube/internal/topology/world"
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
	// Logger gets the topology's and, with attributes service and cube, the cubes' lines; nil means slog.Default.
	Logger *slog.Logger
	// Version is the daemon's.
	Version string
	// Events keeps what happens, for those who follow it; nil keeps nothing.
	Events *events.Log
}

// Manager owns the cubes. Its methods may be called from any goroutine.
type Manager struct {
	*read.Reader
	*history.Past
	*slowPath
	*services.Keeper
	dp      Datapath
	netdevs Netdevs
	shadows Shadows
	log     *slog.Logger
	version string
	commit  func([]store.Record) error
	// loaded are the services.
	loaded atomic.Pointer[service.Registry]

	view atomic.Pointer[unit.Snapshot]

	// inUse is the graph that the data plane has. Its lock is taken last, after the writer's token and the gates of cubes,
	// and no handler is waited for while it is held.
	inUse *graphInUse

	news       unit.News
	neighbours *neighbours.Neighbours
	tell       *announce.Teller
	tallies    tallies
	// watched is set when all netdevs have been told of.
	watched atomic.Bool
	// freeingMemory is set while memory is to be given back to the machine.
	freeingMemory atomic.Bool

	// queue holds the changes that may be made together.
	queue queue
	// writer holds one token: who has it may change what follows.
	writer chan struct{}
	closed bool
	// started is set once New is done: until then nobody else has the manager, and the token is not given out.
	started bool
	// seen are the netdevs that were told of since watching began; of the goroutine that tells.
	seen map[string]bool
	// notes knows what stands in the way of packets, nil when the data plane does not.
	notes  world.Notes
	seq    uint64
	lastID datapath.CubeID
}

// New loads the services' models and restores the stored cubes.
func New(o Options) (*Manager, error) {
	if o.Store == nil {
		return newManager(o, nil)
	}
	m, err := newManager(o, o.Store.Commit)
	if err == nil {
		m.Past = history.New(o.Store, m.ModelOf, m.Revision)
	}
	return m, err
}

// newManager is New with another way to make records durable, nil for none.
func newManager(o Options, commit func([]store.Record) error) (*Manager, error) {
	if o.Datapath == nil {
		return nil, errors.New("topology: no data plane given")
	}
	m := &Manager{dp: o.Datapath, netdevs: o.Netdevs, shadows: o.Shadows, log: o.Logger, version: o.Version, commit: commit,
		tallies: newTallies(), writer: make(chan struct{}, 1), seen: map[string]bool{}}
	m.notes, _ = o.Datapath.(world.Notes)
	if m.netdevs == nil {
		m.netdevs = kernelNetdevs{}
	}
	if m.log == nil {
		m.log = slog.Default()
	}
	m.tell = announce.New(o.Events, m.log)
	var namespace func(string) string
	if m.shadows != nil {
		namespace = m.shadows.Name
	}
	m.Reader = read.New(&m.view, &m.loaded, m.dp, m.netdevs, m.notes, namespace)
	m.slowPath = &slowPath{view: &m.view}
	m.Past = history.New(nil, m.ModelOf, m.Revision)
	m.Keeper = services.New(&m.view, &m.loaded, m.dp, m.log, m)
	m.inUse = newGraphInUse(m.dp, m.log, &m.view)
	m.neighbours = neighbours.New(&m.view, m.netdevs, &m.news)
	m.view.Store(unit.NewSnapshot())
	m.loaded.Store(&service.Registry{})
	err := m.Load(o.Services)
	if err == nil {
		m.Keeper.Open(o.Host, o.State)
		err = m.restore(context.Background(), o.State)
	}
	if err != nil {
		m.Keeper.Close()
		m.CloseSchemas()
		return nil, fmt.Errorf("topology: %w", err)
	}
	m.findNetdevs()
	m.started = true
	m.writer <- struct{}{}
	m.startShadows()
	m.Keeper.WatchAll()
	return m, nil
}

// Close ends the cubes' code. The fast path and the store stay as they are.
func (m *Manager) Close(ctx context.Context) error {
	defer m.Keeper.Close()
	select {
	case <-m.writer:
	case <-ctx.Done():
		return fmt.Errorf("topology: close: %w", ctx.Err())
	}
	defer func() { m.writer <- struct{}{} }()
	if m.closed {
		return nil
	}
	if err := m.inUse.close(ctx); err != nil {
		return fmt.Errorf("topology: close: %w", err)
	}
	m.closed = true
	for _, u := range m.view.Load().Units {
		m.byID.Delete(u.ID)
		m.endUnit(u)
	}
	m.CloseSchemas()
	return nil
}

// Events is what the manager tells of; nil when nobody keeps it.
func (m *Manager) Events() *events.Log { return m.tell.Events() }

// TellService tells that a service was registered, updated or removed, is lost, or came back.
func (m *Manager) TellService(name, state, reason string) { m.tell.Service(name, state, reason) }

// Version is the daemon's.
func (m *Manager) Version() string { return m.version }
