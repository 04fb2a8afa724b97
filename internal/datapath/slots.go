// SPDX-License-Identifier: Apache-2.0

package datapath

import (
	"fmt"
	"log/slog"

	"github.com/cilium/ebpf"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/internal/datapath/abi"
	"github.com/polycube/polycube/internal/datapath/bpfmap"
	"github.com/polycube/polycube/internal/datapath/framework"
	"github.com/polycube/polycube/internal/datapath/link"
	"github.com/polycube/polycube/internal/datapath/segments"
	"github.com/polycube/polycube/internal/datapath/undo"
)

// slots are where packets from the slow path enter cubes: a program for each, by hook.
type slots struct {
	fw  *framework.Framework
	log *slog.Logger
}

// enterCubes switches the entry of packets from the slow path for the segment's cubes: those that are new, or those
// that are not.
func (s slots) enterCubes(u *undo.Stack, c *segment, before map[CubeID]*segments.Generation, isNew bool) error {
	for _, id := range c.IDs {
		if before[id] == c.gen || (before[id] == nil) != isNew {
			continue
		}
		for _, h := range abi.Hooks {
			if err := s.enterCube(u, h, id, before[id], c.gen); err != nil {
				return err
			}
		}
	}
	return nil
}

// enterCube switches where packets from the slow path enter.
func (s slots) enterCube(u *undo.Stack, h cube.Hook, id CubeID, was, gen *segments.Generation) error {
	m := s.fw.Hook[h][abi.MapCubes]
	prog := gen.Program(h, link.OnResume)
	put := func(prog *ebpf.Program) error {
		if prog == nil {
			return bpfmap.HashSetter[uint32](m)(uint32(id), nil)
		}
		if err := m.Put(uint32(id), prog); err != nil {
			return fmt.Errorf("swap the resume program: %w", err)
		}
		return nil
	}
	var old *ebpf.Program
	if was != nil {
		old = was.Program(h, link.OnResume)
	}
	if prog == nil && old == nil && was != nil {
		return nil
	}
	if err := put(prog); err != nil {
		return err
	}
	if was != nil {
		u.Push(func() error { return put(old) })
	}
	return nil
}

func (s slots) clearCube(id CubeID) {
	for _, h := range abi.Hooks {
		if err := bpfmap.HashSetter[uint32](s.fw.Hook[h][abi.MapCubes])(uint32(id), nil); err != nil {
			s.log.Warn("clear a cube's slot", "err", err)
		}
	}
}
