// SPDX-License-Identifier: Apache-2.0

package datapath

import (
	"slices"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/internal/datapath/segments"
	"github.com/polycube/polycube/internal/datapath/state"
)

// keptAtMost limits the instructions of the programs that are kept: some 8 MB of the kernel's memory.
const keptAtMost = 100_000

// kept are programs of cubes that are alike, which no segment uses any more. A cube that is created and then linked or
// attached is alone in between: if others follow it, the programs of cubes that are alone come and go with each. They are
// kept as long as there is a cube of the service, because so are the maps that its cubes share.
type kept struct {
	state *state.State
	none  bool
	// all had the programs, oldest first.
	all []*segment
}

// find returns the segment that had the programs of a print, or nil.
func (k *kept) find(print string) *segment {
	if at := slices.IndexFunc(k.all, func(c *segment) bool { return c.Print == print }); at >= 0 {
		return k.all[at]
	}
	return nil
}

func (k *kept) has(gen *segments.Generation) bool {
	return slices.ContainsFunc(k.all, func(c *segment) bool { return c.gen == gen })
}

// update keeps what others may need of the programs of segments that left, and forgets those that are in use again. It
// returns what is to be closed: programs that are not kept, or no longer.
func (k *kept) update(left []*segment, gone []*segments.Generation, users map[*segments.Generation]int, g *Graph) (out []*segments.Generation) {
	for _, gen := range gone {
		at := slices.IndexFunc(left, func(c *segment) bool { return c.gen == gen })
		if at < 0 || !left[at].Alike || gen.Live() || k.none {
			out = append(out, gen)
		} else {
			k.all = append(k.all, left[at])
		}
	}
	if len(k.all) == 0 {
		return out
	}
	there, size, limit := k.services(g), 0, keptAtMost
	if little() {
		limit = 0
	}
	slices.Reverse(k.all) // the newest ones stay
	k.all = slices.DeleteFunc(k.all, func(c *segment) bool {
		if users[c.gen] > 0 {
			return true
		}
		if there[serviceHook{c.Code.Cubes[0].Service, c.Hook}] {
			if size += c.gen.Size; size <= limit {
				return false
			}
		}
		out = append(out, c.gen)
		return true
	})
	slices.Reverse(k.all)
	return out
}

// serviceHook is a service at a hook.
type serviceHook struct {
	name string
	hook cube.Hook
}

// services are those of a graph's cubes.
func (k *kept) services(g *Graph) map[serviceHook]bool {
	there := map[serviceHook]bool{}
	for id, n := range g.Cubes {
		there[serviceHook{k.state.Cube(id).Spec().Service, n.Type.Hook()}] = true
	}
	return there
}
