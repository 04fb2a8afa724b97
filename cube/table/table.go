// SPDX-License-Identifier: Apache-2.0

// Package table provides typed views of a cube's maps: single entries, batches, pages, per-CPU values, maps of maps,
// arrays in memory, and the steps of a plan that change them. Values with a spin lock are read and written under it. Errors
// wrap those of package cube.
package table

import (
	"encoding"
	"encoding/binary"
	"errors"
	"fmt"
	"iter"
	"sync/atomic"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/cube/locked"
	"github.com/polycube/polycube/cube/origins"
)

// Table is a map whose keys are K and whose values are V: fixed-size Go types with the layout of the C types. It is a
// view: the map belongs to the framework and is not closed by it. Programs, and other goroutines, may change the map at
// the same time.
type Table[K comparable, V any] struct{ *view }

// view finds the map of a table. Each change of configuration may replace a cube's map by one of another size.
type view struct {
	name   string
	find   func() (*ebpf.Map, error)
	origin func() (origins.Origin, error)
	check  func(*ebpf.Map) error
	seen   atomic.Pointer[locked.Map] // the last map found, which has been checked
}

// Map returns the map itself. A cube has none before the steps of its first plan.
func (v *view) Map() (*ebpf.Map, error) {
	m, err := v.open()
	return m.Map, err
}

func (v *view) open() (locked.Map, error) {
	m, err := v.find()
	if err != nil {
		return locked.Map{}, err
	}
	if seen := v.seen.Load(); seen != nil && seen.Map == m {
		return *seen, nil
	}
	if err := v.check(m); err != nil {
		return locked.Map{}, err
	}
	fresh, err := locked.Of(m)
	if err != nil {
		return locked.Map{}, err
	}
	v.seen.Store(&fresh)
	return fresh, nil
}

// Origin returns how the map was created: empty, or with previous entries, unchanged or copied to another size or layout.
// A cube's map has an origin from the steps of its first plan on. A map of Of counts as adopted.
func (v *view) Origin() (origins.Origin, error) { return v.origin() }

// newView returns a view of one of an instance's maps, whichever it is at the time.
func newView(env cube.Env, name string, check func(*ebpf.Map) error) *view {
	return &view{name: name, check: check,
		find:   func() (*ebpf.Map, error) { return env.Map(name) },
		origin: func() (origins.Origin, error) { return env.Origin(name) }}
}

// viewOf returns a view of a map that stays the same.
func viewOf(name string, m *ebpf.Map, check func(*ebpf.Map) error) (*view, error) {
	v := &view{name: name, check: check,
		find:   func() (*ebpf.Map, error) { return m, nil },
		origin: func() (origins.Origin, error) { return origins.Adopted, nil }}
	_, err := v.Map()
	return v, err
}

// New returns one of the instance's maps by its C name. It opens itself: the first steps of a plan, and later calls,
// use the map that the cube has at the time. If there is no such map, or the types do not fit, every use returns an
// error.
func New[K comparable, V any](env cube.Env, name string) Table[K, V] {
	return Table[K, V]{newView(env, name, checkTable[K, V](name))}
}

// Of returns the typed view of a map. name is its name in errors.
func Of[K comparable, V any](name string, m *ebpf.Map) (Table[K, V], error) {
	v, err := viewOf(name, m, checkTable[K, V](name))
	return Table[K, V]{v}, err
}

func checkTable[K comparable, V any](name string) func(*ebpf.Map) error {
	return func(m *ebpf.Map) error {
		if isPerCPU(m.Type()) {
			return fmt.Errorf("map %s: its values are per CPU, use PerCPU: %w", name, cube.ErrInvalid)
		}
		return checkSizes[K, V](name, m)
	}
}

// checkSizes compares the Go types with the map.
func checkSizes[K comparable, V any](name string, m *ebpf.Map) error {
	for _, c := range []struct {
		what string
		size int
		want uint32
	}{{"key", sizeOf[K](), m.KeySize()}, {"value", sizeOf[V](), m.ValueSize()}} {
		if c.size >= 0 && c.size != int(c.want) {
			return fmt.Errorf("map %s: a Go type of %d bytes for a %s of %d: %w", name, c.size, c.what, c.want, cube.ErrInvalid)
		}
	}
	return nil
}

// sizeOf returns the size of a type in a map, -1 for one that encodes itself, 0 for one without a fixed size.
func sizeOf[T any]() int {
	var zero T
	if _, ok := any(zero).(encoding.BinaryMarshaler); ok {
		return -1
	}
	return max(0, binary.Size(zero))
}

func isPerCPU(t ebpf.MapType) bool {
	return t == ebpf.PerCPUArray || t == ebpf.PerCPUHash || t == ebpf.LRUCPUHash
}

func isArray(t ebpf.MapType) bool {
	return t == ebpf.Array || t == ebpf.PerCPUArray || t == ebpf.ArrayOfMaps
}

// Get returns a key's value, and whether there is one.
func (t Table[K, V]) Get(key K) (value V, ok bool, err error) {
	m, err := t.open()
	if err != nil {
		return value, false, err
	}
	err = m.Lookup(&key, &value)
	ok, err = found(t.name, m, "reading", key, err)
	return value, ok, err
}

