// SPDX-License-Identifier: Apache-2.0

package lbrp

// Makes the maps what services ask for.

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"reflect"
	"slices"
	"time"

	"github.com/polycube/polycube/balance"
	"github.com/polycube/polycube/bucket"
	"github.com/polycube/polycube/cube/table"
	"github.com/polycube/polycube/inet"
)

// placed is a service of the data plane: one of those that a service of the model is.
type placed struct {
	id      balance.ServiceID
	key     ServiceKey
	number  uint32
	live    uint32
	members map[netip.AddrPort]*member
}

// apply makes the maps what a change asks for.
func (b *balancer) apply(next *change) error {
	allDown := b.conf.AllDown
	if next.conf != nil {
		was := b.conf
		b.conf = next.conf
		if err := b.configure(was); err != nil {
			return err
		}
	}
	if is := next.tally.needs().checked; next.conf != nil || is != b.tally.needs().checked {
		if err := b.checks.configure(b.conf, is); err != nil {
			return err
		}
	}
	gone := b.watchServers(next)
	b.loads.follow(next)
	was, vips := make(map[ServiceKey]*wanted, len(next.services)), map[netip.Addr]bool{}
	for key, w := range next.services {
		was[key] = b.wanted[key]
		b.record(key, w)
		vips[key.VIP] = true
	}
	b.tally = next.tally
	if err := b.applyServices(next, was, vips); err != nil {
		return err
	}
	for _, k := range gone {
		b.checks.unwatch(k)
	}
	if allDown == b.conf.AllDown {
		return nil
	}
	for _, p := range b.placed {
		if err := b.choose(p, b.wanted[p.key]); err != nil {
			return fmt.Errorf("service %s: %w", p.id, err)
		}
	}
	return nil
}

// applyServices makes the services that a change touches, which were others before, what it asks for; vips are their addresses.
func (b *balancer) applyServices(next *change, was map[ServiceKey]*wanted, vips map[netip.Addr]bool) error {
	b.findEchoes(vips)
	if err := b.applyRanges(was, next.services, next.created); err != nil {
		return err
	}
	for vip := range vips { // a service for echo requests takes the place of an address without one
		if !b.silent[vip] {
			if err := b.services.DropEcho(vip); err != nil {
				return err
			}
		}
	}
	owners := b.owners(next)
	for _, id := range slices.SortedFunc(maps.Keys(owners), compareIDs) {
		if err := b.place(id, owners[id]); err != nil {
			return fmt.Errorf("service %s: %w", id, err)
		}
	}
	for vip := range vips {
		if b.silent[vip] {
			if err := b.services.PutEcho(vip, false); err != nil {
				return err
			}
		}
	}
	return nil
}

func compareIDs(a, b balance.ServiceID) int {
	return cmp.Or(a.VIP.Compare(b.VIP), cmp.Compare(a.Port, b.Port), cmp.Compare(a.Proto, b.Proto))
}

// owners returns which service of the model each of the data plane's is, nil for none, among those that a change touches.
func (b *balancer) owners(next *change) map[balance.ServiceID]*wanted {
	owners := map[balance.ServiceID]*wanted{}
	for key, w := range next.services {
		for _, id := range (&Service{VIP: key.VIP, VPort: key.VPort, Proto: key.Proto}).ids() {
			if id.Proto != balance.ICMP {
				owners[id] = w
			} else {
				owners[id] = b.wanted[b.echoes[key.VIP]]
			}
		}
	}
	return owners
}

// configure applies what holds for the cube as a whole.
func (b *balancer) configure(was *Config) error {
	if was.MaxSessions != 0 && was.MaxSessions != b.conf.MaxSessions {
		if err := b.sweep.Resize(b.conf.MaxSessions); err != nil {
			return err
		}
	}
	if err := b.applyPorts(); err != nil {
		return err
	}
	if was.MaxSessions != 0 && reflect.DeepEqual(was.Ports, b.conf.Ports) && was.SrcIPRewrite == b.conf.SrcIPRewrite {
		return nil
	}
	settings, err := b.maps.settings.Values()
	if err != nil {
		return err
	}
	s := settingsEntry{Generation: settings[0].Generation, Now: balance.Clock(uint64(balance.Now()))}
	for i := range b.conf.Ports {
		p := &b.conf.Ports[i]
		index, ok := b.env.PortIndex(p.Name)
		switch {
		case !ok:
		case p.Type == Backside:
			s.Backend = uint32(index) + 1
		case b.conf.PortMode == single:
			s.Frontend = uint32(index) + 1
		}
	}
	if is, to := b.conf.SrcIPRewrite.IPRange, b.conf.SrcIPRewrite.NewIPRange; is.IsValid() {
		s.Range, s.NewRange = is.Masked().Addr().As4(), to.Masked().Addr().As4()
		binary.BigEndian.PutUint32(s.Mask[:], ^uint32(0)<<(32-is.Bits()))
	}
	if s.Refusals, err = bucket.New(1000, time.Second, 1000); err != nil {
		return err
	}
	settings[0] = s
	return nil
}

