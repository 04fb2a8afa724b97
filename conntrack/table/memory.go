// SPDX-License-Identifier: Apache-2.0

package table

// The memory of a table is in parts, which are maps in maps of maps, so that it grows while programs use it.

import (
	"errors"
	"fmt"
	"math/bits"
	"unsafe"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"
)

// mapping is a map in the memory of the process.
type mapping []byte

func mapMemory(m *ebpf.Map, name string) (mapping, error) {
	mem, err := unix.Mmap(m.FD(), 0, int(m.ValueSize())*int(m.MaxEntries()), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return nil, fmt.Errorf("map %s: map it into memory: %w", name, err)
	}
	return mem, nil
}

func (m mapping) unmap() error { return unix.Munmap(m) }

// elements are the elements of a map, or parts of them.
func elements[T any](m mapping) []T {
	var one T
	return unsafe.Slice((*T)(unsafe.Pointer(&m[0])), len(m)/int(unsafe.Sizeof(one)))
}

// parts are elements in maps of one size.
type parts[T any] struct {
	name  string
	outer *ebpf.Map
	inner *ebpf.MapSpec
	first int // the index of the first part in outer
	shift int // a part has 1<<shift elements
	mem   []mapping
	elem  [][]T
}

// open prepares for parts from an index of a map of maps on.
func (p *parts[T]) open(maps Maps, name string, first int) error {
	outer, err := maps.Map(name)
	if err != nil {
		return err
	}
	p.name, p.first = name, first
	if p.inner, err = maps.Inner(name); err != nil {
		return err
	}
	var one T
	p.shift = bits.TrailingZeros32(p.inner.MaxEntries * p.inner.ValueSize / uint32(unsafe.Sizeof(one)))
	if p.outer, err = outer.Clone(); err != nil { // it is used longer than the cube's own descriptor
		return fmt.Errorf("map %s: %w", name, err)
	}
	return nil
}

// most is how many parts the map of maps may contain.
func (p *parts[T]) most() int { return int(p.outer.MaxEntries()) }

// at returns an element, nil if its part does not exist.
func (p *parts[T]) at(n uint32) *T {
	part := int(n >> p.shift)
	if part >= len(p.elem) || p.elem[part] == nil {
		return nil
	}
	return &p.elem[part][n&(1<<p.shift-1)]
}

// count is how many parts are needed for a number of elements.
func (p *parts[T]) count(elements int) int { return (elements + 1<<p.shift - 1) >> p.shift }

// bytes is what a number of parts take.
func (p *parts[T]) bytes(parts int) uint64 {
	return uint64(parts) * uint64(p.inner.MaxEntries) * uint64(p.inner.ValueSize)
}

// lacks is what the parts take that are missing for a number of elements.
func (p *parts[T]) lacks(elements int) uint64 { return p.bytes(max(0, p.count(elements)-len(p.elem))) }

// extend creates parts until there are enough for a number of elements. Programs do not use the new ones yet. After an
// error there are as many as before.
func (p *parts[T]) extend(elements int) (err error) {
	var made []int
	defer func() {
		if err != nil {
			for _, index := range made {
				err = errors.Join(err, p.drop(index))
			}
		}
	}()
	for index := range p.count(elements) {
		if index < len(p.elem) && p.elem[index] != nil {
			continue
		}
		inner, err := ebpf.NewMap(p.inner)
		if err != nil {
			return fmt.Errorf("map %s: part %d of %d bytes: %w", p.name, index, p.inner.MaxEntries*p.inner.ValueSize, err)
		}
		err = p.put(index, inner)
		if err = errors.Join(err, inner.Close()); err != nil {
			return err
		}
		made = append(made, index)
	}
	return nil
}

func (p *parts[T]) put(index int, inner *ebpf.Map) error {
	mem, err := mapMemory(inner, p.name)
	if err != nil {
		return err
	}
	if err := p.outer.Put(uint32(p.first+index), inner); err != nil {
		return errors.Join(fmt.Errorf("map %s: insert part %d: %w", p.name, index, err), mem.unmap())
	}
	p.set(index, mem)
	return nil
}

func (p *parts[T]) set(index int, mem mapping) {
	for len(p.elem) <= index {
		p.mem, p.elem = append(p.mem, nil), append(p.elem, nil)
	}
	p.mem[index], p.elem[index] = mem, elements[T](mem)
}

// adopt maps the parts that an earlier process has left, of those with these indexes.
func (p *parts[T]) adopt(most int) error {
	for index := range most {
		var inner *ebpf.Map
		err := p.outer.Lookup(uint32(p.first+index), &inner)
		if errors.Is(err, ebpf.ErrKeyNotExist) {
			return nil // they are adjacent
		}
		if err != nil {
			return fmt.Errorf("map %s: part %d: %w", p.name, index, err)
		}
		mem, err := mapMemory(inner, p.name)
		if err = errors.Join(err, inner.Close()); err != nil {
			return err
		}
		p.set(index, mem)
	}
	return nil
}

// drop removes a part that no program uses.
func (p *parts[T]) drop(index int) error {
	var errs []error
	if index < len(p.elem) && p.elem[index] != nil {
		errs = append(errs, p.mem[index].unmap())
		p.mem[index], p.elem[index] = nil, nil
	}
	if err := p.outer.Delete(uint32(p.first + index)); err != nil && !errors.Is(err, ebpf.ErrKeyNotExist) {
		errs = append(errs, fmt.Errorf("map %s: delete part %d: %w", p.name, index, err))
	}
	return errors.Join(errs...)
}

// dropAll removes all parts. The first is the last to be removed, so that a process that is killed leaves it.
func (p *parts[T]) dropAll() error {
	var errs []error
	for index := len(p.elem) - 1; index >= 0; index-- {
		errs = append(errs, p.drop(index))
	}
	p.mem, p.elem = nil, nil
	return errors.Join(errs...)
}

// close unmaps the parts; they remain in the kernel.
func (p *parts[T]) close() error {
	var errs []error
	for _, mem := range p.mem {
		if mem != nil {
			errs = append(errs, mem.unmap())
		}
	}
	if p.outer != nil {
		errs = append(errs, p.outer.Close())
	}
	return errors.Join(errs...)
}
