// SPDX-License-Identifier: Apache-2.0

package lbrp

// What joins services: they share virtual addresses and their ports, and the program has code for what any of them needs. A
// change of one service looks at those of its address, not at all.

import (
	"cmp"
	"net/netip"
	"slices"

	"github.com/polycube/polycube/balance"
	"github.com/polycube/polycube/balance/checks"
	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/cube/table"
	"github.com/polycube/polycube/inet"
)

// tally counts services that the program needs code for.
type tally struct{ ranges, choices, checked int }

// needs are the parts of the program that services need.
type needs struct{ ranges, choices, checked bool }

func (t tally) needs() needs { return needs{t.ranges > 0, t.choices > 0, t.checked > 0} }

// count adds a service, nil: none, or removes it.
func (t *tally) count(w *wanted, by int) {
	if w == nil {
		return
	}
	if w.conf.hasRange() {
		t.ranges += by
	}
	if w.conf.Select != maglev || w.conf.Affinity > 0 {
		t.choices += by
	}
	if w.conf.HealthCheck.Enabled() {
		t.checked += by
	}
}

func (s *Service) hasRange() bool { return s.LastPort > s.VPort }

// address has the services of a virtual address.
type address struct {
	all map[ServiceKey]bool
	// ranges are those with several ports, echoes those for echo requests.
	ranges, echoes map[ServiceKey]bool
}

// record makes a service one of those that exist; nil: there is none with this key.
func (b *balancer) record(key ServiceKey, w *wanted) {
	a := b.addresses[key.VIP]
	if a == nil {
		a = &address{map[ServiceKey]bool{}, map[ServiceKey]bool{}, map[ServiceKey]bool{}}
		b.addresses[key.VIP] = a
	}
	mark := func(set map[ServiceKey]bool, is bool) {
		if delete(set, key); is {
			set[key] = true
		}
	}
	mark(a.all, w != nil)
	mark(a.ranges, w != nil && w.conf.hasRange())
	mark(a.echoes, w != nil && (key.Proto == protoICMP || key.Proto == protoAll))
	if len(a.all) == 0 {
		delete(b.addresses, key.VIP)
	}
	if w == nil {
		delete(b.wanted, key)
	} else {
		b.wanted[key] = w
	}
}

// addServices records the services that a change adds, removes or changes.
func (c *change) addServices(b *balancer, entries []cube.EntryChange, created bool) error {
	changes, err := cube.DecodeEntries[Service](entries)
	if err != nil {
		return err
	}
	for _, e := range changes {
		if e.New == nil {
			c.services[e.Old.key()] = nil
			continue
		}
		s := e.New
		if err := s.check(); err != nil {
			return err
		}
		if err := checks.Validate(s.key().id(), s.HealthCheck, netip.AddrPortFrom(s.VIP, s.VPort), created); err != nil {
			return err
		}
		w := &wanted{conf: *s, backends: map[netip.AddrPort]*Backend{}}
		if was := b.wanted[s.key()]; was != nil {
			w.backends = was.backends
		}
		c.services[s.key()] = w
	}
	c.tally = b.tally
	for key, w := range c.services {
		c.tally.count(b.wanted[key], -1)
		c.tally.count(w, 1)
	}
	return nil
}

// fewServices is up to how many services of a change are compared with others one by one.
const fewServices = 16

// checkPorts refuses services that have the same ports.
func (c *change) checkPorts(b *balancer) error {
	whole := map[netip.Addr][]ServiceKey{} // addresses whose services are all compared, with those of the change
	for key, w := range c.services {
		if was := b.wanted[key]; w == nil || was != nil && was.conf.LastPort == w.conf.LastPort {
			continue
		}
		if w.conf.hasRange() || len(c.services) > fewServices {
			whole[key.VIP] = nil
		} else if err := c.checkPort(b, key); err != nil {
			return err
		}
	}
	if len(whole) == 0 {
		return nil
	}
	for key := range c.services {
		if _, is := whole[key.VIP]; is {
			whole[key.VIP] = append(whole[key.VIP], key)
		}
	}
	for vip, keys := range whole {
		if a := b.addresses[vip]; a != nil {
			for key := range a.all {
				if _, changes := c.services[key]; !changes {
					keys = append(keys, key)
				}
			}
		}
		if err := c.checkAddress(b, keys); err != nil {
			return err
		}
	}
	return nil
}

