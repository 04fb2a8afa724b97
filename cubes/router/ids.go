// SPDX-License-Identifier: Apache-2.0

package router

// Indexes of arrays that packets read without a lock. A packet that looked up its route a moment ago may still hold an
// index that was freed, so it is not reused for a while.

import (
	"fmt"
	"time"

	"github.com/polycube/polycube/cube"
)

// rest is how long a freed index is not reused: far longer than a packet takes.
const rest = time.Second

type freed struct {
	id uint32
	at time.Time
}

// ids allocates indexes below limit.
type ids struct {
	what        string
	next, limit uint32
	free        []freed // in the order in which they were freed
	now         func() time.Time
}

func (i *ids) take() (uint32, error) {
	if len(i.free) > 0 && (i.now().Sub(i.free[0].at) >= rest || i.next == i.limit) {
		id := i.free[0].id
		i.free = i.free[1:]
		return id, nil
	}
	if i.next == i.limit {
		return 0, fmt.Errorf("%d %s are in use: %w", i.limit, i.what, cube.ErrFull)
	}
	i.next++
	return i.next - 1, nil
}

func (i *ids) give(id uint32) { i.free = append(i.free, freed{id, i.now()}) }

// claim takes the indexes for which used holds, which a previous run of the cube allocated.
func (i *ids) claim(used map[uint32]bool) {
	first := i.next
	for id := range used {
		i.next = max(i.next, id+1)
	}
	for id := first; id < i.next; id++ {
		if !used[id] {
			i.free = append(i.free, freed{id: id})
		}
	}
}
