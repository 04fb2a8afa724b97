// SPDX-License-Identifier: Apache-2.0

package datapath

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"

	"github.com/polycube/polycube/internal/datapath/abi"
	"github.com/polycube/polycube/internal/datapath/bpfmap"
	"github.com/polycube/polycube/internal/datapath/graph"
	"github.com/polycube/polycube/internal/datapath/link"
	"github.com/polycube/polycube/internal/datapath/netdevs"
	"github.com/polycube/polycube/internal/datapath/segments"
	"github.com/polycube/polycube/internal/datapath/state"
	"github.com/polycube/polycube/internal/datapath/tables"
	"github.com/polycube/polycube/internal/datapath/undo"
	"github.com/polycube/polycube/internal/expedite"
)

// change is a prepared graph: its components, those that differ from the present ones built.
type change struct {
	p      *Plane
	g      *Graph
	wiring *graph.Wiring
	stale  graph.Stale
	// onlyCode: ports and netdevs, and what is derived of them, stay those of the graph in use.
	onlyCode bool
	cut      [][][]CubeID
	parts    []*segment
	built    []*segment // subset of parts
	// constants are those parts that have other constants than in use, and programs from before.
	constants []*segment
	rows      *tables.Rows
	plan      *netdevs.Plan
}

// Prepare links and loads what the graph needs that is not there yet. Nothing is visible to
// packets before Commit.
func (p *Plane) Prepare(ctx context.Context, g *Graph) (Change, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	w, onlyCode := p.onlyCode(g)
	if !onlyCode {
		w = graph.NewWiring(g)
		w.SetApart(p.partitioner.kindOf)
	}
	ch := &change{p: p, g: g, wiring: w, stale: w.StaleSince(p.wiring), rows: p.tables.InUse()}
	ch.onlyCode = onlyCode && ch.stale != nil
	if !ch.onlyCode {
		ch.rows = p.tables.Derive(w, ch.stale)
	}
	for {
		again, err := ch.build(ctx, w)
		if err != nil {
			ch.drop()
			return nil, netdevs.Gone(g, bpfmap.Unpinned(p.opts.Dir, err))
		}
		if !again {
			return ch, nil
		}
	}
}

// build makes the segments of the graph; again is true if one was too large for the kernel, so
// that the graph must be cut into smaller ones. Those that fit and stay the same are kept.
func (ch *change) build(ctx context.Context, w *graph.Wiring) (again bool, err error) {
	was := ch.built
	ch.parts, ch.built = nil, nil
	ch.unclaim()
	defer func() { ch.p.dispose(was, ch.built) }()
	cut, asBefore := ch.p.partitioner.partition(w, ch.p.wiring, ch.stale, ch.onlyCode, ch.p.present)
	ch.cut, ch.onlyCode = cut, ch.onlyCode && asBefore
	var missing []*segment
	for _, part := range ch.cut {
		native := w.Native(part)
		for i, ids := range part {
			if err := ctx.Err(); err != nil {
				return false, fmt.Errorf("prepare the data plane: %w", err)
			}
			old := ch.p.byCube[ids[0]]
			if ch.p.still(ch.stale, old, ids) {
				ch.parts = append(ch.parts, ch.kept(old, i+1, len(part), native))
				continue
			}
			described, err := ch.p.maker.Describe(w, ids)
			if err != nil {
				return false, err
			}
			c := &segment{Description: described, entrance: netdevs.NewEntrance(), number: i + 1, of: len(part), native: native}
			if ch.onlyCode {
				c.entrance = old.entrance.Clone()
			}
			ch.parts = append(ch.parts, c)
			if at := slices.IndexFunc(was, func(b *segment) bool { return b.Print == c.Print }); at >= 0 {
				c.gen = was[at].gen
				ch.built = append(ch.built, c)
			} else if !ch.p.reuse(ch, c) {
				missing = append(missing, c)
			}
		}
	}
	return ch.buildAll(ctx, missing)
}

