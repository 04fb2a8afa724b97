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

// The second tier: components that were published in call mode are linked again inline, in the background, once changes
// have stopped for a while.
const (
	inlineQuiet  = 30 * time.Millisecond // time without changes before inlining starts
	inlineAtMost = 2 * time.Second       // a component that takes longer stays in call mode next time
	inlineBudget = 100_000               // instructions of a program
	inlineAgain  = 10 * time.Second      // after the system had no resources
)

type inliner struct {
	p      *Plane
	kick   chan struct{}
	cancel context.CancelFunc
	done   chan struct{}
	// refused records what cannot be linked in the background, with the reason.
	refused map[attempt]string
	// budget limits the instructions of an inlined program.
	budget int
	// spares limits the instructions of all spare programs, spareWithin how long those of a segment may take to load.
	spares      int
	spareWithin time.Duration
	// again is when to retry what failed for lack of resources.
	again time.Duration
}

// attempt is a segment, by its print, linked in a mode.
type attempt struct {
	print string
	mode  link.Mode
}

func newInliner(p *Plane) *inliner {
	ctx, cancel := context.WithCancel(context.Background())
	in := &inliner{
		p: p, kick: make(chan struct{}, 1), cancel: cancel, done: make(chan struct{}),
		refused: map[attempt]string{}, budget: inlineBudget, spares: spareBudget, spareWithin: spareAtMost, again: inlineAgain,
	}
	if p.opts.NoSpares {
		in.spares = 0
	}
	go in.run(ctx)
	return in
}

// wake says that the components have changed.
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
		if in.p.opts.Mode == ModeInline || !in.calm(ctx) {
			continue
		}
		for in.one(ctx) {
		}
		in.buildSpares(ctx)
	}
}

// calm waits until nothing has changed for a while.
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

// one links one segment, inline or at least with its constants frozen; false if none is left.
func (in *inliner) one(ctx context.Context) bool {
	c, mode := in.next()
	if c == nil || ctx.Err() != nil {
		return false
	}
	start := time.Now()
	gen, err := in.p.maker.Build(c, mode)
	if err == nil && mode == link.Inline && gen.Instructions > in.budget {
		err = errors.Join(fmt.Errorf("%d instructions, the budget is %d: %w", gen.Instructions, in.budget, link.ErrTooLarge), gen.Close())
	}
	took := time.Since(start)
	c.GiveBack()
	in.p.mu.Lock()
	defer in.p.mu.Unlock()
	if err != nil || mode == link.Inline && took > inlineAtMost {
		in.refuse(c, mode, err, took)
	}
	if err == nil {
		in.p.publish(c, gen)
	}
	return true
}

