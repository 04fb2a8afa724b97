// SPDX-License-Identifier: Apache-2.0

package stp

// An instance as seen by its caller.

import (
	"cmp"
	"fmt"
	"slices"
)

// Bridge is one instance.
type Bridge struct {
	cfg  Parameters
	sink Sink

	ports []*port // by key
	by    map[int]*port

	root      vector
	rootPort  *port
	rootTimes times

	listen      uint16 // seconds until a resumed instance participates
	changes     uint64
	sinceChange uint64
	stalled     uint64
}

// New creates an instance without ports.
func New(cfg Parameters, sink Sink) *Bridge {
	b := &Bridge{cfg: cfg, sink: sink, by: map[int]*port{}}
	b.updateRoles()
	return b
}

// Resume makes the instance listen before it selects roles and sends: resumed states stay until it knows its
// neighbours' information. Call it before ports come up.
func (b *Bridge) Resume() { b.listen = b.cfg.HelloTime + 1 }

// SetParameters changes the instance's parameters.
func (b *Bridge) SetParameters(cfg Parameters) {
	if cfg == b.cfg {
		return
	}
	version := cfg.Version != b.cfg.Version
	b.cfg = cfg
	for _, p := range b.ports {
		if version {
			p.checkRSTP()
		}
		p.reselect, p.selected = true, false
	}
	if len(b.ports) == 0 {
		b.updateRoles()
	}
	b.run()
}

// AddPort adds a port, which is down. had is its state in the fast path: a resumed instance keeps Learning and
// Forwarding until it has more information; any other state becomes Disabled.
func (b *Bridge) AddPort(key int, cfg PortParameters, had State) {
	b.RemovePort(key)
	p := &port{b: b, key: key, cfg: cfg, shown: had, selected: true}
	if b.listen > 0 {
		p.resume = had
	}
	p.designatedTimes = b.rootTimes
	p.checkRSTP()
	p.operEdge, p.edgeDelayWhile = cfg.AdminEdge, migrateTime
	p.rest(p.maxAge())
	p.prt = disabledPort
	b.by[key] = p
	i, _ := slices.BinarySearchFunc(b.ports, key, func(p *port, k int) int { return cmp.Compare(p.key, k) })
	b.ports = slices.Insert(b.ports, i, p)
	p.reselect, p.selected = true, false
	b.run()
}

// RemovePort removes a port. The Sink is not notified of its state any more.
func (b *Bridge) RemovePort(key int) {
	if b.by[key] == nil {
		return
	}
	delete(b.by, key)
	b.ports = slices.DeleteFunc(b.ports, func(p *port) bool { return p.key == key })
	for _, p := range b.ports {
		p.reselect, p.selected = true, false
	}
	if len(b.ports) == 0 {
		b.updateRoles()
	}
	b.run()
}

// SetPort changes a port's parameters.
func (b *Bridge) SetPort(key int, cfg PortParameters) {
	p := b.by[key]
	if p == nil || p.cfg == cfg {
		return
	}
	if cfg.AdminEdge != p.cfg.AdminEdge {
		p.operEdge = cfg.AdminEdge
	}
	p.cfg = cfg
	p.reselect, p.selected = true, false
	b.run()
}

// SetPortUp sets whether the port can send and receive.
func (b *Bridge) SetPortUp(key int, up bool) {
	p := b.by[key]
	if p == nil || p.portEnabled == up {
		return
	}
	p.portEnabled = up
	if up {
		p.txCount, p.helloWhen, p.newInfo, p.disputed = 0, 0, true, false
		if b.listen > 0 {
			p.resumeState()
		}
	}
	b.run()
}

// resumeState assumes that the port is a designated one in its previous state. Its neighbours send their information
// within a hello time; until then the port only knows this bridge's own.
func (p *port) resumeState() {
	p.pim, p.info = pimCurrent, infoMine
	p.portPriority, p.portTimes = p.designatedPriority, p.designatedTimes
	p.portPriority = vector{p.b.cfg.ID, 0, p.b.cfg.ID, p.cfg.ID}
	p.reselect, p.selected = true, false
	if p.resume >= Learning {
		p.role, p.selectedRole, p.prt, p.tcm = DesignatedPort, DesignatedPort, designatedPort, tcActive
		p.learn, p.learning = true, true
		p.forward, p.forwarding = p.resume == Forwarding, p.resume == Forwarding
		p.fdWhile, p.rrWhile, p.synced = 0, p.fwdDelay(), false
		if !p.forward {
			p.fdWhile = p.fwdDelay()
		}
	}
}

// Migrate makes a port try RSTP again (mcheck of 17.19.13).
func (b *Bridge) Migrate(key int) {
	if p := b.by[key]; p != nil {
		p.mcheck = b.cfg.Version == RSTP
		b.run()
	}
}

// Receive processes a BPDU, starting with its protocol identifier. The error says why it was discarded.
func (b *Bridge) Receive(key int, bpdu []byte) error {
	p := b.by[key]
	if p == nil || !p.portEnabled {
		return ErrNoPort
	}
	m, err := parse(bpdu)
	if err == nil && m.Type != typeTCN && m.Vector.Bridge == b.cfg.ID && m.Vector.Port == p.cfg.ID {
		err = ErrOwn
	}
	if err != nil {
		p.count.Discarded++
		return fmt.Errorf("BPDU of %d bytes: %w", len(bpdu), err)
	}
	switch m.Type {
	case typeRST:
		p.count.RxRST++
		p.rcvdRSTP = true
	case typeTCN:
		p.count.RxTCN++
		p.rcvdSTP = true
	default:
		p.count.RxConfig++
		p.rcvdSTP = true
	}
	p.operEdge, p.edgeDelayWhile = false, migrateTime
	p.msg, p.rcvdMsg = m, true
	b.run()
	return nil
}

// Tick must be called once per second.
func (b *Bridge) Tick() {
	b.sinceChange++
	if b.listen > 0 {
		b.listen--
	}
	for _, p := range b.ports {
		p.tick()
	}
	b.run()
}

// rounds limits the work of an event: each machine changes state a few times, and a port notifies all others at most.
const rounds = 100

// run executes the machines until none has anything to do, and then transmits changes: temporary states are never sent.
func (b *Bridge) run() {
	for i := 0; b.step(); i++ {
		if i == rounds {
			b.stalled++
			break
		}
	}
	for _, forwards := range [...]bool{false, true} { // ports are blocked before others are opened
		for _, p := range b.ports {
			if p.forwarding == forwards {
				b.show(p)
			}
		}
	}
	for _, p := range b.ports {
		p.transmit()
	}
}

func (b *Bridge) step() bool {
	changed := false
	for _, p := range b.ports {
		changed = p.migrate() || changed
		changed = p.detectEdge() || changed
		changed = p.inform() || changed
	}
	changed = b.selectRoles() || changed
	for _, p := range b.ports {
		changed = p.transit() || changed
		changed = p.changeState() || changed
		changed = p.changeTopology() || changed
	}
	return changed
}

// show updates the fast path. A resumed port that is not up yet keeps its state.
func (b *Bridge) show(p *port) {
	s := p.state()
	if b.listen > 0 && p.resume >= Learning && !p.portEnabled {
		return
	}
	if s != p.shown {
		p.shown = s
		b.sink.SetState(p.key, s)
	}
}
