// SPDX-License-Identifier: Apache-2.0

package table

// Maps of maps: a whole set of entries (rules, backends, a hash ring) that changes at once. The new set is built
// separately, and one update activates it; a packet sees either the old or the new one, never a mixture.

import (
	"errors"
	"fmt"
	"iter"

	"github.com/cilium/ebpf"

	"github.com/polycube/polycube/cube"
)

// flagInnerMap is BPF_F_INNER_MAP: inner arrays may differ in their number of entries.
const flagInnerMap = 1 << 12

// MapOf is an array or hash of maps. K are its keys; IK and IV are the keys and values of the inner maps.
type MapOf[K, IK comparable, IV any] struct {
	*view
	inner func() (*ebpf.MapSpec, error)
}

// NewMapOf returns one of the instance's maps of maps by its C name. It opens itself as the tables of New do.
func NewMapOf[K, IK comparable, IV any](env cube.Env, name string) MapOf[K, IK, IV] {
	inner := func() (*ebpf.MapSpec, error) { return env.Inner(name) }
	return MapOf[K, IK, IV]{newView(env, name, checkMapOf[K, IK, IV](name, inner)), inner}
}

// MapOfOver returns the typed view of a map of maps; inner describes the inner maps. name is its name in errors.
func MapOfOver[K, IK comparable, IV any](name string, m *ebpf.Map, inner *ebpf.MapSpec) (MapOf[K, IK, IV], error) {
	spec := func() (*ebpf.MapSpec, error) { return inner.Copy(), nil }
	v, err := viewOf(name, m, checkMapOf[K, IK, IV](name, spec))
	return MapOf[K, IK, IV]{v, spec}, err
}

func checkMapOf[K, IK comparable, IV any](name string, inner func() (*ebpf.MapSpec, error)) func(*ebpf.Map) error {
	return func(m *ebpf.Map) error {
		if typ := m.Type(); typ != ebpf.ArrayOfMaps && typ != ebpf.HashOfMaps {
			return fmt.Errorf("map %s: is of type %s, not a map of maps: %w", name, typ, cube.ErrInvalid)
		}
		if err := checkSizes[K, uint32](name, m); err != nil {
			return err
		}
		spec, err := inner()
		if err != nil {
			return err
		}
		if k, v := sizeOf[IK](), sizeOf[IV](); k >= 0 && k != int(spec.KeySize) || v >= 0 && v != int(spec.ValueSize) {
			return fmt.Errorf("map %s: Go types of %d and %d bytes for entries of %d and %d: %w",
				name, k, v, spec.KeySize, spec.ValueSize, cube.ErrInvalid)
		}
		return nil
	}
}

// Replace replaces the set of entries at key by a new one, in one step. When it returns, no program reads the old set
// any more. On an error the old set is unchanged.
func (t MapOf[K, IK, IV]) Replace(key K, set iter.Seq2[IK, IV]) error {
	var keys []IK
	var values []IV
	for k, v := range set {
		keys, values = append(keys, k), append(values, v)
	}
	outer, err := t.open()
	if err != nil {
		return err
	}
	spec, err := t.inner()
	if err != nil {
		return err
	}
	if n := uint32(len(keys)); n > spec.MaxEntries {
		if isArray(spec.Type) && spec.Flags&flagInnerMap == 0 {
			return fmt.Errorf("map %s: %d entries at %v, the maximum is %d: %w", t.name, n, key, spec.MaxEntries, cube.ErrFull)
		}
		spec.MaxEntries = n
	}
	m, err := ebpf.NewMap(spec)
	if err != nil {
		return fmt.Errorf("map %s: create the set for %v: %w", t.name, key, err)
	}
	defer func() { _ = m.Close() }() // the map of maps holds a reference
	fresh, err := Of[IK, IV](fmt.Sprintf("%s[%v]", t.name, key), m)
	if err != nil {
		return err
	}
	if _, err := fresh.SetAll(keys, values); err != nil {
		return err
	}
	return fault(t.name, outer, "replace the set at", key, outer.Put(key, m))
}

// Get opens the set at key, and reports whether there is one. Packets see writes to it at once. The caller closes it.
func (t MapOf[K, IK, IV]) Get(key K) (set *Inner[IK, IV], ok bool, err error) {
	outer, err := t.open()
	if err != nil {
		return nil, false, err
	}
	var m *ebpf.Map
	err = outer.Lookup(key, &m)
	if errors.Is(err, ebpf.ErrKeyNotExist) {
		return nil, false, nil
	}
	if err != nil {
		return nil, false, fmt.Errorf("map %s: read the set at %v: %w", t.name, key, err)
	}
	inside, err := Of[IK, IV](fmt.Sprintf("%s[%v]", t.name, key), m)
	if err != nil {
		_ = m.Close()
		return nil, false, err
	}
	return &Inner[IK, IV]{Table: inside, m: m}, true, nil
}

// Delete removes the set at key, and reports whether there was one.
func (t MapOf[K, IK, IV]) Delete(key K) (bool, error) {
	m, err := t.open()
	if err != nil {
		return false, err
	}
	return found(t.name, m, "delete the set at", key, m.Delete(key))
}

// Keys iterates over the keys that have a set. When the loop is over, failed is the error that ended it, or nil.
func (t MapOf[K, IK, IV]) Keys(failed *error) iter.Seq[K] {
	return func(yield func(K) bool) {
		m, err := t.open()
		if err == nil {
			err = walk(t.name, m, func(k K, _ []uint32) bool { return yield(k) })
		}
		*failed = err
	}
}

// Inner is an opened set of a map of maps.
type Inner[K comparable, V any] struct {
	Table[K, V]
	m *ebpf.Map
}

// Close closes the set.
func (s *Inner[K, V]) Close() error {
	if err := s.m.Close(); err != nil {
		return fmt.Errorf("map %s: close: %w", s.name, err)
	}
	return nil
}
