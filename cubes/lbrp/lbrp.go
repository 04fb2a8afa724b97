// SPDX-License-Identifier: Apache-2.0

// Package lbrp is a load balancer that packets pass in both directions. The program opens sessions and translates their
// packets by itself; the control plane decides which servers services have at the moment, removes sessions that have
// expired or whose server is gone, and refuses connections to services without servers.
package lbrp

import (
	"context"
	"embed"
	"errors"
	"net/netip"
	"time"

	"github.com/polycube/polycube/balance"
	"github.com/polycube/polycube/balance/session"
	"github.com/polycube/polycube/bucket"
	conns "github.com/polycube/polycube/conntrack/table"
	"github.com/polycube/polycube/counter"
	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/cube/table"
	"github.com/polycube/polycube/inet"
)

// files are the model and the compiled programs.
//
//go:embed lbrp.yang lbrp.tc.o lbrp.xdp.o
var files embed.FS

var counters = counter.Of(files, "lbrp_counter")

func init() { cube.Register(cube.Service{Files: files, New: newBalancer}) }

const (
	// tick is how often due work is done.
	tick = 100 * time.Millisecond
	// maxServices is LBRP_SERVICES.
	maxServices = 32768
)

// balancer is the control plane of one cube.
type balancer struct {
	env      cube.Env
	maps     dataMaps
	tables   *balance.Tables
	services *balance.Services
	numbers  *balance.Numbers
	pins     *balance.Pins
	counters counter.Set
	sessions *conns.Table // nil before the steps of the first plan

	// conf is the configuration in effect, and wanted are its services with their servers, also by address.
	conf      *Config
	wanted    map[ServiceKey]*wanted
	addresses map[netip.Addr]*address
	tally     tally
	// placed are the services of the data plane.
	placed map[balance.ServiceID]*placed
	// echoes are the services that echo requests for each virtual address are of, silent the addresses without one.
	echoes map[netip.Addr]ServiceKey
	silent map[netip.Addr]bool
	// draining are servers whose time to drain ends.
	draining map[*member]bool
	sweep    *sweeper
	checks   *watcher
	loads    follower
	ids      uint16 // of IPv4 packets that are sent
}

func newBalancer(env cube.Env) (cube.Instance, error) {
	b := &balancer{
		env: env, maps: newMaps(env), tables: balance.NewTables(env, balance.Fitting), numbers: balance.NewNumbers(env),
		pins: balance.NewPins(env), counters: counters.In(env, "counters"), conf: &Config{},
		wanted: map[ServiceKey]*wanted{}, addresses: map[netip.Addr]*address{}, echoes: map[netip.Addr]ServiceKey{},
		silent: map[netip.Addr]bool{}, placed: map[balance.ServiceID]*placed{}, draining: map[*member]bool{},
	}
	b.services = balance.NewServices(env, b.tables, maxServices)
	b.sweep = newSweeper(b)
	b.checks = newWatcher(env, b.healthChanged)
	b.loads = newFollower(env)
	list := b.list()
	env.Every(tick, b.tick)
	return cube.Instance{
		Prepare: cube.Typed(b.prepare), State: b.state, Page: list.Page, DeleteState: list.Delete, Action: b.action,
		PacketIn: b.packetIn, Close: b.close,
	}, nil
}

// prepare checks a change and returns its plan; it changes nothing.
func (b *balancer) prepare(_ context.Context, c cube.ChangeOf[Config]) (cube.Plan, error) {
	next, err := b.with(c)
	if err != nil {
		return cube.Plan{}, err
	}
	plan := cube.Plan{}
	if c.Created() {
		plan.MapSizes = map[string]uint32{"service_settings": maxServices}
		for _, name := range []string{"servers", "server_counts", "server_keys", "followed"} {
			plan.MapSizes[name] = c.New.MaxBackends + 1
		}
		for _, name := range []string{"healths", "check_targets"} {
			plan.MapSizes[name] = c.New.MaxBackends
		}
		plan.Constants = map[string]any{}
		b.pins.Plan(&plan, c.New.MaxClients)
		var drop func() error
		plan.Before = append(plan.Before, cube.Effect(func() (_ func() error, err error) {
			drop, err = b.begin(c.New.MaxSessions)
			return nil, err
		}))
		plan.After = append(plan.After, cube.Effect(func() (func() error, error) { return nil, drop() }))
	}
	if c.New != nil || next.tally.needs() != b.tally.needs() {
		if plan.Constants == nil {
			plan.Constants = map[string]any{}
		}
		next.constants(b, plan.Constants)
	}
	plan.Before = append(plan.Before, cube.Effect(func() (func() error, error) { return b.carryOut(next) }))
	return plan, nil
}