// applyPorts writes the sides of ports, and which frontend leads to which host.
func (b *balancer) applyPorts() error {
	ports, err := b.maps.ports.Values()
	if err != nil {
		return err
	}
	sides, hosts := map[uint16]uint32{}, map[inet.Address]uint32{}
	for i := range b.conf.Ports {
		p := &b.conf.Ports[i]
		index, ok := b.env.PortIndex(p.Name)
		if !ok {
			continue
		}
		sides[index] = uint32(p.Type) + 1
		if p.IP.IsValid() {
			hosts[inet.AddressOf(p.IP)] = uint32(index)
		}
	}
	for i := range ports {
		if side := sides[uint16(i)]; ports[i].Side != side {
			ports[i].Side = side
		}
	}
	_, err = table.Replace(b.maps.frontends, hosts).Do()
	return err
}

// rangeBits is LBRP_RANGE_BITS.
const rangeBits = 160

// prefixes returns the prefixes of ports that together are a range, each with its length among the bits of a port.
func prefixes(first, last uint16) (all []rangeKey) {
	for at := int(first); at <= int(last); {
		size := 1
		for at%(2*size) == 0 && at+2*size-1 <= int(last) && size < 65536 {
			size *= 2
		}
		bits := uint32(16)
		for s := size; s > 1; s /= 2 {
			bits--
		}
		all = append(all, rangeKey{Prefixlen: bits, Port: [2]byte{byte(at >> 8), byte(at)}})
		at += size
	}
	return all
}

// place makes a service of the data plane what a service of the model asks for; nil: it is removed.
func (b *balancer) place(id balance.ServiceID, w *wanted) error {
	p := b.placed[id]
	if w == nil {
		return b.displace(p, id)
	}
	if p == nil {
		number, err := b.services.Reserve(id)
		if err != nil {
			return err
		}
		p = &placed{id: id, number: number, members: map[netip.AddrPort]*member{}}
		b.placed[id] = p
	}
	p.key = w.conf.key()
	if err := b.applyServiceSettings(p, &w.conf); err != nil {
		return err
	}
	for at, conf := range w.backends {
		if err := b.enter(p, at, conf); err != nil {
			return fmt.Errorf("backend %s %d: %w", conf.IP, conf.Port, err)
		}
	}
	if err := b.choose(p, w); err != nil {
		return err
	}
	for at, m := range p.members {
		if w.backends[at] == nil {
			if err := b.leave(m); err != nil {
				return err
			}
			delete(p.members, at)
		}
	}
	return nil
}

// displace removes a service of the data plane.
func (b *balancer) displace(p *placed, id balance.ServiceID) error {
	err := b.services.Remove(id)
	if p == nil || err != nil {
		return err
	}
	for _, m := range p.members {
		err = errors.Join(err, b.leave(m))
	}
	delete(b.placed, id)
	b.sweep.Hasten()
	return err
}

// applyServiceSettings writes how a service chooses servers.
func (b *balancer) applyServiceSettings(p *placed, conf *Service) error {
	entries, err := b.maps.services.Values()
	if err != nil {
		return err
	}
	e := &entries[p.number]
	is := serviceEntry{
		First: [2]byte{byte(conf.VPort >> 8), byte(conf.VPort)}, Select: uint8(conf.Select), Turn: e.Turn,
		Affinity: balance.Timeout(time.Duration(conf.Affinity) * time.Second),
	}
	if conf.FullNAT {
		is.FullNat = 1
	}
	if conf.NoServers == refuse {
		is.Refuse = 1
	}
	if *e != is {
		*e = is
	}
	return nil
}
