// SPDX-License-Identifier: Apache-2.0

package classifier

// All sets of a daemon are in the same two maps. One contains memory in parts of 16 MB, each mapped into the daemon, in
// which every set has a region; the other says for each set where it is, and which fields its rules match. So programs
// depend on nothing of a set, and a set that changes or moves costs a store of one word.

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"unsafe"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/cube/shared"
)

const (
	// setsOfCube, partBlocks, parts and rootSize are those of pcn/classify_tree.h.
	setsOfCube = 8
	partBlocks = 1 << 18
	rootSize   = 16
	// unit is the number of blocks by which regions are allocated; the first one of a part is not used.
	unit = 64
)

// Names of the maps in C.
const (
	memoryMap    = "classify_memory"
	setsMap      = "classify_sets"
	addressesMap = "classify_addresses"
)

// pools are the open memories, by the map of sets.
var pools shared.Registry[*pool]

// pool is the memory of all sets.
type pool struct {
	memory *ebpf.Map
	spec   *ebpf.MapSpec // of a part
	roots  []byte        // the map of sets
	// made is how many parts there have been at the same time, for the next daemon: to ask the kernel which there are
	// would take long, as old ones wait for packets at each question. It is in an element after the last set.
	made *uint64

	mu    sync.Mutex // guards what follows
	parts map[uint32]*part
	names names
	// left are the parts of an earlier daemon by the sets that are still there, and leftIn the number of these sets.
	left   map[uint32]uint32
	leftIn map[uint32]int
	// closed are regions of closed sets, which packets may still read until another set has the number. Sets of
	// addresses have addressKey and their number here and in left.
	closed map[uint32][]*region
}

// part is a piece of memory.
type part struct {
	index uint32
	inner *ebpf.Map
	mem   []byte
	space *space // in units
}

// region is the memory of a set.
type region struct {
	p     *pool
	in    *part
	first uint32 // unit
	units int
}

// openPool returns the memory to which a cube's maps belong. The caller releases it.
func openPool(env cube.Env) (*pool, error) {
	sets, err := env.Map(setsMap)
	if err != nil {
		return nil, err
	}
	return pools.Open(sets, func() (*pool, error) { return newPool(env, sets) })
}

func newPool(env cube.Env, sets *ebpf.Map) (*pool, error) {
	memory, err := env.Map(memoryMap)
	if err != nil {
		return nil, err
	}
	spec, err := env.Inner(memoryMap)
	if err != nil {
		return nil, err
	}
	p := &pool{spec: spec, parts: map[uint32]*part{}, left: map[uint32]uint32{}, leftIn: map[uint32]int{}, closed: map[uint32][]*region{}}
	if p.roots, err = unix.Mmap(sets.FD(), 0, int(sets.MaxEntries())*rootSize, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED); err != nil {
		return nil, fmt.Errorf("map %s: map it into memory: %w", setsMap, err)
	}
	if p.memory, err = memory.Clone(); err != nil { // it is used longer than the cube's own descriptor
		return nil, errors.Join(fmt.Errorf("map %s: %w", memoryMap, err), unix.Munmap(p.roots))
	}
	p.made = p.root(sets.MaxEntries() - 1)
	if err := p.readNames(env); err != nil {
		return nil, errors.Join(err, unix.Munmap(p.roots), p.memory.Close())
	}
	for set := range sets.MaxEntries() - 1 {
		p.isLeft(set, atomic.LoadUint64(p.root(set)))
	}
	for number := range uint32(addressSets) {
		p.isLeft(addressKey+number, p.addressesAt(number))
	}
	return p, p.dropParts()
}

func (p *pool) readNames(env cube.Env) error {
	m, err := env.Map(addressesMap)
	if err != nil {
		return err
	}
	table, err := unix.Mmap(m.FD(), 0, addressSets*addressesSize, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return fmt.Errorf("map %s: map it into memory: %w", addressesMap, err)
	}
	p.names = openNames(table)
	return nil
}

// isLeft records where an earlier daemon has a set.
func (p *pool) isLeft(key uint32, root uint64) {
	if root != 0 {
		p.left[key] = partOf(root)
		p.leftIn[partOf(root)]++
	}
}

// dropParts removes the parts of an earlier daemon in which no set is.
func (p *pool) dropParts() error {
	for index := range min(uint32(*p.made), p.memory.MaxEntries()) {
		if p.leftIn[index] > 0 {
			continue
		}
		if err := p.dropPart(index); err != nil {
			return err
		}
	}
	return nil
}

func (p *pool) dropPart(index uint32) error {
	if err := p.memory.Delete(index); err != nil && !errors.Is(err, ebpf.ErrKeyNotExist) {
		return fmt.Errorf("map %s: delete part %d: %w", memoryMap, index, err)
	}
	return nil
}

