// SPDX-License-Identifier: Apache-2.0

package topology

// The namespaces of shadow cubes outside of requests: those of deleted cubes are removed, and cubes follow changes that are
// made in their namespaces.

import (
	"context"
	"errors"

	"github.com/polycube/polycube/internal/netdev"
	"github.com/polycube/polycube/internal/topology/service"
	"github.com/polycube/polycube/internal/topology/world"
)

// namespaces maintains the namespaces of shadow cubes.
type namespaces struct {
	*parts
	writer *writer
}

// start removes the namespaces of deleted cubes, and begins to watch the others.
func (n *namespaces) start() {
	if n.shadows == nil {
		return
	}
	n.sweep()
	n.shadows.Start(n.changed)
}

// forget removes the namespace of a cube that could not be restored. It excludes changes: the namespaces of cubes that are
// being created are not in the world yet.
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

// sweep removes the namespaces of deleted cubes. Those of cubes that could not be restored stay.
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

// changed repairs a cube's namespace, and makes the cube follow changes there. A change that the cube refuses stays in the
// namespace and is logged; it does not undo the repair.
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

// event handles an event of an outer end, which users do not see as a netdev. An outer end that somebody deleted is
// recreated. It returns false for any other device.
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
