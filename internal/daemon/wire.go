// SPDX-License-Identifier: Apache-2.0

package daemon

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"log/slog"
	"os"
	"sync"
	"sync/atomic"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/internal/datapath"
	"github.com/polycube/polycube/internal/netdev"
	"github.com/polycube/polycube/internal/shadow"
	"github.com/polycube/polycube/internal/slowpath"
	"github.com/polycube/polycube/internal/topology"
	"github.com/polycube/polycube/internal/trace"
)

// The real parts: the kernel's data plane, and the slow path that belongs to it.

// wire chooses the real parts.
func wire() parts {
	return parts{
		services:      cube.Services,
		openPlane:     openKernel,
		startSlowPath: startKernelSlowPath,
		watch:         netdev.Watch,
		ensureBPFFS: func(dir string) error {
			if os.Geteuid() != 0 {
				return errors.New("polycubed puts programs into the kernel: run it as root")
			}
			return ensureBPFFS(dir)
		},
	}
}

// kernelPlane is the data plane with its way down for packets of the slow path.
type kernelPlane struct {
	*datapath.Plane
	taps map[cube.Hook]*slowpath.Tap
	loop datapath.Loop
	// types has the type of each cube, by cube.
	types sync.Map
	// now is the committed graph.
	now atomic.Pointer[committed]
	// shadows makes the namespaces of cubes.
	shadows *shadow.Keeper
	// helpers are the indexes of the helper interfaces.
	helpers map[int]bool
	// hub takes steps of packets that are traced.
	hub atomic.Pointer[trace.Hub]
	// ring is what the slow path reads, nil while it does not run.
	ring atomic.Pointer[slowpath.Ring]
}

// committed is the graph in use, and where packets of transparent cubes come from.
type committed struct {
	*datapath.Graph
	// origin is the netdev that a transparent cube is on, or that is the peer of its port.
	origin map[datapath.CubeID]int
	// onNetdev are the transparent cubes that are on a netdev and not on a port.
	onNetdev map[datapath.CubeID]bool
}

func commit(g *datapath.Graph) *committed {
	c := &committed{g, map[datapath.CubeID]int{}, map[datapath.CubeID]bool{}}
	for _, n := range g.Netdevs {
		for _, id := range n.Tcubes {
			c.origin[id], c.onNetdev[id] = n.Index, true
		}
	}
	for _, node := range g.Cubes {
		for _, port := range node.Ports {
			for _, id := range port.Tcubes {
				c.origin[id] = c.index(port.Peer)
			}
		}
	}
	return c
}

// index is the interface index of a peer, 0 when it is not a netdev or not there.
func (c *committed) index(p datapath.Peer) int {
	if n := c.Netdevs[p.Netdev]; n != nil {
		return n.Index
	}
	return 0
}

// entry is the netdev where a packet of a cube counts as received: a cube gets packets
// without it, and whoever passes them on to the stack needs it.
func (c *committed) entry(id datapath.CubeID, transparent bool, port uint16) int {
	if c == nil {
		return 0
	}
	if transparent {
		return c.origin[id]
	}
	node := c.Cubes[id]
	if node == nil || node.Ports[port] == nil {
		return 0
	}
	return c.index(node.Ports[port].Peer)
}

// helperName is the name of a helper interface. That of an instance is made from a hash,
// because a netdev's name has 15 bytes at most.
func helperName(what, instance string) string {
	if instance == "" {
		return "pcn_" + what
	}
	sum := fnv.New32a()
	_, _ = sum.Write([]byte(instance)) // never fails
	return fmt.Sprintf("pcn_%.2s%07x", what, sum.Sum32()&0xfffffff)
}

