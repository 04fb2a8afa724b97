// SPDX-License-Identifier: Apache-2.0

package fdb

import "github.com/polycube/polycube/cube"

// put writes an entry, remove removes one; both can be undone. Neither they nor their undo end leases.
func (d *Database[K]) put(e *cube.Undo, k K, to Entry) error {
	if err := d.record(e, k); err != nil {
		return err
	}
	return d.set(k, to)
}

func (d *Database[K]) remove(e *cube.Undo, k K) error {
	if err := d.record(e, k); err != nil {
		return err
	}
	return d.drop(k)
}

// record records the current entry of a key.
func (d *Database[K]) record(e *cube.Undo, k K) error {
	before, had, err := d.table.Get(k)
	if err != nil {
		return err
	}
	e.Push(func() error {
		if had {
			return d.set(k, before)
		}
		return d.drop(k)
	})
	return nil
}
