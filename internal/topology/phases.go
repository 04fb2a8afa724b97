// SPDX-License-Identifier: Apache-2.0

package topology

import (
	"github.com/polycube/polycube/internal/datapath"
)

// A transaction has three phases, each a type that has what is valid in it, and all of the phase before:
//
//	txn        the next world is edited, then settled: completed, checked, and with what follows from the change
//	execution  cubes and data plane prepare, namespaces and netdevs are aligned, all commit, last the store
//	committed  the change is durable: readers see it, and cubes and clients are told
//
// Up to the end of the second, whatever fails is undone.

// execution carries a settled transaction out. From here on, no tree is edited.
type execution struct {
	*txn
	// plans are the cubes' answers to Prepare.
	plans []planned
	// graph is what the data plane is to be.
	graph *datapath.Graph
	// lost are netdevs that disappeared meanwhile.
	lost []string
}

// committed is a transaction that is durable. Nothing can fail any more.
type committed struct{ *execution }
