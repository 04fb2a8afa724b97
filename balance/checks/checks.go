// SPDX-License-Identifier: Apache-2.0

package checks

// All checks of a cube: the namespace that they are made in, and changes of the status of servers.

import (
	"errors"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/polycube/polycube/balance"
	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/cube/table"
	"github.com/polycube/polycube/health"
	"github.com/polycube/polycube/probe"
)

// Options are the options of Checks.
type Options struct {
	// Send is called with each packet of a check, in an Ethernet frame without addresses, and the number of Wants. It is
	// called by another goroutine, one call at a time.
	Send func(number uint32, frame []byte)
	// Changed is called, in turn with the cube's other functions, after the status of servers has changed.
	Changed func()
}

// Checks are the health checks of a cube.
type Checks struct {
	env     cube.Env
	options Options
	targets table.Table[targetKey, uint32]
	healths table.Table[healthKey, healthEntry]

	// needed says that there are checks. Otherwise path and checker are nil, or will be with the next tick.
	needed  bool
	path    *probe.Path
	checker *health.Checker
	way     Way

	// all are the servers that are checked, of those of them whose checks run by the ID of the check, and due those whose
	// check is to be changed as soon as the program can send it.
	all map[Key]*Check
	of  map[string]*Check
	due map[Key]bool
	// kept is what an earlier daemon knew.
	kept map[healthKey]healthEntry

	mu      sync.Mutex // guards pending
	pending []string   // IDs of checks whose status has changed
	wake    chan struct{}
	ended   chan struct{}
}

// Key is a server of a service.
type Key struct {
	Service balance.ServiceID
	Server  balance.Key
}

// Way is what the packets of all checks have in common.
type Way struct {
	// MTU is the size of the largest packet that a check sends.
	MTU int
	// Sources are the addresses that checks may come from.
	Sources []netip.Addr
}

// New returns the checks of a cube, which has the maps of <pcn/balance_checks.h>. Close ends them.
func New(env cube.Env, o Options) *Checks {
	c := &Checks{
		env: env, options: o,
		targets: table.New[targetKey, uint32](env, "check_targets"), healths: table.New[healthKey, healthEntry](env, "healths"),
		all: map[Key]*Check{}, of: map[string]*Check{}, due: map[Key]bool{}, kept: map[healthKey]healthEntry{},
		wake: make(chan struct{}, 1), ended: make(chan struct{}),
	}
	go c.follow()
	return c
}

// follow calls Changed after the status of servers has changed.
func (c *Checks) follow() {
	for {
		select {
		case <-c.wake:
			_ = c.env.Do(c.options.Changed) // an error says that the cube is closed
		case <-c.ended:
			return
		}
	}
}

// Begin adopts what an earlier daemon knew.
func (c *Checks) Begin() error {
	var err error
	for k, e := range c.healths.All(&err) {
		c.kept[k] = e
	}
	if err == nil {
		_, err = table.Replace(c.targets, map[targetKey]uint32{}).Do()
	}
	return err
}

// Forget removes what an earlier daemon knew about servers that are not watched. Call it after all others are.
func (c *Checks) Forget() (err error) {
	for k := range c.kept {
		_, failed := c.healths.Delete(k)
		err = errors.Join(err, failed)
	}
	clear(c.kept)
	return err
}

// Open opens the namespace, or changes the way of checks.
func (c *Checks) Open(w Way) error {
	c.needed = true
	if c.path == nil {
		path, err := probe.Open(probe.Options{MTU: w.MTU, Send: c.options.Send})
		if err != nil {
			return err
		}
		checker, err := health.New(health.Options{Namespace: path.Namespace(), Changed: c.changed})
		if err != nil {
			return errors.Join(err, path.Close())
		}
		c.path, c.checker, c.way = path, checker, Way{MTU: w.MTU}
	}
	if err := c.path.SetMTU(w.MTU); err != nil {
		return err
	}
	had := c.way.MTU
	c.way.MTU = w.MTU
	if !slices.Equal(w.Sources, c.way.Sources) {
		if err := c.path.SetSources(w.Sources); err != nil {
			return err
		}
		c.way.Sources = slices.Clone(w.Sources)
	}
	if (had < probe.MinIPv6) != (w.MTU < probe.MinIPv6) { // at once: servers would be down for checks that cannot be made
		for _, is := range c.all {
			c.start(is)
		}
	}
	return nil
}

