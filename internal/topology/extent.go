// SPDX-License-Identifier: Apache-2.0

package topology

// How far the transaction that runs reaches.

import "github.com/polycube/polycube/internal/datapath"

// reach compares the next world, as far as it is made, with the old one.
func (t *txn) reach() *reach {
	if t.extent != nil {
		return t.extent
	}
	return t.next.reachOf(&t.old.world, t.restoring)
}

// reached are the records of the next world that the transaction can have an effect on, by creation.
func (t *txn) reached() []*record {
	r := t.reach()
	if r.all {
		return t.next.inOrder()
	}
	return t.next.recordsOf(r.near)
}

// nextGraph derives the data plane's desired state from the graph in use, as far as that is of the old world.
func (t *txn) nextGraph() *datapath.Graph {
	r, base := t.reach(), t.m.graph
	if r.all || base == nil || t.m.graphOf != t.old {
		return t.next.graph()
	}
	return t.next.graphAfter(&t.old.world, base, r, t.next)
}
