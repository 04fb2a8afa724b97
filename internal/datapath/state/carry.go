// SPDX-License-Identifier: Apache-2.0

package state

// Entries are carried from one layout to another. A map whose declaration changed gets a successor, which is filled while
// packets still use the old map. Both exist until programs that use the successor are in use; then it gets the pin. Until
// then, the change can be undone completely, whatever fails and whenever the daemon is killed.

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

// move is a pin that a successor gets once programs use it.
type move struct {
	path string
	now  *ebpf.Map
	// was is the replaced map, as long as the successor has the pin and the change can be undone.
	was *ebpf.Map
}

// succession is a map that was replaced by one of another size or layout. Changes by programs after the copy are carried
// over in two passes: just before the programs that use its successor replace them, and after that.
type succession struct {
	name     string
	was, now *ebpf.Map
	// copied are the entries that were carried over, in the layout of now.
	copied bpfmap.Image
	// other is set if the layout differs; nil if only the size does.
	other *otherLayout
	// dropped is set if the successor starts empty.
	dropped bool
}

// otherLayout converts entries from one layout to another.
type otherLayout struct {
	// had are the entries of the old map when they were carried over.
	had  bpfmap.Image
	spec *ebpf.MapSpec // of the successor
	// migrate fills a map of the new layout with the entries of a map of the old one.
	migrate func(from, to *ebpf.Map) error
}

// carry returns m if it has the layout of spec, otherwise a successor with its entries.
func (in *Instance) carry(name string, m *ebpf.Map, spec *ebpf.MapSpec, u *undo.Stack) (*ebpf.Map, error) {
	was := in.was[name]
	kind, what := bpfmap.Compare(m, was, spec)
	if kind == bpfmap.Same {
		return m, nil
	}
	disposable := bpfmap.Disposable(spec)
	if kind == bpfmap.Other && in.spec.Migrate == nil && !disposable {
		return nil, fmt.Errorf("map %s has another layout (%s), and the service cannot convert its entries: "+
			"it needs Migrate, or PCN_DISPOSABLE in the map's declaration if they may be dropped: %w", name, what, cube.ErrUnsupported)
	}
	s := spec.Copy()
	s.Pinning = ebpf.PinNone
	next, err := successor(name, s, u)
	if err != nil {
		return nil, err
	}
	late := succession{name: name, was: m, now: next, copied: bpfmap.Image{}}
	switch {
	case disposable && kind == bpfmap.Other:
		late.dropped, in.origins[name] = true, origins.Created
	case kind == bpfmap.Resized:
		in.origins[name] = origins.Resized
		err := bpfmap.Copy(m, next, late.copied)
		if err != nil && disposable {
			late.dropped, in.origins[name] = true, origins.Created
			late.now, err = successor(name, s, u)
		}
		if err != nil {
			return nil, fmt.Errorf("map %s (%s): %w", name, what, err)
		}
	default:
		late.other = &otherLayout{had: bpfmap.Image{}, spec: s, migrate: func(from, to *ebpf.Map) error {
			return migrate(in.spec.Migrate, cube.Migration{Cube: in.spec.Name, Map: name, Old: from, New: to, Was: was})
		}}
		in.origins[name] = origins.Migrated
		if err := late.begin(); err != nil {
			return nil, fmt.Errorf("map %s has another layout (%s), and its entries cannot be converted: %w", name, what, err)
		}
	}
	in.late = append(in.late, late)
	return late.now, nil
}

// successor creates an empty map, which u closes.
func successor(name string, spec *ebpf.MapSpec, u *undo.Stack) (*ebpf.Map, error) {
	m, err := bpfmap.New(spec)
	if err != nil {
		return nil, fmt.Errorf("create map %s: %w", name, err)
	}
	u.Push(m.Close)
	return m, nil
}

// migrate calls the service's function. A panic in it is returned as an error.
func migrate(fn func(cube.Migration) error, step cube.Migration) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("panic in the service's Migrate: %v\n%s", v, debug.Stack())
		}
	}()
	return fn(step)
}

// settled closes a map once no program uses it any more.
func (in *Instance) settled(m *ebpf.Map) { in.olds = append(in.olds, m) }

// takeOver closes the replaced maps; their successors have the pins. Entries that programs still add to them are carried
// over once no program uses them any more.
func (cs *State) takeOver(in *Instance) error {
	errs := []error{cs.repin(in, nil)}
	late, olds := in.late, in.olds
	for _, s := range late {
		if s.dropped {
			cs.log.Info("a disposable map starts empty: its declaration changed", "cube", in.spec.Name, "map", s.name)
			continue
		}
		cs.log.Info("a map has a successor with its entries", "cube", in.spec.Name, "map", s.name, "origin", in.origins[s.name], "entries", len(s.copied))
	}
	if len(in.moves) > 0 {
		in.taken++
	}
	in.moves, in.late, in.olds = nil, nil, nil
	for i := range late { // the cube may be deleted before that
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

// repin gives the successors the pins, unless they have them. u undoes that; it is nil once the change is final.
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

// pin gives the successor the pin, and pushes the undo to u. The last call, without u, closes the replaced map.
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

// lastWords carries over the last entries that programs added to replaced maps, and closes these.
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

// CatchUp carries over what programs changed in maps since these were copied. Call it just before the programs are
// replaced, and follow immediately after: it gives the successors the pins, so that they outlive the daemon, and carries
// over entries that were added in between. If entries cannot be carried over, the change is not refused.
func (cs *State) CatchUp(g *graph.Graph) (follow func(*undo.Stack)) {
	type place struct{ cube, name string }
	late := map[place][]*succession{} // a successor that was itself replaced passes entries on
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
