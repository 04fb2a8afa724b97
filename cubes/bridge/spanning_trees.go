// SPDX-License-Identifier: Apache-2.0

package bridge

// The trees that a configuration requires, and the application of their decisions to the fast path.

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/cubes/bridge/stp"
	"github.com/polycube/polycube/fdb"
)

// treeConfig is the required configuration of a tree.
type treeConfig struct {
	cfg      stp.Parameters
	ports    map[uint16]stp.PortParameters
	untagged map[uint16]bool
}

// defaultSTP and defaultPortSTP are the model's defaults for trees without configuration.
func defaultSTP(vlan uint16) STP {
	return STP{VLAN: vlan, Priority: 32768, ForwardDelay: 10, HelloTime: 2, MaxMessageAge: 20, ForceVersion: VersionRSTP}
}

func defaultPortSTP(vlan uint16) PortSTP {
	return PortSTP{VLAN: vlan, PortPriority: 128, AutoEdge: true}
}

// stpOf returns the configuration of a VLAN's tree.
func (c *Config) stpOf(vlan uint16) STP {
	for _, s := range c.STP {
		if s.VLAN == vlan {
			return s
		}
	}
	return defaultSTP(vlan)
}

// stpOf returns the configuration of the port in a VLAN's tree.
func (p *Port) stpOf(vlan uint16) PortSTP {
	for _, s := range p.STP {
		if s.VLAN == vlan {
			return s
		}
	}
	return defaultPortSTP(vlan)
}

// wanted returns the trees that a configuration requires, by VLAN.
func (s *spanning) wanted(is *Config) (map[uint16]*treeConfig, error) {
	want := map[uint16]*treeConfig{}
	if !is.STPEnabled {
		return want, nil
	}
	for i := range is.Ports {
		p := &is.Ports[i]
		index, ok := s.b.env.PortIndex(p.Name)
		if !ok {
			return nil, fmt.Errorf("port %s: %w", p.Name, cube.ErrNotFound)
		}
		native, _ := p.untaggedVLAN()
		for _, vlan := range p.vlans() {
			w := want[vlan]
			if w == nil {
				w = &treeConfig{is.stpOf(vlan).parameters(s.b), map[uint16]stp.PortParameters{}, map[uint16]bool{}}
				want[vlan] = w
			}
			w.ports[index] = s.parameters(p, vlan, index)
			w.untagged[index] = vlan == native
		}
	}
	return want, nil
}

func (s STP) parameters(b *bridge) stp.Parameters {
	return stp.Parameters{ID: stp.MakeBridgeID(s.Priority, b.bridgeMAC()), Version: s.ForceVersion.protocol(),
		HelloTime: uint16(s.HelloTime), MaxAge: uint16(s.MaxMessageAge), ForwardDelay: uint16(s.ForwardDelay)}
}

// parameters of a port in a VLAN: its number is its index plus one, because there is no port 0.
func (s *spanning) parameters(p *Port, vlan, index uint16) stp.PortParameters {
	c := p.stpOf(vlan)
	cost, _ := s.pathCost(p.Name, c)
	return stp.PortParameters{ID: stp.MakePortID(c.PortPriority, index+1), PathCost: cost, AdminEdge: c.AdminEdge,
		AutoEdge: c.AutoEdge, PointToPoint: c.PointToPoint.protocol(), RestrictedRole: c.RestrictedRole, RestrictedTCN: c.RestrictedTCN}
}

// become sets the ports of the tree. had are the states of those that are already open in the fast path.
func (t *tree) become(w *treeConfig, had map[uint16]stp.State) {
	t.keep(w.ports)
	t.untagged = w.untagged
	for index, cfg := range w.ports {
		_, known := t.ports[index]
		t.ports[index] = cfg
		if known {
			t.SetPort(int(index), cfg)
			continue
		}
		state, open := had[index]
		if !open {
			state = stp.Blocking
		}
		t.AddPort(int(index), cfg, state)
		name, _ := t.s.b.env.PortName(index)
		t.SetPortUp(int(index), t.s.up[name])
	}
}

// keep removes the ports that are not in a set.
func (t *tree) keep(ports map[uint16]stp.PortParameters) {
	for index := range t.ports {
		if _, stays := ports[index]; stays {
			continue
		}
		delete(t.ports, index)
		t.RemovePort(int(index))
		delete(t.s.changed, portVLAN{index, t.vlan})
		t.s.b.removePortState(index, t.vlan)
	}
}

// Send implements stp.Sink.
func (t *tree) Send(port int, bpdu []byte) {
	index := uint16(port)
	frame := stp.Frame(t.s.b.portMAC(index), t.vlan, !t.untagged[index], bpdu)
	t.s.out = append(t.s.out, &cube.PacketOut{Port: index, Direction: cube.Egress, Data: frame})
}

// SetState implements stp.Sink.
func (t *tree) SetState(port int, s stp.State) {
	t.s.changed[portVLAN{uint16(port), t.vlan}] = portState(s)
	if log := t.s.b.env.Logger(); log.Enabled(context.Background(), slog.LevelInfo) {
		name, _ := t.s.b.env.PortName(uint16(port))
		log.Info("spanning tree", "port", name, "vlan", t.vlan, "state", s)
	}
}

// settle applies the decisions of all trees at once: a trunk may have thousands. First ports are blocked, then others
// opened, then BPDUs are sent. If a port cannot be blocked, this is retried, and no BPDUs are sent in the meantime.
func (s *spanning) settle() {
	out := s.out
	s.out = nil
	opens, closes := map[portVLAN]portState{}, map[portVLAN]portState{}
	for at, state := range s.changed {
		if state >= stateLearning {
			opens[at] = state
		} else {
			closes[at] = state
		}
	}
	for _, states := range []map[portVLAN]portState{closes, opens} {
		if err := s.b.setPortStates(states); err != nil {
			s.b.report("apply spanning tree states", err)
			return
		}
	}
	clear(s.changed)
	for _, p := range out {
		if err := s.b.env.Send(p); err != nil {
			name, _ := s.b.env.PortName(p.Port)
			s.b.env.Logger().Debug("BPDU not sent", "port", name, "error", err)
		}
	}
}

// Flush implements stp.Sink.
func (t *tree) Flush(port int) { t.s.flush.add(uint16(port), t.vlan) }

// flusher removes learned entries. A topology change requests this port by port and VLAN by VLAN, and an attacker can
// forge such changes repeatedly. So the database, which may be large, is read once for all requests that arrive
// together, and for at most a tenth of the time.
type flusher struct {
	s    *spanning
	want map[portVLAN]bool
	took time.Duration
}

// flushDelay is how long a flush waits for further requests.
const flushDelay = 5 * time.Millisecond

func (f *flusher) add(port, vlan uint16) {
	if f.want == nil {
		f.want = map[portVLAN]bool{}
		f.s.b.env.After(max(flushDelay, 9*f.took), f.now)
	}
	f.want[portVLAN{port, vlan}] = true
}

func (f *flusher) now() {
	want := f.want
	f.want = nil
	began := time.Now()
	err := f.s.b.fdb.Forget(nil, func(k Key, e fdb.Entry) bool { return want[portVLAN{e.Port, k.vlan()}] })
	f.took = time.Since(began)
	f.s.b.report("flush addresses after a topology change", err)
}
