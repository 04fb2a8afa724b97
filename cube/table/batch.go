// SPDX-License-Identifier: Apache-2.0

package table

// Many entries in one system call, and the fallback for kernels without such a call.

import (
	"errors"
	"fmt"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/cube/locked"
)

// batch is the number of entries per system call; a hash bucket that has more makes it grow.
const batch = 1024

// batchRead is BatchLookup or BatchLookupAndDelete.
type batchRead func(cursor *ebpf.MapBatchCursor, keys, values any) (int, error)

// entries passes the entries of a map to yield. stride is the number of values of an entry: 1, or one per CPU; the
// slice is valid during the call only.
func entries[K comparable, V any](name string, m locked.Map, stride int, read batchRead, yield func(K, []V) bool) error {
	switch m.Type() {
	case ebpf.Queue, ebpf.Stack, ebpf.BloomFilter, ebpf.RingBuf, ebpf.PerfEventArray:
		return fmt.Errorf("map %s: entries of a map of type %s cannot be listed: %w", name, m.Type(), cube.ErrUnsupported)
	case ebpf.LPMTrie:
		// A batch restarts from the beginning if the key where the last one ended is gone.
		return walk(name, m, yield)
	default:
	}
	var cursor ebpf.MapBatchCursor
	size := max(1, min(batch, int(m.MaxEntries())))
	keys, values := make([]K, size), make([]V, size*stride)
	for {
		n, err := read(&cursor, keys, values)
		last := errors.Is(err, ebpf.ErrKeyNotExist)
		switch {
		case errors.Is(err, unix.ENOSPC):
			size *= 2 // one bucket has more; the cursor is unchanged
			keys, values = make([]K, size), make([]V, size*stride)
			continue
		case errors.Is(err, ebpf.ErrNotSupported):
			return fmt.Errorf("map %s: batch operations on a map of type %s: %w", name, m.Type(), cube.ErrUnsupported)
		case err != nil && !last:
			return fmt.Errorf("map %s: read entries: %w", name, err)
		}
		for i := range n {
			if !yield(keys[i], values[i*stride:(i+1)*stride]) {
				return nil
			}
		}
		if last {
			return nil
		}
	}
}

// walk iterates from key to key. If a key is deleted meanwhile, the kernel restarts from the beginning, so keys that
// were passed on are remembered.
func walk[K comparable, V any](name string, m locked.Map, yield func(K, []V) bool) error {
	seen := map[K]bool{}
	var key K
	err := m.NextKey(nil, &key)
	for steps := uint64(0); err == nil; steps++ {
		if steps > 16*(uint64(m.MaxEntries())+batch) {
			return fmt.Errorf("map %s: its entries change faster than they can be read: %w", name, cube.ErrInUse)
		}
		if !seen[key] {
			seen[key] = true
			value := make([]V, 1)
			lookup := m.Lookup(key, &value[0])
			if lookup != nil && !errors.Is(lookup, ebpf.ErrKeyNotExist) {
				return fmt.Errorf("map %s: read %v: %w", name, key, lookup)
			}
			if lookup == nil && !yield(key, value) {
				return nil
			}
		}
		var next K
		err = m.NextKey(key, &next)
		key = next
	}
	if !errors.Is(err, ebpf.ErrKeyNotExist) {
		return fmt.Errorf("map %s: read keys: %w", name, err)
	}
	return nil
}

// drain removes the entries, if the kernel can do that without losing concurrent writes of programs.
func drain[K comparable, V any](name string, m locked.Map, stride int, yield func(K, []V) bool) error {
	switch {
	case isArray(m.Type()):
		return fmt.Errorf("map %s: the entries of an array cannot be removed: %w", name, cube.ErrUnsupported)
	case m.Type() == ebpf.LPMTrie:
		return fmt.Errorf("map %s: entries of a map of type %s cannot be removed: %w", name, m.Type(), cube.ErrUnsupported)
	}
	return entries(name, m, stride, m.BatchLookupAndDelete, yield)
}

// setAll writes keys in one batch; one writes a single entry if the map has no batches.
func setAll[K comparable](name string, m locked.Map, keys []K, values any, one func(i int) error) (int, error) {
	if len(keys) == 0 {
		return 0, nil
	}
	n, err := m.BatchUpdate(keys, values)
	if errors.Is(err, ebpf.ErrNotSupported) {
		for n, err = 0, nil; n < len(keys) && err == nil; {
			if err = one(n); err == nil {
				n++
			}
		}
	}
	if err != nil {
		at := min(n, len(keys)-1)
		return n, fmt.Errorf("%d of %d entries were written: %w", n, len(keys), fault(name, m, "writing", keys[at], err))
	}
	return len(keys), nil
}

// deleteAll removes keys; missing ones are skipped.
func deleteAll[K comparable](name string, m locked.Map, keys []K) (int, error) {
	gone := 0
	for len(keys) > 0 {
		n, err := m.BatchDelete(keys, nil)
		if errors.Is(err, ebpf.ErrNotSupported) {
			n = 0
		}
		gone += n
		if err == nil {
			return gone, nil
		}
		if n >= len(keys) {
			return gone, fmt.Errorf("map %s: delete entries: %w", name, err)
		}
		// The batch ends at a missing key, or did not start.
		ok, err := found(name, m, "deleting", keys[n], m.Delete(keys[n]))
		if err != nil {
			return gone, err
		}
		if ok {
			gone++
		}
		keys = keys[n+1:]
	}
	return gone, nil
}
