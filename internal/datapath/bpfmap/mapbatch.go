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

// Entries by the kernel's batches, whatever they are made of: the library wants their Go type, and neither a count nor a
// copy needs one.

// MaxCounted bounds the entries of one map that are counted.
const MaxCounted = 1 << 18

// Commands of <linux/bpf.h>.
const (
	bpfMapLookupBatch = 24 // BPF_MAP_LOOKUP_BATCH
	bpfMapUpdateBatch = 26 // BPF_MAP_UPDATE_BATCH
)

// batchAttr is the member batch of union bpf_attr.
type batchAttr struct {
	inBatch, outBatch, keys, values uint64
	count, fd                       uint32
	elemFlags, flags                uint64
}

// errBatchSmall is what the kernel says when a bucket has more entries than a batch.
var errBatchSmall = errors.New("a bucket is larger than the batch")

// cursor is a place in a map. The kernel keeps a bucket's number or a key in it.
type cursor struct {
	at    []byte
	begun bool
}

// next reads a batch and returns how many entries it had; ebpf.ErrKeyNotExist with the last one.
func (c *cursor) next(m *ebpf.Map, count int, keys, values []byte) (int, error) {
	if c.at == nil {
		c.at = make([]byte, max(8, m.KeySize()))
	}
	var pin runtime.Pinner
	defer pin.Unpin()
	address := func(b []byte) uint64 {
		pin.Pin(&b[0])
		return uint64(uintptr(unsafe.Pointer(&b[0])))
	}
	attr := batchAttr{outBatch: address(c.at), keys: address(keys), values: address(values), count: uint32(count), fd: uint32(m.FD())}
	if c.begun {
		attr.inBatch = attr.outBatch
	}
	_, _, errno := unix.Syscall(unix.SYS_BPF, bpfMapLookupBatch, uintptr(unsafe.Pointer(&attr)), unsafe.Sizeof(attr))
	runtime.KeepAlive(m)
	c.begun = true
	switch {
	case errno == 0:
		return int(attr.count), nil
	case errno == unix.ENOENT:
		return int(attr.count), ebpf.ErrKeyNotExist
	case errno == unix.ENOSPC:
		return 0, errBatchSmall
	}
	return 0, fmt.Errorf("read a batch: %w", errno)
}

// Count counts the entries of a map that has more or fewer of them, up to MaxCounted; -1 for others.
func Count(m *ebpf.Map) (int, error) {
	switch m.Type() {
	case ebpf.Hash, ebpf.LRUHash, ebpf.LPMTrie, ebpf.PerCPUHash, ebpf.LRUCPUHash, ebpf.HashOfMaps:
	default:
		return -1, nil
	}
	values, err := stride(m)
	if err != nil {
		return 0, err
	}
	batch := int(min(m.MaxEntries(), max(64, (1<<20)/(m.KeySize()+values))))
	for {
		n, err := countBatches(m, batch, values)
		// A bucket of a hash that does not fit the batch: the kernel asks for a larger one.
		if !errors.Is(err, errBatchSmall) || batch >= int(m.MaxEntries()) {
			return n, err
		}
		batch = min(4*batch, int(m.MaxEntries()))
	}
}

// stride is how many bytes the value of an entry takes in a batch.
func stride(m *ebpf.Map) (uint32, error) {
	switch m.Type() {
	case ebpf.PerCPUHash, ebpf.LRUCPUHash, ebpf.PerCPUArray:
		cpus, err := ebpf.PossibleCPU()
		if err != nil {
			return 0, fmt.Errorf("number of CPUs: %w", err)
		}
		return (m.ValueSize() + 7) &^ 7 * uint32(cpus), nil
	case ebpf.HashOfMaps:
		return 4, nil
	default:
	}
	return m.ValueSize(), nil
}

// countBatches reads the map in batches.
func countBatches(m *ebpf.Map, batch int, values uint32) (int, error) {
	keys, vals := make([]byte, batch*int(m.KeySize())), make([]byte, batch*int(values))
	var at cursor
	total := 0
	for total < MaxCounted {
		n, err := at.next(m, batch, keys, vals)
		total += n
		if errors.Is(err, ebpf.ErrKeyNotExist) {
			return min(total, MaxCounted), nil
		}
		if err != nil {
			return total, err
		}
	}
	return MaxCounted, nil
}
