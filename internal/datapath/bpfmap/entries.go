// SPDX-License-Identifier: Apache-2.0

package bpfmap

import (
	"errors"
	"fmt"
	"runtime"
	"unsafe"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"github.com/polycube/polycube/cube/locked"
)

// Entries as bytes: a key, and a value as in a batch. For a per-CPU map that is the values of all CPUs, each padded to a
// multiple of 8 bytes.

// batchBytes is the approximate size of a batch.
const batchBytes = 1 << 19

// Each calls fn for each entry of a map that is not a map of maps: once for an entry that exists all the time, at most
// once for one that is added or deleted meanwhile. The bytes are only valid during the call.
func Each(m *ebpf.Map, fn func(key, value []byte) error) error {
	return batches(m, func(n int, keys, values []byte) error {
		for i := range n {
			if err := fn(entryAt(m, keys, values, i)); err != nil {
				return err
			}
		}
		return nil
	})
}

// batches reads a map in batches. It reads a trie entry by entry, because there a batch starts over if the key at which
// the last one ended was deleted.
func batches(m *ebpf.Map, fn func(n int, keys, values []byte) error) error {
	if m.Type() == ebpf.LPMTrie {
		return EachKey(m, func(key []byte) error {
			value, err := Lookup(m, key)
			if err != nil || value == nil {
				return err
			}
			return fn(1, key, value)
		})
	}
	size, err := stride(m)
	if err != nil {
		return err
	}
	held, err := locked.Of(m)
	if err != nil {
		return err
	}
	count := int(max(1, min(m.MaxEntries(), max(64, batchBytes/(m.KeySize()+size)))))
	keys, values := make([]byte, count*int(m.KeySize())), make([]byte, count*int(size))
	for at := (cursor{}); ; {
		n, err := at.next(held, count, keys, values)
		if errors.Is(err, errBatchSmall) { // the cursor is at the bucket that has more
			count *= 4
			keys, values = make([]byte, count*int(m.KeySize())), make([]byte, count*int(size))
			continue
		}
		last := errors.Is(err, ebpf.ErrKeyNotExist)
		if err != nil && !last {
			return err
		}
		if err := fn(n, keys, values); err != nil || last {
			return err
		}
	}
}

// entryAt returns entry i of a batch.
func entryAt(m *ebpf.Map, keys, values []byte, i int) (key, value []byte) {
	size := len(values) / (len(keys) / int(m.KeySize()))
	return keys[i*int(m.KeySize()):][:m.KeySize()], values[i*size:][:size]
}

// Lookup returns the value of a key, nil if there is none.
func Lookup(m *ebpf.Map, key []byte) ([]byte, error) {
	held, err := locked.Of(m)
	if err != nil {
		return nil, err
	}
	value, err := held.LookupBytes(key)
	if err != nil {
		return nil, fmt.Errorf("read an entry: %w", err)
	}
	return value, nil
}

// putBatch writes the first n entries of a batch.
func putBatch(m *ebpf.Map, n int, keys, values []byte) error {
	if n == 0 {
		return nil
	}
	held, err := locked.Of(m)
	if err != nil {
		return err
	}
	attr := batchAttr{count: uint32(n), fd: uint32(m.FD()), elemFlags: held.Flags}
	var pin runtime.Pinner
	defer pin.Unpin()
	pin.Pin(&keys[0])
	pin.Pin(&values[0])
	attr.keys, attr.values = uint64(uintptr(unsafe.Pointer(&keys[0]))), uint64(uintptr(unsafe.Pointer(&values[0])))
	_, _, errno := unix.Syscall(unix.SYS_BPF, bpfMapUpdateBatch, uintptr(unsafe.Pointer(&attr)), unsafe.Sizeof(attr))
	runtime.KeepAlive(m)
	if errno != 0 {
		return tooFew(m, errno)
	}
	return nil
}

// Put writes an entry of a copy. With UpdateNoExist, an existing entry is left unchanged. An entry beyond the end of a
// smaller array is skipped.
func Put(to *ebpf.Map, key, value []byte, flags ebpf.MapUpdateFlags) error {
	held, err := locked.Of(to)
	if err != nil {
		return err
	}
	return written(to, key, held.Update(key, perCPU(to, value), flags), flags)
}

// perCPU splits a value into one for each CPU, as the library expects.
func perCPU(m *ebpf.Map, value []byte) any {
	switch m.Type() {
	case ebpf.PerCPUArray, ebpf.PerCPUHash, ebpf.LRUCPUHash:
	default:
		return value
	}
	each := int(m.ValueSize()+7) &^ 7
	var values [][]byte
	for ; len(value) >= each; value = value[each:] {
		values = append(values, value[:m.ValueSize()])
	}
	return values
}
