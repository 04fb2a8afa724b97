// SPDX-License-Identifier: Apache-2.0

package nat

// A change of the size of the tables while packets open sessions. The framework copies the entries of the old tables, but
// that takes a while, and an external endpoint must not be allocated twice. So from the copy on, and as long as any old
// program runs, the old programs write to both tables.

import (
	"errors"
	"fmt"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/cube/origins"
	"github.com/polycube/polycube/cube/table"
)

// nextTables is NAT_NEXT_TABLES of nat.h; the second table of a set is that for packets from outside.
const nextTables = 2

// nextIndex returns the index of the first table of a set.
func nextIndex(set bool) uint32 {
	if set {
		return nextTables
	}
	return 0
}

// writeNext makes the programs in use write to the new tables, too. The next programs use the other set.
func (n *nat) writeNext() (func() error, error) {
	set := n.nextSet
	undo := func() error {
		n.nextSet = set
		_, err := n.forgetNext(set).Do()
		return err
	}
	n.nextSet = !set
	err := lead(n.tables.next4, nextIndex(set), n.tables.v4.egress, n.tables.v4.ingress)
	if err == nil {
		err = lead(n.tables.next6, nextIndex(set), n.tables.v6.egress, n.tables.v6.ingress)
	}
	if err != nil {
		return nil, errors.Join(err, undo())
	}
	return undo, nil
}

// lead writes tables into a set.
func lead[K comparable, V any](next table.MapOf[uint32, K, V], first uint32, tables ...table.Table[K, V]) error {
	outer, err := next.Map()
	if err != nil {
		return err
	}
	for i, t := range tables {
		m, err := t.Map()
		if err != nil {
			return err
		}
		if err := outer.Put(first+uint32(i), m); err != nil {
			return fmt.Errorf("write the tables that will replace the present ones: %w", err)
		}
	}
	return nil
}

// forgetNext empties a set.
func (n *nat) forgetNext(set bool) cube.Step {
	return cube.Effect(func() (func() error, error) {
		for i := range uint32(nextTables) {
			for _, forget := range []func(uint32) (bool, error){n.tables.next4.Delete, n.tables.next6.Delete} {
				if _, err := forget(nextIndex(set) + i); err != nil {
					return nil, err
				}
			}
		}
		return nil, nil
	})
}

// adoptNext empties both sets: a previous run of the cube may have ended while the size of its tables changed.
func (n *nat) adoptNext() (func() error, error) {
	origin, err := n.tables.next4.Origin()
	if err != nil || origin == origins.Created {
		return nil, err
	}
	return nil, cube.Carry([]cube.Step{n.forgetNext(false), n.forgetNext(true)}, nil)
}
