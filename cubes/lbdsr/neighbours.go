// SPDX-License-Identifier: Apache-2.0

package lbdsr

// The MAC addresses of servers, and of the routers to them: package neigh resolves them. A server whose neighbour does not
// answer gets no new flows.

import (
	"net/netip"
	"time"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/inet"
	"github.com/polycube/polycube/neigh"
	"github.com/polycube/polycube/wire"
)

// noPort is the port of a server that no port leads to.
const noPort = 1<<16 - 1

// lead finds the way to a server, and writes the server's entry.
func (b *balancer) lead(s *server) error {
	hop := neigh.Key{Port: noPort}
	if port, addr, ok := b.now.conf.route(s.conf); ok {
		if index, exists := b.env.PortIndex(port.Name); exists {
			hop = neigh.Key{Addr: addr, Port: index}
		}
	}
	if hop != s.hop || !s.led {
		b.leave(s)
		s.hop, s.led, s.failed, s.mac = hop, true, false, s.conf.Address.MAC
		b.affects(s)
		if hop.Port != noPort && hop.Addr.IsValid() {
			b.enter(s)
		}
	}
	return b.write(s)
}

// enter begins to resolve the neighbour of a server.
func (b *balancer) enter(s *server) {
	if b.hops[s.hop] == nil {
		b.hops[s.hop] = map[*server]bool{}
	}
	b.hops[s.hop][s] = true
	s.wants = true
	now := b.clock()
	b.table.Want(s.hop, now)
	if n, ok := b.table.Get(s.hop, now); ok && n.State.Usable() {
		s.mac = inet.MACOf(n.MAC[:])
	}
}

// leave ends it.
func (b *balancer) leave(s *server) {
	if !s.wants {
		return
	}
	b.table.Unwant(s.hop)
	delete(b.hops[s.hop], s)
	if len(b.hops[s.hop]) == 0 {
		delete(b.hops, s.hop)
	}
	s.wants = false
}

// write writes a server's entry.
func (b *balancer) write(s *server) error {
	entries, err := b.maps.servers.Values()
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

// affects has the services of a server computed anew.
func (b *balancer) affects(s *server) {
	for id := range s.users {
		b.changed[id] = true
	}
}

// Set implements neigh.Host.
func (b *balancer) Set(k neigh.Key, mac wire.MAC, is neigh.State, _ time.Duration) error {
	for s := range b.hops[k] {
		if failed := is == neigh.Failed; s.failed != failed {
			s.failed = failed
			b.affects(s)
		}
		if is.Usable() {
			s.mac = inet.MACOf(mac[:])
		}
		if err := b.write(s); err != nil {
			return err
		}
	}
	return nil
}

// Delete implements neigh.Host.
func (b *balancer) Delete(k neigh.Key) error { return b.Set(k, wire.MAC{}, neigh.Failed, 0) }

// Confirmed implements neigh.Host: packets do not come back, so they confirm nothing.
func (b *balancer) Confirmed(neigh.Key) time.Duration { return 0 }

// Release implements neigh.Host: no packets wait.
func (b *balancer) Release(struct{}) {}

// Unreachable implements neigh.Host.
func (b *balancer) Unreachable(struct{}) {}

// portAt returns the configuration of a port by its index.
func (b *balancer) portAt(index uint16) *Port {
	name, _ := b.env.PortName(index)
	for i := range b.now.conf.Ports {
		if b.now.conf.Ports[i].Name == name {
			return &b.now.conf.Ports[i]
		}
	}
	return nil
}

// Ask implements neigh.Host. Without an address on the link, the request is a probe, as before an address is claimed.
func (b *balancer) Ask(k neigh.Key, to wire.MAC) {
	p := b.portAt(k.Port)
	if p == nil {
		return
	}
	mac := wire.MAC(b.macOf(p).Bytes())
	on, _ := p.address(k.Addr.Is6())
	if k.Addr.Is6() {
		from := wire.LinkLocal(mac)
		if on.IsValid() && on.Contains(k.Addr) {
			from = on.Addr()
		}
		b.send(k.Port, wire.Solicit(k.Addr, to, mac, from).Frame())
		return
	}
	if to == (wire.MAC{}) {
		to = wire.Broadcast
	}
	if !on.IsValid() {
		b.send(k.Port, wire.ProbeARP(k.Addr, mac).Frame())
		return
	}
	b.send(k.Port, wire.WhoHas(k.Addr, to, on.Addr(), mac).Frame())
}

// send sends a frame out of a port.
func (b *balancer) send(port uint16, frame []byte) {
	if err := b.env.Send(&cube.PacketOut{Port: port, Direction: cube.Egress, Data: frame}); err != nil {
		b.env.Logger().Debug("send a packet", "error", err)
	}
}

// packetIn processes a packet that the program does not finish.
func (b *balancer) packetIn(p *cube.PacketIn) {
	if p.Reason == reasonTooBig {
		b.tooBig(p)
		return
	}
	if wire.EtherType(p.Data) == wire.EtherARP {
		if a, err := wire.ParseARP(p.Data); err == nil {
			b.answered(neigh.Key{Addr: a.Sender, Port: p.Port}, neigh.Answer{MAC: a.SenderMAC, Solicited: a.Op == wire.ARPReply, Override: true})
		}
		return
	}
	n, err := wire.ParseND(p.Data)
	if err != nil || !n.Advertisement {
		return
	}
	k := neigh.Key{Addr: n.Target, Port: p.Port}
	a := neigh.Answer{MAC: n.Link, Solicited: n.Solicited, Override: n.Override}
	if known, ok := b.table.Get(k, b.clock()); ok && a.MAC == (wire.MAC{}) {
		a.MAC = known.MAC
	}
	b.answered(k, a)
}

// answered processes what a neighbour says about itself.
func (b *balancer) answered(k neigh.Key, a neigh.Answer) {
	if p := b.portAt(k.Port); p != nil && a.MAC != wire.MAC(b.macOf(p).Bytes()) && b.hops[k] != nil {
		b.table.Answered(k, a, b.clock())
	}
}

// peerChanged follows the netdevs of ports, whose MAC addresses ports without one of their own have.
func (b *balancer) peerChanged(port string, peer cube.Peer) {
	b.peers[port] = peer
	if err := b.applyPorts(b.now.conf); err != nil {
		b.env.Logger().Error("follow the netdev of a port", "port", port, "error", err)
	}
	b.announce(port)
}

// portChanged announces the virtual addresses at a port that has a peer again.
func (b *balancer) portChanged(port string, up bool) {
	if up {
		b.announce(port)
	}
}

// announce tells the link of a frontend port where the virtual addresses are.
func (b *balancer) announce(port string) {
	index, ok := b.env.PortIndex(port)
	p := b.portAt(index)
	if !ok || p == nil || p.Type != Frontside {
		return
	}
	mac := wire.MAC(b.macOf(p).Bytes())
	told := map[netip.Addr]bool{}
	for id := range b.now.services {
		if told[id.VIP] {
			continue
		}
		told[id.VIP] = true
		if id.VIP.Is4() {
			b.send(index, wire.AnnounceARP(id.VIP, mac).Frame())
		} else {
			b.send(index, wire.AnnounceND(id.VIP, mac).Frame())
		}
	}
}
