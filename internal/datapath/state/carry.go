// SPDX-License-Identifier: Apache-2.0

package state

// State from one layout to another. A map whose declaration changed gets a successor beside it,
// filled while packets still use the old one. Both live until programs that use the successor are
// in place; then it takes over the pin. Until that moment everything can be as if nothing had
// happened, whatever fails and whenever the daemon dies.

import (
	"errors"
	"fmt"
	"io/fs"
	"runtime/debug"
	"sync"

	"github.com/cilium/ebpf"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/cube/origins"
	"github.com/polycube/polycube/internal/datapath/bpfmap"
	"github.com/polycube/polycube/internal/datapath/graph"
	"github.com/polycube/polycube/internal/datapath/undo"
)

// move is a pin that goes over to a successor once programs use that one.
type move struct {
	path string
	now  *ebpf.Map
	// was is the replaced map while the successor has the pin and the change can be undone.
	was *ebpf.Map
}

// succession is a map that was replaced by one of another size or layout. Changes by programs after the copy are carried
// over in two passes: just before the programs that use its successor replace them, and after that.
type succession struct {
	name     string
	was, now *ebpf.Map
	// copied is the entries that were carried over, in the layout of now.
	copied bpfmap.Image
	// other says how the layout differs; nil if only the size does.
	other *otherLayout
}

// otherLayout is how entries get from one layout to another.
type otherLayout struct {
	// had is the entries of the map before when they were carried over.
	had  bpfmap.Image
	spec *ebpf.MapSpec // of the successor
	// migrate fills a map of the new layout with the entries of one of the old.
	migrate func(from, to *ebpf.Map) error
}

// carry returns m if its layout is as spec says, else a successor with its entries.
func (in *Instance) carry(name string, m *ebpf.Map, spec *ebpf.MapSpec, u *undo.Stack) (*ebpf.Map, error) {
	was := in.was[name]
	kind, what := bpfmap.Compare(m, was, spec)
	if kind == bpfmap.Same {
		return m, nil
	}
	if kind == bpfmap.Other && in.spec.Migrate == nil {
		return nil, fmt.Errorf("map %s has another layout (%s), and the service cannot convert its entries: %w",
			name, what, cube.ErrUnsupported)
	}
	s := spec.Copy()
	s.Pinning = ebpf.PinNone
	next, err := bpfmap.New(s)
	if err != nil {
		return nil, fmt.Errorf("create map %s: %w", name, err)
	}
	u.Push(next.Close)
	late := succession{name: name, was: m, now: next, copied: bpfmap.Image{}}
	if kind == bpfmap.Resized {
		if err := bpfmap.Copy(m, next, late.copied); err != nil {
			return nil, fmt.Errorf("map %s (%s): %w", name, what, err)
		}
		in.late = append(in.late, late)
		in.origins[name] = origins.Resized
		return next, nil
	}
	late.other = &otherLayout{had: bpfmap.Image{}, spec: s, migrate: func(from, to *ebpf.Map) error {
		return migrate(in.spec.Migrate, cube.Migration{Cube: in.spec.Name, Map: name, Old: from, New: to, Was: was})
	}}
	if err := late.begin(); err != nil {
		return nil, fmt.Errorf("map %s has another layout (%s), and its entries cannot be converted: %w", name, what, err)
	}
	in.late = append(in.late, late)
	in.origins[name] = origins.Migrated
	return next, nil
}

// migrate calls the service's function, whose panic is an error like any other.
func migrate(fn func(cube.Migration) error, step cube.Migration) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("panic in the service's Migrate: %v\n%s", v, debug.Stack())
		}
	}()
	return fn(step)
}

// settled closes a map that programs may still use once they do not.
func (in *Instance) settled(m *ebpf.Map) { in.olds = append(in.olds, m) }

