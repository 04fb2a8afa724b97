// SPDX-License-Identifier: Apache-2.0

package lbdsr

// The MAC addresses of servers, and of the routers to them: package neigh resolves them. A server whose neighbour does not
// answer gets no new flows.

import (
	"errors"
	"net/netip"
	"time"

	"github.com/polycube/polycube/balance"
	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/cube/table"
	"github.com/polycube/polycube/inet"
	"github.com/polycube/polycube/neigh"
	"github.com/polycube/polycube/wire"
)

// noPort is the port of a server that no port leads to.
const noPort = 1<<16 - 1

// ways are the neighbours that packets for servers go to. A cube has one of them.
type ways struct {
	env     cube.Env
	entries *table.Mapped[serverEntry]
	ports   *table.Mapped[portEntry]
	// changed is called with servers that became reachable, or are not any more.
	changed func(*server)

	conf  *Config
	peers map[string]cube.Peer
	hops  map[neigh.Key]map[*server]bool
	table *neigh.Table[struct{}]
	// holds is set while a change is made, when packets would not reach their destination; later are the requests of
	// that time.
	holds bool
	later []question
}

// question is a request to a neighbour.
type question struct {
	key neigh.Key
	to  wire.MAC
}

func newWays(env cube.Env, maps *dataMaps, changed func(*server)) *ways {
	w := &ways{
		env: env, entries: maps.servers, ports: maps.ports, changed: changed, conf: &Config{}, peers: map[string]cube.Peer{},
		hops: map[neigh.Key]map[*server]bool{},
	}
	limits := neigh.Limits{Entries: 65536, PortEntries: 65536, Incomplete: 65536, PortIncomplete: 65536}
	w.table = neigh.New[struct{}](w, limits, neigh.DefaultTiming, func(err error) {
		env.Logger().Error("update the MAC address of a server", "error", err)
	})
	return w
}

// tick does the work that is due.
func (w *ways) tick(now time.Duration) {
	later := w.later
	w.holds, w.later = false, nil
	for _, q := range later {
		w.Ask(q.key, q.to)
	}
	if due, ok := w.table.Next(); ok && due <= now {
		w.table.Tick(now)
	}
}

// lead finds the way to a server, and writes the server's entry.
func (w *ways) lead(s *server) error {
	hop := neigh.Key{Port: noPort}
	if port, addr, ok := w.conf.route(s.conf); ok {
		if index, exists := w.env.PortIndex(port.Name); exists {
			hop = neigh.Key{Addr: addr, Port: index}
		}
	}
	if hop != s.hop || !s.led {
		w.leave(s)
		s.mac = s.conf.Address.MAC
		if !s.led && s.mac == 0 {
			s.mac = w.known(s, hop)
		}
		s.hop, s.led, s.failed = hop, true, false
		w.changed(s)
		if hop.Port != noPort && hop.Addr.IsValid() {
			w.enter(s)
		}
	}
	return w.write(s)
}

// enter begins to resolve the neighbour of a server.
func (w *ways) enter(s *server) {
	if w.hops[s.hop] == nil {
		w.hops[s.hop] = map[*server]bool{}
	}
	w.hops[s.hop][s] = true
	s.wants = true
	now := balance.Now()
	w.table.Want(s.hop, now)
	if n, ok := w.table.Get(s.hop, now); ok && n.State.Usable() {
		s.mac = inet.MACOf(n.MAC[:])
	}
}

// leave ends it.
func (w *ways) leave(s *server) {
	if !s.wants {
		return
	}
	w.table.Unwant(s.hop)
	delete(w.hops[s.hop], s)
	if len(w.hops[s.hop]) == 0 {
		delete(w.hops, s.hop)
	}
	s.wants = false
}

// known returns the MAC address that an earlier daemon has found for a server, which packets are sent to until the neighbour
// answers again.
func (w *ways) known(s *server, hop neigh.Key) inet.MAC {
	entries, err := w.entries.Values()
	if err != nil || hop.Port == noPort {
		return 0
	}
	is := entries[s.number]
	if is.Port != hop.Port+1 || is.Address != inet.AddressOf(s.conf.Address.IP) || is.Forward != uint8(s.conf.Forward) {
		return 0
	}
	return is.Mac
}

// write writes a server's entry.
func (w *ways) write(s *server) error {
	entries, err := w.entries.Values()
	if err != nil {
		return err
	}
	e := serverEntry{Mac: s.mac, Forward: uint8(s.conf.Forward), GuePort: [2]byte{byte(s.conf.GUEPort >> 8), byte(s.conf.GUEPort)}}
	if s.conf.Address.IP.IsValid() {
		e.Address = inet.AddressOf(s.conf.Address.IP)
	}
	if s.hop.Port != noPort {
		e.Port = s.hop.Port + 1
	}
	if entries[s.number] != e {
		entries[s.number] = e
	}
	return nil
}

// affects marks the services of a server for the next update.
func (b *balancer) affects(s *server) {
	for id := range s.users {
		b.changed[id] = true
	}
}

// Set implements neigh.Host.
func (w *ways) Set(k neigh.Key, mac wire.MAC, is neigh.State, _ time.Duration) error {
	for s := range w.hops[k] {
		if failed := is == neigh.Failed; s.failed != failed {
			s.failed = failed
			w.changed(s)
		}
		if is.Usable() {
			if s.mac == 0 {
				w.changed(s) // its health check can begin
			}
			s.mac = inet.MACOf(mac[:])
		}
		if err := w.write(s); err != nil {
			return err
		}
	}
	return nil
}

