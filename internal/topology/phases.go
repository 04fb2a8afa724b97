// SPDX-License-Identifier: Apache-2.0

package topology

import (
	"github.com/polycube/polycube/internal/datapath"
	"github.com/polycube/polycube/internal/topology/world"
)

// A transaction has four phases. Each is a type with what is valid in it alone; txn has what all of them need.
//
//	editing    requests change trees, chains, and which cubes there are; records do not follow yet
//	settling   the next world is completed and checked, and what follows from the change is added to it
//	execution  cubes and data plane prepare, namespaces and netdevs are aligned, all commit, last the store
//	committed  the change is durable: readers see it, and cubes and clients are told
//
// Up to the end of the third, whatever fails is undone.

// editing is a transaction that requests change.
type editing struct {
	*txn
	// given are the tcubes of ports that the requests make.
	given []givenChain
	// parents are the netdevs that new transparent cubes are to be attached to.
	parents []givenParent
	// meets are the ports, or the cubes with all their ports, whose netdevs have appeared or that were replaced as a whole.
	meets map[world.Place]bool
	// judge may refuse the next world when it is complete, before anything is done; nil accepts it.
	judge func(*settling) error
}

// settling completes what was edited: records are derived from trees, and edits that follow from the change are made.
type settling struct{ *editing }

// givenChain are the tcubes that a new port's configuration names.
type givenChain struct {
	at     world.Place
	tcubes []string
}

// givenParent is a member parent in the body of a new transparent cube.
type givenParent struct{ cube, parent string }

// execution carries a settled transaction out. It has no method that edits a tree.
type execution struct {
	*txn
	// plans are the cubes' answers to Prepare.
	plans []planned
	// graph is what the data plane is to be.
	graph *datapath.Graph
	// alignments are what the change does to interfaces in namespaces.
	alignments []alignment
	// lost are netdevs that disappeared meanwhile.
	lost []string
}

// committed is a transaction that is durable. Nothing can fail any more.
type committed struct{ *execution }