// takeOver closes the replaced maps, whose pins the successors have. Entries that programs still add to them are carried
// over when no program uses them any more.
func (cs *State) takeOver(in *Instance) error {
	errs := []error{cs.repin(in, nil)}
	late, olds := in.late, in.olds
	for _, s := range late {
		cs.log.Info("a map has a successor with its entries", "cube", in.spec.Name, "map", s.name, "origin", in.origins[s.name], "entries", len(s.copied))
	}
	if len(in.moves) > 0 {
		in.taken++
	}
	in.moves, in.late, in.olds = nil, nil, nil
	for i := range late { // the cube may be gone before it is their turn
		next, err := late[i].now.Clone()
		if err != nil {
			return errors.Join(append(errs, fmt.Errorf("keep a map open: %w", err))...)
		}
		late[i].now = next
		olds = append(olds, next)
	}
	if len(olds) > 0 {
		cs.collect.Add(func() error { return lastWords(late, olds) })
	}
	return errors.Join(errs...)
}

// due returns the cubes of a graph whose maps have successors, or whose folders have not been tidied.
func (cs *State) due(g *graph.Graph) (out []*Instance) {
	for id, in := range cs.byID {
		if (!in.tidied || in.Pending() > 0 || cs.commons.moved(in.commons)) && g.Cubes[id] != nil {
			out = append(out, in)
		}
	}
	return out
}

// repin gives the pins to the successors, if they do not have them yet. u reverts that; it is nil once the change is final.
func (cs *State) repin(in *Instance, u *undo.Stack) error {
	var errs []error
	for i := range in.moves {
		errs = append(errs, in.moves[i].pin(u))
	}
	for _, place := range in.commons {
		if mv := cs.commons.byPlace[place].move; mv != nil {
			errs = append(errs, mv.pin(u))
		}
		if u == nil {
			cs.commons.byPlace[place].move = nil
		}
	}
	return errors.Join(errs...)
}

// pin gives the pin to the successor. With an undo that can be reverted; the last call, without one, closes the replaced map.
func (mv *move) pin(u *undo.Stack) error {
	if mv.was == nil {
		was, err := ebpf.LoadPinnedMap(mv.path, nil)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("open pin %s: %w", mv.path, err)
		}
		if err := bpfmap.Repin(mv.now, mv.path); err != nil {
			return errors.Join(err, was.Close())
		}
		mv.was = was
		if u != nil && was != nil {
			u.Push(func() error { return errors.Join(bpfmap.Repin(mv.was, mv.path), mv.letGo()) })
		}
	}
	if u == nil {
		return mv.letGo()
	}
	return nil
}

// letGo closes the replaced map.
func (mv *move) letGo() error {
	was := mv.was
	mv.was = nil
	return was.Close()
}

// lastWords carries over what programs added to maps before they left them, and closes those.
func lastWords(late []succession, olds []*ebpf.Map) error {
	var errs []error
	for i := range late {
		if err := late[i].follow(); err != nil {
			errs = append(errs, fmt.Errorf("entries written to map %s while it was copied: %w", late[i].name, err))
		}
	}
	for _, m := range olds {
		_ = m.Close()
	}
	return errors.Join(errs...)
}

// CatchUp carries over what programs did to the maps of cubes since these were copied; it is called just before the programs
// are replaced. follow is called at once after: it gives the successors the pins, so that they outlive the daemon, and carries over
// what was added in between. Entries that cannot be carried over are no reason to refuse the change.
func (cs *State) CatchUp(g *graph.Graph) (follow func(*undo.Stack)) {
	type place struct{ cube, name string }
	late := map[place][]*succession{} // a successor that was replaced itself passes on what it gets
	due := cs.due(g)
	for _, in := range due {
		for i := range in.late {
			at := place{in.spec.Name, in.late[i].name}
			late[at] = append(late[at], &in.late[i])
		}
	}
	each := func(pass func(*succession) error) {
		var all sync.WaitGroup
		for at, list := range late {
			all.Go(func() {
				for _, s := range list {
					if err := pass(s); err != nil {
						cs.log.Warn("entries written while a map was copied are not carried over", "cube", at.cube, "map", at.name, "err", err)
					}
				}
			})
		}
		all.Wait()
	}
	each((*succession).catchUp)
	return func(u *undo.Stack) {
		for _, in := range due {
			if err := cs.repin(in, u); err != nil {
				cs.log.Warn("pin maps that are in use; it is tried again", "cube", in.spec.Name, "err", err)
			}
		}
		each((*succession).follow)
	}
}
