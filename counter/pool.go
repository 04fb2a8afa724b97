// SPDX-License-Identifier: Apache-2.0

package counter

// The memory of all counters of rules of a daemon: parts that are created when they are needed.

import (
	"errors"
	"fmt"
	"sync"
	"unsafe"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/cube/shared"
	"github.com/polycube/polycube/cube/table"
	"github.com/polycube/polycube/inet"
)

// partSize is PCN_RULE_COUNTERS.
const partSize = 4096

// Names of the maps in C.
const (
	countersMap = "rule_counters"
	ownersMap   = "rule_owners"
	keptMap     = "rule_counters_kept"
)

// pools are the open memories, by the map of counters.
var pools shared.Registry[*pool]

// pool is the memory of all counters.
type pool struct {
	counters, owners       *ebpf.Map
	counterSpec, ownerSpec *ebpf.MapSpec // of parts

	mu    sync.Mutex // guards what follows
	parts []*part
}

// part is a piece of the memory.
type part struct {
	counters table.PerCPU[uint32, inet.Count]
	inner    *ebpf.Map
	// owners are the rules: the number of the list in the upper half, the rule's id in the lower half; 0: unused.
	owners []uint64
	mem    []byte
	unused []uint16
}

// openPool returns the memory to which a cube's maps belong. The caller releases it.
func openPool(env cube.Env) (*pool, error) {
	counters, err := env.Map(countersMap)
	if err != nil {
		return nil, err
	}
	return pools.Open(counters, func() (*pool, error) {
		p := &pool{}
		if err := p.open(env, counters); err != nil {
			return nil, errors.Join(err, p.close())
		}
		return p, nil
	})
}

// open reads the parts of an earlier daemon. There are no gaps between parts: the first that is missing is the end.
func (p *pool) open(env cube.Env, counters *ebpf.Map) error {
	owners, err := env.Map(ownersMap)
	if err != nil {
		return err
	}
	if p.counterSpec, err = env.Inner(countersMap); err != nil {
		return err
	}
	if p.ownerSpec, err = env.Inner(ownersMap); err != nil {
		return err
	}
	if p.counters, err = counters.Clone(); err != nil { // they are used longer than the cube's own descriptors
		return fmt.Errorf("map %s: %w", countersMap, err)
	}
	if p.owners, err = owners.Clone(); err != nil {
		return fmt.Errorf("map %s: %w", ownersMap, err)
	}
	for i := range counters.MaxEntries() {
		var inner, theirs *ebpf.Map
		err := p.owners.Lookup(i, &theirs)
		if err == nil {
			err = p.counters.Lookup(i, &inner)
		}
		if errors.Is(err, ebpf.ErrKeyNotExist) {
			return theirs.Close()
		}
		if err == nil {
			err = p.add(inner, theirs)
		}
		if err = errors.Join(err, theirs.Close()); err != nil {
			return fmt.Errorf("map %s: open part %d: %w", countersMap, i, err)
		}
	}
	return nil
}

// add adds a part, whose counters then belong to it.
func (p *pool) add(inner, owners *ebpf.Map) error {
	x := &part{inner: inner}
	var err error
	if x.counters, err = table.PerCPUOf[uint32, inet.Count](countersMap, inner); err != nil {
		return errors.Join(err, inner.Close())
	}
	if x.mem, err = unix.Mmap(owners.FD(), 0, partSize*8, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED); err != nil {
		return errors.Join(fmt.Errorf("map %s into memory: %w", ownersMap, err), inner.Close())
	}
	x.owners = unsafe.Slice((*uint64)(unsafe.Pointer(&x.mem[0])), partSize)
	for at := partSize - 1; at >= 0; at-- {
		if x.owners[at] == 0 {
			x.unused = append(x.unused, uint16(at))
		}
	}
	p.parts = append(p.parts, x)
	return nil
}

// grow creates a part.
func (p *pool) grow() error {
	index := uint32(len(p.parts))
	if index == p.counters.MaxEntries() {
		return fmt.Errorf("all %d counters of rules are in use: %w", index*partSize, cube.ErrFull)
	}
	owners, err := ebpf.NewMap(p.ownerSpec)
	if err != nil {
		return fmt.Errorf("map %s: create a part: %w", ownersMap, err)
	}
	defer func() { _ = owners.Close() }()
	inner, err := ebpf.NewMap(p.counterSpec)
	if err != nil {
		return fmt.Errorf("map %s: create a part: %w", countersMap, err)
	}
	if err := errors.Join(p.owners.Put(index, owners), p.counters.Put(index, inner)); err != nil {
		return errors.Join(fmt.Errorf("map %s: insert part %d: %w", countersMap, index, err), inner.Close())
	}
	return p.add(inner, owners)
}

