// SPDX-License-Identifier: Apache-2.0

package bridge

// Which VLANs each port carries, and in which of them it forwards. The fast path looks this up by port; the sets of
// ports for floods contain the same information by VLAN.

import (
	"fmt"
	"maps"
	"net"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/cube/origins"
	"github.com/polycube/polycube/cube/table"
	"github.com/polycube/polycube/inet"
)

// portEntry is struct bridge_port of the program; a test compares the two.
type portEntry struct {
	MAC    inet.MAC
	PVID   uint16
	Trunk  uint8
	Random uint8
	_      [4]uint8
	// Member contains the VLANs of the port, Learn those in which it learns, and Forward those in which it
	// forwards.
	Member, Learn, Forward vlanSet
}

// portState is the state of a port in the spanning tree of a VLAN.
type portState uint8

// The states, in the model's order.
const (
	stateDisabled portState = iota
	stateBlocking
	stateListening
	stateLearning
	stateForwarding
)

// portVLAN is a port in a VLAN.
type portVLAN struct{ port, vlan uint16 }

// self is the index of the bridge's own address in the map `ports`.
const self = 512

// ports is the map `ports` with the data that it is derived from.
type ports struct {
	table table.Table[uint32, portEntry]
	// sets are the sets of ports for floods.
	sets cube.Floods
	// now is the content of the map, by index.
	now map[uint16]portEntry
	// mac is the bridge's own address.
	mac portEntry
	// guarded says that a port is blocked in a VLAN until its spanning tree opens it.
	guarded bool
	// states are the states set by spanning trees, where guarded.
	states map[portVLAN]portState
}

func newPorts(env cube.Env) *ports {
	return &ports{table: table.New[uint32, portEntry](env, "ports"), sets: env.Floods(), now: map[uint16]portEntry{}, states: map[portVLAN]portState{}}
}

// adopt reads what a previous run left in the map.
func (p *ports) adopt() error {
	origin, err := p.table.Origin()
	if err != nil || origin == origins.Created {
		return err
	}
	for index, e := range p.table.All(&err) {
		switch {
		case e == portEntry{}:
		case index == self:
			p.mac = e
		default:
			p.now[uint16(index)] = e
		}
	}
	if p.guarded {
		p.states = p.found()
	}
	return err
}

// found are the states of the ports in the map.
func (p *ports) found() map[portVLAN]portState {
	states := map[portVLAN]portState{}
	for index, e := range p.now {
		for _, vlan := range e.Member.list() {
			state := stateBlocking
			switch {
			case e.Forward.has(vlan):
				state = stateForwarding
			case e.Learn.has(vlan):
				state = stateLearning
			}
			states[portVLAN{index, vlan}] = state
		}
	}
	return states
}

// portsAre returns the entries of all ports of a configuration, by index.
func (p *ports) portsAre(env cube.Env, c *Config) (map[uint16]portEntry, error) {
	out := make(map[uint16]portEntry, len(c.Ports))
	for i := range c.Ports {
		port := &c.Ports[i]
		index, ok := env.PortIndex(port.Name)
		if !ok {
			return nil, fmt.Errorf("port %s: %w", port.Name, cube.ErrNotFound)
		}
		e := portEntry{Member: port.members()}
		e.PVID, _ = port.untaggedVLAN()
		if port.Mode == ModeTrunk {
			e.Trunk = 1
		}
		p.open(index, &e)
		e.MAC, e.Random = address(port.MAC, p.now[index])
		out[index] = e
	}
	return out, nil
}

// address returns the configured address, or the previous random one, or a new one.
func address(configured inet.MAC, before portEntry) (a inet.MAC, random uint8) {
	switch {
	case configured != 0:
		return configured, 0
	case before.Random != 0:
		return before.MAC, 1
	}
	return randomAddress(), 1
}

// open sets the VLANs in which a port learns and forwards.
func (p *ports) open(index uint16, e *portEntry) {
	if !p.guarded {
		e.Learn, e.Forward = e.Member, e.Member
		return
	}
	e.Learn, e.Forward = vlanSet{}, vlanSet{}
	for _, vlan := range e.Member.list() {
		state := p.states[portVLAN{index, vlan}]
		if state >= stateLearning {
			e.Learn.add(vlan)
		}
		if state == stateForwarding {
			e.Forward.add(vlan)
		}
	}
}

