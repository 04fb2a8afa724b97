// SPDX-License-Identifier: Apache-2.0

package lbrp

// Health checks: which servers are checked, and how checks reach them. They leave by the backend port as frames that are
// complete, so the program does not see them; it gives answers to the control plane.

import (
	"fmt"
	"net/netip"
	"sync"
	"time"

	"github.com/polycube/polycube/balance"
	"github.com/polycube/polycube/balance/checks"
	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/cube/table"
	"github.com/polycube/polycube/health"
	"github.com/polycube/polycube/inet"
	"github.com/polycube/polycube/neigh"
	"github.com/polycube/polycube/probe"
	"github.com/polycube/polycube/wire"
)

const (
	// noPort is the backend port as long as there is none.
	noPort = 1<<16 - 1
	// backoff is how often a neighbour that does not answer is asked: a server that comes back is to be found soon.
	backoff = 5 * time.Second
)

// watcher are the health checks of a cube.
type watcher struct {
	*checks.Checks
	env    cube.Env
	source *table.Mapped[sourceEntry]

	conf *Config
	all  map[checks.Key]*watched
	// affected are services with servers that may have another state.
	affected map[ServiceKey]bool

	table *neigh.Table[struct{}]
	hops  map[neigh.Key]*hop
	ids   uint32
	later []question // requests, which are sent outside of changes

	mu   sync.RWMutex // guards mac, port and macs, which `send` reads
	mac  wire.MAC     // of the source
	port uint16       // the backend port
	macs map[uint32]wire.MAC
}

// watched is a server of a service with a health check.
type watched struct {
	key     checks.Key
	service ServiceKey
	target  netip.AddrPort
	conf    *health.Config
	check   *checks.Check
	hop     *hop // nil: none
}

// hop is a neighbour that checks are sent to: a server, or the gateway.
type hop struct {
	key    neigh.Key
	number uint32
	known  bool // its MAC address
	failed bool // it does not answer
	users  map[*watched]bool
}

// question is a request to a neighbour.
type question struct {
	key neigh.Key
	to  wire.MAC
}

func newWatcher(env cube.Env, changed func()) *watcher {
	w := &watcher{
		env: env, source: table.NewMapped[sourceEntry](env, "check_source"), conf: &Config{}, all: map[checks.Key]*watched{},
		affected: map[ServiceKey]bool{}, hops: map[neigh.Key]*hop{}, macs: map[uint32]wire.MAC{}, port: noPort,
	}
	w.Checks = checks.New(env, checks.Options{Send: w.send, Changed: changed})
	limits := neigh.Limits{Entries: 65536, PortEntries: 65536, Incomplete: 65536, PortIncomplete: 65536}
	timing := neigh.DefaultTiming
	timing.Backoff = backoff
	w.table = neigh.New[struct{}](w, limits, timing, func(err error) { env.Logger().Error("resolve a server's MAC address", "error", err) })
	return w
}

// id is the service for package checks.
func (k ServiceKey) id() balance.ServiceID {
	protocols := [...]balance.Proto{protoICMP: balance.ICMP, protoTCP: balance.TCP, protoUDP: balance.UDP, protoSCTP: balance.SCTP, protoAll: balance.All}
	return balance.ServiceID{VIP: k.VIP, Port: k.VPort, Proto: protocols[k.Proto]}
}

// checkKey is a server of a service for package checks.
func checkKey(service ServiceKey, at netip.AddrPort) checks.Key {
	return checks.Key{Service: service.id(), Server: balance.KeyOf(at)}
}