// refuse records why a segment is not inlined, or not again: an error, or the time it took.
func (in *inliner) refuse(c *segments.Description, mode link.Mode, err error, took time.Duration) {
	note := fmt.Sprintf("linking inline took %s", took.Round(time.Millisecond))
	attrs := []slog.Attr{slog.String("cube", c.Code.Cubes[0].Name)}
	if err != nil {
		note = err.Error()
	}
	if r := refusal.As(err); r != nil {
		attrs = r.Attrs()
	}
	in.refused[attempt{c.Print, mode}] = note
	if err != nil && temporary(err) {
		time.AfterFunc(in.again, func() { in.reconsider(c.Print) })
	}
	if mode == link.Call { // the programs in use are equivalent, only slower
		in.p.log.LogAttrs(context.Background(), slog.LevelWarn, "constants of a segment are not frozen", append(attrs, slog.String("reason", note))...)
		return
	}
	now := in.p.part(c.Print)
	if now == nil || now.note != note { // otherwise it was retried
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
	delete(in.refused, attempt{print, link.Inline})
	delete(in.refused, attempt{print, link.Call})
	in.p.mu.Unlock()
	in.wake()
}

// next selects a segment that is not yet linked as it should be, and returns the mode.
func (in *inliner) next() (*segments.Description, link.Mode) {
	in.p.mu.Lock()
	defer in.p.mu.Unlock()
	maps.DeleteFunc(in.refused, func(a attempt, _ string) bool { return in.p.part(a.print) == nil })
	for _, c := range in.p.parts {
		mode := in.mode(c)
		if c.gen.Mode == mode && !c.gen.Live() {
			continue
		}
		if _, no := in.refused[attempt{c.Print, mode}]; no {
			continue
		}
		own, err := in.hold(c)
		switch {
		case errors.Is(err, errChanging):
		case err != nil:
			in.refused[attempt{c.Print, mode}] = err.Error()
			if mode == link.Inline {
				c.note = err.Error()
			}
		default:
			return own, mode
		}
	}
	return nil, link.Call
}

// mode is the final mode of a segment: inline, unless that was refused.
func (in *inliner) mode(c *segment) link.Mode {
	if in.p.opts.Mode == ModeCall || c.gen.Mode == link.Inline {
		return c.gen.Mode
	}
	if note, no := in.refused[attempt{c.Print, link.Inline}]; no {
		c.note = note
		return link.Call
	}
	if name := in.p.externalCube(c); name != "" {
		c.note = name + " is of an external service"
		return link.Call
	}
	return link.Inline
}

// errChanging says that a segment is not as it is described.
var errChanging = errors.New("a change is in progress")

// hold is a description of a segment in use that keeps its maps open for the linker.
func (in *inliner) hold(c *segment) (*segments.Description, error) {
	own, err := in.p.maker.Describe(in.p.wiring, c.IDs)
	if err != nil {
		return nil, err
	}
	if own.Print != c.Print {
		return nil, errChanging
	}
	// A prepared change may already have given the cube other maps.
	for i, lc := range own.LinkCubes() {
		lc.Maps = c.LinkCubes()[i].Maps
	}
	return own, own.Hold()
}

// whyCall says why a segment runs in call mode, "" if it does not.
func (p *Plane) whyCall(c *segment) string {
	switch {
	case c.gen.Mode == link.Inline:
		return ""
	case c.note != "":
		return c.note
	case p.opts.Mode != ModeAuto:
		return "inlining is disabled for this daemon"
	}
	return "waiting to be inlined: programs are inlined one at a time, once there have been no changes for a while"
}

// externalCube names a cube of the segment that must not be inlined, "" if there is none.
func (p *Plane) externalCube(c *segment) string {
	for _, id := range c.IDs {
		if cube := p.state.Cube(id); cube != nil && cube.Spec().External {
			return cube.Spec().Name
		}
	}
	return ""
}

// publish switches to a new generation of a component, and of all that are alike, if any still exists.
func (p *Plane) publish(c *segments.Description, gen *segments.Generation) {
	var u undo.Stack
	for now := range p.byPrint[c.Print] {
		if err := p.enterOther(&u, now, gen); err != nil {
			p.log.Error("swap the inlined programs in", "err", err, "undo", u.Run())
			for now := range p.byPrint[c.Print] {
				now.note = err.Error()
			}
			p.collect.Unpin(gen.Close)
			return
		}
	}
	for _, old := range p.replace(c.Print, gen) {
		p.retire(old)
	}
	if p.users[gen] == 0 {
		p.collect.Unpin(gen.Close)
		return
	}
	p.tell(slices.Collect(maps.Keys(p.byPrint[c.Print]))...)
}

// enterOther makes other programs those that packets of a segment enter.
func (p *Plane) enterOther(u *undo.Stack, c *segment, gen *segments.Generation) error {
	next, before := *c, map[CubeID]*segments.Generation{}
	next.gen = gen
	for _, id := range c.IDs {
		before[id] = c.gen
	}
	if err := p.admit(u, &next); err != nil {
		return err
	}
	return p.enter(u, &next, before)
}

// temporary reports whether an error was a lack of resources that may be available later.
func temporary(err error) bool {
	return slices.ContainsFunc([]error{unix.EROFS, unix.ENOMEM, unix.EMFILE, unix.ENFILE}, func(e error) bool { return errors.Is(err, e) })
}