// members returns the ports that are members of a VLAN and forward in it.
func (p *ports) members(vlan uint16) []cube.FloodMember {
	var out []cube.FloodMember
	for index := range uint16(self) {
		if e, ok := p.now[index]; ok && e.Forward.has(vlan) {
			out = append(out, cube.FloodMember{Port: index, Tagged: e.PVID != vlan})
		}
	}
	return out
}

// become writes a configuration to the map, and the sets where they differ; with all, the content of the sets is
// unknown and all are written.
func (p *ports) become(e *cube.Undo, want map[uint16]portEntry, mac portEntry, all bool) error {
	before, macBefore := maps.Clone(p.now), p.mac
	touched := vlanSet{}
	write := func(index uint32, to portEntry) error { return p.table.Set(index, to) }
	for index := range before {
		if _, stays := want[index]; !stays {
			want[index] = portEntry{}
		}
	}
	e.Push(func() error { return p.restore(before, macBefore) })
	if mac != p.mac {
		if err := write(self, mac); err != nil {
			return err
		}
		p.mac = mac
	}
	for index, to := range want {
		was := p.now[index]
		if was == to {
			continue
		}
		if err := write(uint32(index), to); err != nil {
			return err
		}
		if p.now[index] = to; to == (portEntry{}) {
			delete(p.now, index)
		}
		for i := range touched {
			touched[i] |= was.Forward[i] ^ to.Forward[i]
			if was.PVID != to.PVID {
				touched[i] |= was.Forward[i] | to.Forward[i]
			}
		}
	}
	return p.setFloods(&touched, all)
}

// setFloods updates the sets of VLANs from the state of the ports.
func (p *ports) setFloods(vlans *vlanSet, all bool) error {
	if all {
		for _, e := range p.now {
			for i := range vlans {
				vlans[i] |= e.Forward[i]
			}
		}
	}
	sets := map[uint32][]cube.FloodMember{}
	for _, vlan := range vlans.list() {
		sets[uint32(vlan)] = p.members(vlan)
	}
	switch {
	case all:
		return p.sets.Reset(sets)
	case len(sets) == 0:
		return nil
	}
	return p.sets.SetAll(sets)
}

// restore restores the previous content of the map.
func (p *ports) restore(was map[uint16]portEntry, mac portEntry) error {
	return p.become(nil, maps.Clone(was), mac, false)
}

// setPortStates opens and blocks ports in VLANs as their spanning trees decide: each port in one step.
func (b *bridge) setPortStates(states map[portVLAN]portState) error {
	var vlans vlanSet
	ports := map[uint16]bool{}
	for at, s := range states {
		b.ports.states[at] = s
		ports[at.port] = true
		vlans.add(at.vlan)
	}
	for port := range ports {
		if err := b.refresh(port); err != nil {
			return err
		}
	}
	return b.ports.setFloods(&vlans, false)
}

// removePortState removes the spanning tree state of a port that has left its VLAN.
func (b *bridge) removePortState(port, vlan uint16) { delete(b.ports.states, portVLAN{port, vlan}) }

// refresh writes the entry of a port whose states have changed.
func (b *bridge) refresh(port uint16) error {
	p := b.ports
	was, ok := p.now[port]
	if !ok || !p.guarded {
		return nil
	}
	is := was
	p.open(port, &is)
	if is == was {
		return nil
	}
	if err := p.table.Set(uint32(port), is); err != nil {
		return err
	}
	p.now[port] = is
	return nil
}

// portStates passes on the states that the fast path uses.
func (b *bridge) portStates(yield func(port, vlan uint16, s portState)) {
	for at, s := range b.ports.states {
		yield(at.port, at.vlan, s)
	}
}

// portMAC returns the address of a port, bridgeMAC that of the bridge. They exist as soon as there is a configuration.
func (b *bridge) portMAC(port uint16) net.HardwareAddr { return b.ports.now[port].MAC.Hardware() }

func (b *bridge) bridgeMAC() net.HardwareAddr { return b.ports.mac.MAC.Hardware() }