// configure takes over a configuration; checked says whether a service has health checks.
func (w *watcher) configure(conf *Config, checked bool) error {
	was, port, mac := w.conf, uint16(noPort), wire.MAC{}
	w.conf = conf
	for i := range conf.Ports {
		if index, ok := w.env.PortIndex(conf.Ports[i].Name); ok && conf.Ports[i].Type == Backside {
			port, mac = index, inet.LocalMAC(w.env.UUID(), conf.Ports[i].Name).Bytes()
		}
	}
	moved := port != w.port || mac != w.mac || was.CheckSource != conf.CheckSource
	if moved {
		w.mu.Lock()
		w.port, w.mac = port, mac
		w.mu.Unlock()
		entries, err := w.source.Values()
		if err != nil {
			return err
		}
		if entries[0], err = conf.CheckSource.entry(inet.MACOf(mac[:])); err != nil {
			return err
		}
	}
	if !checked {
		w.End()
	} else if err := w.Open(checks.Way{MTU: probe.MinIPv6, Sources: conf.CheckSource.addresses()}); err != nil {
		return err
	}
	if moved {
		for _, is := range w.all {
			w.lead(is, false)
		}
	}
	return nil
}

// watch makes the checks of the servers of a service what its configuration says. inUse returns whether one is in use.
func (w *watcher) watch(service *wanted, inUse func(netip.AddrPort) bool) {
	for at, conf := range service.backends {
		k := checkKey(service.conf.key(), at)
		if !service.conf.HealthCheck.Enabled() || conf.AdminState == balance.Disabled {
			w.unwatch(k)
			continue
		}
		is := w.all[k]
		if is == nil {
			is = &watched{key: k, service: service.conf.key()}
			w.all[k] = is
		}
		is.conf, is.target = service.conf.HealthCheck, at
		if at.Port() == 0 {
			is.target = netip.AddrPortFrom(at.Addr(), service.conf.VPort)
		}
		w.lead(is, inUse(at))
	}
}

// unwatch ends the check of a server of a service, if it has one.
func (w *watcher) unwatch(k checks.Key) {
	if is := w.all[k]; is != nil {
		w.move(is, nil)
		delete(w.all, k)
		w.Unwatch(k)
	}
}

// lead finds the way to a server, and says what its check is to be.
func (w *watcher) lead(is *watched, inUse bool) {
	to := is.conf.Check(is.target).Target.Addr()
	wants := checks.Wants{Name: fmt.Sprintf("%s %d", is.target.Addr(), is.target.Port()), Config: is.conf, Target: is.target}
	source, neighbour, why := w.conf.CheckSource.hop(to)
	var next *hop
	switch {
	case is.conf.Type == health.API:
	case why != "":
		wants.Obstacle = why
	case w.port == noPort:
		wants.Obstacle = "the cube has no backend port"
	default:
		next = w.hopTo(neigh.Key{Addr: neighbour, Port: w.port})
		wants.Source, wants.Number = source, next.number
		if !next.known || next.failed {
			wants.Obstacle = fmt.Sprintf("the MAC address of %s is unknown", neighbour)
		}
	}
	w.move(is, next)
	is.check = w.Watch(is.key, wants, inUse)
	w.affected[is.service] = true
}

// hopTo returns a neighbour, which is resolved as long as it has users.
func (w *watcher) hopTo(k neigh.Key) *hop {
	if h := w.hops[k]; h != nil {
		return h
	}
	w.ids++
	h := &hop{key: k, number: w.ids, users: map[*watched]bool{}}
	w.hops[k] = h
	now := balance.Now()
	w.table.Want(k, now)
	if n, ok := w.table.Get(k, now); ok && n.State.Usable() {
		w.found(h, n.MAC)
	}
	return h
}

// move changes the neighbour of a server.
func (w *watcher) move(is *watched, to *hop) {
	was := is.hop
	if was == to {
		return
	}
	if to != nil {
		to.users[is] = true
	}
	is.hop = to
	if was == nil {
		return
	}
	if delete(was.users, is); len(was.users) == 0 {
		delete(w.hops, was.key)
		w.table.Unwant(was.key)
		w.mu.Lock()
		delete(w.macs, was.number)
		w.mu.Unlock()
	}
}

