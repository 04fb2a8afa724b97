// SPDX-License-Identifier: Apache-2.0

package datapath

import (
	"slices"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/internal/datapath/segments"
)

// keptAtMost limits the instructions of the programs that are kept: some 8 MB of the kernel's memory.
const keptAtMost = 100_000

// kept are programs of cubes that are alike, which no segment uses any more, oldest first. A cube that is created and then
// linked or attached is alone in between: if others follow it, the programs of cubes that are alone come and go with each.
// They are kept as long as there is a cube of the service, because so are the maps that its cubes share.
type kept []*segment

// serviceHook is a service at a hook.
type serviceHook struct {
	name string
	hook cube.Hook
}

// find returns the segment that had the programs of a print, or nil.
func (k kept) find(print string) *segment {
	if at := slices.IndexFunc(k, func(c *segment) bool { return c.Print == print }); at >= 0 {
		return k[at]
	}
	return nil
}

func (k kept) has(gen *segments.Generation) bool {
	return slices.ContainsFunc(k, func(c *segment) bool { return c.gen == gen })
}

// keep keeps those programs of segments that left which others may need, and returns those that are to be closed.
func (k *kept) keep(left []*segment, gone []*segments.Generation) (out []*segments.Generation) {
	for _, gen := range gone {
		at := slices.IndexFunc(left, func(c *segment) bool { return c.gen == gen })
		if at < 0 || !left[at].Alike || gen.Live() {
			out = append(out, gen)
		} else {
			*k = append(*k, left[at])
		}
	}
	return out
}

// forget forgets programs that are in use again, and returns those that are to be closed: of services that have no cube any
// more, and the oldest ones beyond a number of instructions.
func (k *kept) forget(users map[*segments.Generation]int, there map[serviceHook]bool, limit int) (out []*segments.Generation) {
	size := 0
	slices.Reverse(*k)
	*k = slices.DeleteFunc(*k, func(c *segment) bool {
		if users[c.gen] > 0 {
			return true
		}
		if size += c.gen.Size; size <= limit && there[serviceHook{c.Code.Cubes[0].Service, c.Hook}] {
			return false
		}
		out = append(out, c.gen)
		return true
	})
	slices.Reverse(*k)
	return out
}
