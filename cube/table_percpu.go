// SPDX-License-Identifier: Apache-2.0

package cube

// Maps in which each CPU has a value of its own, as counters have.

import (
	"errors"
	"fmt"
	"iter"

	"github.com/cilium/ebpf"
)

// PerCPU is a map whose values are V, one for each CPU that the machine can have.
type PerCPU[K comparable, V any] struct {
	name string
	m    *ebpf.Map
	cpus int
}

// OpenPerCPU returns one of the instance's per-CPU maps by its C name.
func OpenPerCPU[K comparable, V any](env Env, name string) (PerCPU[K, V], error) {
	m, err := env.Map(name)
	if err != nil {
		return PerCPU[K, V]{}, err
	}
	return PerCPUOf[K, V](name, m)
}

// PerCPUOf is the typed view of a per-CPU map. name is what errors call it.
func PerCPUOf[K comparable, V any](name string, m *ebpf.Map) (PerCPU[K, V], error) {
	t := PerCPU[K, V]{name: name, m: m}
	if !isPerCPU(m.Type()) {
		return t, fmt.Errorf("map %s: its values are not per CPU, use Table: %w", name, ErrInvalid)
	}
	var err error
	if t.cpus, err = ebpf.PossibleCPU(); err != nil {
		return t, fmt.Errorf("map %s: counting CPUs: %w", name, err)
	}
	return t, checkSizes[K, V](name, m)
}

// Map returns the map itself.
func (t PerCPU[K, V]) Map() *ebpf.Map { return t.m }

// Get returns a key's values by CPU, and whether there are any.
func (t PerCPU[K, V]) Get(key K) (values []V, ok bool, err error) {
	values = make([]V, t.cpus)
	ok, err = found(t.name, t.m, fmt.Sprintf("reading %v", key), t.m.Lookup(key, values))
	return values, ok, err
}

// Set writes an entry: values by CPU; CPUs beyond them get zero.
func (t PerCPU[K, V]) Set(key K, values ...V) error {
	if len(values) > t.cpus {
		return fmt.Errorf("map %s: %d values for %d CPUs: %w", t.name, len(values), t.cpus, ErrInvalid)
	}
	return fault(t.name, t.m, "writing", key, t.m.Put(key, values))
}

// SetAll writes keys, many in one system call, and gives each CPU the same value. It returns how
// many of them, from the first, are written.
func (t PerCPU[K, V]) SetAll(keys []K, value V) (int, error) {
	values := make([]V, len(keys)*t.cpus)
	for i := range values {
		values[i] = value
	}
	one := values[:min(t.cpus, len(values))]
	return setAll(t.name, t.m, keys, values, func(i int) error { return t.m.Put(keys[i], one) })
}

// Delete removes an entry; it reports whether there was one. Entries of arrays cannot be removed.
func (t PerCPU[K, V]) Delete(key K) (bool, error) {
	return found(t.name, t.m, fmt.Sprintf("deleting %v", key), t.m.Delete(key))
}

// DeleteAll removes entries, many in one system call; it returns how many of them there were.
func (t PerCPU[K, V]) DeleteAll(keys []K) (int, error) { return deleteAll(t.name, t.m, keys) }

// LookupAndDelete takes an entry out.
func (t PerCPU[K, V]) LookupAndDelete(key K) (values []V, ok bool, err error) {
	values = make([]V, t.cpus)
	ok, err = found(t.name, t.m, fmt.Sprintf("taking %v", key), t.m.LookupAndDelete(key, values))
	return values, ok, err
}

// All goes through the entries as Table.All does. The slice is valid until the next entry.
func (t PerCPU[K, V]) All(failed *error) iter.Seq2[K, []V] {
	return func(yield func(K, []V) bool) {
		*failed = entries(t.name, t.m, t.cpus, t.m.BatchLookup, yield)
	}
}

// Drain takes the entries out as Table.Drain does. The slice is valid until the next entry.
func (t PerCPU[K, V]) Drain(failed *error) iter.Seq2[K, []V] {
	return func(yield func(K, []V) bool) {
		*failed = drain(t.name, t.m, t.cpus, yield)
	}
}

// Clear removes the entries that are there; those of an array become zero. What programs count
// meanwhile may stay.
func (t PerCPU[K, V]) Clear() error {
	var keys []K
	var err error
	for k := range t.All(&err) {
		keys = append(keys, k)
	}
	if err != nil {
		return err
	}
	if isArray(t.m.Type()) {
		var zero V
		_, err = t.SetAll(keys, zero)
		return err
	}
	_, err = t.DeleteAll(keys)
	return err
}

// Number is what Sum can add up.
type Number interface {
	~int8 | ~int16 | ~int32 | ~int64 | ~uint8 | ~uint16 | ~uint32 | ~uint64
}

// Sum adds up a key's values; a key without an entry has the sum 0.
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
type Queue[V any] struct {
	name string
	m    *ebpf.Map
}

// OpenQueue returns one of the instance's queues or stacks by its C name.
func OpenQueue[V any](env Env, name string) (Queue[V], error) {
	m, err := env.Map(name)
	if err != nil {
		return Queue[V]{}, err
	}
	return QueueOf[V](name, m)
}

// QueueOf is the typed view of a queue or stack. name is what errors call it.
func QueueOf[V any](name string, m *ebpf.Map) (Queue[V], error) {
	q := Queue[V]{name: name, m: m}
	if t := m.Type(); t != ebpf.Queue && t != ebpf.Stack {
		return q, fmt.Errorf("map %s: it is of type %s, not a queue or stack: %w", name, t, ErrInvalid)
	}
	return q, checkSizes[struct{}, V](name, m)
}

// Push adds a value. The error of a full one wraps ErrFull.
func (q Queue[V]) Push(value V) error {
	return fault(q.name, q.m, "pushing", value, q.m.Put(nil, value))
}

// Pop takes the next value, and reports whether there was one.
func (q Queue[V]) Pop() (value V, ok bool, err error) {
	err = q.m.LookupAndDelete(nil, &value)
	if errors.Is(err, ebpf.ErrKeyNotExist) {
		return value, false, nil
	}
	if err != nil {
		return value, false, fmt.Errorf("map %s: popping: %w", q.name, err)
	}
	return value, true, nil
}
