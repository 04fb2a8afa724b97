// SPDX-License-Identifier: Apache-2.0

package table

// Arrays in memory that programs and Go share.

import (
	"errors"
	"fmt"
	"sync"
	"unsafe"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"github.com/polycube/polycube/cube"
)

// Mapped is an array with the flag BPF_F_MMAPABLE, mapped into memory: entries are read and written without system calls.
// V has the layout of the C type, without implicit padding, and a multiple of 8 bytes.
//
// Programs change entries at the same time: an aligned word of up to 64 bits is never half written, more than that may be.
// Use sync/atomic for words that both sides change.
type Mapped[V any] struct {
	*view

	mu     sync.Mutex
	of     *ebpf.Map
	values []V
	memory [][]byte
}

// NewMapped returns one of the instance's arrays by its C name. It opens itself as the tables of New do.
func NewMapped[V any](env cube.Env, name string) *Mapped[V] {
	return &Mapped[V]{view: newView(env, name, checkMapped[V](name))}
}

// MappedOf returns the mapped view of an array. name is its name in errors.
func MappedOf[V any](name string, m *ebpf.Map) (*Mapped[V], error) {
	v, err := viewOf(name, m, checkMapped[V](name))
	return &Mapped[V]{view: v}, err
}

const flagMmapable = 1 << 10 // BPF_F_MMAPABLE of <linux/bpf.h>

func checkMapped[V any](name string) func(*ebpf.Map) error {
	return func(m *ebpf.Map) error {
		var zero V
		if m.Type() != ebpf.Array || m.Flags()&flagMmapable == 0 {
			return fmt.Errorf("map %s: only an array with the flag BPF_F_MMAPABLE can be mapped: %w", name, cube.ErrInvalid)
		}
		if size := sizeOf[V](); size != int(unsafe.Sizeof(zero)) || size%8 != 0 {
			return fmt.Errorf("map %s: a Go type of %d bytes, %d in memory: mapped values have no implicit padding and a multiple of 8 bytes: %w",
				name, size, unsafe.Sizeof(zero), cube.ErrInvalid)
		}
		return checkSizes[uint32, V](name, m)
	}
}

// Values returns all entries: not a copy, but the memory that programs use. It is valid until Close. If the map was
// replaced by one of another size, Values returns the memory of the new one.
func (a *Mapped[V]) Values() ([]V, error) {
	m, err := a.Map()
	if err != nil {
		return nil, err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.of == m {
		return a.values, nil
	}
	size := int(m.ValueSize()) * int(m.MaxEntries())
	memory, err := unix.Mmap(m.FD(), 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return nil, fmt.Errorf("map %s: map %d bytes into memory: %w", a.name, size, err)
	}
	a.memory = append(a.memory, memory)
	a.of, a.values = m, unsafe.Slice((*V)(unsafe.Pointer(&memory[0])), m.MaxEntries())
	return a.values, nil
}

// Close ends the mapping. Slices from Values must not be used any more.
func (a *Mapped[V]) Close() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	var errs []error
	for _, memory := range a.memory {
		errs = append(errs, unix.Munmap(memory))
	}
	a.of, a.values, a.memory = nil, nil, nil
	return errors.Join(errs...)
}
