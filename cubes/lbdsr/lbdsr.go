// SPDX-License-Identifier: Apache-2.0

// Package lbdsr is a load balancer whose servers answer clients directly. The program sends packets for a service to one of
// its servers, with the server's MAC address or in a tunnel; the control plane decides which servers a service has at the
// moment, resolves their MAC addresses, and answers packets that are too big for a tunnel.
package lbdsr

import (
	"context"
	"embed"
	"errors"
	"time"

	"github.com/polycube/polycube/balance"
	"github.com/polycube/polycube/bucket"
	"github.com/polycube/polycube/counter"
	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/cube/table"
	"github.com/polycube/polycube/inet"
)

// files are the model and the compiled programs.
//
//go:embed lbdsr.yang lbdsr.tc.o lbdsr.xdp.o
var files embed.FS

var counters = counter.Of(files, "lbdsr_counter")

func init() { cube.Register(cube.Service{Files: files, New: newBalancer}) }

const (
	// tick is how often due work is done.
	tick = 100 * time.Millisecond
	// sweepEvery is how often pins are counted, and those removed whose time is over.
	sweepEvery = 5 * time.Second
	// maxServices is LBDSR_SERVICES.
	maxServices = 4098
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

	// now is what the maps say.
	now *desired
	// servers are those of all services.
	servers map[balance.Key]*server
	ways    *ways
	// members is the state of each server of each service.
	members map[memberKey]*member
	// used are the servers of new flows of each service, the last ones that were not all down.
	used map[ServiceID][]balance.Member
	// live is how many servers of each service are up, draining are servers whose time to drain ends.
	live     map[ServiceID]uint32
	draining map[memberKey]time.Duration
	// changed are the services that may need other servers for new flows.
	changed map[ServiceID]bool
	// pairs are the flows of each server of each service, as of the last sweep.
	pairs   map[balance.Pair]balance.Count
	swept   time.Duration
	mustRun bool // a sweep is due
	ids     uint16
	tooBigs stateTunnel

	checks    *watcher
	announcer announcer
}

func newBalancer(env cube.Env) (cube.Instance, error) {
	b := &balancer{
		env: env, maps: newMaps(env), tables: balance.NewTables(env, balance.Large), numbers: balance.NewNumbers(env),
		pins: balance.NewPins(env), counters: counters.In(env, "counters"), now: &desired{conf: &Config{}},
		servers: map[balance.Key]*server{}, members: map[memberKey]*member{}, changed: map[ServiceID]bool{},
		used: map[ServiceID][]balance.Member{}, live: map[ServiceID]uint32{}, draining: map[memberKey]time.Duration{},
	}
	b.services = balance.NewServices(env, b.tables, maxServices)
	b.ways = newWays(env, &b.maps, b.affects)
	b.checks, b.announcer.env = newWatcher(env, b.ways, b.healthChanged), env
	env.Every(tick, b.tick)
	return cube.Instance{
		Prepare: cube.Typed(b.prepare), State: b.state, Action: b.action, PacketIn: b.packetIn, PeerChanged: b.peerChanged,
		PortChanged: b.portChanged, Interfaces: b.ways.interfaces, NamespaceChanged: portFollows, Close: b.close,
	}, nil
}

// prepare checks a change and returns its plan; it changes nothing.
func (b *balancer) prepare(_ context.Context, c cube.ChangeOf[Config]) (cube.Plan, error) {
	next, err := b.now.with(c)
	if err != nil {
		return cube.Plan{}, err
	}
	plan := cube.Plan{Constants: map[string]any{}}
	if c.Created() {
		plan.MapSizes = map[string]uint32{}
		for _, name := range []string{"servers", "server_counts", "server_keys"} {
			plan.MapSizes[name] = next.conf.MaxServers + 1
		}
		plan.MapSizes["healths"] = next.conf.MaxServers * healthsEach
		b.pins.Plan(&plan, next.conf.MaxFlows)
		var drop func() error
		plan.Before = append(plan.Before, cube.Effect(func() (_ func() error, err error) {
			drop, err = b.begin()
			return nil, err
		}))
		plan.After = append(plan.After, cube.Effect(func() (func() error, error) { return nil, drop() }))
	}
	plan.Constants["tunnels"], plan.Constants["quic"], plan.Constants["checks"] = next.features()
	was := b.now
	plan.Before = append(plan.Before, cube.Effect(func() (func() error, error) {
		back := func() error { return b.apply(was) }
		if err := b.apply(next); err != nil {
			return nil, errors.Join(err, back())
		}
		return back, nil
	}))
	return plan, nil
}

// begin adopts the maps of a cube that was created or restored. drop removes what is not used any more after that.
func (b *balancer) begin() (drop func() error, err error) {
	old, err := b.tables.Begin()
	if err = errors.Join(err, b.services.Begin(), b.maps.known.reset(), b.numbers.Begin(), b.checks.Begin()); err != nil {
		return nil, err
	}
	return func() error { return errors.Join(b.services.Prune(), old(), b.checks.Forget()) }, nil
}

