// SPDX-License-Identifier: Apache-2.0

// Package elb is a fast path for the TCP services of HAProxy on this host: it reads HAProxy's configuration, takes over
// the frontends that need nothing but TCP, and gives them back when that changes. The eBPF program opens sessions and translates
// their packets on its own; the control plane selects the servers of services, resolves their next hops, and removes expired
// sessions.
package elb

import (
	"context"
	"embed"
	"errors"
	"time"

	"github.com/polycube/polycube/balance"
	"github.com/polycube/polycube/balance/session"
	conns "github.com/polycube/polycube/conntrack/table"
	"github.com/polycube/polycube/counter"
	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/cube/origins"
	"github.com/polycube/polycube/cube/table"
	"github.com/polycube/polycube/inet"
)

// files are the model and the compiled programs.
//
//go:embed elb.yang elb.tc.o elb.xdp.o
var files embed.FS

var counters = counter.Of(files, "elb_counter")

func init() {
	cube.Register(cube.Service{
		Files: files,
		New: func(env cube.Env) (cube.Instance, error) {
			return NewIn(func(fn func() error) error { return fn() }, env)
		},
	})
}

const (
	// tick is how often the cube looks for due work.
	tick = 100 * time.Millisecond
	// maxServices is ELB_SERVICES.
	maxServices = 4096
)

// NewIn creates the control plane of a cube. visit calls functions in the namespace of the host's netdevs.
func NewIn(visit func(func() error) error, env cube.Env) (cube.Instance, error) {
	b := &balancer{
		env: env, visit: visit, maps: newMaps(env), tables: balance.NewTables(env, balance.Fitting), numbers: balance.NewNumbers(env),
		counters: counters.In(env, "counters"), conf: &Config{}, to: map[uint8]cube.Peer{}, placed: map[balance.ServiceID]*placed{}, members: map[memberKey]*member{}, orphans: map[balance.Key]bool{},
	}
	b.services = balance.NewServices(env, b.tables, maxServices)
	b.checks = checks{balancer: b}
	b.loads = newLoads(b)
	b.sweep = newSweeper(b)
	list := b.list()
	env.Every(tick, b.tick)
	return cube.Instance{
		Prepare: cube.Typed(b.prepare), State: b.state, Page: list.Page, DeleteState: list.Delete, ParentChanged: b.parentChanged, OutputChanged: b.outputChanged, Close: b.close,
	}, nil
}

// balancer is the control plane of one cube.
type balancer struct {
	env      cube.Env
	visit    func(func() error) error
	maps     dataMaps
	tables   *balance.Tables
	services *balance.Services
	numbers  *balance.Numbers
	counters counter.Set
	sessions *conns.Table // nil before the steps of the first plan

	// conf is the configuration in effect.
	conf *Config
	// parent is where the cube is attached, once attached says that this is known: a daemon that has just started restores cubes first.
	parent   cube.Parent
	attached bool
	// to is where the outputs lead, as last reported.
	to      map[uint8]cube.Peer
	proxy   proxy
	running running
	// placed are the services in effect, members their servers and those that have sessions left.
	placed  map[balance.ServiceID]*placed
	members map[memberKey]*member
	// orphans are servers of an earlier daemon that no service uses any more.
	orphans map[balance.Key]bool
	checks  checks
	loads   loads
	sweep   *sweeper
	// resolved is when the servers' next hops were last looked up.
	resolved  time.Duration
	restoring bool // services of an earlier daemon are adopted
}

// prepare checks a change and returns its plan; it changes nothing.
func (b *balancer) prepare(_ context.Context, c cube.ChangeOf[Config]) (cube.Plan, error) {
	if err := c.New.check(); err != nil {
		return cube.Plan{}, err
	}
	if c.Old != nil && c.Old.SourcePorts != c.New.SourcePorts {
		if err := b.visit(c.New.checkPorts); err != nil {
			return cube.Plan{}, err
		}
	}
	plan := cube.Plan{}
	if c.Created() {
		plan.MapSizes = map[string]uint32{}
		for _, name := range []string{"servers", "server_counts", "server_keys"} {
			plan.MapSizes[name] = c.New.MaxServers + 1
		}
		var drop func() error
		plan.Before = append(plan.Before, cube.Effect(func() (_ func() error, err error) {
			drop, err = b.begin(c.New)
			return nil, err
		}))
		plan.After = append(plan.After, cube.Effect(func() (func() error, error) { return nil, drop() }))
	}
	plan.Before = append(plan.Before, cube.Effect(func() (func() error, error) { return b.configure(c.New) }))
	return plan, nil
}

// begin adopts the maps of a cube that was created or restored. drop then removes entries that are no longer used.
func (b *balancer) begin(conf *Config) (drop func() error, err error) {
	origin, err := b.maps.serverCounts.Origin()
	if err != nil {
		return nil, err
	}
	if err := b.visit(conf.checkPorts); err != nil && origin == origins.Created {
		return nil, err
	} else if err != nil { // the host has changed since the cube was created
		b.env.Logger().Warn("sessions may collide with the host's own connections", "error", err)
	}
	if b.sessions, err = conns.Open(b.env, session.Room(conf.MaxSessions)); err != nil {
		return nil, err
	}
	b.sweep.Use(b.sessions)
	b.restoring = true
	old, err := b.tables.Begin()
	if err = errors.Join(err, b.services.Begin(), b.numbers.Begin()); err != nil {
		return nil, err
	}
	return func() error {
		b.restoring = false
		b.adoptOrphans()
		return errors.Join(b.services.Prune(), old())
	}, nil
}

