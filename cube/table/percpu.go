// SPDX-License-Identifier: Apache-2.0

package table

// Maps with a separate value per CPU, such as counters.

import (
	"errors"
	"fmt"
	"iter"
	"sync"

	"github.com/cilium/ebpf"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/cube/locked"
)

// PerCPU is a map whose values are V, one for each possible CPU.
type PerCPU[K comparable, V any] struct{ *view }

// cpus returns the number of possible CPUs.
var cpus = sync.OnceValues(ebpf.PossibleCPU)

// NewPerCPU returns one of the instance's per-CPU maps by its C name. It opens itself as the tables of New do.
func NewPerCPU[K comparable, V any](env cube.Env, name string) PerCPU[K, V] {
	return PerCPU[K, V]{newView(env, name, checkPerCPU[K, V](name))}
}

// PerCPUOf returns the typed view of a per-CPU map. name is its name in errors.
func PerCPUOf[K comparable, V any](name string, m *ebpf.Map) (PerCPU[K, V], error) {
	v, err := viewOf(name, m, checkPerCPU[K, V](name))
	return PerCPU[K, V]{v}, err
}

func checkPerCPU[K comparable, V any](name string) func(*ebpf.Map) error {
	return func(m *ebpf.Map) error {
		if !isPerCPU(m.Type()) {
			return fmt.Errorf("map %s: its values are not per CPU, use Table: %w", name, cube.ErrInvalid)
		}
		if _, err := cpus(); err != nil {
			return fmt.Errorf("map %s: count CPUs: %w", name, err)
		}
		return checkSizes[K, V](name, m)
	}
}

// open returns the map and the number of CPUs.
func (t PerCPU[K, V]) open() (locked.Map, int, error) {
	m, err := t.view.open()
	if err != nil {
		return m, 0, err
	}
	n, err := cpus()
	return m, n, err
}

// Get returns a key's values by CPU, and whether there are any.
func (t PerCPU[K, V]) Get(key K) (values []V, ok bool, err error) {
	m, n, err := t.open()
	if err != nil {
		return nil, false, err
	}
	values = make([]V, n)
	ok, err = found(t.name, m, "reading", key, m.Lookup(key, values))
	return values, ok, err
}

// Set writes an entry: values by CPU; CPUs beyond them get zero.
func (t PerCPU[K, V]) Set(key K, values ...V) error {
	m, n, err := t.open()
	if err != nil {
		return err
	}
	if len(values) > n {
		return fmt.Errorf("map %s: %d values for %d CPUs: %w", t.name, len(values), n, cube.ErrInvalid)
	}
	return fault(t.name, m, "writing", key, m.Put(key, values))
}

// SetAll writes keys, many in one system call, and gives each CPU the same value. It returns how many of them were
// written, starting with the first.
func (t PerCPU[K, V]) SetAll(keys []K, value V) (int, error) {
	m, n, err := t.open()
	if err != nil {
		return 0, err
	}
	values := make([]V, len(keys)*n)
	for i := range values {
		values[i] = value
	}
	one := values[:min(n, len(values))]
	return setAll(t.name, m, keys, values, func(i int) error { return m.Put(keys[i], one) })
}

// Delete removes an entry; it reports whether there was one. Entries of arrays cannot be removed.
func (t PerCPU[K, V]) Delete(key K) (bool, error) {
	m, err := t.view.open()
	if err != nil {
		return false, err
	}
	return found(t.name, m, "deleting", key, m.Delete(key))
}

// DeleteAll removes entries, many in one system call; it returns how many of them existed.
func (t PerCPU[K, V]) DeleteAll(keys []K) (int, error) {
	m, err := t.view.open()
	if err != nil {
		return 0, err
	}
	return deleteAll(t.name, m, keys)
}

// LookupAndDelete removes an entry and returns it.
func (t PerCPU[K, V]) LookupAndDelete(key K) (values []V, ok bool, err error) {
	m, n, err := t.open()
	if err != nil {
		return nil, false, err
	}
	values = make([]V, n)
	ok, err = found(t.name, m, "taking", key, m.LookupAndDelete(key, values))
	return values, ok, err
}

// All iterates over the entries as Table.All does. The slice is valid until the next entry.
func (t PerCPU[K, V]) All(failed *error) iter.Seq2[K, []V] {
	return func(yield func(K, []V) bool) {
		m, n, err := t.open()
		if err == nil {
			err = entries(t.name, m, n, m.BatchLookup, yield)
		}
		*failed = err
	}
}

// Drain removes the entries as Table.Drain does. The slice is valid until the next entry.
func (t PerCPU[K, V]) Drain(failed *error) iter.Seq2[K, []V] {
	return func(yield func(K, []V) bool) {
		m, n, err := t.open()
		if err == nil {
			err = drain(t.name, m, n, yield)
		}
		*failed = err
	}
}

// Clear removes the existing entries; those of an array become zero. Concurrent counts of programs may stay.
func (t PerCPU[K, V]) Clear() error {
	m, err := t.view.open()
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
		var zero V
		_, err = t.SetAll(keys, zero)
		return err
	}
	_, err = t.DeleteAll(keys)
	return err
}

// Number is a type that Sum can add up.
type Number interface {
	~int8 | ~int16 | ~int32 | ~int64 | ~uint8 | ~uint16 | ~uint32 | ~uint64
}

// Sum returns the sum of a key's values; 0 for a key without an entry.
func Sum[K comparable, V Number](t PerCPU[K, V], key K) (sum V, err error) {
	values, ok, err := t.Get(key)
	if err != nil || !ok {
		return 0, err
	}
	for _, v := range values {
		sum += v
	}
	return sum, nil
}

// Queue is a map of type queue or stack: values without keys.
type Queue[V any] struct{ *view }

// NewQueue returns one of the instance's queues or stacks by its C name. It opens itself as the tables of New do.
func NewQueue[V any](env cube.Env, name string) Queue[V] {
	return Queue[V]{newView(env, name, checkQueue[V](name))}
}

// QueueOf returns the typed view of a queue or stack. name is its name in errors.
func QueueOf[V any](name string, m *ebpf.Map) (Queue[V], error) {
	v, err := viewOf(name, m, checkQueue[V](name))
	return Queue[V]{v}, err
}

func checkQueue[V any](name string) func(*ebpf.Map) error {
	return func(m *ebpf.Map) error {
		if t := m.Type(); t != ebpf.Queue && t != ebpf.Stack {
			return fmt.Errorf("map %s: is of type %s, not a queue or stack: %w", name, t, cube.ErrInvalid)
		}
		return checkSizes[struct{}, V](name, m)
	}
}

// Push adds a value. The error for a full one wraps cube.ErrFull.
func (q Queue[V]) Push(value V) error {
	m, err := q.open()
	if err != nil {
		return err
	}
	return fault(q.name, m, "pushing", value, m.Put(nil, value))
}

// Pop returns and removes the next value, and reports whether there was one.
func (q Queue[V]) Pop() (value V, ok bool, err error) {
	m, err := q.open()
	if err != nil {
		return value, false, err
	}
	err = m.LookupAndDelete(nil, &value)
	if errors.Is(err, ebpf.ErrKeyNotExist) {
		return value, false, nil
	}
	if err != nil {
		return value, false, fmt.Errorf("map %s: pop: %w", q.name, err)
	}
	return value, true, nil
}
