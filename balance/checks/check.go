// SPDX-License-Identifier: Apache-2.0

package checks

// The check of one server of a service.

import (
	"fmt"
	"net/netip"
	"time"

	"github.com/polycube/polycube/balance"
	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/health"
	"github.com/polycube/polycube/inet"
	"github.com/polycube/polycube/probe"
)

// Wants is what the check of a server is made of.
type Wants struct {
	// Name is the server's in events.
	Name   string
	Config *health.Config
	// Target is what is checked, as far as Config does not say otherwise, from Source, which is one of the sources of Way.
	Target netip.AddrPort
	Source netip.Addr
	// Number is what Options.Send gets with the packets of the check.
	Number uint32
	// Obstacle says why the server cannot be checked at the moment; empty if it can. It does not apply to type API.
	Obstacle string
}

// Check is the health check of a server of a service.
type Check struct {
	key   Key
	id    string
	wants Wants
	runs  bool    // the checker has it
	has   portsOf // none for type API

	status health.Status
	known  bool // status is what the last daemon found, and no check of this one has ended to run
	since  time.Time
	// last is what was known when it ended to run, with the reason why it does not as its error.
	last health.State
}

// portsOf are the ports that a check has; none: it has no target.
type portsOf struct {
	target probe.Target
	number uint32
	ports  inet.Ports
}

// Status returns what is known of the server.
func (is *Check) Status() health.Status { return is.status }

// start makes the check of a server what it is to be.
func (c *Checks) start(is *Check) {
	if c.path == nil {
		return
	}
	check := is.wants.Config.Check(is.wants.Target)
	api := check.Kind == health.API
	target := probe.Target{Addr: check.Target.Addr(), Port: check.Target.Port()}
	if check.Kind == health.ICMP {
		target.Port = 0
	}
	switch {
	case api:
	case is.wants.Obstacle != "":
		c.stop(is, is.wants.Obstacle)
		return
	case target.Addr.Is6() && c.way.MTU < probe.MinIPv6:
		c.stop(is, fmt.Sprintf("IPv6 needs 1280 bytes, and the mtu of ports leaves %d with the headers of tunnels", c.way.MTU))
		return
	}
	if is.has.ports.Last != 0 && (api || is.has.target != target || is.has.number != is.wants.Number) {
		c.release(is)
	}
	if !api && is.has.ports.Last == 0 {
		if err := c.take(is, target); err != nil {
			c.stop(is, err.Error())
			return
		}
	}
	check.Source, check.SourcePorts, check.Initial, check.Known = is.wants.Source, is.has.ports, is.status, is.known
	if api {
		check.Source = netip.Addr{}
	}
	if err := c.checker.Set(is.id, check); err != nil { // a file with certificates, for example
		c.stop(is, err.Error())
		return
	}
	is.runs = true
	c.of[is.id] = is
}

// take gives the check of a server its ports.
func (c *Checks) take(is *Check, target probe.Target) (err error) {
	has := portsOf{target: target, number: is.wants.Number}
	if has.ports, err = c.path.Take(target, is.wants.Number); err != nil {
		return err
	}
	is.has = has
	if err := c.writeTarget(target); err != nil {
		c.release(is)
		return err
	}
	return nil
}

// release takes them back.
func (c *Checks) release(is *Check) {
	if is.has.ports.Last == 0 {
		return
	}
	c.path.Release(is.has.target, is.has.ports)
	is.has.ports = inet.Ports{}
	if err := c.writeTarget(is.has.target); err != nil {
		c.env.Logger().Error("stop a health check", "error", err)
	}
}

// stop ends the check of a server. Its status stays.
func (c *Checks) stop(is *Check, why string) {
	if is.runs {
		is.last, _ = c.checker.State(is.id)
		is.known = false
		c.checker.Remove(is.id)
		is.runs = false
		delete(c.of, is.id)
	}
	is.last.Error = "cannot check: " + why
	c.release(is)
}

// Validate refuses checks of a service that cannot be made. target is that of one of its servers. A restored cube is not lost
// because a file with certificates is: then the state of the servers says so.
func Validate(id balance.ServiceID, conf *health.Config, target netip.AddrPort, restored bool) error {
	if !conf.Enabled() {
		return nil
	}
	c := conf.Check(target)
	if restored {
		c.CAFile = ""
	}
	if err := c.Validate(); err != nil {
		return fmt.Errorf("service %s: %w", id, err)
	}
	return nil
}

// Report is the grouping `health-report`: what is known of a server, in the services that are selected.
type Report struct {
	Status string     `json:"status"`
	Error  string     `json:"error"`
	VIP    netip.Addr `json:"vip,omitzero"`
	VPort  *uint16    `json:"vport"`
}

// Selects reports whether a report is about a service.
func (r *Report) Selects(id balance.ServiceID) bool {
	return (!r.VIP.IsValid() || id.VIP == r.VIP) && (r.VPort == nil || id.Port == *r.VPort)
}

// Report takes over what is reported of servers, as far as their checks are of type API, and returns in how many services. server
// is how the report names the server. Changes has the result.
func (c *Checks) Report(r *Report, server string, keys []Key) (services int, err error) {
	if err := c.Tick(); err != nil {
		return 0, err
	}
	told := map[balance.ServiceID]bool{}
	for _, k := range keys {
		is := c.all[k]
		if is == nil || !is.runs || is.wants.Config.Type != health.API || !r.Selects(k.Service) {
			continue
		}
		if err := c.checker.Report(is.id, r.Status == health.Up.String(), r.Error); err != nil {
			return 0, err
		}
		c.changed(is.id, health.State{}) // the checker says so later
		told[k.Service] = true
	}
	if len(told) == 0 {
		return 0, fmt.Errorf("no service with a health-check of type API has the server %s: %w", server, cube.ErrNotFound)
	}
	return len(told), nil
}