// reopen returns the counters of a list of rules by id. If two have the same id, one is freed.
func (p *pool) reopen(set uint32) map[uint32]uint32 {
	p.mu.Lock()
	defer p.mu.Unlock()
	left := map[uint32]uint32{}
	for i, x := range p.parts {
		for at, owner := range x.owners {
			if uint32(owner>>32) != set {
				continue
			}
			if _, twice := left[uint32(owner)]; twice {
				x.give(uint16(at))
				continue
			}
			left[uint32(owner)] = uint32(i*partSize + at)
		}
	}
	return left
}

// take gives a rule an unused counter.
func (p *pool) take(set, id uint32) (uint32, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i := 0; ; i++ {
		if i == len(p.parts) {
			if err := p.grow(); err != nil {
				return 0, err
			}
		}
		x := p.parts[i]
		if last := len(x.unused) - 1; last >= 0 {
			at := x.unused[last]
			x.unused = x.unused[:last]
			x.owners[at] = uint64(set)<<32 | uint64(id)
			return uint32(i*partSize) + uint32(at), nil
		}
	}
}

// rename gives a counter to another rule of the same list.
func (p *pool) rename(set, index, id uint32) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.parts[index/partSize].owners[index%partSize] = uint64(set)<<32 | uint64(id)
}

// give frees counters.
func (p *pool) give(indexes []uint32) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, index := range indexes {
		p.parts[index/partSize].give(uint16(index % partSize))
	}
}

func (x *part) give(at uint16) {
	x.owners[at] = 0
	x.unused = append(x.unused, at)
}

// shrink frees unused parts at the end.
func (p *pool) shrink() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	for last := len(p.parts) - 1; last > 0 && len(p.parts[last].unused) == partSize; last-- {
		x := p.parts[last]
		p.parts = p.parts[:last]
		if err := errors.Join(p.counters.Delete(uint32(last)), p.owners.Delete(uint32(last)), x.close()); err != nil {
			return fmt.Errorf("map %s: free part %d: %w", countersMap, last, err)
		}
	}
	return nil
}

func (x *part) close() error { return errors.Join(unix.Munmap(x.mem), x.inner.Close()) }

// byPart calls fn with the indexes in each part, and their places in the slice.
func (p *pool) byPart(indexes []uint32, fn func(x *part, at []uint32, place []int) error) error {
	p.mu.Lock()
	parts := p.parts
	p.mu.Unlock()
	at, place := map[uint32][]uint32{}, map[uint32][]int{}
	for i, index := range indexes {
		part := index / partSize
		at[part], place[part] = append(at[part], index%partSize), append(place[part], i)
	}
	for part := range at {
		if err := fn(parts[part], at[part], place[part]); err != nil {
			return err
		}
	}
	return nil
}

// clear sets counters to zero.
func (p *pool) clear(indexes []uint32) error {
	return p.byPart(indexes, func(x *part, at []uint32, _ []int) error {
		_, err := x.counters.SetAll(at, inet.Count{})
		return err
	})
}

// write sets counters to counts.
func (p *pool) write(indexes []uint32, counts []inet.Count) error {
	return p.byPart(indexes, func(x *part, at []uint32, place []int) error {
		for i, key := range at {
			values, _, err := x.counters.Get(key)
			if err != nil {
				return err
			}
			clear(values)
			values[0] = counts[place[i]]
			if err := x.counters.Set(key, values...); err != nil {
				return err
			}
		}
		return nil
	})
}

// fewCounters is up to how many counters of a part are read one by one: a system call reads a quarter of the part.
const fewCounters = 50

// read returns the counts, summed over the CPUs.
func (p *pool) read(indexes []uint32) ([]inet.Count, error) {
	out := make([]inet.Count, len(indexes))
	err := p.byPart(indexes, func(x *part, at []uint32, place []int) error {
		if len(at) <= fewCounters {
			for i, key := range at {
				values, _, err := x.counters.Get(key)
				if err != nil {
					return err
				}
				out[place[i]] = inet.Sum(values)
			}
			return nil
		}
		all := make([]inet.Count, partSize)
		var err error
		for key, values := range x.counters.All(&err) {
			all[key] = inet.Sum(values)
		}
		for i, key := range at {
			out[place[i]] = all[key]
		}
		return err
	})
	return out, err
}

// release ends a use of the pool. The memory stays in the kernel.
func (p *pool) release() error { return pools.Release(p, p.close) }

func (p *pool) close() error {
	var errs []error
	for _, x := range p.parts {
		errs = append(errs, x.close())
	}
	return errors.Join(append(errs, p.counters.Close(), p.owners.Close())...)
}
