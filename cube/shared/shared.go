// SPDX-License-Identifier: Apache-2.0

// Package shared lets the cubes of a daemon use one Go value for the maps that they share: its state, and memory that is
// mapped once.
package shared

import (
	"fmt"
	"sync"

	"github.com/cilium/ebpf"

	"github.com/polycube/polycube/cube"
)

// Registry contains the values in use. They belong to a map, by its ID: a process may have several daemons' in tests. The
// zero value is ready to use.
type Registry[T comparable] struct {
	mu   sync.Mutex // guards what follows, and is held while a value is opened or closed
	uses map[ebpf.MapID]*use[T]
}

// use is a value, and how often it is in use.
type use[T comparable] struct {
	value T
	count int
}

// Open returns the value of a map, opened if it is not in use. The caller ends the use with Release.
func (r *Registry[T]) Open(m *ebpf.Map, open func() (T, error)) (value T, err error) {
	info, err := m.Info()
	if err != nil {
		return value, fmt.Errorf("shared %s: %w", m, err)
	}
	id, ok := info.ID()
	if !ok {
		return value, fmt.Errorf("shared %s has no ID: %w", m, cube.ErrUnsupported)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if u := r.uses[id]; u != nil {
		u.count++
		return u.value, nil
	}
	if value, err = open(); err != nil {
		return value, err
	}
	if r.uses == nil {
		r.uses = map[ebpf.MapID]*use[T]{}
	}
	r.uses[id] = &use[T]{value, 1}
	return value, nil
}

// Release ends a use of a value, and closes it after the last one.
func (r *Registry[T]) Release(value T, end func() error) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	for id, u := range r.uses {
		if u.value != value {
			continue
		}
		if u.count--; u.count > 0 {
			return nil
		}
		delete(r.uses, id)
		return end()
	}
	return fmt.Errorf("a shared value is released that is not in use: %w", cube.ErrNotFound)
}
