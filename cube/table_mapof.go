// SPDX-License-Identifier: Apache-2.0

package cube

// Maps of maps: a whole set of entries (rules, backends, a hash ring) that changes at once. The
// new set is built beside the old one, and one update puts it in place; a packet sees the one or
// the other, never a part.

import (
	"errors"
	"fmt"
	"iter"

	"github.com/cilium/ebpf"
)

// flagInnerMap is BPF_F_INNER_MAP: arrays inside may differ in their number of entries.
const flagInnerMap = 1 << 12

// MapOf is an array or hash of maps. K are its keys; IK and IV are the keys and values inside.
type MapOf[K, IK comparable, IV any] struct {
	name  string
	m     *ebpf.Map
	inner *ebpf.MapSpec
}

// OpenMapOf returns one of the instance's maps of maps by its C name.
func OpenMapOf[K, IK comparable, IV any](env Env, name string) (MapOf[K, IK, IV], error) {
	m, err := env.Map(name)
	if err != nil {
		return MapOf[K, IK, IV]{}, err
	}
	inner, err := env.Inner(name)
	if err != nil {
		return MapOf[K, IK, IV]{}, err
	}
	return MapOfOver[K, IK, IV](name, m, inner)
}

// MapOfOver is the typed view of a map of maps; inner is what the maps inside are like. name is
// what errors call it.
func MapOfOver[K, IK comparable, IV any](name string, m *ebpf.Map, inner *ebpf.MapSpec) (MapOf[K, IK, IV], error) {
	t := MapOf[K, IK, IV]{name: name, m: m, inner: inner}
	if typ := m.Type(); typ != ebpf.ArrayOfMaps && typ != ebpf.HashOfMaps {
		return t, fmt.Errorf("map %s: it is of type %s, not a map of maps: %w", name, typ, ErrInvalid)
	}
	if err := checkSizes[K, uint32](name, m); err != nil {
		return t, err
	}
	if k, v := sizeOf[IK](), sizeOf[IV](); k >= 0 && k != int(inner.KeySize) || v >= 0 && v != int(inner.ValueSize) {
		return t, fmt.Errorf("map %s: Go types of %d and %d bytes for entries of %d and %d: %w",
			name, k, v, inner.KeySize, inner.ValueSize, ErrInvalid)
	}
	return t, nil
}

// Map returns the map itself.
func (t MapOf[K, IK, IV]) Map() *ebpf.Map { return t.m }

// Replace puts a new set of entries at key in place of the one that is there, in one step. When
// it returns, no program reads the old set any more. On an error the old set stays as it is.
func (t MapOf[K, IK, IV]) Replace(key K, set iter.Seq2[IK, IV]) error {
	var keys []IK
	var values []IV
	for k, v := range set {
		keys, values = append(keys, k), append(values, v)
	}
	spec := t.inner.Copy()
	if n := uint32(len(keys)); n > spec.MaxEntries {
		if isArray(spec.Type) && spec.Flags&flagInnerMap == 0 {
			return fmt.Errorf("map %s: %d entries at %v, there is room for %d: %w", t.name, n, key, spec.MaxEntries, ErrFull)
		}
		spec.MaxEntries = n
	}
	m, err := ebpf.NewMap(spec)
	if err != nil {
		return fmt.Errorf("map %s: making the set for %v: %w", t.name, key, err)
	}
	defer func() { _ = m.Close() }() // the map of maps holds it
	fresh, err := TableOf[IK, IV](fmt.Sprintf("%s[%v]", t.name, key), m)
	if err != nil {
		return err
	}
	if _, err := fresh.SetAll(keys, values); err != nil {
		return err
	}
	return fault(t.name, t.m, "replacing the set at", key, t.m.Put(key, m))
}

// Get opens the set at key, and reports whether there is one. What is written to it is seen by
// packets at once. The caller closes it.
func (t MapOf[K, IK, IV]) Get(key K) (set *Inner[IK, IV], ok bool, err error) {
	var m *ebpf.Map
	err = t.m.Lookup(key, &m)
	if errors.Is(err, ebpf.ErrKeyNotExist) {
		return nil, false, nil
	}
	if err != nil {
		return nil, false, fmt.Errorf("map %s: reading the set at %v: %w", t.name, key, err)
	}
	view, err := TableOf[IK, IV](fmt.Sprintf("%s[%v]", t.name, key), m)
	if err != nil {
		_ = m.Close()
		return nil, false, err
	}
	return &Inner[IK, IV]{Table: view}, true, nil
}

// Delete takes the set at key away, and reports whether there was one.
func (t MapOf[K, IK, IV]) Delete(key K) (bool, error) {
	return found(t.name, t.m, fmt.Sprintf("deleting the set at %v", key), t.m.Delete(key))
}

// Keys goes through the keys that have a set. When the loop is over, failed is the error that
// ended it, or nil.
func (t MapOf[K, IK, IV]) Keys(failed *error) iter.Seq[K] {
	return func(yield func(K) bool) {
		*failed = walk(t.name, t.m, func(k K, _ []uint32) bool { return yield(k) })
	}
}

// Inner is an opened set of a map of maps.
type Inner[K comparable, V any] struct{ Table[K, V] }

// Close ends the use of the set.
func (s *Inner[K, V]) Close() error {
	if err := s.m.Close(); err != nil {
		return fmt.Errorf("map %s: closing: %w", s.name, err)
	}
	return nil
}
