// SPDX-License-Identifier: Apache-2.0

package stp

// A bridge of another implementation, for networks in virtual time: the Spanning Tree Protocol of IEEE 802.1D-1998,
// clause 8.6, as in the Linux bridge. It ignores RST BPDUs. Unlike an instance with ForceVersion STP, it keeps a
// bridge's information until that expires, even if the same bridge sends inferior information by then (8.6.2).

import (
	"cmp"
	"encoding/binary"
	"slices"
	"time"
)

// alarm is a timer.
type alarm struct {
	on    bool
	round int
	at    time.Duration
}

type classicPort struct {
	id    PortID
	cost  uint32
	state State
	// says is the information of the designated bridge of the link.
	says                 vector
	tcAck, configPending bool
	age, forward, hold   alarm
}

// classic is one bridge. Ports are by their keys.
type classic struct {
	d     *node
	cfg   Parameters
	ports []*classicPort

	root     vector // Root and Cost
	rootPort *classicPort
	times    times // in force

	detected, change       bool
	hello, tcn, changeTime alarm
}

func newClassic(d *node, cfg Parameters) *classic {
	c := &classic{d: d, cfg: cfg, root: vector{Root: cfg.ID}}
	c.ownTimes()
	c.start(&c.hello, 0, c.helloExpired)
	return c
}

func (c *classic) ownTimes() { c.times = times{0, c.cfg.MaxAge, c.cfg.HelloTime, c.cfg.ForwardDelay} }

func (c *classic) start(a *alarm, after time.Duration, run func()) {
	a.on, a.at = true, c.d.n.now+after
	a.round++
	round := a.round
	c.d.n.after(after, func() {
		if a.on && a.round == round && c.d.alive {
			a.on = false
			run()
		}
	})
}

func inSeconds(s uint16) time.Duration { return time.Duration(s) * time.Second }

func (c *classic) addPort(id PortID, cost uint32) {
	p := &classicPort{id: id, cost: cost, state: Disabled}
	c.ports = append(c.ports, p)
	c.becomeDesignated(p)
}

func (c *classic) isRoot() bool { return c.rootPort == nil }

func (c *classic) designated(p *classicPort) bool {
	return p.says.Bridge == c.cfg.ID && p.says.Port == p.id
}

func (c *classic) becomeDesignated(p *classicPort) {
	p.says = vector{c.root.Root, c.root.Cost, c.cfg.ID, p.id}
}

func (c *classic) set(p *classicPort, s State) {
	if p.state == s {
		return
	}
	p.state = s
	c.d.SetState(slices.Index(c.ports, p), s)
}

// setUp is 8.8.1 and 8.8.2.
func (c *classic) setUp(port int, up bool) {
	p, was := c.ports[port], c.isRoot()
	if up == (p.state != Disabled) {
		return
	}
	c.becomeDesignated(p)
	p.tcAck, p.configPending, p.age.on, p.forward.on, p.hold.on = false, false, false, false, false
	if up {
		c.set(p, Blocking)
		c.selectStates()
		return
	}
	c.set(p, Disabled)
	c.update()
	c.selectStates()
	c.becameRoot(was)
}

// receive is 8.7.1 and 8.7.2.
func (c *classic) receive(port int, bpdu []byte) error {
	p := c.ports[port]
	if p.state == Disabled || bpdu[2] != byte(STP) {
		return nil
	}
	m, err := parse(bpdu)
	if err != nil {
		return err
	}
	if m.Type == typeTCN {
		if c.designated(p) {
			c.detect()
			p.tcAck = true
			c.transmit(p)
		}
		return nil
	}
	if !c.supersedes(p, m.Vector) {
		if c.designated(p) {
			c.transmit(p)
		}
		return nil
	}
	was := c.isRoot()
	p.says = m.Vector
	age := time.Duration(binary.BigEndian.Uint16(bpdu[27:])) * time.Second / 256
	c.start(&p.age, inSeconds(m.Times.MaxAge)-age, func() { c.ageExpired(p) })
	c.update()
	c.selectStates()
	if was && !c.isRoot() {
		c.hello.on = false
		if c.detected {
			c.changeTime.on = false
			c.sendTCN()
		}
	}
	if p == c.rootPort {
		c.times, c.change = m.Times, m.has(flagTC)
		c.generate()
		if m.has(flagTCAck) {
			c.detected, c.tcn.on = false, false
		}
	}
	return nil
}

// supersedes is 8.6.2.2.
func (c *classic) supersedes(p *classicPort, v vector) bool {
	order := cmp.Or(cmp.Compare(v.Root, p.says.Root), cmp.Compare(v.Cost, p.says.Cost), cmp.Compare(v.Bridge, p.says.Bridge))
	return order < 0 || order == 0 && (v.Bridge != c.cfg.ID || v.Port <= p.says.Port)
}