// End says that there are no checks any more. The namespace is closed with the next Tick, unless it is opened again.
func (c *Checks) End() { c.needed = false }

// Tick begins and changes the checks of servers as Watch has said.
func (c *Checks) Tick() error {
	if !c.needed && c.path != nil {
		return c.shut()
	}
	for k := range c.due {
		if is := c.all[k]; is != nil && c.path != nil {
			c.start(is)
		}
	}
	clear(c.due)
	return nil
}

// Close ends all checks.
func (c *Checks) Close() error {
	select {
	case <-c.ended:
	default:
		close(c.ended)
	}
	return c.shut()
}

// shut closes the namespace, if it is open.
func (c *Checks) shut() (err error) {
	if c.path != nil {
		err = errors.Join(c.checker.Close(), c.path.Close())
		c.path, c.checker = nil, nil
	}
	return err
}

// Answered gives the answer of a server, in an Ethernet frame, to its check.
func (c *Checks) Answered(p *cube.PacketIn) {
	if c.path != nil && len(p.Data) >= p.Length {
		c.path.Receive(p.Data)
	}
}

// changed is called by the checker.
func (c *Checks) changed(id string, _ health.State) {
	c.mu.Lock()
	c.pending = append(c.pending, id)
	c.mu.Unlock()
	select {
	case c.wake <- struct{}{}:
	default: // it is woken already
	}
}

// takePending returns the IDs of checks whose status has changed since the last time.
func (c *Checks) takePending() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	ids := c.pending
	c.pending = nil
	return ids
}

// Change is a server whose status has changed.
type Change struct {
	Key
	// Name is that of Wants, Status what it is now, and Error why.
	Name   string
	Status health.Status
	Error  string
}

// Changes takes over the status of servers that have changed since the last call.
func (c *Checks) Changes() (out []Change) {
	for _, id := range c.takePending() {
		is := c.of[id]
		if is == nil || c.checker == nil { // the checks have ended since
			continue
		}
		now, ok := c.checker.State(id)
		if !ok || now.Status == is.status {
			continue
		}
		is.status, is.since = now.Status, now.Since
		c.keep(is, now.Error)
		out = append(out, Change{Key: is.key, Name: is.wants.Name, Status: is.status, Error: now.Error})
	}
	return out
}

// Watch says what the check of a server of a service is to be; it takes effect with the next Tick. Before its first check, a
// server has the status that an earlier daemon knew; else that of the configuration; and one that is in use without checks
// is up.
func (c *Checks) Watch(k Key, wants Wants, inUse bool) *Check {
	is := c.all[k]
	if is == nil {
		is = c.first(k, wants.Config.InitialState, inUse)
		c.all[k] = is
	}
	if is.wants != wants {
		is.wants = wants
		c.due[k] = true
	}
	return is
}

// first is what is known of a server before its first check.
func (c *Checks) first(k Key, initial health.Status, inUse bool) *Check {
	is := &Check{key: k, id: idOf(k), status: initial, since: time.Now()}
	kept, ok := c.kept[healthKeyOf(k)]
	switch {
	case ok:
		delete(c.kept, healthKeyOf(k))
		kept.into(is)
	case inUse && initial == health.Unknown:
		is.status = health.Up
	}
	if !ok && is.status != health.Unknown {
		c.keep(is, "")
	}
	return is
}

// Of returns the check of a server of a service; nil if it has none.
func (c *Checks) Of(k Key) *Check { return c.all[k] }

// Unwatch ends the check of a server of a service, if it has one, and forgets what it has found.
func (c *Checks) Unwatch(k Key) {
	is := c.all[k]
	if is == nil {
		return
	}
	c.stop(is, "")
	delete(c.all, k)
	delete(c.due, k)
	if _, err := c.healths.Delete(healthKeyOf(k)); err != nil {
		c.env.Logger().Error("delete the stored health of a server", "error", err)
	}
}
