// SPDX-License-Identifier: Apache-2.0

package bpfmap

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/cilium/ebpf"

	"github.com/polycube/polycube/internal/datapath/undo"
)

// Rows of tables that programs look up, by a number.

// Setter writes one row; a nil value deletes it.
type Setter[V comparable] func(key uint32, value *V) error

// Write adds and changes rows so that the table contains now. It may contain old, or now already. only, if set, selects
// the rows to change.
func Write[V comparable](u *undo.Stack, set Setter[V], old, now map[uint32]V, only func(was, now V) bool) error {
	for k, v := range now {
		was, had := old[k]
		if had && was == v || only != nil && !only(was, v) {
			continue
		}
		if err := set(k, &v); err != nil {
			return err
		}
		if had {
			u.Push(func() error { return set(k, &was) })
		} else {
			u.Push(func() error { return set(k, nil) })
		}
	}
	return nil
}

// Clear deletes the rows of old that are not in now.
func Clear[V comparable](set Setter[V], old, now map[uint32]V) error {
	for k := range old {
		if _, keep := now[k]; keep {
			continue
		}
		if err := set(k, nil); err != nil {
			return err
		}
	}
	return nil
}

// ArraySetter writes rows of an array. A deleted row becomes zero.
func ArraySetter[V comparable](m *ebpf.Map) Setter[V] {
	return func(key uint32, value *V) error {
		if value == nil {
			value = new(V)
		}
		if err := m.Put(key, value); err != nil {
			return fmt.Errorf("table %s, row %d: %w", m, key, err)
		}
		return nil
	}
}

// HashSetter writes rows of a hash table.
func HashSetter[V comparable](m *ebpf.Map) Setter[V] {
	return func(key uint32, value *V) error {
		var err error
		if value == nil {
			if err = m.Delete(key); errors.Is(err, ebpf.ErrKeyNotExist) {
				return nil
			}
		} else {
			err = m.Put(key, value)
		}
		if err != nil {
			return fmt.Errorf("table %s, row %d: %w", m, key, err)
		}
		return nil
	}
}

// ReadArray returns the rows of a memory-mapped array that are not zero.
func ReadArray[V any](m *ebpf.Map, into map[uint32]V) error {
	memory, err := m.Memory()
	if err != nil {
		return fmt.Errorf("read table %s: %w", m, err)
	}
	rows, size := make([]byte, memory.Size()), int(m.ValueSize())
	if _, err := memory.ReadAt(rows, 0); err != nil {
		return fmt.Errorf("read table %s: %w", m, err)
	}
	empty := make([]byte, size)
	for key := range m.MaxEntries() {
		row := rows[int(key)*size:][:size]
		if bytes.Equal(row, empty) {
			continue
		}
		var v V
		if _, err := binary.Decode(row, binary.NativeEndian, &v); err != nil {
			return fmt.Errorf("table %s, row %d: %w", m, key, err)
		}
		into[key] = v
	}
	return nil
}

// ReadHash returns the rows of a hash table.
func ReadHash[V any](m *ebpf.Map, into map[uint32]V) error {
	var k uint32
	var v V
	it := m.Iterate()
	for it.Next(&k, &v) {
		into[k] = v
	}
	if err := it.Err(); err != nil {
		return fmt.Errorf("read table %s: %w", m, err)
	}
	return nil
}
