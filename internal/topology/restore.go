// SPDX-License-Identifier: Apache-2.0

package topology

// How stored cubes come back at a start: with the same numbers, whole or not at all, and without one cube's trouble
// becoming another's.

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/internal/datapath"
	"github.com/polycube/polycube/internal/netdev"
	"github.com/polycube/polycube/internal/store"
	"github.com/polycube/polycube/internal/topology/follow"
	"github.com/polycube/polycube/internal/topology/unit"
	"github.com/polycube/polycube/internal/topology/world"
)

// restoration restores the stored cubes while New runs.
type restoration struct {
	*parts
	writer   *writer
	follower *follow.Follower
	// back are the cubes to restore, by age. A cube that cannot be restored is removed from them and marked broken.
	back []*staged
}

// restore brings back what the store holds. Only trouble that concerns everything is an error.
func (r *restoration) restore(ctx context.Context, state *store.State) error {
	w := unit.NewSnapshot()
	if err := r.loadLinks(w); err != nil {
		return err
	}
	if state != nil {
		w.Revision = state.Sequence
		for _, s := range r.readState(w, state) {
			st, err := r.units.stage(s)
			if err != nil {
				r.markBroken(w, &staged{stored: s}, err)
				continue
			}
			st.rec.Revision = w.Revision
			r.back = append(r.back, st)
		}
	}
	r.view.Store(w)
	for _, name := range slices.Sorted(maps.Keys(w.Broken)) {
		r.hold(w.Broken[name])
	}
	if err := r.restoreStaged(ctx); err != nil {
		return err
	}
	r.findNetdevs()
	return nil
}

// hold lets a cube that cannot be restored go on forwarding as an earlier daemon left it, where its programs and maps
// are still there (they are not after a reboot). Else its maps are protected until it is restored or deleted.
func (r *restoration) hold(b *world.Broken) {
	s := b.Stored
	r.dp.Keep(s.UUID)
	if s.ID == 0 || s.ID > datapath.MaxCubeID || s.UUID == "" {
		return
	}
	spec := datapath.Spec{ID: s.ID, UUID: s.UUID, Name: s.Name, Service: s.Service, Type: s.Type, Transparent: s.Transparent}
	if svc := r.loaded.Load().ByName[s.Service]; svc != nil {
		spec.Transparent, spec.External = svc.Info.Transparent, svc.Reg != nil
	} else {
		spec.External = true
	}
	rec, err := s.Cube(spec.Transparent)
	if err == nil {
		others := r.view.Load().AllRunning()
		for _, s := range r.back {
			others = append(others, s.rec)
		}
		err = rec.Collides(others)
	}
	if err == nil {
		err = unit.Guard(func() error { return r.dp.HoldCube(spec) })
		b.Made = err == nil
	}
	if err != nil {
		r.log.Warn("a broken cube does not forward, its state is preserved", "cube", s.Name, "reason", err)
		return
	}
	b.Running = rec
	r.log.Warn("a broken cube continues to forward with its previous programs and configuration", "cube", s.Name)
}

// unlock takes the held cubes out of the graph; it reports whether there were any.
func (r *restoration) unlock(why error) bool {
	w := r.view.Load().Clone()
	any := false
	for name, b := range w.Broken {
		if b.Running == nil {
			continue
		}
		any = true
		closed := *b
		closed.Running = nil
		w.Broken[name] = &closed
		r.log.Warn("a broken cube cannot continue next to the others, it does not forward", "cube", name, "reason", why)
	}
	r.view.Store(w)
	return any
}

func (r *restoration) loadLinks(w *unit.Snapshot) error {
	infos, err := r.netdevs.List()
	if err != nil {
		return fmt.Errorf("list the netdevs: %w", err)
	}
	for _, info := range infos {
		w.SetLink(info.Name, world.LinkOf(info))
		r.neighbours.Note(netdev.Event{Kind: netdev.Added, Info: info})
	}
	return nil
}

