// SPDX-License-Identifier: Apache-2.0

package elb

// Health checks, sent by the host from its own addresses, as HAProxy does.

import (
	"fmt"
	"os"

	"github.com/polycube/polycube/health"
)

// checks are the health checks of a cube.
type checks struct {
	balancer *balancer
	checker  *health.Checker // nil: no server has had a check yet
}

// checkID names a server for the checker.
func (m *member) checkID() string {
	return fmt.Sprintf("%s %d %s", m.memberKey.id.VIP, m.memberKey.id.Port, m.at())
}

// set starts, changes or ends the check of a server as wanted.
func (c *checks) set(m *member, check health.Check) error {
	if check.Kind == health.None || m.disabled {
		c.remove(m)
		return nil
	}
	if err := c.start(); err != nil {
		return err
	}
	if c.balancer.restoring && m.state != "" { // the earlier daemon's result
		check.Known, check.Initial = true, health.Down
		if m.state == up {
			check.Initial = health.Up
		}
	}
	return c.checker.Set(m.checkID(), check)
}

// start starts the checker in the host's namespace unless it is running.
func (c *checks) start() error {
	if c.checker != nil {
		return nil
	}
	return c.balancer.visit(func() error {
		ns, err := os.Open("/proc/thread-self/ns/net")
		if err != nil {
			return fmt.Errorf("health checks: %w", err)
		}
		defer ns.Close()
		c.checker, err = health.New(health.Options{
			Namespace: fmt.Sprintf("/proc/self/fd/%d", ns.Fd()),
			Changed:   func(string, health.State) { _ = c.balancer.env.Do(c.changed) }, // fails if the cube is closed
		})
		return err
	})
}

// changed updates services to the health of their servers.
func (c *checks) changed() {
	if err := c.balancer.refresh(); err != nil {
		c.balancer.env.Logger().Error("update the servers of services", "error", err)
	}
}

// remove ends the check of a server.
func (c *checks) remove(m *member) {
	if c.checker != nil {
		c.checker.Remove(m.checkID())
	}
}

// state returns the health of a server; false if it has no check.
func (c *checks) state(m *member) (health.State, bool) {
	if c.checker == nil {
		return health.State{}, false
	}
	return c.checker.State(m.checkID())
}

// close ends all checks. It does not wait for callbacks, which may be waiting for the cube's turn.
func (c *checks) close() {
	if c.checker != nil {
		checker := c.checker
		c.checker = nil
		go func() { _ = checker.Close() }()
	}
}
