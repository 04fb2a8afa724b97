// SPDX-License-Identifier: Apache-2.0

package bridge

// The spanning trees of a bridge: one for each VLAN that a port is a member of, if stp-enabled. Package stp implements
// the protocol; this file passes it BPDUs, ticks and parameters, and applies its decisions.

import (
	"fmt"
	"maps"
	"time"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/cube/table"
	"github.com/polycube/polycube/cubes/bridge/stp"
)

// maxMemberships limits the VLAN memberships of ports while spanning trees run: each of them is a port of a tree, with
// timers, and BPDUs to send.
const maxMemberships = 16384

// bpdus is struct bridge_bpdus of the program; a test compares the two.
type bpdus struct {
	Since        uint64
	Taken, Limit uint32
}

// spanning runs the trees. Only the handlers of its bridge use it.
type spanning struct {
	b     *bridge
	trees map[uint16]*tree
	// up contains the ports whose links work, peers the peers of ports, by name.
	up    map[string]bool
	peers map[string]cube.Peer

	sign   table.Table[uint32, uint64]
	limits table.Table[uint32, bpdus]
	stop   func()

	// changed are states that are not applied yet, and out the BPDUs that wait for them.
	changed map[portVLAN]portState
	out     []*cube.PacketOut
	flush   flusher
	// discarded counts frames to a tree's address that contain no BPDU for it.
	discarded uint64
}

// tree is the spanning tree of a VLAN.
type tree struct {
	*stp.Bridge
	s     *spanning
	vlan  uint16
	ports map[uint16]stp.PortParameters
	// untagged are the ports whose frames are untagged in the VLAN.
	untagged map[uint16]bool
}

func newSpanning(b *bridge) *spanning {
	s := &spanning{b: b, trees: map[uint16]*tree{}, up: map[string]bool{}, peers: map[string]cube.Peer{}, changed: map[portVLAN]portState{},
		sign: table.New[uint32, uint64](b.env, "spanning"), limits: table.New[uint32, bpdus](b.env, "bpdus")}
	s.flush.s = s
	return s
}

// check refuses parameters with which a tree would not converge.
func (s *spanning) check(after *Config) error {
	for _, p := range after.STP {
		if p.MaxMessageAge < 2*(p.HelloTime+1) {
			return fmt.Errorf("stp %d: max-message-age %d: must be at least 2 * (hello-time + 1) = %d (802.1D, 17.14): %w",
				p.VLAN, p.MaxMessageAge, 2*(p.HelloTime+1), cube.ErrInvalid)
		}
	}
	if !after.STPEnabled {
		return nil
	}
	members := 0
	for i := range after.Ports {
		members += len(after.Ports[i].vlans())
	}
	if members > maxMemberships {
		return fmt.Errorf("stp-enabled: the ports are in %d VLANs in total, but at most %d can have spanning trees: %w",
			members, maxMemberships, cube.ErrInvalid)
	}
	return nil
}

// follow updates the trees to a configuration whose ports are already applied. created says that ports may be open in
// the fast path from a previous run of the cube.
func (s *spanning) follow(is *Config, created bool) error {
	gone := func(port string) bool { return is.port(port) == nil }
	maps.DeleteFunc(s.up, func(port string, _ bool) bool { return gone(port) })
	maps.DeleteFunc(s.peers, func(port string, _ cube.Peer) bool { return gone(port) })
	want, err := s.wanted(is)
	if err != nil {
		return err
	}
	if err := s.allow(is); err != nil {
		return err
	}
	for vlan, t := range s.trees {
		if want[vlan] == nil {
			t.keep(nil)
			delete(s.trees, vlan)
		}
	}
	found := s.found(created)
	for vlan, w := range want {
		t := s.trees[vlan]
		if t == nil {
			t = &tree{s: s, vlan: vlan, ports: map[uint16]stp.PortParameters{}}
			t.Bridge = stp.New(w.cfg, t)
			if found[vlan] != nil {
				t.Resume()
			}
			s.trees[vlan] = t
		}
		t.SetParameters(w.cfg)
		t.become(w, found[vlan])
	}
	s.settle()
	s.setTimer(is.STPEnabled)
	return nil
}

// found returns the ports that learn or forward in the fast path when the daemon starts, by VLAN. A tree with such
// ports resumes, so that a restart closes none of them and opens none of the others.
func (s *spanning) found(created bool) map[uint16]map[uint16]stp.State {
	found := map[uint16]map[uint16]stp.State{}
	if !created {
		return found
	}
	s.b.portStates(func(port, vlan uint16, state portState) {
		if state < stateLearning {
			return
		}
		if found[vlan] == nil {
			found[vlan] = map[uint16]stp.State{}
		}
		found[vlan][port] = stp.State(state)
	})
	return found
}

// setTimer starts and stops the ticks.
func (s *spanning) setTimer(enabled bool) {
	switch {
	case enabled && s.stop == nil:
		s.alive()
		s.stop = s.b.env.Every(time.Second, s.second)
	case !enabled && s.stop != nil:
		s.stop()
		s.stop = nil
	}
}

func (s *spanning) second() {
	s.alive()
	for _, t := range s.trees {
		t.Tick()
	}
	s.settle()
}

// alive writes the heartbeat that tells the fast path that BPDUs are processed.
func (s *spanning) alive() {
	now, err := cube.TimeCoarse()
	if err == nil {
		err = s.sign.Set(0, now)
	}
	s.b.report("enable spanning trees in the fast path", err)
}

// allow tells the fast path how many BPDUs per second a port may receive: those of its trees, and as many again. More
// would delay the others.
func (s *spanning) allow(is *Config) error {
	for i := range is.Ports {
		index, ok := s.b.env.PortIndex(is.Ports[i].Name)
		if !ok {
			continue
		}
		limit := uint32(16 + 2*len(is.Ports[i].vlans()))
		was, _, err := s.limits.Get(uint32(index))
		if err != nil {
			return err
		}
		if was.Limit == limit {
			continue
		}
		if err := s.limits.Set(uint32(index), bpdus{Limit: limit}); err != nil {
			return err
		}
	}
	return nil
}

// portChanged is called when a port's link goes up or down.
func (s *spanning) portChanged(port string, up bool) {
	s.up[port] = up
	index, ok := s.b.env.PortIndex(port)
	if !ok {
		return
	}
	for _, t := range s.trees {
		t.SetPortUp(int(index), up)
	}
	s.settle()
}

// packetIn processes a BPDU; the fast path sends no other packets.
func (s *spanning) packetIn(p *cube.PacketIn) {
	t := s.trees[uint16(p.Metadata[0])]
	if t == nil {
		return
	}
	bpdu, err := stp.Unframe(p.Data, t.vlan)
	if err != nil {
		s.discarded++
	} else {
		err = t.Receive(int(p.Port), bpdu)
		s.settle()
	}
	if err != nil {
		name, _ := s.b.env.PortName(p.Port)
		s.b.env.Logger().Debug("BPDU discarded", "port", name, "vlan", t.vlan, "reason", err)
	}
}

// stopAll is called before the maps are removed.
func (s *spanning) stopAll() {
	s.setTimer(false)
	s.trees, s.out = map[uint16]*tree{}, nil
	clear(s.changed)
}

// close is called when the cube is deleted or the daemon stops: it tells the fast path that BPDUs are no longer
// processed; the fast path leaves the ports as they are.
func (s *spanning) close() {
	if s.stop != nil {
		s.stop()
		_ = s.sign.Set(0, 0) // the cube may be deleted, with its maps
	}
}