// openKernel makes the helper interfaces and opens the data plane with them.
func openKernel(o planeOptions) (_ plane, err error) {
	k := &kernelPlane{taps: map[cube.Hook]*slowpath.Tap{}}
	defer func() {
		if err != nil {
			err = errors.Join(err, k.eachTap((*slowpath.Tap).Close))
		}
	}()
	index := map[cube.Hook]int{}
	for _, h := range []cube.Hook{cube.TC, cube.XDP} {
		tap, err := slowpath.OpenTap(helperName(h.String()+"_cp", o.Instance))
		if err != nil {
			return nil, err
		}
		k.taps[h], index[h] = tap, tap.Index()
	}
	if k.loop, err = datapath.OpenLoop(helperName("loop", o.Instance)); err != nil {
		return nil, err
	}
	k.helpers = map[int]bool{index[cube.TC]: true, index[cube.XDP]: true, k.loop.In: true, k.loop.Out: true}
	k.Plane, err = datapath.Open(datapath.Options{
		Dir: o.BPFFS, Instance: o.Instance, Logger: o.Logger, Taps: index, Loop: k.loop, SegmentCubes: o.SegmentCubes,
		Relinked: o.Relinked,
	})
	if err != nil {
		return nil, err
	}
	if err := k.AttachLoop(); err != nil {
		return nil, errors.Join(err, k.Plane.Close())
	}
	k.shadows, err = shadow.Open(shadow.Options{Instance: o.Instance, Logger: o.Logger, Prepare: k.AttachSpanEnd, Mounts: o.Mounts})
	if err != nil {
		return nil, errors.Join(err, k.Plane.Close())
	}
	for h, tap := range k.taps {
		err := tap.SetDown(k.DownMap(h))
		if err == nil {
			err = k.AttachTap(h, tap.Index())
		}
		if err != nil {
			return nil, errors.Join(err, k.Plane.Close())
		}
	}
	return k, nil
}

func (k *kernelPlane) eachTap(do func(*slowpath.Tap) error) error {
	var errs []error
	for _, tap := range k.taps {
		errs = append(errs, do(tap))
	}
	return errors.Join(errs...)
}

// Shadows makes the namespaces of cubes.
func (k *kernelPlane) Shadows() topology.Shadows { return k.shadows }

// Close lets go of everything; the helper interfaces stay, programs send copies to them.
func (k *kernelPlane) Close() error {
	return errors.Join(k.shadows.Close(), k.Plane.Close(), k.eachTap((*slowpath.Tap).Close))
}

// Cleanup removes everything, the helper interfaces and the namespaces too.
func (k *kernelPlane) Cleanup() error {
	none := func(string) bool { return false }
	return errors.Join(k.shadows.Close(), k.shadows.Sweep(none), k.Plane.Cleanup(), k.eachTap((*slowpath.Tap).Remove), k.loop.Remove())
}

// CreateCube remembers the hook of a cube, which decides by which TAP its packets go down.
func (k *kernelPlane) CreateCube(s datapath.Spec) error {
	if err := k.Plane.CreateCube(s); err != nil {
		return err
	}
	k.types.Store(s.ID, s.Type)
	return nil
}

// HoldCube remembers the hook as CreateCube does.
func (k *kernelPlane) HoldCube(s datapath.Spec) error {
	if err := k.Plane.HoldCube(s); err != nil {
		return err
	}
	k.types.Store(s.ID, s.Type)
	return nil
}

// ReplaceCube remembers the hook as CreateCube does.
func (k *kernelPlane) ReplaceCube(s datapath.Spec) (datapath.Replacement, error) {
	r, err := k.Plane.ReplaceCube(s)
	if err == nil {
		k.types.Store(s.ID, s.Type)
	}
	return r, err
}

// DeleteCube forgets the type with the cube.
func (k *kernelPlane) DeleteCube(id datapath.CubeID) error {
	k.types.Delete(id)
	return k.Plane.DeleteCube(id)
}

// Prepare remembers the graph when it is committed.
func (k *kernelPlane) Prepare(ctx context.Context, g *datapath.Graph) (topology.Change, error) {
	c, err := k.Plane.Prepare(ctx, g)
	if err != nil {
		return nil, err
	}
	return kernelChange{c, k, g}, nil
}

// kernelChange is a change of the data plane that keeps the graph for floods.
type kernelChange struct {
	datapath.Change
	plane *kernelPlane
	graph *datapath.Graph
}

// Commit makes the graph the one in use.
func (c kernelChange) Commit() error {
	if err := c.Change.Commit(); err != nil {
		return err
	}
	c.plane.now.Store(commit(c.graph))
	return nil
}

// Send puts a packet of a cube into the fast path. One that did not enter by a netdev counts as
// received where the cube is attached. What leaves by a netdev passes TC there,
// also that of an XDP cube on it, as XDP does not see what the stack sends.
func (k *kernelPlane) Send(id datapath.CubeID, transparent bool, p *cube.PacketOut) error {
	typ, err := k.typeOf(id)
	if err != nil {
		return err
	}
	now := k.now.Load()
	if now != nil && now.onNetdev[id] && p.Direction == cube.Egress {
		typ = cube.TypeTC
	}
	var m slowpath.Meta
	if p.Trip.Netdev == 0 {
		m.Ifindex = now.entry(id, transparent, p.Port)
	}
	return k.send(typ, slowpath.Target{Cube: uint16(id), Kind: slowpath.TargetOf(transparent, p)}, p, m)
}

