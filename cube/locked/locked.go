// SPDX-License-Identifier: Apache-2.0

// Package locked reads and writes maps whose values have a spin lock while holding it: otherwise a value that a program is
// changing would be read half changed, or written between its steps.
package locked

import (
	"errors"
	"fmt"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"
)

// Map is a map, whose values may have a spin lock. Its methods hold the lock of the value; the bytes of the lock itself are
// always zero. Other maps are used as usual.
type Map struct {
	*ebpf.Map
	// Flags are those of system calls that read or write values: BPF_F_LOCK, or 0.
	Flags uint64
}

// Of finds out whether the values of a map have a spin lock. The kernel refuses to hold one that does not exist.
func Of(m *ebpf.Map) (Map, error) {
	if t := m.Type(); t != ebpf.Hash && t != ebpf.Array {
		return Map{Map: m}, nil // the kernel has spin locks in these only
	}
	err := m.LookupWithFlags(make([]byte, m.KeySize()), make([]byte, m.ValueSize()), ebpf.LookupLock)
	switch {
	case err == nil, errors.Is(err, ebpf.ErrKeyNotExist):
		return Map{m, uint64(ebpf.LookupLock)}, nil
	case errors.Is(err, unix.EINVAL):
		return Map{Map: m}, nil
	}
	return Map{}, fmt.Errorf("map %s: read an entry: %w", m, err)
}

func (m Map) read() ebpf.MapLookupFlags { return ebpf.MapLookupFlags(m.Flags) }

func (m Map) batch() *ebpf.BatchOptions { return &ebpf.BatchOptions{ElemFlags: m.Flags} }

// Lookup reads an entry.
func (m Map) Lookup(key, value any) error { return m.LookupWithFlags(key, value, m.read()) }

// LookupBytes reads an entry; nil if there is none.
func (m Map) LookupBytes(key []byte) ([]byte, error) {
	if m.Flags == 0 {
		return m.Map.LookupBytes(key)
	}
	value := make([]byte, m.ValueSize())
	err := m.Lookup(key, value)
	if errors.Is(err, ebpf.ErrKeyNotExist) {
		return nil, nil
	}
	return value, err
}

// Put writes an entry.
func (m Map) Put(key, value any) error { return m.Update(key, value, ebpf.UpdateAny) }

// Update writes an entry.
func (m Map) Update(key, value any, flags ebpf.MapUpdateFlags) error {
	return m.Map.Update(key, value, flags|ebpf.MapUpdateFlags(m.Flags))
}

// LookupAndDelete reads and removes an entry.
func (m Map) LookupAndDelete(key, value any) error {
	return m.LookupAndDeleteWithFlags(key, value, m.read())
}

// BatchLookup reads many entries.
func (m Map) BatchLookup(cursor *ebpf.MapBatchCursor, keys, values any) (int, error) {
	return m.Map.BatchLookup(cursor, keys, values, m.batch())
}

// BatchLookupAndDelete reads and removes many entries.
func (m Map) BatchLookupAndDelete(cursor *ebpf.MapBatchCursor, keys, values any) (int, error) {
	return m.Map.BatchLookupAndDelete(cursor, keys, values, m.batch())
}

// BatchUpdate writes many entries.
func (m Map) BatchUpdate(keys, values any) (int, error) {
	return m.Map.BatchUpdate(keys, values, m.batch())
}