// configure adopts a configuration. The returned function undoes it; on error, it is already undone.
func (b *balancer) configure(to *Config) (func() error, error) {
	was, proxy, running := b.conf, b.proxy, b.running
	running.asks = false // an answer that is due may have been dropped
	undo := func() error {
		b.conf, b.proxy, b.running = was, proxy, running
		return b.apply()
	}
	if b.conf = to; was.MaxSessions != 0 && was.MaxSessions != to.MaxSessions {
		if err := b.sweep.Resize(to.MaxSessions); err != nil {
			b.conf = was
			return nil, err
		}
	}
	b.proxy.read(to.HAProxy.Files, true)
	b.running.use(to.HAProxy.StatsSocket)
	if err := b.apply(); err != nil {
		return nil, errors.Join(err, undo())
	}
	return undo, nil
}

// parentChanged updates where the cube is attached.
func (b *balancer) parentChanged(p cube.Parent) {
	b.parent, b.attached = p, true
	b.follow("the cube's netdev")
}

// outputChanged updates where an output leads.
func (b *balancer) outputChanged(number uint8, to cube.Peer) {
	b.to[number] = to
	b.follow("an output")
}

// follow adapts to a change around the cube.
func (b *balancer) follow(what string) {
	if b.sessions == nil {
		return
	}
	if err := b.resolve(); err != nil {
		b.env.Logger().Error("follow "+what, "error", err)
	}
}

// tick does the work that is due.
func (b *balancer) tick() {
	if b.sessions == nil {
		return
	}
	now := balance.Now()
	if b.proxy.read(b.conf.HAProxy.Files, false) {
		b.applyOrGiveBack()
	}
	b.ask()
	if b.loads.tick(time.Now()) {
		b.checks.changed()
	}
	if now-b.resolved >= b.resolveEvery() {
		if err := b.resolve(); err != nil {
			b.env.Logger().Error("resolve servers", "error", err)
		}
	}
	if err := b.sweep.Tick(now); err != nil {
		b.env.Logger().Error("remove old sessions", "error", err)
	}
}

// applyOrGiveBack applies the desired state. If that fails, for example because a table is full, all frontends go back to HAProxy.
func (b *balancer) applyOrGiveBack() {
	err := b.apply()
	if err == nil {
		return
	}
	b.env.Logger().Error("take over HAProxy frontends", "error", err)
	b.proxy = proxy{looked: b.proxy.looked, err: err}
	if err := b.apply(); err != nil {
		b.env.Logger().Error("give frontends back to HAProxy", "error", err)
	}
}

func (b *balancer) close() {
	b.checks.close()
	b.loads.close()
	err := errors.Join(b.tables.Close(), b.numbers.Close(), b.maps.close())
	if b.sessions != nil {
		err = errors.Join(err, b.sessions.Close())
		b.sessions = nil
	}
	if err != nil {
		b.env.Logger().Error("close the tables", "error", err)
	}
}

// dataMaps are the maps of a cube.
type dataMaps struct {
	settings     *table.Mapped[settingsEntry]
	netdevs      table.Table[uint32, netdevEntry]
	services     *table.Mapped[serviceEntry]
	servers      *table.Mapped[serverEntry]
	serverCounts table.PerCPU[uint32, counts]
}

func newMaps(env cube.Env) dataMaps {
	return dataMaps{
		settings: table.NewMapped[settingsEntry](env, "settings"), netdevs: table.New[uint32, netdevEntry](env, "netdevs"), services: table.NewMapped[serviceEntry](env, "service_settings"),
		servers: table.NewMapped[serverEntry](env, "servers"), serverCounts: table.NewPerCPU[uint32, counts](env, "server_counts"),
	}
}

func (m *dataMaps) close() error {
	return errors.Join(m.settings.Close(), m.services.Close(), m.servers.Close())
}

// settingsEntry is struct elb_settings.
type settingsEntry struct {
	First uint16
	Ports uint16
	Zero  uint32
}

// netdevEntry is struct elb_netdev.
type netdevEntry struct {
	MAC    uint64
	Output uint32
	MTU    uint32
}

// serviceEntry is struct elb_service.
type serviceEntry struct {
	Turn   uint32
	Select uint8
	Zero   [3]uint8
}

// serverEntry is struct elb_server.
type serverEntry struct {
	Address  inet.Address
	Source   inet.Address
	MAC      uint64
	Netdev   uint32
	Turn     uint32
	Sessions uint32
	Weight   uint16
	Port     [2]byte
}

// counts is struct elb_counts.
type counts struct {
	To, From inet.Count
	Opened   uint64
}
