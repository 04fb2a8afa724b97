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

// openHelpers creates the TAPs, and the loop for copies at XDP, in the namespace of the calling thread.
func openHelpers(l *Lab) (taps, datapath.Loop, error) {
	t := taps{}
	for hook, name := range map[cube.Hook]string{cube.TC: "pcn_tc_cp", cube.XDP: "pcn_xdp_cp"} {
		tap, err := slowpath.OpenTap(name)
		if err != nil {
			return nil, datapath.Loop{}, err
		}
		l.t.Cleanup(func() { l.Must(tap.Remove) })
		t[hook] = tap
	}
	loop, err := datapath.OpenLoop("pcn_loop")
	if err == nil {
		l.t.Cleanup(func() { l.Must(loop.Remove) })
	}
	return t, loop, err
}

func (t taps) indexes() map[cube.Hook]int {
	out := map[cube.Hook]int{}
	for hook, tap := range t {
		out[hook] = tap.Index()
	}
	return out
}

// attach connects frames written to the TAPs, and frames that come back through the loop, to the fast path.
func (t taps) attach(p *datapath.Plane) error {
	if err := p.AttachLoop(); err != nil {
		return err
	}
	for hook, tap := range t {
		if err := errors.Join(p.AttachTap(hook, tap.Index()), tap.SetDown(p.DownMap(hook))); err != nil {
			return fmt.Errorf("the TAP of hook %s: %w", hook, err)
		}
	}
	return nil
}

// Send sends a packet of a cube's code to the fast path.
func (p *plane) Send(id datapath.CubeID, transparent bool, out *cube.PacketOut) error {
	kind, netdev, typ := slowpath.TargetOf(transparent, out), p.netdevOf(id), p.typ
	if netdev > 0 && out.Direction == cube.Egress {
		typ = cube.TypeTC // XDP has no egress, so there an XDP cube is a program of TC
	}
	return p.send(typ, slowpath.Target{Cube: uint16(id), Kind: kind}, out, netdev)
}

func (p *plane) send(typ cube.Type, to slowpath.Target, out *cube.PacketOut, netdev int) error {
	m := slowpath.Meta{XDP: typ.Hook() == cube.XDP, Generic: typ == cube.TypeXDPSKB, Ifindex: netdev}
	return p.taps[typ.Hook()].Send(to, out, m)
}

// openRing opens the ring with the packets for user space, before cubes are restored: what is in it then is for an earlier daemon.
func (l *Lab) openRing() (*slowpath.Ring, error) {
	p := l.plane
	ring, err := slowpath.OpenRing(p.FrameworkMap("pcn_ring"), p.FrameworkMap("pcn_control"), p.FrameworkMap("pcn_shares"))
	if err == nil {
		l.undo = append(l.undo, ring.Close)
	}
	return ring, err
}

// startUp reads the packets for user space until stop is called.
func startUp(l *Lab, ring *slowpath.Ring) (stop func() error) {
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- ring.Run(ctx, upward{l}) }()
	return func() error {
		cancel()
		return <-ended
	}
}

// upward passes packets for user space to the topology, as the daemon does.
type upward struct{ *Lab }

// Packet implements slowpath.Handler.
func (u upward) Packet(id uint16, p *cube.PacketIn, _ slowpath.Meta) {
	u.manager.PacketIn(datapath.CubeID(id), p)
}

// Log implements slowpath.Handler.
func (u upward) Log(id uint16, level uint32, line string) {
	u.manager.DatapathLog(datapath.CubeID(id), datapath.LogLevel(level), line)
}

// Notify implements slowpath.Handler.
func (u upward) Notify(id uint16, kind uint32, message []byte) {
	u.manager.Notify(datapath.CubeID(id), kind, message)
}

// Flood implements slowpath.Handler: it makes the copies that the kernel could not make.
func (u upward) Flood(id uint16, p *cube.PacketIn, m slowpath.Meta) {
	copies := u.plane.FloodCopies(datapath.CubeID(id), p.Port, p.Metadata, p.Data)
	if !m.Set {
		copies = func(yield func(uint16, []byte) bool) {
			for _, port := range u.plane.portsOf(datapath.CubeID(id)) {
				if port != p.Port && !yield(port, p.Data) {
					return
				}
			}
		}
	}
	for port, frame := range copies {
		out := &cube.PacketOut{Port: port, Direction: cube.Egress, Trip: p.Trip, TrafficClass: p.TrafficClass, Offload: p.Offload, Data: frame}
		to := slowpath.Target{Cube: id, Kind: slowpath.ToTX}
		if err := u.plane.send(u.plane.typ, to, out, m.Ifindex); err != nil {
			u.t.Errorf("a copy for port %d of cube %d: %v", port, id, err)
		}
	}
}

// netdevOf returns the index of the netdev that a transparent cube is attached to, 0 for none. After the cube comes
// that netdev's stack or wire, rather than those of the TAP where the packet is sent.
func (p *plane) netdevOf(id datapath.CubeID) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.graph == nil {
		return 0
	}
	for _, dev := range p.graph.Netdevs {
		if slices.Contains(dev.Tcubes, id) {
			return dev.Index
		}
	}
	return 0
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
