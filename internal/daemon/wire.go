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

// The real parts: the kernel's data plane and its slow path.

// wire selects the real parts.
func wire() parts {
	return parts{
		services:      cube.Services,
		openPlane:     openKernel,
		startSlowPath: startKernelSlowPath,
		watch:         netdev.Watch,
		ensureBPFFS: func(dir string) error {
			if os.Geteuid() != 0 {
				return errors.New("polycubed loads programs into the kernel: run it as root")
			}
			return ensureBPFFS(dir)
		},
	}
}

// kernelPlane is the data plane with the path for packets from the slow path.
type kernelPlane struct {
	*datapath.Plane
	taps slowpath.Taps
	loop datapath.Loop
	// shadows creates the namespaces of cubes.
	shadows *shadow.Keeper
	// hub receives steps of traced packets.
	hub atomic.Pointer[trace.Hub]
	// ring is what the slow path reads. It is opened before cubes are restored: what is in it then is for an earlier daemon, and
	// what comes later for a cube.
	ring *slowpath.Ring
}

// helperName is the name of a helper interface. That of an instance is derived from a hash, because a netdev's name
// has at most 15 bytes.
func helperName(what, instance string) string {
	if instance == "" {
		return "pcn_" + what
	}
	sum := fnv.New32a()
	_, _ = sum.Write([]byte(instance)) // never fails
	return fmt.Sprintf("pcn_%.2s%07x", what, sum.Sum32()&0xfffffff)
}

// openKernel creates the helper interfaces and opens the data plane with them.
func openKernel(o planeOptions) (_ plane, err error) {
	k := &kernelPlane{taps: slowpath.Taps{}}
	defer func() {
		if err != nil {
			err = errors.Join(err, k.taps.Close())
		}
	}()
	for _, h := range []cube.Hook{cube.TC, cube.XDP} {
		tap, err := slowpath.OpenTap(helperName(h.String()+"_cp", o.Instance))
		if err != nil {
			return nil, err
		}
		k.taps[h] = tap
	}
	if k.loop, err = datapath.OpenLoop(helperName("loop", o.Instance)); err != nil {
		return nil, err
	}
	k.Plane, err = datapath.Open(datapath.Options{
		Dir: o.BPFFS, Instance: o.Instance, Logger: o.Logger, Taps: k.taps.Indexes(), Loop: k.loop, SegmentCubes: o.SegmentCubes,
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
	k.ring, err = slowpath.OpenRing(k.FrameworkMap("pcn_ring"), k.FrameworkMap("pcn_control"), k.FrameworkMap("pcn_shares"))
	if err != nil {
		return nil, errors.Join(err, k.shadows.Close(), k.Plane.Close())
	}
	return k, nil
}

// Shadows creates the namespaces of cubes.
func (k *kernelPlane) Shadows() topology.Shadows { return k.shadows }

// Close closes everything; the helper interfaces stay, because programs send copies to them.
func (k *kernelPlane) Close() error {
	return errors.Join(k.ring.Close(), k.shadows.Close(), k.Plane.Close(), k.taps.Close())
}

// Cleanup removes everything, including the helper interfaces and the namespaces.
func (k *kernelPlane) Cleanup() error {
	none := func(string) bool { return false }
	return errors.Join(k.ring.Close(), k.shadows.Close(), k.shadows.Sweep(none), k.Plane.Cleanup(), k.taps.Remove(), k.loop.Remove())
}

// Send sends a packet of a cube to the fast path.
func (k *kernelPlane) Send(id datapath.CubeID, transparent bool, p *cube.PacketOut) error {
	typ, netdev, err := k.WayDown(id, transparent, p)
	if err != nil {
		return err
	}
	return k.taps.Send(typ, slowpath.Target{Cube: uint16(id), Kind: slowpath.TargetOf(transparent, p)}, p, slowpath.Meta{Ifindex: netdev})
}

// fromFastPath passes what arrives from the fast path to the manager.
type fromFastPath struct {
	plane   *kernelPlane
	manager *topology.Manager
	log     *slog.Logger
}

// Packet implements slowpath.Handler.
func (u fromFastPath) Packet(id uint16, p *cube.PacketIn, _ slowpath.Meta) {
	u.plane.ForgetHelper(&p.Trip)
	u.manager.PacketIn(datapath.CubeID(id), p)
}

// Log implements slowpath.Handler.
func (u fromFastPath) Log(id uint16, level uint32, line string) {
	u.manager.DatapathLog(datapath.CubeID(id), datapath.LogLevel(level), line)
}

// Notify implements slowpath.Handler.
func (u fromFastPath) Notify(id uint16, kind uint32, message []byte) {
	u.manager.Notify(datapath.CubeID(id), kind, message)
}

// Flood sends a copy out of each port except the one where the packet entered: the kernel could not make them.
func (u fromFastPath) Flood(id uint16, p *cube.PacketIn, m slowpath.Meta) {
	u.plane.ForgetHelper(&p.Trip)
	u.plane.Plane.Flood(datapath.CubeID(id), p, m.Set, func(typ cube.Type, n *datapath.Node, port *datapath.Port, out *cube.PacketOut) {
		if err := u.plane.taps.Send(typ, slowpath.Target{Cube: id, Kind: slowpath.ToTX}, out, slowpath.Meta{}); err != nil {
			u.log.Debug("flood a copy", "cube", n.Name, "port", port.Name, "err", err)
		}
	})
}

// startKernelSlowPath reads from the ring until stop.
func startKernelSlowPath(ctx context.Context, p plane, m *topology.Manager, log *slog.Logger) (func() error, error) {
	k, ok := p.(*kernelPlane)
	if !ok {
		return nil, fmt.Errorf("the slow path requires the kernel's data plane, not %T", p)
	}
	ctx, cancel := context.WithCancel(ctx)
	var done sync.WaitGroup
	done.Go(func() {
		if err := k.ring.Run(ctx, fromFastPath{k, m, log}); err != nil && ctx.Err() == nil {
			log.Error("the slow path stopped: packets that the fast path cannot finish are lost", "err", err)
		}
	})
	return func() error {
		cancel()
		done.Wait()
		return nil
	}, nil
}
