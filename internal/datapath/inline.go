// SPDX-License-Identifier: Apache-2.0

package datapath

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/polycube/polycube/internal/datapath/link"
	"github.com/polycube/polycube/internal/datapath/refusal"
	"github.com/polycube/polycube/internal/datapath/segments"
	"github.com/polycube/polycube/internal/datapath/undo"
)

// The second tier: components that were published in call mode are linked again inline, in
// the background, once changes have calmed down.
const (
	inlineQuiet  = 30 * time.Millisecond // without changes before inlining starts
	inlineAtMost = 2 * time.Second       // a component that takes longer stays in call mode next time
	inlineBudget = 100_000               // instructions of a program
	inlineAgain  = 10 * time.Second      // when the machine had no room
)

type inliner struct {
	p      *Plane
	kick   chan struct{}
	cancel context.CancelFunc
	done   chan struct{}
	// refused remembers prints of components that cannot be inlined, with the reason.
	refused map[string]string
	// budget bounds the instructions of an inlined program.
	budget int
	// again is when to try again what the machine had no room for.
	again time.Duration
}

func newInliner(p *Plane) *inliner {
	ctx, cancel := context.WithCancel(context.Background())
	in := &inliner{
		p: p, kick: make(chan struct{}, 1), cancel: cancel, done: make(chan struct{}),
		refused: map[string]string{}, budget: inlineBudget, again: inlineAgain,
	}
	go in.run(ctx)
	return in
}

// wake tells that the components have changed.
func (in *inliner) wake() {
	select {
	case in.kick <- struct{}{}:
	default:
	}
}

func (in *inliner) stop() {
	in.cancel()
	<-in.done
}

func (in *inliner) run(ctx context.Context) {
	defer close(in.done)
	for {
		select {
		case <-ctx.Done():
			return
		case <-in.kick:
		}
		if in.p.opts.Mode != ModeAuto || !in.calm(ctx) {
			continue
		}
		for in.one(ctx) {
		}
	}
}

// calm waits until there was no change for a while.
func (in *inliner) calm(ctx context.Context) bool {
	t := time.NewTimer(inlineQuiet)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return false
		case <-in.kick:
			t.Reset(inlineQuiet)
		case <-t.C:
			return true
		}
	}
}

// one inlines one component; false if there is none left.
func (in *inliner) one(ctx context.Context) bool {
	c := in.next()
	if c == nil || ctx.Err() != nil {
		return false
	}
	start := time.Now()
	gen, err := in.p.maker.Build(c, link.Inline)
	if err == nil && gen.Instructions > in.budget {
		err = errors.Join(fmt.Errorf("%d instructions, the budget is %d: %w", gen.Instructions, in.budget, link.ErrTooLarge), gen.Close())
	}
	took := time.Since(start)
	c.GiveBack()
	in.p.mu.Lock()
	defer in.p.mu.Unlock()
	if err != nil || took > inlineAtMost {
		in.refuse(c, err, took)
	}
	if err == nil {
		in.p.publish(c, gen)
	}
	return true
}

// refuse notes why a segment is not inlined, or not again: an error, or the time that it took.
func (in *inliner) refuse(c *segments.Description, err error, took time.Duration) {
	note := fmt.Sprintf("linking inline took %s", took.Round(time.Millisecond))
	attrs := []slog.Attr{slog.String("cube", c.Code.Cubes[0].Name)}
	if err != nil {
		note = err.Error()
	}
	if r := refusal.As(err); r != nil {
		attrs = r.Attrs()
	}
	in.refused[c.Print] = note
	if err != nil && temporary(err) {
		time.AfterFunc(in.again, func() { in.reconsider(c.Print) })
	}
	now := in.p.part(c.Print)
	if now == nil || now.note != note { // else it was tried again
		in.p.log.LogAttrs(context.Background(), slog.LevelInfo, "segment stays in call mode", append(attrs, slog.String("reason", note))...)
	}
	if err != nil && now != nil {
		now.note = note
		in.p.tell(now)
	}
}

// reconsider tries once more to inline a segment.
func (in *inliner) reconsider(print string) {
	in.p.mu.Lock()
	delete(in.refused, print)
	in.p.mu.Unlock()
	in.wake()
}

// next picks a component in call mode whose inlining was not refused.
func (in *inliner) next() *segments.Description {
	in.p.mu.Lock()
	defer in.p.mu.Unlock()
	maps.DeleteFunc(in.refused, func(print, _ string) bool { return in.p.part(print) == nil })
	for _, c := range in.p.parts {
		if c.gen.Mode == link.Inline {
			continue
		}
		if note, no := in.refused[c.Print]; no {
			c.note = note
			continue
		}
		if name := in.p.externalCube(c); name != "" {
			in.refused[c.Print] = name + " is of an external service"
			c.note = in.refused[c.Print]
			continue
		}
		own, err := in.p.maker.Describe(in.p.wiring, c.IDs)
		if err == nil && own.Print != c.Print {
			continue // a change is on its way
		}
		if err == nil {
			// A cube may have other maps already, by a change that is prepared.
			for i, lc := range own.LinkCubes() {
				lc.Maps = c.LinkCubes()[i].Maps
			}
			err = own.Hold()
		}
		if err != nil {
			in.refused[c.Print] = err.Error()
			c.note = in.refused[c.Print]
			continue
		}
		return own
	}
	return nil
}

// whyCall says why a segment runs in call mode, "" if it does not.
func (p *Plane) whyCall(c *segment) string {
	switch {
	case c.gen.Mode == link.Inline:
		return ""
	case c.note != "":
		return c.note
	case p.opts.Mode != ModeAuto:
		return "the daemon is told to inline nothing"
	}
	return "it waits to be inlined: one program after the other is, once nothing has changed for a moment"
}

// externalCube names a cube of the segment that is not to be inlined, "" if there is none.
func (p *Plane) externalCube(c *segment) string {
	for _, id := range c.IDs {
		if cube := p.state.Cube(id); cube != nil && cube.Spec().External {
			return cube.Spec().Name
		}
	}
	return ""
}

// publish swaps a new generation of a component in, if the component is still there.
func (p *Plane) publish(c *segments.Description, gen *segments.Generation) {
	now := p.part(c.Print)
	if now == nil {
		p.collect.Unpin(gen.Close)
		return
	}
	before := map[CubeID]*segments.Generation{}
	for _, id := range now.IDs {
		before[id] = now.gen
	}
	old := now.gen
	now.gen, now.note = gen, ""
	var u undo.Stack
	if err := p.enter(&u, now, before); err != nil {
		p.log.Error("swapping the inlined programs in", "err", err, "undo", u.Run())
		now.gen, now.note = old, err.Error()
		p.collect.Unpin(gen.Close)
		return
	}
	p.collect.Unpin(old.Close)
	p.tell(now)
}

// temporary tells whether the machine had no room for something that it may have room for later.
func temporary(err error) bool {
	return slices.ContainsFunc([]error{unix.EROFS, unix.ENOMEM, unix.EMFILE, unix.ENFILE}, func(e error) bool { return errors.Is(err, e) })
}
