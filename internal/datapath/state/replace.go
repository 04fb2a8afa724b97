// SPDX-License-Identifier: Apache-2.0

package state

// If a cube's service ended and was started again, or has another version, the cube is opened again under traffic: as after
// a restart, with its maps, while the old instance is used until the programs of the new one are.

import (
	"errors"
	"fmt"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/internal/datapath/undo"
)

// Replacement is a cube that ReplaceCube opened again. Call one of its functions when the change that uses it has ended.
type Replacement struct {
	// Relink is set if the next graph must link the cube again: set another Node.Maps.
	Relink bool
	// Back restores the old instance. Settle drops it.
	Back, Settle func()
}

// ReplaceCube opens a cube with the current objects of its service, whether the cube runs, runs as an earlier daemon left it,
// or is not open. As in CreateCube, maps whose declaration changed get successors, or the call is refused. The next graph
// that is committed uses the new instance.
func (c *Cubes) ReplaceCube(spec Spec) (Replacement, error) {
	cs := c.state
	cs.mu.Lock()
	defer cs.mu.Unlock()
	was := cs.byID[spec.ID]
	if was != nil && was.spec.UUID != spec.UUID {
		return Replacement{}, fmt.Errorf("cube %s: id %d belongs to %s: %w", spec.Name, spec.ID, was.spec.Name, cube.ErrExists)
	}
	delete(cs.byID, spec.ID) // it does not conflict with itself
	in, undone, err := cs.open(spec)
	if err != nil {
		if was != nil {
			cs.byID[spec.ID] = was
		}
		return Replacement{}, err
	}
	cs.setCube(spec.ID, in)
	relink := was == nil || was.frozen || len(in.moves) > 0
	for h, o := range in.objects {
		relink = relink || was.objects[h] != o
	}
	return Replacement{
		Relink: relink,
		Back:   func() { cs.putBack(in, was, undone) },
		Settle: func() { cs.letGo(was) },
	}, nil
}

// putBack restores the instance from before a replacement.
func (cs *State) putBack(in, was *Instance, undone *undo.Stack) {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	if cs.byID[in.spec.ID] != in {
		return
	}
	if was != nil {
		was.saved = in.saved // what is pinned now
	}
	cs.setCube(in.spec.ID, was)
	cs.discard(in)
	if in.taken > 0 {
		return // the pins are those of the new maps
	}
	if err := undone.Run(); err != nil {
		cs.log.Warn("drop a re-opened cube", "cube", in.spec.Name, "err", err)
	}
}

// letGo drops the instance from before a replacement.
func (cs *State) letGo(was *Instance) {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	if was != nil {
		cs.discard(was)
	}
}

// open checks a cube and opens its maps; undone removes what it created.
func (cs *State) open(spec Spec) (in *Instance, undone *undo.Stack, err error) {
	if err := cs.checkSpec(spec); err != nil {
		return nil, nil, err
	}
	service, err := cs.services.get(spec.Service)
	if err != nil {
		return nil, nil, err
	}
	if err := checkService(spec, service); err != nil {
		return nil, nil, err
	}
	in, undone = cs.newInstance(spec, service.objects, service.elfs), &undo.Stack{}
	reopened, err := cs.openMaps(in, service.declared, undone)
	if err != nil {
		cs.discard(in)
		return nil, nil, errors.Join(fmt.Errorf("cube %s: %w", spec.Name, err), undone.Run())
	}
	if !reopened {
		err = cs.clearCounters(spec)
	}
	if err != nil {
		cs.discard(in)
		return nil, nil, errors.Join(err, undone.Run())
	}
	return in, undone, nil
}

// clearCounters clears counters that an earlier cube with the same number may have left.
func (cs *State) clearCounters(spec Spec) error {
	err := cs.fates.Clear(spec.ID)
	if err != nil {
		err = fmt.Errorf("cube %s: %w", spec.Name, err)
	}
	return errors.Join(err, cs.floods.Forget(spec.ID))
}

// ForgetService drops the objects of a service that is no longer loaded.
func (c *Cubes) ForgetService(name string) {
	cs := c.state
	cs.mu.Lock()
	defer cs.mu.Unlock()
	cs.services.forget(name)
}
