// SPDX-License-Identifier: Apache-2.0

// Maps as memory: state shared with the fast path for each packet is read and written without system calls.

package slowpath

import (
	"errors"
	"fmt"
	"os"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"
)

// mapArray maps an array into memory, after checking that it is an array of such values.
func mapArray(m *ebpf.Map, what string, valueSize, entries uint32) ([]byte, error) {
	if m == nil {
		return nil, fmt.Errorf("map %s: missing", what)
	}
	switch {
	case m.Type() != ebpf.Array:
		return nil, fmt.Errorf("map %s: is a %v, not an array", what, m.Type())
	case m.ValueSize() != valueSize:
		return nil, fmt.Errorf("map %s: its values have %d bytes, not %d", what, m.ValueSize(), valueSize)
	case m.MaxEntries() < entries:
		return nil, fmt.Errorf("map %s: it has %d entries, not %d", what, m.MaxEntries(), entries)
	case m.Flags()&unix.BPF_F_MMAPABLE == 0:
		return nil, fmt.Errorf("map %s: it cannot be mapped into memory", what)
	}
	mem, err := mapMemory(m, 0, int(m.MaxEntries())*int(valueSize), unix.PROT_READ|unix.PROT_WRITE)
	if err != nil {
		return nil, fmt.Errorf("map %s: %w", what, err)
	}
	return mem, nil
}

func mapMemory(m *ebpf.Map, offset int64, length, prot int) ([]byte, error) {
	page := os.Getpagesize()
	mem, err := unix.Mmap(m.FD(), offset, (length+page-1)/page*page, prot, unix.MAP_SHARED)
	if err != nil {
		return nil, fmt.Errorf("map %d bytes into memory: %w", length, err)
	}
	return mem, nil
}

// unmap unmaps memory of mapMemory; nil is ignored.
func unmap(mem ...[]byte) error {
	var errs []error
	for _, m := range mem {
		if m != nil {
			errs = append(errs, unix.Munmap(m))
		}
	}
	return errors.Join(errs...)
}