// forgetHelper takes a helper interface out of a trip. A packet that went down without a netdev
// comes up again as if it had entered there, but behind the helpers is no stack that wants it.
func (k *kernelPlane) forgetHelper(t *cube.Trip) {
	if k.helpers[t.Netdev] {
		t.Netdev = 0
	}
}

func (k *kernelPlane) typeOf(id datapath.CubeID) (cube.Type, error) {
	t, ok := k.types.Load(id)
	if !ok {
		return "", fmt.Errorf("sending a packet of cube %d: %w", id, cube.ErrNotFound)
	}
	return t.(cube.Type), nil
}

// send puts a packet where cubes of a type get theirs.
func (k *kernelPlane) send(t cube.Type, to slowpath.Target, p *cube.PacketOut, m slowpath.Meta) error {
	m.XDP, m.Generic = t.Hook() == cube.XDP, t == cube.TypeXDPSKB
	return k.taps[t.Hook()].Send(to, p, m)
}

// upward hands what comes up from the fast path to the manager.
type upward struct {
	plane   *kernelPlane
	manager *topology.Manager
	log     *slog.Logger
}

// Packet implements slowpath.Handler.
func (u upward) Packet(id uint16, p *cube.PacketIn, _ slowpath.Meta) {
	u.plane.forgetHelper(&p.Trip)
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

// Flood sends a copy out of each port but the one where the packet entered: the kernel
// had no way to make them.
func (u upward) Flood(id uint16, p *cube.PacketIn, m slowpath.Meta) {
	g := u.plane.now.Load()
	if g == nil {
		return
	}
	node := g.Cubes[datapath.CubeID(id)]
	if node == nil {
		return
	}
	typ, err := u.plane.typeOf(node.ID)
	if err != nil {
		return
	}
	u.plane.forgetHelper(&p.Trip)
	out := cube.PacketOut{
		Direction: cube.Egress, Metadata: p.Metadata, TrafficClass: p.TrafficClass, Trip: p.Trip, Offload: p.Offload, Data: p.Data,
	}
	if m.Set {
		out.Metadata = [4]uint32{}
		for out.Port, out.Data = range u.plane.FloodCopies(node.ID, p.Port, p.Metadata, p.Data) {
			u.copy(typ, node, &out)
		}
		return
	}
	for out.Port = range node.Ports {
		if out.Port != p.Port {
			u.copy(typ, node, &out)
		}
	}
}

// copy sends a copy of a packet out of a port, if that leads anywhere.
func (u upward) copy(typ cube.Type, node *datapath.Node, out *cube.PacketOut) {
	port := node.Ports[out.Port]
	if port == nil || port.Peer == (datapath.Peer{}) {
		return
	}
	if err := u.plane.send(typ, slowpath.Target{Cube: uint16(node.ID), Kind: slowpath.ToTX}, out, slowpath.Meta{}); err != nil {
		u.log.Debug("flooding a copy", "cube", node.Name, "port", port.Name, "err", err)
	}
}

// startKernelSlowPath reads what comes up until stop.
func startKernelSlowPath(ctx context.Context, p plane, m *topology.Manager, log *slog.Logger) (func() error, error) {
	k, ok := p.(*kernelPlane)
	if !ok {
		return nil, fmt.Errorf("the slow path belongs to the kernel's data plane, not to %T", p)
	}
	ring, err := slowpath.OpenRing(k.FrameworkMap("pcn_ring"), k.FrameworkMap("pcn_control"), k.FrameworkMap("pcn_shares"))
	if err != nil {
		return nil, err
	}
	k.ring.Store(ring)
	ctx, cancel := context.WithCancel(ctx)
	var done sync.WaitGroup
	done.Go(func() {
		if err := ring.Run(ctx, upward{k, m, log}); err != nil && ctx.Err() == nil {
			log.Error("the slow path stopped: packets that the fast path cannot finish are lost", "err", err)
		}
	})
	return func() error {
		cancel()
		done.Wait()
		return ring.Close()
	}, nil
}
