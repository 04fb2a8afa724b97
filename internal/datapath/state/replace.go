// SPDX-License-Identifier: Apache-2.0

package state

// A cube whose service went and came back, or came in another version, is opened anew while
// packets go through it: the same way as after a restart, with the maps that it has, and beside
// the instance that is in use until programs of the new one are.

import (
	"errors"
	"fmt"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/internal/datapath/undo"
)

// Replacement is a cube that ReplaceCube opened anew. One of its functions is to be called once
// the change that uses it is over.
type Replacement struct {
	// Relink says that the next graph must link the cube anew: Node.Maps has to be another one.
	Relink bool
	// Back makes the cube what it was. Settle lets go of what it was.
	Back, Settle func()
}

// ReplaceCube opens a cube with the objects that its service has now, whether the cube runs, goes
// on as an earlier daemon left it, or is not open. Maps whose declaration changed get successors,
// as CreateCube does, or the call is refused. The next graph that is committed uses it.
func (c *Cubes) ReplaceCube(spec Spec) (Replacement, error) {
	cs := c.state
	cs.mu.Lock()
	defer cs.mu.Unlock()
	was := cs.byID[spec.ID]
	if was != nil && was.spec.UUID != spec.UUID {
		return Replacement{}, fmt.Errorf("cube %s: id %d belongs to %s: %w", spec.Name, spec.ID, was.spec.Name, cube.ErrExists)
	}
	delete(cs.byID, spec.ID) // it does not stand in its own way
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

// putBack makes the instance before a replacement the cube again.
func (cs *State) putBack(in, was *Instance, undone *undo.Stack) {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	if cs.byID[in.spec.ID] != in {
		return
	}
	if was != nil {
		was.saved = in.saved // what is pinned by now
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

// letGo lets go of the instance before a replacement.
func (cs *State) letGo(was *Instance) {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	if was != nil {
		cs.discard(was)
	}
}

// open checks a cube and opens its maps; undone takes away what that made.
func (cs *State) open(spec Spec) (in *Instance, undone *undo.Stack, err error) {
	if err := cs.checkSpec(spec); err != nil {
		return nil, nil, err
	}
	service := cs.services[spec.Service]
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

// clearCounters empties what another cube of the same number may have left.
func (cs *State) clearCounters(spec Spec) error {
	err := cs.fates.Clear(spec.ID)
	if err != nil {
		err = fmt.Errorf("cube %s: %w", spec.Name, err)
	}
	return errors.Join(err, cs.floods.Forget(spec.ID))
}

// ForgetService forgets the objects of a service that is not loaded any more.
func (c *Cubes) ForgetService(name string) {
	cs := c.state
	cs.mu.Lock()
	defer cs.mu.Unlock()
	delete(cs.services, name)
}
