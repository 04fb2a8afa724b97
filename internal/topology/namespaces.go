// SPDX-License-Identifier: Apache-2.0

package topology

// The namespaces of shadow cubes while nothing is requested: those of cubes that are gone are removed, and cubes follow
// what is changed in theirs.

import (
	"context"
	"errors"

	"github.com/polycube/polycube/internal/netdev"
	"github.com/polycube/polycube/internal/topology/service"
	"github.com/polycube/polycube/internal/topology/world"
)

// namespaces looks after the namespaces that are there.
type namespaces struct {
	*parts
	writer *writer
}

// start removes the namespaces of cubes that are gone, and begins to follow those that are there.
func (n *namespaces) start() {
	if n.shadows == nil {
		return
	}
	n.sweep()
	n.shadows.Start(n.changed)
}

// forget removes what there is of the namespace of a cube that could not be restored. The namespaces of cubes that are
// being made are not in the world yet, so nothing may change meanwhile.
func (n *namespaces) forget(uuid string) {
	if n.shadows == nil {
		return
	}
	_ = n.writer.Exclusively(context.Background(), func() error { // a daemon that stops leaves it to the next one
		if err := n.shadows.Remove(uuid); err != nil {
			n.log.Error("remove a cube's namespace", "error", err)
		}
		n.sweep()
		return nil
	})
}

// sweep removes the namespaces of cubes that are gone. Those of cubes that could not be restored stay.
func (n *namespaces) sweep() {
	w := n.view.Load()
	keep := map[string]bool{}
	for _, rec := range w.Cubes {
		keep[rec.UUID] = rec.Shadow
	}
	for _, b := range w.Broken {
		keep[b.Stored.UUID] = true
	}
	if err := n.shadows.Sweep(func(uuid string) bool { return keep[uuid] }); err != nil {
		n.log.Error("remove namespaces of deleted cubes", "error", err)
	}
}

// changed repairs a cube's namespace, and has the cube follow what was changed there. A change that the cube
// refuses stays in the namespace, and is told to the log; it does not undo the repair.
func (n *namespaces) changed(uuid string) {
	for _, what := range []struct {
		fails string
		do    func(*editing, *world.Cube) error
	}{
		{"a cube's namespace cannot be repaired", (*editing).repairShadow},
		{"the interfaces of a cube's namespace cannot be read", (*editing).noteShadow},
		{"a cube does not follow its namespace", (*editing).followShadow},
	} {
		err := n.writer.transact(context.Background(), func(t *editing) error {
			for name, rec := range t.next.Cubes {
				if rec.UUID == uuid && rec.Shadow {
					return what.do(t, t.own(name))
				}
			}
			return errUnchanged
		})
		if err != nil && !errors.Is(err, errUnchanged) && !errors.Is(err, service.ErrClosed) {
			n.log.Warn(what.fails, "error", err)
		}
	}
}

// event takes an event about an outer end, which is no netdev for users. One that somebody deleted is made again.
func (n *namespaces) event(e netdev.Event) bool {
	if n.shadows == nil || e.Kind == netdev.Synced {
		return false
	}
	uuid := n.shadows.Owner(e.Info.Index)
	if uuid != "" && e.Kind == netdev.Removed {
		n.changed(uuid)
	}
	return uuid != ""
}
