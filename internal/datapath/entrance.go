// SPDX-License-Identifier: Apache-2.0

package datapath

import (
	"fmt"
	"maps"
	"slices"

	"github.com/cilium/ebpf"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/internal/datapath/undo"
)

// entrance is where packets of netdevs enter a segment: the root programs that lead to it, by kind.
type entrance struct {
	roots map[kind][]*root
}

// newEntrance is the entrance of a segment, to which nothing leads yet.
func newEntrance() *entrance { return &entrance{map[kind][]*root{}} }

// clone is an entrance by the same root programs.
func (e *entrance) clone() *entrance {
	next := &entrance{maps.Clone(e.roots)}
	for k, rs := range next.roots {
		next.roots[k] = slices.Clone(rs)
	}
	return next
}

// programs are the root programs.
func (e *entrance) programs() []*ebpf.Program {
	var out []*ebpf.Program
	for _, rs := range e.roots {
		for _, r := range rs {
			out = append(out, r.prog)
		}
	}
	return out
}

// enter has the root programs lead to a segment's programs. Those that do already are left alone.
func (e *entrance) enter(u *undo.Stack, into programs) error {
	for _, rs := range e.roots {
		for _, r := range rs {
			if r.into == into {
				continue
			}
			if err := r.enter(u, into); err != nil {
				return err
			}
		}
	}
	return nil
}

// enter swaps what the root leads to.
func (r *root) enter(u *undo.Stack, into programs) error {
	prog := r.kind.of(into)
	if prog == nil {
		return fmt.Errorf("root %d: the component has no %s program: %w", r.id, r.kind, cube.ErrNotFound)
	}
	if err := r.slot.Put(uint32(0), prog); err != nil {
		return fmt.Errorf("swapping the %s program: %w", r.kind, err)
	}
	if was := r.into; was != nil && r.kind.of(was) != nil {
		u.Push(func() error {
			r.into = was
			return r.slot.Put(uint32(0), r.kind.of(was))
		})
	}
	r.into = into
	return nil
}
