// SPDX-License-Identifier: Apache-2.0

package topology

// How far the transaction that runs reaches.

import (
	"github.com/polycube/polycube/internal/datapath"
	"github.com/polycube/polycube/internal/topology/world"
)

// reach compares the next world, as far as it is made, with the old one.
func (t *txn) reach() *world.Reach {
	if t.extent != nil {
		return t.extent
	}
	return t.next.ReachFrom(&t.old.World, t.restoring)
}

// reached are the records of the next world that the transaction can have an effect on, by creation.
func (t *txn) reached() []*world.Cube {
	r := t.reach()
	if r.All {
		return t.next.InOrder()
	}
	return t.next.RecordsOf(r.Near)
}

// nextGraph derives the data plane's desired state from the graph in use, as far as that is of the old world.
func (x *execution) nextGraph() *datapath.Graph {
	r, base := x.reach(), x.inUse.derived(x.old)
	if r.All || base == nil {
		return x.next.Graph()
	}
	return x.next.GraphAfter(&x.old.World, base, r, x.next)
}
