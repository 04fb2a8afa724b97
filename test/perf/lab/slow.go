// SPDX-License-Identifier: Apache-2.0

// The slow path of a plane: its ring and its TAPs.

package lab

import (
	"context"
	"errors"
	"fmt"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/internal/datapath"
	"github.com/polycube/polycube/internal/slowpath"
	"github.com/polycube/polycube/test/netns"
)

// slow contains the helper interfaces of a plane.
type slow struct {
	taps map[cube.Hook]*slowpath.Tap
	loop datapath.Loop
}

// openSlow creates the helper interfaces in a namespace; they are removed with the rig.
func (r *Rig) openSlow(ns *netns.Namespace) (*slow, error) {
	s := &slow{taps: map[cube.Hook]*slowpath.Tap{}}
	undo := func(remove func() error) {
		r.Cleanup(func() {
			if err := ns.Do(remove); err != nil {
				r.Error(err)
			}
		})
	}
	err := ns.Do(func() (err error) {
		for hook, name := range map[cube.Hook]string{cube.TC: "pcn_tc_cp", cube.XDP: "pcn_xdp_cp"} {
			tap, err := slowpath.OpenTap(name)
			if err != nil {
				return err
			}
			s.taps[hook] = tap
			undo(tap.Remove)
		}
		if s.loop, err = datapath.OpenLoop("pcn_loop"); err == nil {
			undo(s.loop.Remove)
		}
		return err
	})
	return s, err
}

func (s *slow) indexes() map[cube.Hook]int {
	out := map[cube.Hook]int{}
	for hook, tap := range s.taps {
		out[hook] = tap.Index()
	}
	return out
}

// attach connects frames written to the TAPs to the fast path; call it in the plane's namespace.
func (s *slow) attach(p *datapath.Plane) error {
	if err := p.AttachLoop(); err != nil {
		return err
	}
	for hook, tap := range s.taps {
		if err := errors.Join(p.AttachTap(hook, tap.Index()), tap.SetDown(p.DownMap(hook))); err != nil {
			return fmt.Errorf("the TAP of hook %s: %w", hook, err)
		}
	}
	return nil
}

// Send sends a packet of a standard cube to the fast path.
func (p *Plane) Send(id datapath.CubeID, out *cube.PacketOut) error {
	hook := p.typ.Hook()
	to := slowpath.Target{Cube: uint16(id), Kind: slowpath.TargetOf(false, out)}
	return p.slow.taps[hook].Send(to, out, slowpath.Meta{XDP: hook == cube.XDP, Generic: p.typ == cube.TypeXDPSKB})
}

// Reader is a slow path that is being read.
type Reader struct {
	stop  context.CancelFunc
	ended chan error
	spent int64
}

// Read starts to read packets for user space, on the last CPU; call Stop.
func (p *Plane) Read(ctx context.Context, h slowpath.Handler) (*Reader, error) {
	ring, err := slowpath.OpenRing(p.FrameworkMap("pcn_ring"), p.FrameworkMap("pcn_control"), p.FrameworkMap("pcn_shares"))
	if err != nil {
		return nil, err
	}
	return Start(ctx, func(ctx context.Context) error { return errors.Join(ring.Run(ctx, h), ring.Close()) }), nil
}

// Start runs a reader on the last CPU until its context ends; call Stop.
func Start(ctx context.Context, run func(context.Context) error) *Reader {
	rd := &Reader{ended: make(chan error, 1)}
	ctx, rd.stop = context.WithCancel(ctx)
	go func() {
		rd.ended <- netns.OnCPU(lastCPU(), func() error {
			start := threadTime()
			defer func() { rd.spent = threadTime() - start }()
			return run(ctx)
		})
	}()
	return rd
}

// Stop ends the reader and returns the CPU time in ns that it used.
func (rd *Reader) Stop() (int64, error) {
	rd.stop()
	err := <-rd.ended
	return rd.spent, err
}