// buildAll builds segments in parallel: while the verifier of one occupies a processor, the linker of another has the next. If
// building one panics, so does buildAll, once the others have ended: the caller recovers from that.
func (ch *change) buildAll(ctx context.Context, all []*segment) (again bool, err error) {
	var missing []*segment
	same := map[string][]*segment{} // by print: one is built, the others get its programs
	for _, c := range all {
		if same[c.Print] == nil {
			missing = append(missing, c)
		}
		same[c.Print] = append(same[c.Print], c)
	}
	errs, panics := make([]error, len(missing)), make([]any, len(missing))
	atOnce := runtime.GOMAXPROCS(0)
	if len(missing) > 1 && little() {
		atOnce = 1
	}
	turns := make(chan struct{}, atOnce)
	var wg sync.WaitGroup
	for i, c := range missing {
		turns <- struct{}{}
		wg.Go(func() {
			defer func() {
				panics[i] = recover()
				<-turns
			}()
			if errs[i] = ctx.Err(); errs[i] == nil {
				c.gen, errs[i] = ch.p.firstBuild(c)
			}
		})
	}
	wg.Wait()
	for _, v := range panics {
		if v != nil {
			panic(v)
		}
	}
	noted := map[*link.Object]bool{}
	for i, c := range missing {
		switch {
		case errs[i] == nil:
			for _, twin := range same[c.Print] {
				twin.gen = c.gen
				ch.built = append(ch.built, twin)
			}
		case ch.p.partitioner.tooLarge(c, errs[i], noted):
			again = true
		case err == nil:
			err = errs[i]
		}
	}
	return again && err == nil, err
}

// kept is a segment of the graph in use for a change that leaves it as it is: itself where what leads to it stays, too, else
// a copy to which nothing leads yet.
func (ch *change) kept(c *segment, number, of int, native bool) *segment {
	if ch.onlyCode {
		return c
	}
	next := *c
	next.entrance = netdevs.NewEntrance()
	next.number, next.of, next.native = number, of, native
	return &next
}

// reuse gives the component the programs it has already, if the code is the same; false if there are none.
func (p *Plane) reuse(ch *change, c *segment) bool {
	old := p.part(c.Print)
	if old == nil {
		old = p.kept.find(c.Print)
	}
	if old != nil && !p.claimed[old.gen] {
		c.gen, c.note = old.gen, old.note
		return true
	}
	return p.changeConstants(ch, c)
}

// firstBuild links and loads a segment that has no programs yet. Where an earlier daemon's programs forward meanwhile, there
// is time to inline it at once. Inlining a small cube that is alone takes no longer than not inlining it.
func (p *Plane) firstBuild(c *segment) (*segments.Generation, error) {
	mode := link.Call
	adopting := p.graph == nil && len(p.staleGens) > 0
	if p.opts.Mode == ModeInline || p.opts.Mode == ModeAuto && (adopting || p.partitioner.small(c)) && p.externalCube(c) == "" {
		mode = link.Inline
	}
	gen, err := p.maker.Build(c.Description, mode)
	if p.opts.Mode != ModeAuto || mode == link.Call {
		return gen, err
	}
	if err == nil && gen.Instructions > p.inline.budget {
		p.maker.Dispose(gen)
		err = link.ErrTooLarge
	}
	if err != nil { // the inliner says why, later
		return p.maker.Build(c.Description, link.Call)
	}
	return gen, nil
}

// Abort drops what was prepared.
func (ch *change) Abort() {
	ch.p.mu.Lock()
	defer ch.p.mu.Unlock()
	ch.drop()
}

func (ch *change) drop() {
	ch.p.dispose(ch.built, nil)
	ch.built = nil
	ch.unclaim()
	sweep(ch.p)
}

// sweep removes maps that were made for programs which are not in the graph in use, or not any more.
func sweep(p *Plane) {
	if p.graph == nil {
		return
	}
	if err := state.Sweep(p.state, p.graph); err != nil {
		p.log.Error("remove maps that no program uses", "err", err)
	}
}

// dispose closes the generations of segments that were built for nothing, except those that others have.
func (p *Plane) dispose(parts, except []*segment) {
	done := map[*segments.Generation]bool{}
	for _, c := range except {
		done[c.gen] = true
	}
	for _, c := range parts {
		if !done[c.gen] {
			done[c.gen] = true
			p.maker.Dispose(c.gen)
		}
	}
}

