// SPDX-License-Identifier: Apache-2.0

package classifier

// The maps that PCN_CLASSIFIER declares. The inner arrays are mapped into our memory, so that writing a block is a
// memory write; a pointer is replaced by one store, which packets see atomically.

import (
	"errors"
	"fmt"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"github.com/polycube/polycube/cube"
)

type maps struct {
	env    cube.Env
	prefix string
}

func (m *maps) name() string { return m.prefix }

// suffixes are the suffixes of the maps' names, by size.
var suffixes = [...]string{"_small", "_medium", "_large", "_huge"}

// outer is the map of a size, with its name.
func (m *maps) outer(size uint32) (*ebpf.Map, string, error) {
	name := m.prefix + suffixes[size]
	outer, err := m.env.Map(name)
	return outer, name, err
}

func (m *maps) maker() (func(size uint32) (home, error), error) {
	var kinds [len(suffixes)]kind
	for size := range suffixes {
		outer, name, err := m.outer(uint32(size))
		if err != nil {
			return nil, err
		}
		spec, err := m.env.Inner(name)
		if err != nil {
			return nil, err
		}
		kinds[size] = kind{name, outer, spec}
	}
	return func(size uint32) (home, error) { return kinds[size].make() }, nil
}

// kind contains the properties of the maps of a size.
type kind struct {
	name  string
	outer *ebpf.Map
	spec  *ebpf.MapSpec
}

func (k *kind) make() (home, error) {
	inner, err := ebpf.NewMap(k.spec)
	if err != nil {
		return nil, fmt.Errorf("map %s: create a set: %w", k.name, err)
	}
	mem, err := unix.Mmap(inner.FD(), 0, int(k.spec.MaxEntries)*blockSize, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("map %s: map a set into memory: %w", k.name, err), inner.Close())
	}
	return &mapped{name: k.name, outer: k.outer, inner: inner, mem: mem}, nil
}

// clear checks before it deletes: each deletion waits for packets in flight.
func (m *maps) clear(keep place) error {
	for size := range suffixes {
		outer, name, err := m.outer(uint32(size))
		if err != nil {
			return err
		}
		for slot := range outer.MaxEntries() {
			var id uint32
			if uint32(size) == keep.size && slot == keep.slot || outer.Lookup(slot, &id) != nil {
				continue
			}
			if err := outer.Delete(slot); err != nil && !errors.Is(err, ebpf.ErrKeyNotExist) {
				return fmt.Errorf("map %s: delete the set at %d: %w", name, slot, err)
			}
		}
	}
	return nil
}

// mapped is an array in a map of maps.
type mapped struct {
	name  string
	outer *ebpf.Map
	inner *ebpf.Map
	mem   []byte
}

func (h *mapped) memory() []byte { return h.mem }

// put relies on the kernel, which waits until no program uses the previous inner map.
func (h *mapped) put(slot uint32) error {
	if err := h.outer.Put(slot, h.inner); err != nil {
		return fmt.Errorf("map %s: insert a set at %d: %w", h.name, slot, err)
	}
	return nil
}

func (h *mapped) close() error {
	if err := errors.Join(unix.Munmap(h.mem), h.inner.Close()); err != nil {
		return fmt.Errorf("map %s: close a set: %w", h.name, err)
	}
	return nil
}
