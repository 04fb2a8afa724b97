// SPDX-License-Identifier: Apache-2.0

package datapath

// Spare programs: a second set of a segment's programs, in call mode, whose constants are live (package segments). If
// only constants change, they are written there and the segment's packets switch to the spare set: nothing is linked or
// verified. The inliner freezes the new values in the background, and the set is spare again.

import (
	"context"
	"errors"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/polycube/polycube/internal/datapath/segments"
	"github.com/polycube/polycube/internal/datapath/undo"
	"github.com/polycube/polycube/memory"
)

const (
	spareQuiet  = 300 * time.Millisecond // time without changes before spare programs are built
	spareBudget = 2_500_000              // instructions of all spare programs together, where memory is plentiful: some 200 MB of the kernel's
	spareLess   = 1_000_000              // and elsewhere: some 80 MB
	spareAtMost = 500 * time.Millisecond // programs that take longer to load have no spare ones: the verifier finds them too complex
)

// littleMemory is the available memory below which the daemon does only what is necessary, one thing at a time: the
// verifier needs tens of megabytes for a large program.
const littleMemory = 256 << 20

// plentifulMemory is how much must be available for spareBudget.
const plentifulMemory = 4 << 30

func little() bool { return memory.Available().Bytes < littleMemory }

// changeConstants gives a segment's programs other constants than the segment in use, if only these differ and there
// are programs that can take them. Nothing that packets see has changed when it returns.
func (p *Plane) changeConstants(ch *change, c *segment) bool {
	old := p.byCube[c.IDs[0]]
	if old == nil || old.Shape != c.Shape || !p.canSave() {
		return false
	}
	spare := p.spareOf(old)
	same := slices.IndexFunc(ch.constants, func(o *segment) bool { return o.Print == c.Print })
	switch {
	case same >= 0:
		c.gen = ch.constants[same].gen
	case spare != nil && !p.claimed[spare]:
		c.gen = spare
		c.gen.SetConstants(c.Rodata) // no packet runs it
	case old.gen.CanTake(c.Rodata) && p.users[old.gen] == 1 && !ch.has(old.gen):
		c.gen = old.gen
	default:
		return false
	}
	p.claimed[c.gen] = true
	ch.constants = append(ch.constants, c)
	return true
}

// has reports whether a segment of the new graph has the programs.
func (ch *change) has(gen *segments.Generation) bool {
	return slices.ContainsFunc(ch.parts, func(c *segment) bool { return c.gen == gen })
}

// unclaim ends the claim of a segment of the new graph to its programs, which are no spare ones any more.
func (p *Plane) unclaim(c *segment) {
	delete(p.claimed, c.gen)
	if s := p.shapes[c.Shape]; s != nil && s.spare == c.gen {
		s.spare = nil
	}
}

// canSave tells whether the constants can be saved for the next daemon, which takes a file in the BPF file system and a
// descriptor. Otherwise the linker makes the change, and reports what is missing.
func (p *Plane) canSave() bool {
	if unix.Access(p.opts.Dir, unix.W_OK) != nil {
		return false
	}
	fd, err := unix.Eventfd(0, unix.EFD_CLOEXEC)
	if err != nil {
		return false
	}
	_ = unix.Close(fd)
	return true
}

// writeConstants writes the constants of a segment's programs, if they differ.
func (c *segment) writeConstants(u *undo.Stack) {
	if !c.gen.Live() {
		return
	}
	before := c.gen.SetConstants(c.Rodata)
	u.Push(func() error { c.gen.SetConstants(before); return nil })
}

// unclaim returns the programs that the change would have used.
func (ch *change) unclaim() {
	for _, c := range ch.constants {
		ch.p.unclaim(c) // packets may have run them
		ch.p.retire(c.gen)
	}
	ch.constants = nil
}

// retire releases programs that packets may still run. Those whose constants are live become spare afterwards.
func (p *Plane) retire(gen *segments.Generation) {
	if !gen.Live() {
		p.collect.Unpin(gen.Close)
		return
	}
	p.collect.Unpin(func() error {
		p.mu.Lock()
		defer p.mu.Unlock()
		s := p.shapes[gen.Shape]
		switch {
		case p.claimed[gen] || p.users[gen] > 0 || s != nil && s.spare == gen:
			return nil
		case s != nil && s.spare == nil:
			s.spare = gen
			return gen.ExpelAll()
		}
		return gen.Close()
	})
}

// buildSpares builds spare programs once nothing has changed for a while. It returns when all exist, or when something
// has changed.
func (in *inliner) buildSpares(ctx context.Context) {
	t := time.NewTimer(spareQuiet)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return
	case <-in.kick:
		in.wake()
		return
	case <-t.C:
	}
	for len(in.kick) == 0 && in.oneSpare(ctx) {
	}
}

// oneSpare builds the spare programs of the segments of one shape; false if there are none to build.
func (in *inliner) oneSpare(ctx context.Context) bool {
	c := in.nextSpare()
	if c == nil || ctx.Err() != nil {
		return false
	}
	start := time.Now()
	gen, err := in.p.maker.BuildLive(c)
	c.GiveBack()
	in.p.mu.Lock()
	defer in.p.mu.Unlock()
	now := in.p.shapes[c.Shape]
	switch {
	case err != nil || time.Since(start) > in.spareWithin:
		if now != nil {
			now.noSpare = true
		}
		if err != nil {
			in.p.log.Debug("no spare programs", "cube", c.Code.Cubes[0].Name, "err", err)
			return true
		}
	case now != nil && now.spare == nil:
		now.spare = gen
		return true
	}
	if err := gen.Close(); err != nil {
		in.p.collect.Again(gen.Close, err)
	}
	return true
}

// nextSpare selects a segment whose shape has no spare programs, as long as there is room for more.
func (in *inliner) nextSpare() *segments.Description {
	in.p.mu.Lock()
	defer in.p.mu.Unlock()
	room, limit, size := memory.Available().Bytes, in.spares, 0
	if room < plentifulMemory {
		limit = min(limit, spareLess)
	}
	if room < littleMemory {
		return nil
	}
	for _, s := range in.p.shapes {
		if s.spare != nil {
			size += s.spare.Size
		}
	}
	for _, c := range in.p.parts {
		s := in.p.shapes[c.Shape]
		// With frozen constants, the verifier leaves out code that an external service may have written to change them, and
		// with them those of other cubes.
		if s.spare != nil || s.noSpare || c.gen.Live() || in.p.externalCube(c) != "" || size+c.gen.Size > limit {
			continue
		}
		own, err := in.hold(c)
		switch {
		case errors.Is(err, errChanging):
		case err != nil:
			s.noSpare = true
		default:
			return own
		}
	}
	return nil
}
