// SPDX-License-Identifier: Apache-2.0

package elb

// Health checks. The host makes them itself, from its own addresses, as HAProxy does.

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

// set makes the check of a server what is wanted.
func (c *checks) set(m *member, check health.Check) error {
	if check.Kind == health.None || m.disabled {
		c.remove(m)
		return nil
	}
	if err := c.start(); err != nil {
		return err
	}
	if c.balancer.restoring && m.state != "" { // what the earlier daemon found
		check.Known, check.Initial = true, health.Down
		if m.state == up {
			check.Initial = health.Up
		}
	}
	return c.checker.Set(m.checkID(), check)
}

// start starts the checker in the namespace of the host, if it does not run.
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

// changed has services follow the health of servers.
func (c *checks) changed() {
	if err := c.balancer.refresh(); err != nil {
		c.balancer.env.Logger().Error("change the servers of services", "error", err)
	}
}

// remove ends the check of a server.
func (c *checks) remove(m *member) {
	if c.checker != nil {
		c.checker.Remove(m.checkID())
	}
}

// state returns what is known of a server; false if it has no check.
func (c *checks) state(m *member) (health.State, bool) {
	if c.checker == nil {
		return health.State{}, false
	}
	return c.checker.State(m.checkID())
}

// close ends all checks. A callback may wait for the turn of the cube, so it is not waited for.
func (c *checks) close() {
	if c.checker != nil {
		checker := c.checker
		c.checker = nil
		go func() { _ = checker.Close() }()
	}
}
