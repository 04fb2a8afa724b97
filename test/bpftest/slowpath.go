// SPDX-License-Identifier: Apache-2.0

package bpftest

// The slow path of a lab: the ring and the TAPs of package slowpath, between the data plane and
// the topology.

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/internal/datapath"
	"github.com/polycube/polycube/internal/slowpath"
)

// taps take packets down, by hook.
type taps map[cube.Hook]*slowpath.Tap

// openTaps makes the TAPs in the namespace of the calling thread.
func openTaps(l *Lab) (taps, error) {
	t := taps{}
	for hook, name := range map[cube.Hook]string{cube.TC: "pcn_tc_cp", cube.XDP: "pcn_xdp_cp"} {
		tap, err := slowpath.OpenTap(name)
		if err != nil {
			return nil, err
		}
		l.t.Cleanup(func() { l.Must(tap.Remove) })
		t[hook] = tap
	}
	return t, nil
}

func (t taps) indexes() map[cube.Hook]int {
	out := map[cube.Hook]int{}
	for hook, tap := range t {
		out[hook] = tap.Index()
	}
	return out
}

// attach leads what is written to the TAPs into the fast path.
func (t taps) attach(p *datapath.Plane) error {
	for hook, tap := range t {
		if err := errors.Join(p.AttachTap(hook, tap.Index()), tap.SetDown(p.DownMap(hook))); err != nil {
			return fmt.Errorf("the TAP of hook %s: %w", hook, err)
		}
	}
	return nil
}

// Send takes a packet of a cube's code down.
func (p *plane) Send(id datapath.CubeID, transparent bool, out *cube.PacketOut) error {
	kind := slowpath.TargetOf(transparent, out)
	return p.send(id, kind, out, slowpath.Meta{})
}

func (p *plane) send(id datapath.CubeID, kind uint16, out *cube.PacketOut, m slowpath.Meta) error {
	m.XDP = p.hook == cube.XDP
	return p.taps[p.hook].Send(slowpath.Target{Cube: uint16(id), Kind: kind}, out, m)
}

// startUp reads what comes up until stop is called.
func startUp(l *Lab) (stop func() error, err error) {
	p := l.plane
	ring, err := slowpath.OpenRing(p.FrameworkMap("pcn_ring"), p.FrameworkMap("pcn_control"), p.FrameworkMap("pcn_shares"))
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- ring.Run(ctx, upward{l}) }()
	return func() error {
		cancel()
		return errors.Join(<-ended, ring.Close())
	}, nil
}

// upward hands what comes up to the topology, as the daemon does.
type upward struct{ *Lab }

// Packet implements slowpath.Handler.
func (u upward) Packet(id uint16, p *cube.PacketIn, _ slowpath.Meta) {
	u.manager.PacketIn(datapath.CubeID(id), p)
}

// Log implements slowpath.Handler.
func (u upward) Log(id uint16, level uint32, line string) {
	u.manager.DatapathLog(datapath.CubeID(id), datapath.LogLevel(level), line)
}

// Flood implements slowpath.Handler: it makes the copies that the kernel could not make.
func (u upward) Flood(id uint16, p *cube.PacketIn, m slowpath.Meta) {
	for _, port := range u.plane.portsOf(datapath.CubeID(id)) {
		if port == p.Port {
			continue
		}
		out := &cube.PacketOut{Port: port, Direction: cube.Egress, TrafficClass: p.TrafficClass, Offload: p.Offload, Data: p.Data}
		if err := u.plane.send(datapath.CubeID(id), slowpath.ToTX, out, m); err != nil {
			u.t.Errorf("a copy for port %d of cube %d: %v", port, id, err)
		}
	}
}

// portsOf are the indexes of a cube's ports in the last graph.
func (p *plane) portsOf(id datapath.CubeID) []uint16 {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.graph == nil || p.graph.Cubes[id] == nil {
		return nil
	}
	return slices.Sorted(maps.Keys(p.graph.Cubes[id].Ports))
}