// checkPort refuses a service with one port if another one has it.
func (c *change) checkPort(b *balancer, key ServiceKey) error {
	var others []ServiceKey
	for proto := range protos {
		others = append(others, ServiceKey{key.VIP, key.VPort, Proto(proto)})
	}
	for other := range c.services {
		if other.VIP == key.VIP {
			others = append(others, other)
		}
	}
	if a := b.addresses[key.VIP]; a != nil {
		for other := range a.ranges {
			others = append(others, other)
		}
	}
	slices.SortFunc(others, ServiceKey.compare)
	return c.checkAddress(b, slices.Compact(others))
}

// checkAddress refuses services of one address, as they are after the change, that have the same ports.
func (c *change) checkAddress(b *balancer, keys []ServiceKey) error {
	taken := map[balance.Proto][]portRange{}
	for _, key := range keys {
		w := c.after(b, key)
		if w == nil {
			continue
		}
		for _, id := range w.conf.ids() {
			if id.Proto != balance.ICMP {
				taken[id.Proto] = append(taken[id.Proto], portRange{key.VPort, max(key.VPort, w.conf.LastPort), key})
			}
		}
	}
	for _, ranges := range taken {
		if err := apart(ranges); err != nil {
			return err
		}
	}
	return nil
}

func (k ServiceKey) compare(other ServiceKey) int {
	return cmp.Or(k.VIP.Compare(other.VIP), cmp.Compare(k.VPort, other.VPort), cmp.Compare(k.Proto, other.Proto))
}

// findEchoes finds the services that echo requests for some virtual addresses are of: the one for ICMP, else the first one for
// all protocols. Addresses without one are silent.
func (b *balancer) findEchoes(vips map[netip.Addr]bool) {
	for vip := range vips {
		delete(b.echoes, vip)
		delete(b.silent, vip)
		a := b.addresses[vip]
		if a == nil {
			continue
		}
		for key := range a.echoes {
			is, known := b.echoes[vip]
			if !known || key.Proto == protoICMP || is.Proto == protoAll && key.VPort < is.VPort {
				b.echoes[vip] = key
			}
		}
		if _, known := b.echoes[vip]; !known {
			b.silent[vip] = true
		}
	}
}

// rangesOf returns the entries of the map of ranges that some services have.
func rangesOf(services map[ServiceKey]*wanted) map[rangeKey][2]byte {
	all := map[rangeKey][2]byte{}
	for _, w := range services {
		if w == nil || !w.conf.hasRange() {
			continue
		}
		s := &w.conf
		for _, id := range s.ids() {
			proto := map[balance.Proto]inet.Protocol{balance.TCP: inet.TCP, balance.UDP: inet.UDP, balance.SCTP: inet.SCTP}[id.Proto]
			if proto == 0 {
				continue
			}
			for _, p := range prefixes(s.VPort, s.LastPort) {
				p.Address, p.Protocol, p.Prefixlen = inet.AddressOf(s.VIP), proto, p.Prefixlen+rangeBits-16
				all[p] = [2]byte{byte(s.VPort >> 8), byte(s.VPort)}
			}
		}
	}
	return all
}

// applyRanges writes which services have several ports, where they were others. All are written for a cube that was created or
// restored.
func (b *balancer) applyRanges(was, is map[ServiceKey]*wanted, created bool) error {
	want := rangesOf(is)
	if created {
		_, err := table.Replace(b.maps.ranges, want).Do()
		return err
	}
	for k := range rangesOf(was) {
		if _, stays := want[k]; stays {
			continue
		}
		if _, err := b.maps.ranges.Delete(k); err != nil {
			return err
		}
	}
	for k, port := range want {
		if err := b.maps.ranges.Set(k, port); err != nil {
			return err
		}
	}
	return nil
}
