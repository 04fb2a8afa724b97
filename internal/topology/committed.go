// SPDX-License-Identifier: Apache-2.0

package topology

// A durable transaction is published to readers, and cubes and clients are notified. Nothing can fail any more.

import (
	"github.com/polycube/polycube/internal/topology/announce"
	"github.com/polycube/polycube/internal/topology/unit"
)

// publish makes the next world the current one, notifies the cubes concerned, and removes those that were deleted.
func (c *committed) publish() {
	for name, rec := range c.next.Cubes {
		if was := c.old.Cubes[name]; was != rec {
			if !rec.SamePorts(c.known(name)) {
				c.next.Units[name].SetPorts(unit.NewPortTable(rec))
			}
			c.next.Units[name].Restored = nil
		}
	}
	for _, u := range c.removed {
		u.End()
		c.byID.Delete(u.ID)
	}
	c.introduce()
	c.inUse.publish(c.next)
	c.followTrial()
	c.unlock()
	for _, p := range c.plans {
		p.unit.After.Add(p.plan.After)
	}
	c.retirePredecessors()
	for _, u := range c.removed {
		u.Delete()
		if err := unit.Guard(func() error { return c.dp.DeleteCube(u.ID) }); err != nil {
			c.log.Error("remove a cube's maps", "cube", u.Name, "error", err)
		}
	}
	c.finishShadows()
	c.notify()
	if !c.restoring {
		c.events.Change(announce.Change{Old: c.old, Next: c.next, Origins: c.origins, Edits: c.edits, Touched: c.touched,
			Removed: c.removed, Notes: c.notes})
	}
	c.tellOfLost()
	c.freeMemory()
}
