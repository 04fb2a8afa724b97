// SPDX-License-Identifier: Apache-2.0

package bpfmap

import (
	"errors"
	"fmt"
	"runtime"
	"unsafe"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"
)

// Entries as bytes: a key, and a value as a batch has it, which is the values of all CPUs, each in a multiple of 8 bytes,
// where each CPU has its own.

// batchBytes is about how much a batch of entries takes.
const batchBytes = 1 << 19

// Each calls fn for each entry of a map that is not made of maps. An entry that is there from beginning to end comes once;
// one that comes or goes meanwhile may be left out. The bytes are valid during the call only.
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

// batches reads a map in batches; a trie entry by entry, because a batch begins again when the key where the last one ended
// is gone.
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
	count := int(max(1, min(m.MaxEntries(), max(64, batchBytes/(m.KeySize()+size)))))
	keys, values := make([]byte, count*int(m.KeySize())), make([]byte, count*int(size))
	for at := (cursor{}); ; {
		n, err := at.next(m, count, keys, values)
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

// entryAt is the entry with a number of a batch.
func entryAt(m *ebpf.Map, keys, values []byte, i int) (key, value []byte) {
	size := len(values) / (len(keys) / int(m.KeySize()))
	return keys[i*int(m.KeySize()):][:m.KeySize()], values[i*size:][:size]
}

// Lookup returns the value of a key, nil if there is none.
func Lookup(m *ebpf.Map, key []byte) ([]byte, error) {
	value, err := m.LookupBytes(key)
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
	attr := batchAttr{count: uint32(n), fd: uint32(m.FD())}
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

// Put writes an entry of a copy. With UpdateNoExist one that is there is left as it is, and one beyond the end
// of a smaller array is left out.
func Put(to *ebpf.Map, key, value []byte, flags ebpf.MapUpdateFlags) error {
	return written(to, key, to.Update(key, perCPU(to, value), flags), flags)
}

// perCPU is a value as the library wants it.
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
