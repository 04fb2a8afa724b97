// SPDX-License-Identifier: Apache-2.0

// Package bpfmap creates, pins, compares, copies and counts BPF maps, and writes rows of tables. It keeps none of them.
package bpfmap

// A map for which there is not enough memory is refused before the kernel is asked: see package memory.

import (
	"errors"
	"fmt"
	"math/bits"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/internal/memory"
)

const (
	// Smaller maps are created without reading how much memory is available.
	largeMap = 1 << 20
	// memoryReserve is left for the daemon itself: its heap may double between two garbage collections.
	memoryReserve = 32 << 20
)

// memoryError is the error for a map that needs more memory than is available.
type memoryError struct {
	entries uint32
	takes   uint64
	room    memory.Room
}

func (e *memoryError) Error() string {
	return fmt.Sprintf("its %d entries need %d MB, and %s has %d MB available, of which %d are reserved for the daemon", e.entries, e.takes>>20,
		e.room.Of, e.room.Bytes>>20, memoryReserve>>20)
}

// Is matches cube.ErrFull, for clients, and ENOMEM, a lack of resources.
func (e *memoryError) Is(target error) bool { return target == cube.ErrFull || target == unix.ENOMEM }

// New creates a map. If there is not enough memory for it, the error matches cube.ErrFull and ENOMEM.
func New(spec *ebpf.MapSpec) (*ebpf.Map, error) {
	takes := footprint(spec)
	if takes >= largeMap {
		if room := memory.Available(); room.Bytes < takes+memoryReserve {
			return nil, &memoryError{spec.MaxEntries, takes, room}
		}
	}
	m, err := ebpf.NewMap(spec)
	if errors.Is(err, unix.ENOMEM) {
		return nil, &memoryError{spec.MaxEntries, takes, memory.Available()}
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
