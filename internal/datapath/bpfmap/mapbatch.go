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

// Entries of any type in the kernel's batches. The library needs a Go type, which counts and copies do not have.

// MaxCounted is the number of entries of a map at which counting stops.
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

// errBatchSmall is the kernel's error if a bucket has more entries than the batch.
var errBatchSmall = errors.New("a bucket is larger than the batch")

// cursor is a position in a map: for the kernel, the number of a bucket, or a key.
type cursor struct {
	at    []byte
	begun bool
}

// next reads a batch and returns its number of entries; with the last batch also ebpf.ErrKeyNotExist.
func (c *cursor) next(m locked.Map, count int, keys, values []byte) (int, error) {
	if c.at == nil {
		c.at = make([]byte, max(8, m.KeySize()))
	}
	var pin runtime.Pinner
	defer pin.Unpin()
	address := func(b []byte) uint64 {
		pin.Pin(&b[0])
		return uint64(uintptr(unsafe.Pointer(&b[0])))
	}
	attr := batchAttr{outBatch: address(c.at), keys: address(keys), values: address(values), count: uint32(count), fd: uint32(m.FD()), elemFlags: m.Flags}
	if c.begun {
		attr.inBatch = attr.outBatch
	}
	_, _, errno := unix.Syscall(unix.SYS_BPF, bpfMapLookupBatch, uintptr(unsafe.Pointer(&attr)), unsafe.Sizeof(attr))
	runtime.KeepAlive(m.Map)
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

// Count counts the entries of a map, up to MaxCounted. It returns -1 for maps whose number of entries is fixed.
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
		// A bucket does not fit into the batch: the kernel asks for a larger one.
		if !errors.Is(err, errBatchSmall) || batch >= int(m.MaxEntries()) {
			return n, err
		}
		batch = min(4*batch, int(m.MaxEntries()))
	}
}

// stride is the number of bytes of a value in a batch.
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
		n, err := at.next(locked.Map{Map: m}, batch, keys, vals)
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