// tick does the work that is due.
func (b *balancer) tick() {
	now := balance.Now()
	if err := b.maps.setClock(balance.Clock(uint64(now))); err != nil {
		b.env.Logger().Error("update the clock of flows", "error", err)
	}
	b.ways.tick(now)
	if err := b.checks.Tick(); err != nil {
		b.env.Logger().Error("stop health checks", "error", err)
	}
	b.drain(now)
	if len(b.changed) > 0 {
		if err := b.choose(); err != nil {
			b.env.Logger().Error("update the servers of services", "error", err)
		}
	}
	if b.mustRun || now-b.swept >= sweepEvery {
		b.sweep(now)
	}
	b.announcer.update(b.now.conf, b.now.services, b.live)
}

// sweep removes pins that are over, and those to servers that their service does not have any more.
func (b *balancer) sweep(now time.Duration) {
	timeouts, allowed := map[uint32]uint8{}, map[balance.Pair]bool{}
	for id, w := range b.now.services {
		number, ok := b.services.Known(id)
		if !ok {
			continue
		}
		timeouts[number] = balance.Timeout(w.conf.timeout())
		for _, s := range w.servers {
			if b.keeps(id, s) {
				allowed[balance.Pair{Service: number, Server: b.servers[s.key()].number}] = true
			}
		}
	}
	pairs, err := b.pins.Sweep(balance.Clock(uint64(now)), func(service uint32) uint8 { return timeouts[service] },
		func(p balance.Pair) bool { return !allowed[p] })
	if err == nil {
		b.pairs, b.swept, b.mustRun = pairs, now, false
		b.announcer.doubt()
		b.services.Swept()
		err = b.freeServers()
	}
	if err != nil {
		b.env.Logger().Error("remove expired flows", "error", err)
	}
}

func (b *balancer) close() {
	if err := errors.Join(b.checks.Close(), b.tables.Close(), b.numbers.Close(), b.pins.Close(), b.maps.close()); err != nil {
		b.env.Logger().Error("close the tables", "error", err)
	}
}

// dataMaps are the maps of a cube.
type dataMaps struct {
	ports         *table.Mapped[portEntry]
	settings      *table.Mapped[settingsEntry]
	servers       *table.Mapped[serverEntry]
	known         known
	addresses     table.Table[addressKey, uint32]
	quicServers   table.Table[quicKey, uint32]
	quicConfigs   table.Table[uint32, uint32]
	serverCounts  table.PerCPU[uint32, inet.Count]
	serviceCounts table.PerCPU[uint32, inet.Count]
}

func newMaps(env cube.Env) dataMaps {
	return dataMaps{
		ports: table.NewMapped[portEntry](env, "ports"), settings: table.NewMapped[settingsEntry](env, "settings"),
		servers: table.NewMapped[serverEntry](env, "servers"), known: newKnown(env), addresses: table.New[addressKey, uint32](env, "addresses"),
		quicServers: table.New[quicKey, uint32](env, "quic_servers"), quicConfigs: table.New[uint32, uint32](env, "quic_configs"),
		serverCounts:  table.NewPerCPU[uint32, inet.Count](env, "server_counts"),
		serviceCounts: table.NewPerCPU[uint32, inet.Count](env, "service_counts"),
	}
}

func (m *dataMaps) close() error {
	return errors.Join(m.ports.Close(), m.settings.Close(), m.servers.Close(), m.known.Close())
}

// portEntry is struct lbdsr_port.
type portEntry struct {
	Mac  inet.MAC
	Type uint32
	Mtu  uint32
}

// settingsEntry is struct lbdsr_settings.
type settingsEntry struct {
	Source4  inet.Address
	Source6  inet.Address
	Vary4    uint32
	Vary6    uint32
	Now      uint32
	Frontend uint32
	Ttl      uint32
	Zero     uint32
	Errors   bucket.Limit
	Control  bucket.Limit
	Checks   bucket.Limit
}

// serverEntry is struct lbdsr_server.
type serverEntry struct {
	Address inet.Address
	Mac     inet.MAC
	GuePort [2]byte
	Port    uint16
	Forward uint8
	Zero    [3]uint8
}

// addressKey is struct lbdsr_address_key.
type addressKey struct {
	Address inet.Address
	Port    uint32
}

// quicKey is struct lbdsr_quic_key.
type quicKey struct {
	Service uint32
	Config  uint8
	Server  [maxServerID]uint8
}

// setClock sets the unit of time of pins.
func (m *dataMaps) setClock(now uint32) error {
	settings, err := m.settings.Values()
	if err == nil && settings[0].Now != now {
		settings[0].Now = now
	}
	return err
}
