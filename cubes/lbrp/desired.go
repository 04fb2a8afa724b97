// SPDX-License-Identifier: Apache-2.0

package lbrp

// What a change asks for: which services are to be what. Services that it does not touch are not looked at, so that a change
// of one of 10,000 services costs what it costs with one service.

import (
	"errors"
	"fmt"
	"maps"
	"net/netip"

	"github.com/polycube/polycube/balance"
	"github.com/polycube/polycube/cube"
)

// wanted is a service with its servers. It is not changed once it is made, so a change that fails is undone by applying the
// previous one.
type wanted struct {
	conf     Service
	backends map[netip.AddrPort]*Backend
}

// change is a step from one configuration to another.
type change struct {
	conf     *Config // nil: it stays
	services map[ServiceKey]*wanted
	// tally is of all services after the change.
	tally tally
	// created is set if the cube is created or restored.
	created bool
}

// with returns what a change changes.
func (b *balancer) with(c cube.ChangeOf[Config]) (*change, error) {
	next := &change{conf: c.New, services: map[ServiceKey]*wanted{}, created: c.Created()}
	if c.New != nil {
		if err := c.New.check(); err != nil {
			return nil, err
		}
	}
	var services, servers []cube.EntryChange
	for _, e := range c.Entries {
		if len(e.List) == 1 {
			services = append(services, e)
		} else {
			servers = append(servers, e)
		}
	}
	if err := next.addServices(b, services, c.Created()); err != nil {
		return nil, err
	}
	if err := next.addServers(b, servers); err != nil {
		return nil, err
	}
	for _, w := range next.services {
		if err := w.check(next.source(b)); err != nil {
			return nil, err
		}
	}
	if err := next.checkPorts(b); err != nil {
		return nil, err
	}
	return next, next.checkNewSource(b)
}

// addServers records the servers that a change adds, removes or changes.
func (c *change) addServers(b *balancer, entries []cube.EntryChange) error {
	changes, err := cube.DecodeEntries[Backend](entries)
	if err != nil {
		return err
	}
	touched := map[ServiceKey]*wanted{}
	for _, e := range changes {
		key, err := serviceKeyOf(e.Above)
		if err != nil {
			return err
		}
		w := touched[key]
		if w == nil {
			if w = c.after(b, key); w == nil {
				continue // the service is removed with its servers
			}
			w = &wanted{conf: w.conf, backends: maps.Clone(w.backends)}
			touched[key], c.services[key] = w, w
		}
		if e.Old != nil {
			delete(w.backends, e.Old.key())
		}
		if e.New != nil {
			w.backends[e.New.key()] = e.New
		}
	}
	return nil
}

// source returns the source of checks after the change.
func (c *change) source(b *balancer) *CheckSource {
	if c.conf != nil {
		return &c.conf.CheckSource
	}
	return &b.conf.CheckSource
}

// checkNewSource refuses a source of checks that a server has which the change does not touch.
func (c *change) checkNewSource(b *balancer) error {
	if c.conf == nil || c.conf.CheckSource == b.conf.CheckSource {
		return nil
	}
	for key, w := range b.wanted {
		if _, changes := c.services[key]; !changes {
			if err := w.check(&c.conf.CheckSource); err != nil {
				return err
			}
		}
	}
	return nil
}

// after returns a service as it is after the change; nil if there is none.
func (c *change) after(b *balancer, key ServiceKey) *wanted {
	if w, changes := c.services[key]; changes {
		return w
	}
	return b.wanted[key]
}

// check refuses servers that do not fit their service.
func (w *wanted) check(source *CheckSource) error {
	if w == nil {
		return nil
	}
	if source.has(w.conf.VIP) {
		return fmt.Errorf("check-source: %s is already the virtual address of a service: %w", w.conf.VIP, cube.ErrExists)
	}
	if len(w.backends) > balance.MaxMembers {
		return fmt.Errorf("service %s: %d servers, but at most %d are supported: %w", w.conf.key(), len(w.backends), balance.MaxMembers, cube.ErrFull)
	}
	for _, s := range w.backends {
		fail := func(format string, args ...any) error {
			return fmt.Errorf("service %s: backend %s %d: %s: %w", w.conf.key(), s.IP, s.Port, fmt.Sprintf(format, args...), cube.ErrInvalid)
		}
		last := int(s.Port) + max(int(w.conf.LastPort)-int(w.conf.VPort), 0)
		switch {
		case s.IP.IsUnspecified(), s.IP.IsMulticast(), s.IP.Is4In6(), s.IP.IsLoopback():
			return fail("not a valid server address")
		case s.IP.Is4() != w.conf.VIP.Is4():
			return fail("the server and the virtual address must be of the same address family")
		case s.AgentAddress.IsUnspecified(), s.AgentAddress.IsMulticast(), s.AgentAddress.Is4In6():
			return fail("agent-address is not a valid host address")
		case s.IP == w.conf.VIP:
			return fail("the server has the virtual address itself")
		case source.has(s.IP):
			return fail("check-source already uses this address")
		case w.conf.Proto == protoSCTP && s.Port != 0 && s.Port != w.conf.VPort:
			return fail("SCTP servers must use the port of the service, because the SCTP checksum covers the ports: set port to 0 or %d", w.conf.VPort)
		case s.Port != 0 && last > 65535:
			return fail("the service's last port would map to port %d of the server, which exceeds 65535", last)
		}
	}
	return nil
}

// constants sets the constants of the program.
func (c *change) constants(b *balancer, to map[string]any) {
	conf, is := c.conf, c.tally.needs()
	if conf == nil {
		conf = b.conf
	}
	to["has_ranges"], to["has_choices"], to["renumbers"] = is.ranges, is.choices, conf.SrcIPRewrite.IPRange.IsValid()
	to["checks"] = conf.CheckSource.valid()
}

// carryOut makes the maps what a change asks for. The returned function undoes it; after an error, it is undone.
func (b *balancer) carryOut(next *change) (func() error, error) {
	back := &change{services: make(map[ServiceKey]*wanted, len(next.services)), tally: b.tally}
	if next.conf != nil {
		back.conf = b.conf
	}
	for key := range next.services {
		back.services[key] = b.wanted[key]
	}
	undo := func() error { return b.apply(back) }
	if err := b.apply(next); err != nil {
		return nil, errors.Join(err, undo())
	}
	return undo, nil
}