// Commit makes the graph effective: exits first, then new netdevs, then the programs, then
// the entries, so that at each step every packet finds what it needs.
func (ch *change) Commit() error {
	p := ch.p
	p.mu.Lock()
	defer p.mu.Unlock()
	defer expedite.Begin()()
	ch.refresh()
	p.sets.Lock()
	defer p.sets.Unlock()
	var u undo.Stack
	if err := ch.effect(&u); err != nil {
		err = errors.Join(err, u.Run())
		ch.drop()
		return netdevs.Gone(ch.g, bpfmap.Unpinned(p.opts.Dir, err))
	}
	ch.finish()
	return nil
}

// refresh takes over what the inliner has published since Prepare for components that the
// change reuses.
func (ch *change) refresh() {
	built := make(map[*segment]bool, len(ch.built))
	for _, c := range slices.Concat(ch.built, ch.constants) {
		built[c] = true
	}
	for _, c := range ch.p.notInUse(ch.parts) {
		if !built[c] {
			if now := ch.p.part(c.Print); now != nil { // otherwise its programs were kept
				c.gen, c.note = now.gen, now.note
			}
		}
	}
}

// effect does all that can fail, recording the way back.
func (ch *change) effect(u *undo.Stack) error {
	p := ch.p
	if err := p.accounts.Keep(u, p.wiring, ch.wiring, ch.stale); err != nil {
		return err
	}
	if ch.onlyCode {
		if err := p.sets.Move(u, ch.g, ch.rows, ch.stale, p.state.ThroughEgress); err != nil {
			return err
		}
		return ch.swap(u)
	}
	if err := p.sets.Group(p.tables.InUse(), ch.rows); err != nil {
		return err
	}
	if err := p.tables.WriteExits(u, ch.rows, p.knows); err != nil {
		return err
	}
	if err := p.sets.Move(u, ch.g, ch.rows, ch.stale, p.state.ThroughEgress); err != nil {
		return err
	}
	plan := p.netdevs.Plan(ch.wiring, partsOf(ch.parts))
	ch.plan = plan
	if err := plan.MakeRoots(u); err != nil {
		return err
	}
	// Rows that the programs in use understand come before the swap, the others behind it:
	// a netdev that loses its transparent cube leads to its port before the new programs
	// forget the cube, and one that gets a cube leads there once they know it.
	if err := p.tables.WriteEntries(u, ch.rows, p.understood); err != nil {
		return err
	}
	if err := plan.Attach(u); err != nil {
		return err
	}
	if err := ch.swap(u); err != nil {
		return err
	}
	if err := p.tables.WriteEntries(u, ch.rows, nil); err != nil {
		return err
	}
	if err := p.tables.WriteEgressExits(u, ch.rows, p.knows); err != nil {
		return err
	}
	return plan.Move(u)
}

// linkedOf are the cubes of segments.
func linkedOf(parts []*segment) []state.LinkedCube {
	var out []state.LinkedCube
	for _, c := range parts {
		for _, id := range c.IDs {
			out = append(out, state.LinkedCube{ID: id, Constants: c.Constants})
		}
	}
	return out
}

// partsOf is what the plan of the netdevs needs to know of segments.
func partsOf(parts []*segment) []netdevs.Segment {
	out := make([]netdevs.Segment, 0, len(parts))
	for _, c := range parts {
		out = append(out, netdevs.Segment{IDs: c.IDs, Netdevs: c.Netdevs, OutNetdevs: c.OutNetdevs, Hook: c.Hook, Native: c.native, Programs: c.gen, Entrance: c.entrance})
	}
	return out
}

// understood tells whether an entry can be changed from was to now while the present programs
// run: either no program looks at it yet, or the one that does knows the new cube too.
func (p *Plane) understood(was, now abi.Entry) bool {
	if was.Cube == 0 {
		return true
	}
	for _, c := range p.parts {
		if c.enters(was.Cube) && c.enters(now.Cube) {
			return true
		}
	}
	return false
}

