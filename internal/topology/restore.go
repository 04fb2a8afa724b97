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
	"github.com/polycube/polycube/internal/topology/unit"
	"github.com/polycube/polycube/internal/topology/world"
)

// staged is a stored cube on its way back.
type staged struct {
	stored world.Stored
	unit   *unit.Unit
	rec    *world.Cube
}

// restore brings back what the store holds. Only trouble that concerns everything is an error.
func (m *Manager) restore(ctx context.Context, state *store.State) error {
	w := unit.NewSnapshot()
	if err := m.loadLinks(w); err != nil {
		return err
	}
	var back []*staged
	if state != nil {
		w.Revision = state.Sequence
		for _, s := range m.readState(w, state) {
			st, err := m.stage(s)
			if err != nil {
				m.markBroken(w, &staged{stored: s}, err)
				continue
			}
			st.rec.Revision = w.Revision
			back = append(back, st)
		}
	}
	m.view.Store(w)
	for _, name := range slices.Sorted(maps.Keys(w.Broken)) {
		m.hold(w.Broken[name], back)
	}
	return m.restoreStaged(ctx, back)
}

// hold lets a cube that cannot be restored go on forwarding as an earlier daemon left it, where its programs and maps
// are still there (they are not after a reboot). Else its maps are protected until it is restored or deleted.
func (m *Manager) hold(b *world.Broken, back []*staged) {
	s := b.Stored
	m.dp.Keep(s.UUID)
	if s.ID == 0 || s.ID > datapath.MaxCubeID || s.UUID == "" {
		return
	}
	spec := datapath.Spec{ID: s.ID, UUID: s.UUID, Name: s.Name, Service: s.Service, Type: s.Type, Transparent: s.Transparent}
	if svc := m.loaded.Load().ByName[s.Service]; svc != nil {
		spec.Transparent, spec.External = svc.Info.Transparent, svc.Reg != nil
	} else {
		spec.External = true
	}
	rec, err := s.Cube(spec.Transparent)
	if err == nil {
		others := m.view.Load().AllRunning()
		for _, s := range back {
			others = append(others, s.rec)
		}
		err = rec.Collides(others)
	}
	if err == nil {
		err = unit.Guard(func() error { return m.dp.HoldCube(spec) })
		b.Made = err == nil
	}
	if err != nil {
		m.log.Warn("a broken cube does not forward, its state is preserved", "cube", s.Name, "reason", err)
		return
	}
	b.Running = rec
	m.log.Warn("a broken cube continues to forward with its previous programs and configuration", "cube", s.Name)
}

// unlock takes the held cubes out of the graph; it reports whether there were any.
func (m *Manager) unlock(why error) bool {
	w := m.view.Load().Clone()
	any := false
	for name, b := range w.Broken {
		if b.Running == nil {
			continue
		}
		any = true
		closed := *b
		closed.Running = nil
		w.Broken[name] = &closed
		m.log.Warn("a broken cube cannot continue next to the others, it does not forward", "cube", name, "reason", why)
	}
	m.view.Store(w)
	return any
}

func (m *Manager) loadLinks(w *unit.Snapshot) error {
	infos, err := m.netdevs.List()
	if err != nil {
		return fmt.Errorf("list the netdevs: %w", err)
	}
	for _, info := range infos {
		w.SetLink(info.Name, world.LinkOf(info))
		m.neighbours.Note(netdev.Event{Kind: netdev.Added, Info: info})
	}
	return nil
}

// readState decodes the store's records: chains go into the world, cubes are returned by age.
func (m *Manager) readState(w *unit.Snapshot, state *store.State) []world.Stored {
	var cubes []world.Stored
	for _, r := range state.Records {
		name, isCube := strings.CutPrefix(r.Key, world.CubeKey)
		dev, isNetdev := strings.CutPrefix(r.Key, world.NetdevKey)
		var chain world.StoredChain
		s := world.Stored{Name: name}
		var err error
		switch {
		case isCube:
			if err = json.Unmarshal(r.Value, &s); err != nil || s.Name != name {
				s = world.Stored{Name: name}
				m.markBroken(w, &staged{stored: s}, fmt.Errorf("its record cannot be read: %w", errors.Join(err, cube.ErrInvalid)))
				continue
			}
			s.Blob = r.Value
			cubes = append(cubes, s)
		case isNetdev:
			if err = json.Unmarshal(r.Value, &chain); err == nil && len(chain.Tcubes) > 0 {
				w.Chains[dev] = chain.Tcubes
			}
		}
		if err != nil {
			m.log.Error("a stored record cannot be read, it stays in the store", "key", r.Key, "error", err)
		}
	}
	entries := world.ReadEntries(state)
	for i, s := range cubes {
		cubes[i].Entries = entries[s.UUID]
	}
	slices.SortFunc(cubes, func(a, b world.Stored) int { return int(int64(a.Seq) - int64(b.Seq)) })
	return cubes
}

