// SPDX-License-Identifier: Apache-2.0

package lbdsr

// Health checks, which the program sends to the server that they are for, and what follows from what they find.

import (
	"context"
	"encoding/json"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/polycube/polycube/balance"
	"github.com/polycube/polycube/balance/checks"
	"github.com/polycube/polycube/cube"
)

const (
	// reasonCheck is LBDSR_CHECK_ANSWER.
	reasonCheck = 32 + 2
	// outerLen is the longest outer header of a tunnel: IPv6 and UDP.
	outerLen = 40 + 8
	// healthsEach is how many services a server has, on average, when the map of their health is full.
	healthsEach = 4
)

// way is what packets of checks have in common: the addresses of the ports to servers, and their MTU.
func (c *Config) way(tunnels bool) checks.Way {
	w := checks.Way{MTU: 1<<16 - 1}
	for _, p := range c.toServers() {
		w.MTU = min(w.MTU, int(p.MTU))
		for _, six := range []bool{false, true} {
			if a, _ := p.address(six); a.IsValid() {
				w.Sources = append(w.Sources, a.Addr())
			}
		}
	}
	if tunnels {
		w.MTU -= outerLen
	}
	return w
}

// watcher are the health checks of a cube.
type watcher struct {
	*checks.Checks
	env  cube.Env
	ways *ways
	// port is where packets of checks enter the program: any port to servers.
	port atomic.Uint32
}

func newWatcher(env cube.Env, ways *ways, changed func()) *watcher {
	c := &watcher{env: env, ways: ways}
	c.Checks = checks.New(env, checks.Options{Send: c.send, Changed: changed})
	return c
}

// apply opens the way of checks, or says that there are none.
func (c *watcher) apply(now *desired) error {
	tunnels, _, needed := now.features()
	if !needed {
		c.End()
		return nil
	}
	if ports := now.conf.toServers(); len(ports) > 0 {
		index, _ := c.env.PortIndex(ports[0].Name)
		c.port.Store(uint32(index))
	}
	return c.Open(now.conf.way(tunnels))
}

// send gives a packet of a check to the program.
func (c *watcher) send(server uint32, frame []byte) {
	out := cube.PacketOut{Port: uint16(c.port.Load()), Direction: cube.Ingress, Metadata: [4]uint32{server}, Data: frame}
	if err := c.env.Send(&out); err != nil {
		c.env.Logger().Debug("send a health check", "error", err)
	}
}

// watch says what the check of a server of a service is to be. It begins with the next tick, when the program can send it.
func (c *watcher) watch(k memberKey, w *wanted, conf *Server, s *server, m *member) {
	if !w.conf.HealthCheck.Enabled() || conf.AdminState == balance.Disabled {
		c.Unwatch(k)
		m.check = nil
		return
	}
	target := w.conf.target()
	at := w.conf.HealthCheck.Check(target).Target.Addr()
	wants := checks.Wants{
		Name: s.conf.Address.String(), Config: w.conf.HealthCheck, Target: target, Number: s.number, Source: c.ways.sourceOf(s, at),
	}
	switch {
	case s.mac == 0 || s.failed || s.hop.Port == noPort:
		wants.Obstacle = "the MAC address of the server, or of the router to it, is unknown"
	case !wants.Source.IsValid():
		wants.Obstacle = fmt.Sprintf("the port towards the server has no address of the same family as %v: set ip or ip6", at)
	}
	m.check = c.Watch(k, wants, m.state == balance.Up)
}

// target is what checks of the servers of a service are sent to.
func (s *Service) target() netip.AddrPort { return netip.AddrPortFrom(s.VIP, s.Port) }

// sourceOf returns the address that checks of a server come from; none if the port to it has no address of the family.
func (w *ways) sourceOf(s *server, target netip.Addr) netip.Addr {
	if s.hop.Port == noPort {
		return netip.Addr{}
	}
	if p := w.portAt(s.hop.Port); p != nil {
		on, _ := p.address(target.Is6())
		return on.Addr()
	}
	return netip.Addr{}
}

// healthChanged gives services other servers, after the status of some has changed.
func (b *balancer) healthChanged() {
	changes := b.checks.Changes()
	if len(changes) == 0 {
		return
	}
	for _, c := range changes {
		if done, err := b.turn(c.Key); !done || err != nil {
			b.changed[c.Service] = true // with an error, it is tried again
		}
	}
	if err := b.choose(); err != nil {
		b.env.Logger().Error("update the servers of services", "error", err)
	}
	b.announcer.update(b.now.conf, b.now.services, b.live)
	b.checks.Tell(changes)
}

// report is the input of the action `report-health`.
type report struct {
	checks.Report
	Server Address `json:"server"`
}

// action runs the actions of the model.
func (b *balancer) action(_ context.Context, path []string, input json.RawMessage) (cube.ActionResult, error) {
	if !slices.Equal(path, []string{"report-health"}) {
		return cube.ActionResult{}, fmt.Errorf("action %s: %w", strings.Join(path, " "), cube.ErrNotFound)
	}
	var r report
	if err := json.Unmarshal(input, &r); err != nil {
		return cube.ActionResult{}, fmt.Errorf("decode the health report: %w", err)
	}
	var keys []memberKey
	for _, s := range b.servers {
		if s.conf.Address != r.Server {
			continue
		}
		for id := range s.users {
			keys = append(keys, memberKey{Service: id, Server: s.key})
		}
	}
	count, err := b.checks.Report(&r.Report, r.Server.String(), keys)
	if err != nil {
		return cube.ActionResult{}, err
	}
	b.healthChanged()
	return cube.ActionResult{Output: map[string]int{"services": count}}, nil
}
