// SPDX-License-Identifier: Apache-2.0

// No connection through a load balancer breaks unless its server is gone, and no reply comes from a wrong server, while servers
// come, drain, die and return, and while the daemon is restarted, killed and upgraded.

package e2e

import (
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// eachBalancer runs a test for each load balancer at hooks; in the long form one at a time, as files and ports are limited.
func eachBalancer(t *testing.T, kinds []string, test func(t *testing.T, b balancer, kind string)) {
	if !soak {
		t.Parallel()
	}
	for _, b := range []balancer{lbrp, lbdsr} {
		for _, kind := range kinds {
			t.Run(b.service+"/"+kind, func(t *testing.T) {
				if !soak {
					t.Parallel()
				}
				test(t, b, kind)
			})
		}
	}
}

func TestConnectionsOutliveChangesOfServers(t *testing.T) {
	connections := 300
	if soak {
		connections = 10_000
	}
	eachBalancer(t, types, func(t *testing.T, b balancer, kind string) {
		newFarm(t, newMachine(t), kind, farm{balancer: b, services: farmServices, protocols: farmProtocols, serve: serveProtocols}).live(connections)
	})
}

// live makes everything happen that may happen to servers and to the daemon.
func (f *farm) live(connections int) {
	c := f.openAll(connections)
	c.during("after they were opened", func() {})
	c.during("while a server is added", func() { f.add(3) })
	if n := c.fresh(); n[3] == 0 {
		f.t.Errorf("of 30 more connections, servers have %v", n)
	}
	c.during("while a server drains", func() { f.set(1, `{"admin-state":"DRAINING"}`) })
	if n := c.fresh(); n[1] != 0 {
		f.t.Errorf("a server that drains got some of %v", n)
	}
	c.during("while the daemon is killed", func() {
		f.Kill9()
		f.daemon = f.Start()
	})
	c.during("while the daemon is restarted", func() {
		f.Stop()
		f.daemon = f.Start()
	})
	c.during("while a server is enabled again", func() { f.set(1, `{"admin-state":"ENABLED"}`) })
	c.gone = 2
	c.during("while a server dies", func() {
		f.kill(2)
		c.closeGone()
		if f.service == "lbdsr" {
			f.is(2, "DOWN")
		} else {
			f.remove(2)
		}
	})
	if n := c.fresh(); n[2] != 0 {
		f.t.Errorf("a dead server got some of %v", n)
	}
	if f.service == "lbdsr" {
		c.during("while a dead server is removed", func() { f.remove(2) })
	}
	c.leave()
	c.during("while it returns", func() {
		f.start(2)
		f.add(2)
	})
	turns := f.protocols[0]
	f.protocols = []protocol{turns} // ROUND_ROBIN with lbrp
	if n := c.fresh(); f.service == "lbrp" && (n[1] != 10 || n[2] != 10 || n[3] != 10) || n[1]*n[2]*n[3] == 0 {
		f.t.Errorf("at the end, 30 connections are with servers %v", n)
	}
	f.Alive()
	f.t.Logf("%d connections were asked %d times; the slowest answer took %v", len(c.all), c.asked.Load(), time.Duration(c.slowest.Load()).Round(time.Millisecond))
}

func TestAnUpgradeBreaksNoConnection(t *testing.T) {
	eachBalancer(t, types, func(t *testing.T, b balancer, kind string) {
		upgrade(t, kind, farm{balancer: b, services: farmServices, protocols: farmProtocols, serve: serveProtocols}, 300)
	})
}

// upgrade replaces an older daemon by this one while a farm has connections.
func upgrade(t *testing.T, kind string, conf farm, connections int) {
	t.Helper()
	m := newMachine(t)
	m.bin = filepath.Join(baseline(t, "nat"), "polycubed")
	f := newFarm(t, m, kind, conf)
	c := f.openAll(connections)
	c.during("with the older daemon", func() { f.add(3) })
	c.fresh()
	c.during("while the daemon is upgraded", func() {
		f.Kill9()
		m.bin = ""
		f.daemon = f.Start()
	})
	c.during("while a server drains", func() { f.set(1, `{"admin-state":"DRAINING"}`) })
	if n := c.fresh(); n[1] != 0 || n[2]*n[3] == 0 {
		t.Errorf("after the upgrade, with a server that drains, 30 connections are with servers %v", n)
	}
	for _, word := range []string{"cleanup", "could not be restored", "[warning]", "[error]"} {
		if out := f.out.String(); strings.Contains(out, word) {
			t.Errorf("the daemon says %q:\n%s", word, tail(out, 20))
		}
	}
}

// crowd is all connections of a client.
type crowd struct {
	f   *farm
	all []*conversation
	// gone is the server whose connections may break; 0: none.
	gone    int
	asked   atomic.Int64
	slowest atomic.Int64 // of all answers, in ns
}

// crowdWorkers is how many connections are in use at a time.
const crowdWorkers = 8

// openAll opens the first connections, when the first one can be.
func (f *farm) openAll(n int) *crowd {
	f.t.Helper()
	c := &crowd{f: f}
	f.t.Cleanup(func() {
		for _, one := range c.all {
			_ = one.Close() // it may be broken
		}
	})
	f.is(1, "UP")
	f.is(2, "UP")
	f.reachable()
	c.more(n)
	return c
}

// fresh opens 30 more connections, and returns how many each server has. Those that are processes do not stay.
func (c *crowd) fresh() [4]int {
	c.f.t.Helper()
	before := len(c.all)
	n := c.more(30)
	if c.f.heavy {
		for _, one := range c.all[before:] {
			_ = one.Close() // it has answered
		}
		c.all = c.all[:before]
	}
	return n
}

// more opens more connections, some at a time, and returns how many each server has.
func (c *crowd) more(n int) (servers [4]int) {
	c.f.t.Helper()
	all := make([]*conversation, n)
	var working sync.WaitGroup
	for part := range crowdWorkers {
		working.Go(func() {
			for i := part; i < n; i += crowdWorkers {
				var err error
				if all[i], err = c.f.open(c.f.protocols[i%len(c.f.protocols)]); err != nil {
					c.f.t.Errorf("open connection %d (%s): %v", i, c.f.protocols[i%len(c.f.protocols)].name, err)
					return
				}
			}
		})
	}
	working.Wait()
	for _, one := range all {
		if one != nil {
			servers[one.server]++
			c.all = append(c.all, one)
		}
	}
	if c.f.t.Failed() {
		c.f.t.FailNow()
	}
	return servers
}

// open opens a connection, and asks for the number of its server.
func (f *farm) open(how protocol) (*conversation, error) {
	a, err := how.open(f, how.family)
	if err != nil {
		return nil, err
	}
	c := &conversation{asker: a, protocol: how}
	if err := c.say("hello"); err != nil {
		_ = a.Close()
		return nil, err
	}
	return c, nil
}

// crowdPace is the least time from one line of a connection to the next one.
const crowdPace = 50 * time.Millisecond

// during does something while all connections are in use, and then uses each at least once more. None breaks but those of a
// server that is gone.
func (c *crowd) during(when string, something func()) {
	c.f.t.Helper()
	var working sync.WaitGroup
	done := make(chan struct{})
	for part := range crowdWorkers {
		working.Go(func() {
			tick := time.NewTicker(crowdPace)
			defer tick.Stop()
			for last := false; !last; {
				select {
				case <-done:
					last = true
				case <-tick.C:
				}
				if !c.use(part, when) {
					return
				}
			}
		})
	}
	defer working.Wait()
	defer close(done)
	something()
}

// use uses a part of the connections once. It reports whether none broke.
func (c *crowd) use(part int, when string) bool {
	for i := part; i < len(c.all); i += crowdWorkers {
		one := c.all[i]
		if one.server == c.gone || one.broken {
			continue
		}
		begin := time.Now()
		if err := one.say(fmt.Sprintf("line %d of %d", c.asked.Add(1), i)); err != nil {
			one.broken = true
			c.f.t.Errorf("%s, connection %d (%s, %s) with server %d: %v", when, i, one.name, c.f.vips[one.family], one.server, err)
			return false
		}
		if took := int64(time.Since(begin)); took > c.slowest.Load() {
			c.slowest.Store(took) // nearly the slowest is as good
		}
	}
	return true
}

// closeGone closes the connections of the server that is gone, with a RST while they have their sessions: anything that one sent
// later, such as a delayed ACK, would open a session and take a turn, and one that was reset would leave its port to another.
func (c *crowd) closeGone() {
	for _, one := range c.all {
		if one.server != c.gone {
			continue
		}
		if l, ok := one.asker.(interface{ SetLinger(seconds int) error }); ok {
			_ = l.SetLinger(0) // it may be reset already
		}
		_ = one.Close() // the same
	}
}

// leave gives up the connections of the server that is gone.
func (c *crowd) leave() {
	for _, one := range c.all {
		one.broken = one.broken || one.server == c.gone
	}
	c.gone = 0
}