// readState decodes the store's records: chains go into the world, cubes are returned by age.
func (r *restoration) readState(w *unit.Snapshot, state *store.State) []world.Stored {
	var cubes []world.Stored
	for _, one := range state.Records {
		name, isCube := strings.CutPrefix(one.Key, world.CubeKey)
		dev, isNetdev := strings.CutPrefix(one.Key, world.NetdevKey)
		var chain world.StoredChain
		s := world.Stored{Name: name}
		var err error
		switch {
		case isCube:
			if err = json.Unmarshal(one.Value, &s); err != nil || s.Name != name {
				s = world.Stored{Name: name}
				r.markBroken(w, &staged{stored: s}, fmt.Errorf("its record cannot be read: %w", errors.Join(err, cube.ErrInvalid)))
				continue
			}
			s.Blob = one.Value
			cubes = append(cubes, s)
		case isNetdev:
			if err = json.Unmarshal(one.Value, &chain); err == nil && len(chain.Tcubes) > 0 {
				w.Chains[dev] = chain.Tcubes
			}
		}
		if err != nil {
			r.log.Error("a stored record cannot be read, it stays in the store", "key", one.Key, "error", err)
		}
	}
	entries := world.ReadEntries(state)
	for i, s := range cubes {
		cubes[i].Entries = entries[s.UUID]
	}
	slices.SortFunc(cubes, func(a, b world.Stored) int { return int(int64(a.Seq) - int64(b.Seq)) })
	return cubes
}

// restoreStaged restores the cubes in one transaction, leaving out those that stand in its way.
func (r *restoration) restoreStaged(ctx context.Context) error {
	for {
		err := r.attempt(ctx)
		if err == nil {
			return nil
		}
		var culprit *cubeError
		if !errors.As(err, &culprit) {
			if r.unlock(err) {
				continue
			}
			r.log.Warn("the stored topology is refused as a whole, restoring its cubes one by one", "error", err)
			return r.restoreOneByOne(ctx)
		}
		r.giveUp(culprit.cube, err)
	}
}

// attempt restores the cubes in one transaction.
func (r *restoration) attempt(ctx context.Context) error {
	return r.writer.transactRestoring(ctx, func(t *editing) error {
		for _, s := range r.back {
			t.next.Cubes[s.rec.Name], t.next.Units[s.rec.Name] = s.rec, s.unit
			t.created = append(t.created, s.unit)
			t.touch(s.rec.Name)
		}
		fromStore := make(map[*world.Cube]bool, len(r.back))
		for _, s := range r.back {
			fromStore[s.rec] = true
		}
		name, err := t.next.CheckNumbers(fromStore)
		return blame(name, err)
	})
}

// leftOut marks netdevs that are tried one by one.
const leftOut = "it is not tried yet"

// restoreOneByOne is for a data plane that refuses the whole: first the cubes without netdevs, then the netdevs.
func (r *restoration) restoreOneByOne(ctx context.Context) error {
	w := r.view.Load().Clone()
	for name, l := range w.Links {
		l.Refused = leftOut
		w.SetLink(name, l)
	}
	r.view.Store(w)
	for _, s := range r.back {
		r.back = []*staged{s}
		if err := r.attempt(ctx); err != nil {
			r.giveUp(s.rec.Name, err)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(r.view.Load().Links)) {
		l := r.view.Load().Links[name]
		l.Refused = ""
		r.follower.Relink(ctx, name, l)
	}
	return nil
}

// giveUp marks one of the cubes broken; the others remain.
func (r *restoration) giveUp(name string, why error) {
	i := slices.IndexFunc(r.back, func(s *staged) bool { return s.rec.Name == name })
	w := r.view.Load().Clone()
	gone := r.back[i]
	r.back = slices.Delete(r.back, i, i+1)
	r.markBroken(w, gone, why)
	r.hold(w.Broken[name])
	r.view.Store(w)
	r.byID.Delete(gone.unit.ID)
	gone.unit.Close()
}

// markBroken keeps a stored cube that cannot run.
func (r *restoration) markBroken(w *unit.Snapshot, s *staged, why error) {
	r.log.Error("a stored cube cannot be restored, it stays in the store", "cube", s.stored.Name,
		"service", s.stored.Service, "error", why)
	r.events.Cube(s.stored.Name, s.stored.Service, "broken", why.Error())
	w.Broken[s.stored.Name] = &world.Broken{Stored: s.stored, Reason: why.Error(),
		Made: s.unit != nil && s.unit.Ready()}
}

// findNetdevs reads the netdevs that exist at the start. Their settings then do not change ports: the configuration applies.
func (r *restoration) findNetdevs() {
	w := r.view.Load().Clone()
	for name, at := range w.Holders(func(peer string) bool { return w.Links[peer].Index != 0 }) {
		rec, u := w.Cubes[at[0].Cube], w.Units[at[0].Cube]
		if rec == nil || u == nil {
			continue
		}
		if u.Instance().Alignment == nil {
			continue
		}
		if status, err := r.netdevs.Status(name); err == nil {
			w.Aligned[name] = &world.Aligned{PortUUID: rec.Ports[at[0].Port].UUID, Found: true, Status: status}
		}
	}
	r.view.Store(w)
}
