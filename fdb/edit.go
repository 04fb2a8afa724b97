// SPDX-License-Identifier: Apache-2.0

package fdb

import (
	"errors"
	"slices"
)

// Edit is a change that can be taken back. A nil one keeps nothing.
type Edit struct {
	undo []func() error
}

// Push adds how a step is taken back.
func (e *Edit) Push(undo func() error) {
	if e != nil {
		e.undo = append(e.undo, undo)
	}
}

// Revert takes back what was done, last first.
func (e *Edit) Revert() error {
	var errs []error
	for _, undo := range slices.Backward(e.undo) {
		errs = append(errs, undo())
	}
	e.undo = nil
	return errors.Join(errs...)
}

// put writes an entry, remove takes one away.
func (d *Database[K]) put(e *Edit, k K, to Entry) error {
	if err := d.record(e, k); err != nil {
		return err
	}
	return d.set(k, to)
}

func (d *Database[K]) remove(e *Edit, k K) error {
	if err := d.record(e, k); err != nil {
		return err
	}
	return d.ForgetKey(k)
}

// record notes what a key has now.
func (d *Database[K]) record(e *Edit, k K) error {
	before, had, err := d.table.Get(k)
	if err != nil {
		return err
	}
	e.Push(func() error {
		if had {
			return d.set(k, before)
		}
		return d.ForgetKey(k)
	})
	return nil
}
