// SPDX-License-Identifier: Apache-2.0

package foreign

// The maps of an external service are kernel memory that no process limit includes, so they are counted here, and they
// are private to the service: shared maps are only for built-in services.

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/cilium/ebpf"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/ring"
)

// Words that the macros of <pcn/map.h> leave in the object.
const (
	tagShared = "pcn_shared:"
	tagExtern = "pcn_extern:"
)

func checkMaps(specs map[string]*ebpf.MapSpec) error {
	total, count, rings := uint64(0), 0, 0
	for _, name := range slices.Sorted(maps.Keys(specs)) {
		spec := specs[name]
		if strings.HasPrefix(name, ".rodata") {
			continue // constants: they are copied into the programs
		}
		count++
		size, err := checkMap(name, spec)
		if err == nil && spec.Type == ebpf.RingBuf {
			rings++
			err = checkRing(name, specs)
		}
		total += size
		switch {
		case err != nil:
		case rings > 1:
			err = fmt.Errorf("a cube has one ring; tell packets apart by their kind: %w", cube.ErrInvalid)
		case count > maxMaps:
			err = fmt.Errorf("too many maps, the limit is %d: %w", maxMaps, cube.ErrInvalid)
		case total > MaxMemory:
			err = fmt.Errorf("with it, the maps take %d MiB, the limit is %d: %w", total>>20, MaxMemory>>20, cube.ErrInvalid)
		}
		if err != nil {
			return fmt.Errorf("map %.80s: %w", name, err)
		}
	}
	return nil
}

// checkRing refuses a ring buffer that is not one of PCN_RING.
func checkRing(name string, specs map[string]*ebpf.MapSpec) error {
	page, counts := specs[name+ring.ReaderSuffix], specs[name+ring.CountsSuffix]
	if page == nil || page.Type != ebpf.Array || page.Flags != flagMmapable || counts == nil || counts.Type != ebpf.PerCPUArray {
		return fmt.Errorf("a ring buffer is declared with PCN_RING: %w", cube.ErrInvalid)
	}
	if size := specs[name].MaxEntries; size < 4096 || size > maxRing || size&(size-1) != 0 {
		return fmt.Errorf("it has %d bytes; the size of a ring is a power of two from 4096 to %d bytes: %w", size, maxRing, cube.ErrInvalid)
	}
	return nil
}

// checkMap returns the approximate memory of a map.
func checkMap(name string, s *ebpf.MapSpec) (uint64, error) {
	if strings.HasPrefix(name, ".") {
		return 0, fmt.Errorf("global variables must be constants declared with PCN_CONFIG; use a map (PCN_MAP) for data that a program writes: %w", cube.ErrInvalid)
	}
	if err := checkKind(s); err != nil {
		return 0, err
	}
	for _, tag := range s.Tags {
		if strings.HasPrefix(tag, tagShared) || strings.HasPrefix(tag, tagExtern) {
			return 0, fmt.Errorf("it is shared between services (%.80s), which only built-in services can use; use PCN_MAP or PCN_MAP_PUBLIC: %w",
				strings.TrimPrefix(tag, "pcn_"), cube.ErrInvalid)
		}
	}
	size := Memory(s)
	if s.Type != ebpf.ArrayOfMaps && s.Type != ebpf.HashOfMaps {
		return size, nil
	}
	if s.InnerMap == nil {
		return 0, fmt.Errorf("the type of its inner maps is missing; use PCN_MAP_OF_MAPS: %w", cube.ErrInvalid)
	}
	if err := checkKind(s.InnerMap); err != nil {
		return 0, fmt.Errorf("inner maps: %w", err)
	}
	if s.InnerMap.Type == ebpf.RingBuf {
		return 0, fmt.Errorf("inner maps cannot be ring buffers: %w", cube.ErrInvalid)
	}
	if s.InnerMap.Type == ebpf.ArrayOfMaps || s.InnerMap.Type == ebpf.HashOfMaps {
		return 0, fmt.Errorf("inner maps cannot have inner maps: %w", cube.ErrInvalid)
	}
	return size + uint64(s.MaxEntries)*Memory(s.InnerMap), nil
}

func checkKind(s *ebpf.MapSpec) error {
	switch {
	case !slices.Contains(mapTypes, s.Type):
		return fmt.Errorf("foreign programs may not have maps of type %s: %w", s.Type, cube.ErrInvalid)
	case s.Pinning != ebpf.PinNone:
		return fmt.Errorf("it requests pinning by name; the framework pins maps itself: %w", cube.ErrInvalid)
	case s.Flags&^mapFlags != 0:
		return fmt.Errorf("foreign programs may not use the map flags %#x: %w", s.Flags&^mapFlags, cube.ErrInvalid)
	case s.Flags&flagMmapable != 0 && s.Type != ebpf.Array:
		return fmt.Errorf("only an array can have the flag BPF_F_MMAPABLE: %w", cube.ErrInvalid)
	case s.Type != ebpf.RingBuf && (s.MaxEntries == 0 || s.MaxEntries > MaxEntries):
		return fmt.Errorf("it has %d entries, the range is 1 to %d: %w", s.MaxEntries, MaxEntries, cube.ErrInvalid)
	case len(s.Contents) > 0:
		return fmt.Errorf("it has initial entries; write them from the service instead: %w", cube.ErrInvalid)
	}
	return nil
}

// Memory is the approximate memory of a full map in bytes, on all CPUs.
func Memory(s *ebpf.MapSpec) uint64 {
	value := (uint64(s.ValueSize) + 7) &^ 7
	switch s.Type {
	case ebpf.PerCPUArray, ebpf.PerCPUHash, ebpf.LRUCPUHash:
		cpus, err := ebpf.PossibleCPU()
		if err != nil {
			cpus = 1
		}
		value *= uint64(cpus)
	default:
	}
	switch s.Type {
	case ebpf.Array, ebpf.PerCPUArray, ebpf.Queue, ebpf.Stack:
		return uint64(s.MaxEntries) * value
	case ebpf.BloomFilter:
		return uint64(s.MaxEntries) * 8
	case ebpf.RingBuf:
		return uint64(s.MaxEntries)
	default:
		return uint64(s.MaxEntries) * (uint64(s.KeySize) + value + entryOverhead)
	}
}