// found records the MAC address of a neighbour.
func (w *watcher) found(h *hop, mac wire.MAC) {
	h.known = true
	w.mu.Lock()
	w.macs[h.number] = mac
	w.mu.Unlock()
}

// resolved reports whether checks reach the server; of type API, there are none.
func (is *watched) resolved() bool { return is.hop == nil || !is.hop.failed }

// doubt resolves the neighbour of a server again that is down: it, or the gateway, may have another MAC address.
func (w *watcher) doubt(changes []checks.Change) {
	asked := map[*hop]bool{}
	for _, c := range changes {
		is := w.all[c.Key]
		if c.Status != health.Down || is == nil || is.hop == nil || asked[is.hop] {
			continue
		}
		asked[is.hop] = true
		w.table.Forget(is.hop.key, balance.Now())
	}
}

// tick does the work that is due.
func (w *watcher) tick(now time.Duration) {
	if due, ok := w.table.Next(); ok && due <= now {
		w.table.Tick(now)
	}
	later := w.later
	w.later = nil
	for _, q := range later {
		on, _ := w.conf.CheckSource.address(q.key.Addr.Is6())
		if !on.IsValid() || w.hops[q.key] == nil {
			continue
		}
		// From the source, also to a link-local address of a gateway: the cube has no other.
		frame := neigh.Request(q.key.Addr, q.to, w.mac, netip.PrefixFrom(on.Addr(), 0))
		if err := w.env.Send(&cube.PacketOut{Port: q.key.Port, Direction: cube.Egress, Data: frame}); err != nil {
			w.env.Logger().Debug("send an ARP or neighbour request", "error", err)
		}
	}
	if err := w.Tick(); err != nil {
		w.env.Logger().Error("stop health checks", "error", err)
	}
}

// send sends a packet of a check to a neighbour.
func (w *watcher) send(number uint32, frame []byte) {
	w.mu.RLock()
	to, ok := w.macs[number]
	from, port := w.mac, w.port
	w.mu.RUnlock()
	if !ok || port == noPort {
		return
	}
	copy(frame, to[:])
	copy(frame[len(to):], from[:])
	if err := w.env.Send(&cube.PacketOut{Port: port, Direction: cube.Egress, Data: frame}); err != nil {
		w.env.Logger().Debug("send a health check", "error", err)
	}
}

// received processes what a neighbour says about itself.
func (w *watcher) received(p *cube.PacketIn) {
	neighbour, is, ok := neigh.Received(p.Data)
	k, now := neigh.Key{Addr: neighbour, Port: p.Port}, balance.Now()
	if !ok || w.hops[k] == nil {
		return
	}
	if known, ok := w.table.Get(k, now); ok && is.MAC == (wire.MAC{}) {
		is.MAC = known.MAC
	}
	w.table.Answered(k, is, now)
}

// Set implements neigh.Host.
func (w *watcher) Set(k neigh.Key, mac wire.MAC, is neigh.State, _ time.Duration) error {
	h := w.hops[k]
	if h == nil {
		return nil
	}
	known, failed := h.known, h.failed
	if h.failed = is == neigh.Failed; is.Usable() {
		w.found(h, mac)
	}
	if h.known != known || h.failed != failed {
		for is := range h.users {
			w.lead(is, false)
		}
	}
	return nil
}

// Delete implements neigh.Host.
func (w *watcher) Delete(k neigh.Key) error { return w.Set(k, wire.MAC{}, neigh.Failed, 0) }

// Confirmed implements neigh.Host: the program does not say when packets of neighbours arrive.
func (w *watcher) Confirmed(neigh.Key) time.Duration { return 0 }

// Ask implements neigh.Host.
func (w *watcher) Ask(k neigh.Key, to wire.MAC) { w.later = append(w.later, question{k, to}) }

// Release implements neigh.Host: no packets wait.
func (w *watcher) Release(struct{}) {}

// Unreachable implements neigh.Host.
func (w *watcher) Unreachable(struct{}) {}
