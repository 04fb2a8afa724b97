// SPDX-License-Identifier: Apache-2.0

package table

// Steps that change tables. Each reads the entries that it will change, so that it can be undone.

import (
	"errors"
	"iter"
	"maps"

	"github.com/polycube/polycube/cube"
)

// Put writes an entry.
func Put[K comparable, V any](t Table[K, V], key K, value V) cube.Step {
	return cube.Effect(func() (func() error, error) {
		undo, err := t.remember(key)
		if err != nil {
			return nil, err
		}
		return undo, t.Set(key, value)
	})
}

// Delete removes an entry, if there is one.
func Delete[K comparable, V any](t Table[K, V], key K) cube.Step {
	return cube.Effect(func() (func() error, error) {
		undo, err := t.remember(key)
		if err != nil {
			return nil, err
		}
		_, err = t.Delete(key)
		return undo, err
	})
}

// remember returns a function that restores the current state of an entry.
func (t Table[K, V]) remember(key K) (undo func() error, err error) {
	was, had, err := t.Get(key)
	if err != nil {
		return nil, err
	}
	return func() error {
		if had {
			return t.Set(key, was)
		}
		_, err := t.Delete(key)
		return err
	}, nil
}

// Replace gives a table exactly the entries of want: the other elements of an array become zero. It reads the whole
// table and writes the differences, added and changed entries first. It is for tables that only the control plane
// writes.
func Replace[K comparable, V comparable](t Table[K, V], want map[K]V) cube.Step {
	want = maps.Clone(want)
	return cube.Effect(func() (func() error, error) {
		var undo cube.Undo
		if err := t.become(want, &undo); err != nil {
			return nil, errors.Join(err, undo.Run())
		}
		return undo.Run, nil
	})
}

func (t Table[K, V]) become(want map[K]V, undo *cube.Undo) error {
	m, err := t.open()
	if err != nil {
		return err
	}
	array := isArray(m.Type())
	var zero V
	have := map[K]V{}
	for k, v := range t.All(&err) {
		if !array || any(v) != any(zero) {
			have[k] = v
		}
	}
	if err != nil {
		return err
	}
	for k, v := range want {
		was, had := have[k]
		if had && any(was) == any(v) {
			continue
		}
		if err := t.Set(k, v); err != nil {
			return err
		}
		undo.Push(func() error { return t.reset(k, was, had || array) })
	}
	for k, was := range have {
		if _, stays := want[k]; stays {
			continue
		}
		if err := t.reset(k, zero, array); err != nil {
			return err
		}
		undo.Push(func() error { return t.Set(k, was) })
	}
	return nil
}

// reset writes a value, or deletes the entry.
func (t Table[K, V]) reset(key K, value V, there bool) error {
	if there {
		return t.Set(key, value)
	}
	_, err := t.Delete(key)
	return err
}

// Swap replaces the set of entries at key of a map of maps, in one step for packets.
func Swap[K, IK comparable, IV any](t MapOf[K, IK, IV], key K, set iter.Seq2[IK, IV]) cube.Step {
	return cube.Effect(func() (func() error, error) {
		was, had, err := t.entriesOf(key)
		if err != nil {
			return nil, err
		}
		return func() error {
			if had {
				return t.Replace(key, maps.All(was))
			}
			_, err := t.Delete(key)
			return err
		}, t.Replace(key, set)
	})
}

// entriesOf reads the set at key, and reports whether there is one.
func (t MapOf[K, IK, IV]) entriesOf(key K) (entries map[IK]IV, ok bool, err error) {
	inner, ok, err := t.Get(key)
	if err != nil || !ok {
		return nil, false, err
	}
	entries = map[IK]IV{}
	for k, v := range inner.All(&err) {
		entries[k] = v
	}
	return entries, true, errors.Join(err, inner.Close())
}