// enters tells whether packets from netdevs may enter the component at a cube.
func (c *segment) enters(id uint16) bool {
	i := slices.Index(c.IDs, CubeID(id))
	return i >= 0 && c.Code.Cubes[i].Entry
}

// finish removes what the new graph has no use for. Nothing here can undo the change; what
// goes wrong is logged.
func (ch *change) finish() {
	p := ch.p
	first := p.graph == nil
	if !ch.onlyCode {
		ch.plan.DetachUnused()
		if err := p.tables.Clear(ch.rows); err != nil {
			p.log.Error("clear rows of the data plane's tables", "err", err)
		}
		p.clearCubes(ch.g)
	}
	p.sets.Finish(first)
	p.partitioner.forgetLoads(p.state.ForgetObjects(ch.g))
	p.graph, p.wiring = ch.g, ch.wiring
	p.now.Store(ch.wiring)
	p.tables.Use(ch.rows)
	p.partitioner.partitioned = ch.cut
	linked := p.otherwise(ch.parts)
	for _, c := range ch.constants {
		p.unclaim(c)
	}
	left, gone := p.setParts(ch.parts)
	gone = p.kept.update(left, gone, p.users, p.graph)
	p.expel(left)
	p.state.Keep(ch.g, linkedOf(linked))
	sweep(p)
	for _, c := range slices.Concat(ch.built, ch.constants) {
		p.tell(c)
	}
	for _, gen := range gone {
		p.retire(gen)
	}
	if first {
		p.state.ForgetUnknown()
		for _, pin := range p.staleGens {
			p.collect.Unpin(func() error { return bpfmap.RemovePin(pin) })
		}
		p.staleGens = nil
	}
	p.inline.wake()
}

// otherwise are the segments whose programs are not those that their cubes have in use.
func (p *Plane) otherwise(parts []*segment) []*segment {
	return slices.DeleteFunc(p.notInUse(parts), func(c *segment) bool {
		old := p.byCube[c.IDs[0]]
		return old != nil && old.Print == c.Print
	})
}

// swap writes the programs into every slot that leads to them. What the programs before wrote to maps that have successors
// comes along.
func (ch *change) swap(u *undo.Stack) error {
	changed := ch.p.notInUse(ch.parts)
	before := map[CubeID]*segments.Generation{}
	for _, c := range changed {
		for _, id := range c.IDs {
			if was := ch.p.byCube[id]; was != nil {
				before[id] = was.gen
			}
		}
	}
	follow := ch.p.state.CatchUp(ch.g)
	// A cube that is new to the data plane is there before others lead to it.
	for _, c := range changed {
		if err := ch.p.admit(u, c); err != nil {
			return err
		}
		if err := ch.p.slots.enterCubes(u, c, before, true); err != nil {
			return err
		}
	}
	for _, c := range changed {
		c.writeConstants(u)
		if err := ch.p.enter(u, c, before); err != nil {
			return err
		}
	}
	follow(u)
	return nil
}

// enter makes the component's generation the one that packets enter. before tells which
// generation each cube was in; slots that hold the same one already are left alone.
func (p *Plane) enter(u *undo.Stack, c *segment, before map[CubeID]*segments.Generation) error {
	if err := c.entrance.Enter(u, c.gen); err != nil {
		return err
	}
	return p.slots.enterCubes(u, c, before, false)
}

// clearCubes empties the slots of cubes that are gone, once no packet can be on its way to them.
func (p *Plane) clearCubes(g *Graph) {
	if p.graph == nil {
		for id := range CubeID(link.MaxCubes) {
			if g.Cubes[id] == nil {
				p.slots.clearCube(id)
			}
		}
		return
	}
	for id := range p.graph.Cubes {
		if g.Cubes[id] == nil {
			p.collect.Add(func() error {
				p.mu.Lock()
				defer p.mu.Unlock()
				if p.graph.Cubes[id] == nil { // or another cube has the number by now
					p.slots.clearCube(id)
				}
				return nil
			})
		}
	}
}
