// SPDX-License-Identifier: Apache-2.0

package topology

// What a port sends at XDP leaves by a redirect, past the egress of the netdev: a transparent cube there would see what
// the host sends and not what the port does. Half of a filter is worse than none, so such a chain is refused.

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/internal/topology/unit"
)

// checkBypass refuses a chain on a netdev that this transaction brings together with a port that sends past it. One that
// was there before, by a netdev's new name, does not stand in the way of changes elsewhere.
func (t *settling) checkBypass() error {
	before := bypassed(t.old)
	after := bypassed(t.next)
	for _, key := range slices.Sorted(maps.Keys(after)) {
		if before[key] == "" {
			return fmt.Errorf("netdev %s: %w", after[key], cube.ErrInvalid)
		}
	}
	return nil
}

// bypassed says which transparent cubes of a world a port sends past, by netdev, cube and port, and why.
func bypassed(w *unit.Snapshot) map[string]string {
	found := map[string]string{}
	if len(w.Chains) == 0 {
		return found
	}
	for _, rec := range w.Cubes {
		if rec.Type.Hook() != cube.XDP {
			continue
		}
		for _, p := range rec.Ports {
			if p.Peer == "" || strings.Contains(p.Peer, ":") {
				continue
			}
			for _, name := range w.Chains[p.Peer] {
				u := w.Units[name]
				if u == nil || u.AllPrograms()[cube.ProgramSlot{Direction: cube.Egress}].Function == "" {
					continue
				}
				found[p.Peer+" "+name+" "+rec.Name] = fmt.Sprintf("%s: port %s of %s sends through it at XDP, bypassing the egress program of %s: attach %s to %s:%s instead",
					p.Peer, p.Name, rec.Name, name, name, rec.Name, p.Name)
			}
		}
	}
	return found
}