// begin adopts the maps of a cube that was created or restored. drop removes what is not used any more after that.
func (b *balancer) begin(sessions uint32) (drop func() error, err error) {
	if b.sessions, err = conns.Open(b.env, session.Room(sessions)); err != nil {
		return nil, err
	}
	b.sweep.Use(b.sessions)
	b.loads.restoring = true
	old, err := b.tables.Begin()
	if err = errors.Join(err, b.services.Begin(), b.numbers.Begin(), b.checks.Begin()); err != nil {
		return nil, err
	}
	return func() error {
		b.loads.restoring = false
		b.adoptRest()
		return errors.Join(b.services.Prune(), old(), b.checks.Forget())
	}, nil
}

// adoptRest records the servers that an earlier daemon had and no service has now.
func (b *balancer) adoptRest() {
	inUse := map[balance.Key]bool{}
	for _, p := range b.placed {
		for _, m := range p.members {
			inUse[m.numberKey()] = true
		}
	}
	for k := range b.numbers.All() {
		if !inUse[k] {
			b.sweep.leaving[k] = b.sweep.sweeps
		}
	}
}

// tick does the work that is due.
func (b *balancer) tick() {
	if b.sessions == nil {
		return
	}
	now := balance.Now()
	if err := b.maps.setClock(balance.Clock(uint64(now))); err != nil {
		b.env.Logger().Error("update the clock of client affinity", "error", err)
	}
	b.checks.tick(now)
	b.loads.tick(time.Now(), b.checks.affected)
	if err := b.refresh(); err != nil {
		b.env.Logger().Error("update the servers of services", "error", err)
	}
	b.drain(now)
	if err := b.sweep.Tick(now); err != nil {
		b.env.Logger().Error("remove expired sessions", "error", err)
	}
}

func (b *balancer) close() {
	err := errors.Join(b.loads.close(), b.checks.Close(), b.checks.source.Close(), b.tables.Close(), b.numbers.Close(), b.pins.Close(), b.maps.close())
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
	ports        *table.Mapped[portEntry]
	settings     *table.Mapped[settingsEntry]
	services     *table.Mapped[serviceEntry]
	servers      *table.Mapped[serverEntry]
	frontends    table.Table[inet.Address, uint32]
	ranges       table.Table[rangeKey, [2]byte]
	serverCounts table.PerCPU[uint32, counts]
}

func newMaps(env cube.Env) dataMaps {
	return dataMaps{
		ports: table.NewMapped[portEntry](env, "ports"), settings: table.NewMapped[settingsEntry](env, "settings"),
		services: table.NewMapped[serviceEntry](env, "service_settings"), servers: table.NewMapped[serverEntry](env, "servers"),
		frontends: table.New[inet.Address, uint32](env, "frontends"), ranges: table.New[rangeKey, [2]byte](env, "ranges"),
		serverCounts: table.NewPerCPU[uint32, counts](env, "server_counts"),
	}
}

func (m *dataMaps) close() error {
	return errors.Join(m.ports.Close(), m.settings.Close(), m.services.Close(), m.servers.Close())
}

// setClock sets the unit of time of pins.
func (m *dataMaps) setClock(now uint32) error {
	settings, err := m.settings.Values()
	if err == nil && settings[0].Now != now {
		settings[0].Now = now
	}
	return err
}

// portEntry is struct lbrp_port.
type portEntry struct {
	Side uint32
	Zero uint32
}

// settingsEntry is struct lbrp_settings.
type settingsEntry struct {
	Backend    uint32
	Frontend   uint32
	Generation uint32
	Now        uint32
	Range      [4]byte
	NewRange   [4]byte
	Mask       [4]byte
	Zero       uint32
	Refusals   bucket.Limit
}

// serviceEntry is struct lbrp_service.
type serviceEntry struct {
	First    [2]byte
	Select   uint8
	Affinity uint8
	FullNat  uint8
	Refuse   uint8
	Zero     uint16
	Turn     uint32
	Zero2    uint32
}

// serverEntry is struct lbrp_server.
type serverEntry struct {
	Address inet.Address
	Port    [2]byte
	Weight  uint16
	Service uint32
	Active  uint32
	Zero    uint32
}

// rangeKey is struct lbrp_range_key.
type rangeKey struct {
	Prefixlen uint32
	Address   inet.Address
	Protocol  inet.Protocol
	Zero      uint8
	Port      [2]byte
}

// counts is struct lbrp_counts.
type counts struct {
	To, From inet.Count
}
