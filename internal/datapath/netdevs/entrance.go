// SPDX-License-Identifier: Apache-2.0

package netdevs

import (
	"fmt"
	"maps"
	"slices"

	"github.com/cilium/ebpf"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/internal/datapath/undo"
)

// Entrance is the set of root programs that lead to a segment, by kind.
type Entrance struct {
	roots map[kind][]*root
}

// NewEntrance is the entrance of a segment without root programs.
func NewEntrance() *Entrance { return &Entrance{map[kind][]*root{}} }

// Clone is an entrance with the same root programs.
func (e *Entrance) Clone() *Entrance {
	next := &Entrance{maps.Clone(e.roots)}
	for k, rs := range next.roots {
		next.roots[k] = slices.Clone(rs)
	}
	return next
}

// Programs are the root programs.
func (e *Entrance) Programs() []*ebpf.Program {
	var out []*ebpf.Program
	for _, rs := range e.roots {
		for _, r := range rs {
			out = append(out, r.prog)
		}
	}
	return out
}

// Enter makes the root programs lead to a segment's programs. Those that do already are unchanged.
func (e *Entrance) Enter(u *undo.Stack, into programs) error {
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

// enter swaps the program that the root leads to.
func (r *root) enter(u *undo.Stack, into programs) error {
	prog := r.kind.of(into)
	if prog == nil {
		return fmt.Errorf("root %d: the component has no %s program: %w", r.id, r.kind, cube.ErrNotFound)
	}
	if err := r.slot.Put(uint32(0), prog); err != nil {
		return fmt.Errorf("swap the %s program: %w", r.kind, err)
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