// Delete implements neigh.Host.
func (w *ways) Delete(k neigh.Key) error { return w.Set(k, wire.MAC{}, neigh.Failed, 0) }

// Confirmed implements neigh.Host: packets do not come back, so they confirm nothing.
func (w *ways) Confirmed(neigh.Key) time.Duration { return 0 }

// Release implements neigh.Host: no packets wait.
func (w *ways) Release(struct{}) {}

// Unreachable implements neigh.Host.
func (w *ways) Unreachable(struct{}) {}

// macOf returns the MAC address of a port.
func (w *ways) macOf(p *Port) inet.MAC { return w.macIn(w.conf, p) }

// macIn returns the MAC address of a port in a configuration.
func (w *ways) macIn(conf *Config, p *Port) inet.MAC {
	texts := []string{p.MAC}
	if p.Type == Frontside {
		texts = append(texts, conf.Frontend.MAC)
	}
	for _, text := range texts {
		if mac, err := inet.ParseMAC(text); text != "" && err == nil {
			return mac
		}
	}
	peer, told := w.peers[p.Name]
	switch {
	case conf.Shadow: // the namespace has it from the beginning, before netdevs are known
		return inet.LocalMAC(w.env.UUID(), p.Name)
	case !told:
		return w.before(p)
	case peer.Netdev != "" && len(peer.MAC) == 6 && peer.MAC[0]&1 == 0:
		return inet.MACOf(peer.MAC)
	}
	return inet.LocalMAC(w.env.UUID(), p.Name)
}

// before returns the MAC address that a port had with an earlier daemon, until its netdev is known.
func (w *ways) before(p *Port) inet.MAC {
	ports, err := w.ports.Values()
	index, ok := w.env.PortIndex(p.Name)
	if err != nil || !ok || int(index) >= len(ports) || ports[index].Mac == 0 {
		return inet.LocalMAC(w.env.UUID(), p.Name)
	}
	return ports[index].Mac
}

// portAt returns the configuration of a port by its index.
func (w *ways) portAt(index uint16) *Port {
	name, _ := w.env.PortName(index)
	for i := range w.conf.Ports {
		if w.conf.Ports[i].Name == name {
			return &w.conf.Ports[i]
		}
	}
	return nil
}

// Ask implements neigh.Host. Without an address on the link, the request is a probe, as before an address is claimed.
func (w *ways) Ask(k neigh.Key, to wire.MAC) {
	p := w.portAt(k.Port)
	if w.holds {
		w.later = append(w.later, question{k, to})
		return
	}
	if p == nil {
		return
	}
	on, _ := p.address(k.Addr.Is6())
	w.send(k.Port, neigh.Request(k.Addr, to, wire.MAC(w.macOf(p).Bytes()), on))
}

// send sends a frame out of a port.
func (w *ways) send(port uint16, frame []byte) {
	if err := w.env.Send(&cube.PacketOut{Port: port, Direction: cube.Egress, Data: frame}); err != nil {
		w.env.Logger().Debug("send a packet", "error", err)
	}
}

// packetIn processes a packet that the program does not finish.
func (b *balancer) packetIn(p *cube.PacketIn) {
	switch p.Reason {
	case reasonTooBig:
		b.tooBig(p)
		return
	case reasonCheck:
		b.checks.Answered(p)
		return
	}
	b.ways.toNamespace(p)
	if neighbour, is, ok := neigh.Received(p.Data); ok {
		b.ways.answered(neigh.Key{Addr: neighbour, Port: p.Port}, is)
	}
}

// answered processes what a neighbour says about itself.
func (w *ways) answered(k neigh.Key, a neigh.Answer) {
	if known, ok := w.table.Get(k, balance.Now()); ok && a.MAC == (wire.MAC{}) {
		a.MAC = known.MAC
	}
	if p := w.portAt(k.Port); p != nil && a.MAC != wire.MAC(w.macOf(p).Bytes()) && w.hops[k] != nil {
		w.table.Answered(k, a, balance.Now())
	}
}

// peerChanged follows the netdevs of ports, whose MAC addresses ports without one of their own have.
func (b *balancer) peerChanged(port string, peer cube.Peer) {
	b.ways.peers[port] = peer
	if err := errors.Join(b.applyPorts(b.now.conf), b.applyAddresses()); err != nil {
		b.env.Logger().Error("read the netdev of a port", "port", port, "error", err)
	}
	b.ways.announce(port, b.vips())
}

// portChanged announces the virtual addresses at a port that has a peer again.
func (b *balancer) portChanged(port string, up bool) {
	if up {
		b.ways.announce(port, b.vips())
	}
}

// vips returns the virtual addresses.
func (b *balancer) vips() map[netip.Addr]bool {
	addresses := map[netip.Addr]bool{}
	for id := range b.now.services {
		addresses[id.VIP] = true
	}
	return addresses
}

// announce tells the link of a frontend port where virtual addresses are.
func (w *ways) announce(port string, vips map[netip.Addr]bool) {
	index, ok := w.env.PortIndex(port)
	p := w.portAt(index)
	if !ok || p == nil || p.Type != Frontside {
		return
	}
	mac := wire.MAC(w.macOf(p).Bytes())
	for vip := range vips {
		if vip.Is4() {
			w.send(index, wire.AnnounceARP(vip, mac).Frame())
		} else {
			w.send(index, wire.AnnounceND(vip, mac).Frame())
		}
	}
}