// Set writes an entry. The error for a full map wraps cube.ErrFull.
func (t Table[K, V]) Set(key K, value V) error {
	m, err := t.open()
	if err != nil {
		return err
	}
	return fault(t.name, m, "writing", key, m.Put(&key, &value))
}

// Add writes an entry if there is none; it reports whether it did. The check and the write are atomic with respect to
// programs.
func (t Table[K, V]) Add(key K, value V) (bool, error) {
	m, err := t.open()
	if err != nil {
		return false, err
	}
	err = m.Update(key, value, ebpf.UpdateNoExist)
	if errors.Is(err, ebpf.ErrKeyExist) {
		return false, nil
	}
	return err == nil, fault(t.name, m, "writing", key, err)
}

// Delete removes an entry; it reports whether there was one. Entries of arrays cannot be removed.
func (t Table[K, V]) Delete(key K) (bool, error) {
	m, err := t.open()
	if err != nil {
		return false, err
	}
	return found(t.name, m, "deleting", key, m.Delete(&key))
}

// LookupAndDelete removes an entry of a hash and returns it, atomically with respect to programs.
func (t Table[K, V]) LookupAndDelete(key K) (value V, ok bool, err error) {
	m, err := t.open()
	if err != nil {
		return value, false, err
	}
	err = m.LookupAndDelete(key, &value)
	ok, err = found(t.name, m, "taking", key, err)
	return value, ok, err
}

// All iterates over the entries, reading many in one system call. An entry that exists from beginning to end is
// returned exactly once; one that is added or removed meanwhile may be skipped. When the loop is over, failed is the
// error that ended it, or nil.
//
//	var err error
//	for key, value := range table.All(&err) { ... }
//	if err != nil { ... }
func (t Table[K, V]) All(failed *error) iter.Seq2[K, V] {
	return func(yield func(K, V) bool) {
		m, err := t.open()
		if err == nil {
			err = entries(t.name, m, 1, m.BatchLookup, func(k K, v []V) bool { return yield(k, v[0]) })
		}
		*failed = err
	}
}

// Drain removes the entries of a hash, many in one system call: what a program writes between the reading and the
// deleting of an entry is never lost. Removed entries are passed on, also if the loop ends with an error; but leaving
// the loop early loses up to a batch of them.
func (t Table[K, V]) Drain(failed *error) iter.Seq2[K, V] {
	return func(yield func(K, V) bool) {
		m, err := t.open()
		if err == nil {
			err = drain(t.name, m, 1, func(k K, v []V) bool { return yield(k, v[0]) })
		}
		*failed = err
	}
}

// SetAll writes entries, many in one system call. It returns how many of them were written, starting with the first:
// with an error, all before the one that failed.
func (t Table[K, V]) SetAll(keys []K, values []V) (int, error) {
	if len(keys) != len(values) {
		return 0, fmt.Errorf("map %s: %d keys for %d values: %w", t.name, len(keys), len(values), cube.ErrInvalid)
	}
	m, err := t.open()
	if err != nil {
		return 0, err
	}
	return setAll(t.name, m, keys, values, func(i int) error { return m.Put(keys[i], values[i]) })
}

// DeleteAll removes entries, many in one system call; it returns how many of them existed.
func (t Table[K, V]) DeleteAll(keys []K) (int, error) {
	m, err := t.open()
	if err != nil {
		return 0, err
	}
	return deleteAll(t.name, m, keys)
}

// Clear removes the existing entries; those of an array become zero. Entries that programs add meanwhile may stay.
func (t Table[K, V]) Clear() error {
	m, err := t.open()
	if err != nil {
		return err
	}
	var keys []K
	for k := range t.All(&err) {
		keys = append(keys, k)
	}
	if err != nil {
		return err
	}
	if isArray(m.Type()) {
		_, err = t.SetAll(keys, make([]V, len(keys)))
		return err
	}
	_, err = t.DeleteAll(keys)
	return err
}

// found converts the error for a missing key to false.
func found(name string, m locked.Map, what string, key any, err error) (bool, error) {
	switch {
	case err == nil:
		return true, nil
	case errors.Is(err, ebpf.ErrKeyNotExist):
		return false, nil
	case isArray(m.Type()) && errors.Is(err, unix.EINVAL):
		return false, fmt.Errorf("map %s: %s %v: the entries of an array cannot be removed: %w", name, what, key, cube.ErrUnsupported)
	case errors.Is(err, ebpf.ErrNotSupported):
		return false, fmt.Errorf("map %s: %s %v: not supported by a map of type %s: %w", name, what, key, m.Type(), cube.ErrUnsupported)
	}
	return false, fmt.Errorf("map %s: %s %v: %w", name, what, key, err)
}

// fault returns the error for a key, with the kinds of error of package cube.
func fault(name string, m locked.Map, what string, key any, err error) error {
	switch {
	case err == nil:
		return nil
	case isArray(m.Type()) && errors.Is(err, unix.E2BIG):
		return fmt.Errorf("map %s: %s %v: the array has %d entries: %w", name, what, key, m.MaxEntries(), cube.ErrInvalid)
	case errors.Is(err, unix.E2BIG), errors.Is(err, unix.ENOSPC):
		return fmt.Errorf("map %s: %s %v: all %d entries are in use: %w", name, what, key, m.MaxEntries(), cube.ErrFull)
	}
	return fmt.Errorf("map %s: %s %v: %w", name, what, key, err)
}