// stage makes tree, unit and record of a stored cube; its code is not called yet.
func (m *Manager) stage(s world.Stored) (*staged, error) {
	svc := m.loaded.Load().ByName[s.Service]
	if svc == nil {
		return nil, fmt.Errorf("service %s is not loaded: %w", s.Service, cube.ErrNotFound)
	}
	if err := m.checkCubeName(s.Name); err != nil {
		return nil, err
	}
	if s.ID == 0 || s.ID > datapath.MaxCubeID || s.UUID == "" {
		return nil, fmt.Errorf("its record has no valid number or UUID: %w", cube.ErrInvalid)
	}
	u := m.newUnit(svc, s.Name, s.UUID, s.ID)
	u.TakeOver()
	if err := unit.RestoreTree(&s, u); err != nil {
		u.Tree.Close()
		return nil, fmt.Errorf("its configuration: %w", err)
	}
	rec := &world.Cube{Name: s.Name, Service: s.Service, UUID: s.UUID, ID: s.ID, Seq: s.Seq, Type: s.Type, Blob: s.Blob,
		Transparent: svc.Info.Transparent, Ports: map[string]*world.Port{}}
	for _, p := range s.Ports {
		rec.Ports[p.Name] = &world.Port{Name: p.Name, UUID: p.UUID, Index: p.Index, Slot: p.Slot, OwnMAC: p.OwnMAC}
	}
	if s.Entries != nil {
		u.Restored = s.Entries
	}
	m.seq = max(m.seq, s.Seq)
	m.lastID = max(m.lastID, s.ID)
	return &staged{stored: s, unit: u, rec: rec}, nil
}

// restoreStaged restores the staged cubes in one transaction, leaving out those that stand in its way.
func (m *Manager) restoreStaged(ctx context.Context, back []*staged) error {
	for {
		err := m.attempt(ctx, back)
		if err == nil {
			return nil
		}
		var culprit *cubeError
		if !errors.As(err, &culprit) {
			if m.unlock(err) {
				continue
			}
			m.log.Warn("the stored topology is refused as a whole, restoring its cubes one by one", "error", err)
			return m.restoreOneByOne(ctx, back)
		}
		back = m.giveUp(back, culprit.cube, err)
	}
}

// attempt restores cubes in one transaction.
func (m *Manager) attempt(ctx context.Context, back []*staged) error {
	return m.transactRestoring(ctx, func(t *txn) error {
		for _, s := range back {
			t.next.Cubes[s.rec.Name], t.next.Units[s.rec.Name] = s.rec, s.unit
			t.created = append(t.created, s.unit)
			t.touch(s.rec.Name)
		}
		fromStore := make(map[*world.Cube]bool, len(back))
		for _, s := range back {
			fromStore[s.rec] = true
		}
		name, err := t.next.CheckNumbers(fromStore)
		return blame(name, err)
	})
}

// leftOut marks netdevs that are tried one by one.
const leftOut = "it is not tried yet"

// restoreOneByOne is for a data plane that refuses the whole: first the cubes without netdevs, then the netdevs.
func (m *Manager) restoreOneByOne(ctx context.Context, back []*staged) error {
	w := m.view.Load().Clone()
	for name, l := range w.Links {
		l.Refused = leftOut
		w.SetLink(name, l)
	}
	m.view.Store(w)
	for _, s := range back {
		if err := m.attempt(ctx, []*staged{s}); err != nil {
			m.giveUp([]*staged{s}, s.rec.Name, err)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(m.view.Load().Links)) {
		l := m.view.Load().Links[name]
		l.Refused = ""
		m.relink(ctx, name, l)
	}
	return nil
}

// giveUp marks one of the cubes broken and returns the others.
func (m *Manager) giveUp(back []*staged, name string, why error) []*staged {
	i := slices.IndexFunc(back, func(s *staged) bool { return s.rec.Name == name })
	w := m.view.Load().Clone()
	gone := back[i]
	back = slices.Delete(back, i, i+1)
	m.markBroken(w, gone, why)
	m.hold(w.Broken[name], back)
	m.view.Store(w)
	m.byID.Delete(gone.unit.ID)
	m.endUnit(gone.unit)
	return back
}

// markBroken keeps a stored cube that cannot run.
func (m *Manager) markBroken(w *unit.Snapshot, s *staged, why error) {
	m.log.Error("a stored cube cannot be restored, it stays in the store", "cube", s.stored.Name,
		"service", s.stored.Service, "error", why)
	m.tell.Cube(s.stored.Name, s.stored.Service, "broken", why.Error())
	w.Broken[s.stored.Name] = &world.Broken{Stored: s.stored, Reason: why.Error(),
		Made: s.unit != nil && s.unit.Ready()}
}
