// SPDX-License-Identifier: Apache-2.0

package router

// Neighbours: connects the table of package neigh to the maps, ports and packets of a cube.

import (
	"cmp"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/inet"
	"github.com/polycube/polycube/neigh"
	"github.com/polycube/polycube/wire"
)

// keyOf returns the key of an address on a port's link in the fast path.
func keyOf(a netip.Addr, port uint16) addressKey {
	return addressKey{Address: inet.AddressOf(a), Port: port}
}

func (k addressKey) key() neigh.Key { return neigh.Key{Addr: addrOf(k.Address), Port: k.Port} }

// Set implements neigh.Host.
func (s *slow) Set(k neigh.Key, mac wire.MAC, state neigh.State, since time.Duration) error {
	n := neighbourEntry{Confirmed: uint64(since), Mac: inet.MACOf(mac[:]), State: uint8(state)}
	err := s.neighbours.Set(keyOf(k.Addr, k.Port), n)
	return errors.Join(err, s.r.hops.resolved(k.Addr, k.Port, inet.MACOf(mac[:]), err == nil && state.Usable()))
}

// Delete implements neigh.Host.
func (s *slow) Delete(k neigh.Key) error {
	_, err := s.neighbours.Delete(keyOf(k.Addr, k.Port))
	return errors.Join(err, s.r.hops.resolved(k.Addr, k.Port, 0, false))
}

// Confirmed implements neigh.Host.
func (s *slow) Confirmed(k neigh.Key) time.Duration {
	n, ok, err := s.neighbours.Get(keyOf(k.Addr, k.Port))
	if err != nil || !ok {
		return 0
	}
	return time.Duration(n.Confirmed)
}

// Ask implements neigh.Host. Without an address on the link, the router cannot send a request.
func (s *slow) Ask(k neigh.Key, to wire.MAC) {
	p, ok := s.ports[k.Port]
	if s.committing || !ok {
		s.later = append(s.later, question{k, to})
		return
	}
	mac := p.station()
	if k.Addr.Is4() {
		from, ok := p.sourceFor(k.Addr)
		if !ok {
			return
		}
		if to == (wire.MAC{}) {
			to = wire.Broadcast
		}
		s.send(k.Port, wire.WhoHas(k.Addr, to, from, mac).Frame())
		return
	}
	from, ok := p.sourceFor(k.Addr)
	if !ok {
		from = wire.LinkLocal(mac)
	}
	s.send(k.Port, wire.Solicit(k.Addr, to, mac, from).Frame())
}

// want is called with the gateways that routes use.
func (s *slow) want(addr netip.Addr, port uint16, want bool) {
	k := neigh.Key{Addr: addr, Port: port}
	if want {
		s.committing = true
		s.table.Want(k, clock())
		s.committing = false
		return
	}
	s.table.Unwant(k)
}

// station is the port's MAC address.
func (p *portState) station() wire.MAC { return p.mac.Bytes() }

// first returns the first address of a family that is not link-local, or is, if linkLocal is set.
func (p *portState) first(six, linkLocal bool) (netip.Addr, bool) {
	for _, a := range p.addresses {
		if a.Addr().Is6() == six && (six && a.Addr().IsLinkLocalUnicast()) == linkLocal {
			return a.Addr(), true
		}
	}
	return netip.Addr{}, false
}

// onLink reports whether an address is in one of the port's networks.
func (p *portState) onLink(a netip.Addr) bool {
	if a.Is6() && a.IsLinkLocalUnicast() {
		return true
	}
	return slices.ContainsFunc(p.addresses, func(n netip.Prefix) bool { return n.Contains(a) })
}

// sourceFor returns the port's source address for requests to a neighbour: one in its network, or the first one of the
// family.
func (p *portState) sourceFor(a netip.Addr) (netip.Addr, bool) {
	for _, n := range p.addresses {
		if n.Addr().Is6() == a.Is6() && n.Contains(a) {
			return n.Addr(), true
		}
	}
	if from, ok := p.first(a.Is6(), false); ok {
		return from, true
	}
	return p.first(a.Is6(), true)
}

// Release implements neigh.Host.
func (s *slow) Release(h *held) {
	if !h.out {
		s.again(h.packet(), h.data)
		return
	}
	n, ok := s.table.Get(h.key, clock())
	if !ok {
		return
	}
	copy(h.data, n.MAC[:])
	s.send(h.port, h.data)
}

// Unreachable implements neigh.Host.
func (s *slow) Unreachable(h *held) {
	if !h.out {
		s.refuse(h.packet(), wire.NoNeighbour, 0)
	}
}

