// SPDX-License-Identifier: Apache-2.0

package bpfmap

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"github.com/polycube/polycube/cube"
)

// Entries of one map into another of the same layout.

// Copy copies all entries to a map of the same layout and another size. It notes them in copied, unless that is nil.
func Copy(from, to *ebpf.Map, copied Image) error {
	switch from.Type() {
	case ebpf.RingBuf:
		return nil // its contents are read at once, or not at all
	case ebpf.Queue, ebpf.Stack, ebpf.BloomFilter:
		return fmt.Errorf("a map of type %s cannot be read without emptying it, so its size is fixed: %w", from.Type(), cube.ErrUnsupported)
	case ebpf.ArrayOfMaps, ebpf.HashOfMaps:
		return EachKey(from, func(key []byte) error { return copyInner(from, to, key) })
	default:
	}
	return batches(from, func(n int, keys, values []byte) error {
		n = within(to, n, keys)
		for i := range n {
			copied.note(entryAt(from, keys, values, i))
		}
		return putBatch(to, n, keys, values)
	})
}

// within returns how many of the n keys of a batch fit into the copy: a smaller array loses its end.
func within(to *ebpf.Map, n int, keys []byte) int {
	if !isArray(to.Type()) || n == 0 {
		return n
	}
	return max(0, min(n, int(to.MaxEntries())-int(nativeKey(keys))))
}

func isArray(t ebpf.MapType) bool {
	return t == ebpf.Array || t == ebpf.PerCPUArray || t == ebpf.ArrayOfMaps
}

// tooFew returns the error for entries that do not fit.
func tooFew(to *ebpf.Map, err error) error {
	if errors.Is(err, unix.E2BIG) || errors.Is(err, unix.ENOSPC) {
		return fmt.Errorf("it has more than %d entries: %w", to.MaxEntries(), cube.ErrFull)
	}
	return fmt.Errorf("write entries: %w", err)
}

// nativeKey is the key of an array.
func nativeKey(key []byte) uint32 { return binary.NativeEndian.Uint32(key) }

// PutInner puts a map into a map of maps; one beyond the end of a smaller array is left out.
func PutInner(to *ebpf.Map, key []byte, inner *ebpf.Map) error {
	return written(to, key, to.Put(key, inner), ebpf.UpdateAny)
}

// written returns the error of writing an entry to a copy, nil if the entry may exist already, or is beyond the end.
func written(to *ebpf.Map, key []byte, err error, flags ebpf.MapUpdateFlags) error {
	if err == nil || flags == ebpf.UpdateNoExist && errors.Is(err, ebpf.ErrKeyExist) {
		return nil
	}
	if isArray(to.Type()) && nativeKey(key) >= to.MaxEntries() {
		return nil // beyond the end of a smaller array
	}
	return tooFew(to, err)
}

// copyInner copies a reference: both maps of maps contain the same maps.
func copyInner(from, to *ebpf.Map, key []byte) error {
	var inner *ebpf.Map
	err := from.Lookup(key, &inner)
	if errors.Is(err, ebpf.ErrKeyNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read the inner map: %w", err)
	}
	defer func() { _ = inner.Close() }()
	return PutInner(to, key, inner)
}

// EachKey calls fn once for each key. It may miss keys that are added or deleted meanwhile.
func EachKey(m *ebpf.Map, fn func(key []byte) error) error {
	seen := map[string]bool{}
	key, err := m.NextKeyBytes(nil)
	for err == nil && key != nil && len(seen) <= int(m.MaxEntries()) {
		if !seen[string(key)] {
			seen[string(key)] = true
			if err := fn(key); err != nil {
				return err
			}
		}
		key, err = m.NextKeyBytes(key)
	}
	if err != nil {
		return fmt.Errorf("read keys: %w", err)
	}
	return nil
}