// release ends a use of the pool. The memory stays in the kernel.
func (p *pool) release() error { return pools.Release(p, p.close) }

func (p *pool) close() error {
	errs := []error{unix.Munmap(p.roots), unix.Munmap(p.names.table), p.memory.Close()}
	for _, x := range p.parts {
		errs = append(errs, unix.Munmap(x.mem), x.inner.Close())
	}
	return errors.Join(errs...)
}

// root returns the word that says where a set is, fields the one that says which fields its rules match.
func (p *pool) root(set uint32) *uint64   { return (*uint64)(unsafe.Pointer(&p.roots[set*rootSize])) }
func (p *pool) fields(set uint32) *uint64 { return (*uint64)(unsafe.Pointer(&p.roots[set*rootSize+8])) }

func partOf(root uint64) uint32 { return uint32(root >> 32) }

// take allocates a region of a number of blocks.
func (p *pool) take(blocks int) (*region, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, x := range p.parts {
		if r := p.regionIn(x, blocks); r != nil {
			return r, nil
		}
	}
	free := uint32(0)
	for p.parts[free] != nil || p.leftIn[free] > 0 {
		if free++; free == p.memory.MaxEntries() {
			return nil, fmt.Errorf("rules need more than %d parts of memory: %w", free, cube.ErrFull)
		}
	}
	x, err := p.makePart(free)
	if err != nil {
		return nil, err
	}
	return p.regionIn(x, blocks), nil
}

// takeIn allocates a region of a part; nil if there is no room.
func (p *pool) takeIn(x *part, blocks int) *region {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.regionIn(x, blocks)
}

func (p *pool) regionIn(x *part, blocks int) *region {
	units := (blocks + unit - 1) / unit
	at := x.space.take(units)
	if at == 0 {
		return nil
	}
	return &region{p, x, at, units}
}

// makePart creates a part.
func (p *pool) makePart(index uint32) (*part, error) {
	inner, err := ebpf.NewMap(p.spec)
	if err != nil {
		return nil, fmt.Errorf("map %s: %d MB of memory for rules: %w", memoryMap, partBlocks*blockSize>>20, err)
	}
	mem, err := unix.Mmap(inner.FD(), 0, partBlocks*blockSize, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("map %s: map a part into memory: %w", memoryMap, err), inner.Close())
	}
	if err := p.memory.Put(index, inner); err != nil {
		return nil, errors.Join(fmt.Errorf("map %s: insert part %d: %w", memoryMap, index, err), unix.Munmap(mem), inner.Close())
	}
	x := &part{index, inner, mem, newSpace(partBlocks/unit, 0)}
	p.parts[index] = x
	*p.made = max(*p.made, uint64(index)+1)
	return x, nil
}

// give frees a region that no packet reads any more, and its part if that is empty.
func (p *pool) give(r *region) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	r.in.space.give(r.first, r.units)
	if len(p.parts) == 1 || r.in.space.left < partBlocks/unit-1 {
		return nil
	}
	delete(p.parts, r.in.index)
	return errors.Join(p.dropPart(r.in.index), unix.Munmap(r.in.mem), r.in.inner.Close())
}

// wait returns when no packet reads what was replaced before. It relies on the kernel, which waits for that when an
// element of a map of maps is replaced, be it by itself.
func (p *pool) wait() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	for index, x := range p.parts {
		if err := p.memory.Put(index, x.inner); err != nil {
			return fmt.Errorf("map %s: insert part %d: %w", memoryMap, index, err)
		}
		break
	}
	return nil
}

// settle records that a set is not in the memory of an earlier daemon any more.
func (p *pool) settle(set uint32) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	index, ok := p.left[set]
	if !ok {
		return nil
	}
	delete(p.left, set)
	if p.leftIn[index]--; p.leftIn[index] > 0 {
		return nil
	}
	delete(p.leftIn, index)
	return p.dropPart(index)
}

func (r *region) memory() []byte {
	return r.in.mem[int(r.first)*unit*blockSize:][:r.units*unit*blockSize]
}

func (r *region) base() uint32 { return r.first * unit }

func (r *region) root(block uint32) uint64 { return uint64(r.in.index)<<32 | uint64(block) }

func (r *region) close() error { return r.p.give(r) }

// keep keeps regions of a set that is closed: if the daemon stops, programs go on reading them.
func (p *pool) keep(key uint32, used []home) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, h := range used {
		p.closed[key] = append(p.closed[key], h.(*region))
	}
}

// closeKept frees the regions of an earlier set.
func (p *pool) closeKept(key uint32) error {
	p.mu.Lock()
	closed := p.closed[key]
	delete(p.closed, key)
	p.mu.Unlock()
	var errs []error
	for _, r := range closed {
		errs = append(errs, r.close())
	}
	return errors.Join(errs...)
}
