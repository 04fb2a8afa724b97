// SPDX-License-Identifier: Apache-2.0

// Package bpfmap creates, pins, compares, copies and counts BPF maps, and writes rows of tables. It keeps none of them.
package bpfmap

// A map for which there is not enough memory is refused before the kernel is asked: see package memory.

import (
	"errors"
	"math/bits"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"github.com/polycube/polycube/memory"
)

// New creates a map. If there is not enough memory for it, the error matches cube.ErrFull and ENOMEM.
func New(spec *ebpf.MapSpec) (*ebpf.Map, error) {
	takes := footprint(spec)
	if err := memory.Check(spec.MaxEntries, takes); err != nil {
		return nil, err
	}
	m, err := ebpf.NewMap(spec)
	if errors.Is(err, unix.ENOMEM) {
		return nil, memory.Lack(spec.MaxEntries, takes)
	}
	return m, err
}

// Bytes that the kernel needs in addition for each entry of a hash table (struct htab_elem), and for each bucket; the number
// of buckets is the next power of two.
const (
	hashEntryBytes  = 48
	hashBucketBytes = 16
)

// footprint returns about how many bytes the kernel allocates when it creates a map.
func footprint(s *ebpf.MapSpec) uint64 {
	entries := uint64(s.MaxEntries)
	switch s.Type {
	case ebpf.Hash, ebpf.LRUHash, ebpf.PerCPUHash, ebpf.LRUCPUHash:
		buckets := hashBucketBytes << bits.Len64(max(entries, 1)-1)
		if s.Flags&unix.BPF_F_NO_PREALLOC != 0 {
			return uint64(buckets)
		}
		return Bytes(s) + entries*hashEntryBytes + uint64(buckets)
	case ebpf.LPMTrie:
		return 0 // entry by entry
	default:
	}
	return Bytes(s)
}

// Bytes returns the minimum size of a map's entries, in bytes.
func Bytes(s *ebpf.MapSpec) uint64 {
	value := uint64(s.ValueSize)
	switch s.Type {
	case ebpf.RingBuf:
		return uint64(s.MaxEntries)
	case ebpf.PerCPUArray, ebpf.PerCPUHash, ebpf.LRUCPUHash:
		cpus, err := ebpf.PossibleCPU()
		if err != nil {
			cpus = 1
		}
		value = (value + 7) &^ 7 * uint64(cpus)
	default:
	}
	return uint64(s.MaxEntries) * (uint64(s.KeySize) + value)
}