// update is 8.6.7: root selection and designated port selection.
func (c *classic) update() {
	c.root, c.rootPort = vector{Root: c.cfg.ID}, nil
	var best vector
	for _, p := range c.ports {
		if c.designated(p) || p.state == Disabled || p.says.Root >= c.cfg.ID {
			continue
		}
		v := p.says.through(p.cost)
		if c.rootPort == nil || cmp.Or(v.compare(best), cmp.Compare(p.id, c.rootPort.id)) < 0 {
			best, c.rootPort, c.root = v, p, vector{Root: v.Root, Cost: v.Cost}
		}
	}
	for _, p := range c.ports {
		if c.designated(p) || p.says.Root != c.root.Root || cmp.Or(cmp.Compare(c.root.Cost, p.says.Cost),
			cmp.Compare(c.cfg.ID, p.says.Bridge), cmp.Compare(p.id, p.says.Port)) <= 0 {
			c.becomeDesignated(p)
		}
	}
}

// selectStates is 8.6.11.
func (c *classic) selectStates() {
	for _, p := range c.ports {
		switch {
		case p.state == Disabled:
		case p == c.rootPort:
			p.configPending, p.tcAck = false, false
			c.forward(p)
		case c.designated(p):
			p.age.on = false
			c.forward(p)
		default:
			p.configPending, p.tcAck, p.forward.on = false, false, false
			if p.state == Learning || p.state == Forwarding {
				c.detect()
			}
			c.set(p, Blocking)
		}
	}
}

func (c *classic) forward(p *classicPort) {
	if p.state == Blocking {
		c.set(p, Listening)
		c.start(&p.forward, inSeconds(c.times.ForwardDelay), func() { c.forwardExpired(p) })
	}
}

func (c *classic) forwardExpired(p *classicPort) {
	if p.state == Listening {
		c.set(p, Learning)
		c.start(&p.forward, inSeconds(c.times.ForwardDelay), func() { c.forwardExpired(p) })
		return
	}
	c.set(p, Forwarding)
	if slices.ContainsFunc(c.ports, c.designated) {
		c.detect()
	}
}

func (c *classic) ageExpired(p *classicPort) {
	was := c.isRoot()
	c.becomeDesignated(p)
	c.update()
	c.selectStates()
	c.becameRoot(was)
}

// becameRoot is called when the bridge becomes the root.
func (c *classic) becameRoot(was bool) {
	if was || !c.isRoot() {
		return
	}
	c.ownTimes()
	c.detect()
	c.tcn.on = false
	c.start(&c.hello, 0, c.helloExpired)
}

func (c *classic) helloExpired() {
	c.generate()
	c.start(&c.hello, inSeconds(c.cfg.HelloTime), c.helloExpired)
}

// generate is 8.6.4.
func (c *classic) generate() {
	for _, p := range c.ports {
		if c.designated(p) && p.state != Disabled {
			c.transmit(p)
		}
	}
}

// transmit is 8.6.1.
func (c *classic) transmit(p *classicPort) {
	if p.hold.on {
		p.configPending = true
		return
	}
	var age time.Duration
	if c.rootPort != nil {
		age = inSeconds(c.times.MaxAge) - (c.rootPort.age.at - c.d.n.now) + time.Second/256
		if age >= inSeconds(c.times.MaxAge) {
			return
		}
	}
	var flags uint8
	if p.tcAck {
		flags |= flagTCAck
	}
	if c.change {
		flags |= flagTC
	}
	p.tcAck, p.configPending = false, false
	b := message{typeConfig, flags, vector{c.root.Root, c.root.Cost, c.cfg.ID, p.id}, c.times}.bytes()
	binary.BigEndian.PutUint16(b[27:], uint16(age*256/time.Second))
	c.d.Send(slices.Index(c.ports, p), b)
	c.start(&p.hold, time.Second, func() {
		if p.configPending {
			c.transmit(p)
		}
	})
}

// detect is 8.6.14.
func (c *classic) detect() {
	switch {
	case c.isRoot():
		c.change = true
		c.start(&c.changeTime, inSeconds(c.cfg.MaxAge+c.cfg.ForwardDelay), func() { c.detected, c.change = false, false })
	case !c.detected:
		c.sendTCN()
	}
	c.detected = true
}

func (c *classic) sendTCN() {
	if c.rootPort == nil {
		return
	}
	c.d.Send(slices.Index(c.ports, c.rootPort), message{Type: typeTCN}.bytes())
	c.start(&c.tcn, inSeconds(c.cfg.HelloTime), c.sendTCN)
}

// role returns the role of the port in terms of 802.1D-2004.
func (c *classic) role(port int) Role {
	switch p := c.ports[port]; {
	case p.state == Disabled:
		return DisabledPort
	case p == c.rootPort:
		return RootPort
	case c.designated(p):
		return DesignatedPort
	case p.says.Bridge == c.cfg.ID:
		return BackupPort
	}
	return AlternatePort
}