// arp processes an ARP packet that the fast path has not processed.
func (s *slow) arp(p *cube.PacketIn) {
	port, ok := s.ports[p.Port]
	a, err := wire.ParseARP(p.Data)
	if err != nil || !ok {
		s.counters.Malformed++
		return
	}
	now := clock()
	if mac, ours := s.claims.Has(neigh.Key{Addr: a.Sender, Port: p.Port}); ours {
		if a.SenderMAC != mac && !s.machine(a.SenderMAC) {
			s.claims.Conflict(neigh.Key{Addr: a.Sender, Port: p.Port}, a.SenderMAC, now)
		}
		return
	}
	_, forUs := s.claims.Has(neigh.Key{Addr: a.Target, Port: p.Port})
	if a.Probe() {
		if forUs && a.SenderMAC != port.station() && !s.machine(a.SenderMAC) {
			s.claims.Probed(neigh.Key{Addr: a.Target, Port: p.Port}, a.SenderMAC, now)
		}
		return
	}
	if !port.onLink(a.Sender) || a.SenderMAC == port.station() {
		return
	}
	k := neigh.Key{Addr: a.Sender, Port: p.Port}
	switch {
	case a.Op == wire.ARPReply:
		s.table.Answered(k, neigh.Answer{MAC: a.SenderMAC, Solicited: a.To == port.station(), Override: true}, now)
	case forUs:
		s.table.Asked(k, a.SenderMAC, now)
	default:
		s.table.Answered(k, neigh.Answer{MAC: a.SenderMAC, Override: true}, now)
	}
}

// nd processes a neighbour discovery packet that the fast path has not processed.
func (s *slow) nd(p *cube.PacketIn) {
	port, ok := s.ports[p.Port]
	n, err := wire.ParseND(p.Data)
	if err != nil || !ok {
		s.counters.Malformed++
		return
	}
	now := clock()
	target := neigh.Key{Addr: n.Target, Port: p.Port}
	_, ours := s.claims.Has(target)
	if n.FromMAC == port.station() {
		return // it came back through a loop in the link
	}
	if n.Advertisement {
		if ours && !s.machine(n.Station()) {
			s.claims.Conflict(target, n.Station(), now)
		} else if !ours && port.onLink(n.Target) {
			s.table.Answered(target, s.answerOf(target, n), now)
		}
		return
	}
	if !ours {
		return
	}
	if n.From.IsUnspecified() {
		if !s.machine(n.FromMAC) {
			s.claims.Probed(target, n.FromMAC, now)
		}
	} else if _, claimed := s.claims.Has(neigh.Key{Addr: n.From, Port: p.Port}); claimed || !port.onLink(n.From) {
		return
	} else if n.Link != (wire.MAC{}) {
		s.table.Asked(neigh.Key{Addr: n.From, Port: p.Port}, n.Link, now)
	}
	if p.Metadata[2] == 1 && s.claims.Usable(target) {
		s.send(p.Port, n.Advertise(port.station()).Frame())
	}
}

// answerOf returns the meaning of an advertisement. One without a link-layer address confirms the current one.
func (s *slow) answerOf(k neigh.Key, n wire.ND) neigh.Answer {
	a := neigh.Answer{MAC: n.Link, Solicited: n.Solicited, Override: n.Override}
	if a.MAC == (wire.MAC{}) {
		if known, ok := s.table.Get(k, clock()); ok {
			a.MAC = known.MAC
		}
	}
	return a
}

// stateNeighbour is an entry of the list `arp-table`.
type stateNeighbour struct {
	Address   string  `json:"address"`
	Mac       string  `json:"mac,omitempty"`
	Interface string  `json:"interface"`
	State     string  `json:"state"`
	Age       *uint32 `json:"age,omitempty"`
}

// stateNeighbours shows the neighbour table.
func (r *router) stateNeighbours(path []string) []stateNeighbour {
	now := clock()
	all := r.slow.table.All(now)
	configured := map[neigh.Key]string{}
	for text, f := range r.fixed {
		configured[f.key().key()] = text
	}
	var out []stateNeighbour
	for _, n := range all {
		name, ok := r.env.PortName(n.Port)
		text := addressText(n.Addr, name)
		if fixed, is := configured[n.Key]; is {
			text = fixed
		}
		if !ok || len(path) > 1 && path[1] != text {
			continue
		}
		s := stateNeighbour{Address: text, Interface: name, State: n.State.String()}
		if n.MAC != (wire.MAC{}) { // otherwise it was never seen
			age := uint32(n.Age / time.Second)
			s.Mac, s.Age = n.MAC.String(), &age
		}
		out = append(out, s)
	}
	slices.SortFunc(out, func(a, b stateNeighbour) int { return cmp.Compare(a.Address, b.Address) })
	return out
}

// addressText returns the key of a learned neighbour: link-local addresses are distinguished by their ports.
func addressText(a netip.Addr, port string) string {
	if a.Is6() && a.IsLinkLocalUnicast() {
		return a.WithZone(port).String()
	}
	return a.String()
}

// forget removes a learned neighbour.
func (r *router) forget(text string) error {
	addr, err := netip.ParseAddr(text)
	if err != nil {
		return fmt.Errorf("arp-table %s: %w", text, cube.ErrNotFound)
	}
	for index := range r.slow.ports {
		k := neigh.Key{Addr: addr.WithZone(""), Port: index}
		name, ok := r.env.PortName(index)
		if ok && addressText(k.Addr, name) == text && r.slow.table.Forget(k, clock()) {
			return nil
		}
	}
	return fmt.Errorf("arp-table %s: %w", text, cube.ErrNotFound)
}
