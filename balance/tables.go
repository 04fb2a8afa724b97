// SPDX-License-Identifier: Apache-2.0

package balance

// The memory of tables: parts that are mapped into the daemon, in which tables have runs of units. Pools with the same
// members share a table.

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/memory"
)

// The numbers of <pcn/balance.h>.
const (
	partSize   = 1 << 18
	unitSize   = 1 << 7
	partUnits  = partSize / unitSize
	wholeUnits = 1 << 11 / unitSize // tables with slots begin at a multiple of so many
	parts      = 4096
	smallSlots = 1021
	smallList  = 1024
	largeSlots = 64499
	largeList  = 64512
	wideList   = 129008
)

const (
	// MaxMembers is the maximum number of servers of a pool.
	MaxMembers = 4096
	// fewMembers is the maximum number in a small table and in one without slots, narrowMembers in one with slots of a byte.
	fewMembers    = 32
	narrowMembers = 256
	// rest is how long freed memory is not used again: packets that still read it are long gone then.
	rest = time.Second
)

// kind is enum pcn_balance_kind.
type kind uint8

const (
	small kind = 1 + iota
	large
	wide
	rendezvous
)

// Size says which tables a cube has.
type Size int

const (
	// Large tables share flows by weight to a thousandth for 100 servers, and move few flows: 64 KB for each pool.
	Large Size = iota
	// Fitting tables are without slots for pools of up to 32 servers, and take 128 to 640 bytes: programs compare the servers for
	// each flow, and no flow moves between others when a server comes, goes or gets another weight. In the order Turns they have few
	// slots, and 2 KB. Flows of pools that grow beyond 32 move to other servers, so the cube must pin flows.
	Fitting
)

// poolTable is the table of a pool.
type poolTable struct {
	sum   [2]uint64 // of the members: its identity
	pool  uint64    // struct pcn_service
	users int
	part  *part
	first int // unit
	units int
}

// part is a piece of memory.
type part struct {
	index uint32
	inner *ebpf.Map
	mem   []byte
	used  [partUnits]bool
	free  int // units
}

// freed is memory that packets may still read.
type freed struct {
	table *poolTable
	at    time.Time
}

// Tables are the tables of a cube's pools. They are not safe for concurrent use.
type Tables struct {
	env   cube.Env
	size  Size
	parts []*part
	next  uint32 // index of the next part
	taken map[uint32]bool
	// by has the tables by what is in them, at by where they are.
	by map[[2]uint64]*poolTable
	at map[uint64]*poolTable
	// filled are slots of pools that Prepare has filled.
	filled map[[2]uint64][]uint16
	freed  []freed
	now    func() time.Time
}

// NewTables returns a cube's tables. Begin opens them.
func NewTables(env cube.Env, size Size) *Tables {
	return &Tables{env: env, size: size, by: map[[2]uint64]*poolTable{}, at: map[uint64]*poolTable{}, taken: map[uint32]bool{}, filled: map[[2]uint64][]uint16{}, now: time.Now}
}

// old returns the indexes of the parts of an earlier daemon.
func (t *Tables) old() (indexes []uint32, err error) {
	m, err := t.env.Map("balance_memory")
	if err != nil {
		return nil, err
	}
	var index, id uint32
	for all := m.Iterate(); all.Next(&index, &id); {
		if id != 0 {
			indexes = append(indexes, index)
		}
	}
	return indexes, nil
}

// Begin opens the tables of a cube that was created or restored: those of an earlier daemon stay until the returned
// function removes them, after all services have new ones.
func (t *Tables) Begin() (drop func() error, err error) {
	old, err := t.old()
	if err != nil {
		return nil, err
	}
	for _, index := range old {
		t.taken[index] = true
	}
	return func() error {
		m, err := t.env.Map("balance_memory")
		if err != nil {
			return err
		}
		for _, index := range old {
			err = errors.Join(err, m.Delete(index))
			delete(t.taken, index)
		}
		return err
	}, nil
}

// identity is the same for pools with the same members, in any sequence, in a table of the same order, and for no others:
// a sum of hashes.
func identity(members []Member, order Order) (sum [2]uint64) {
	for i := range members {
		if members[i].Weight > 0 {
			a, b := members[i].identity()
			sum[0] += a
			sum[1] += b
		}
	}
	if sum != ([2]uint64{}) {
		sum[0] += uint64(order)
	}
	return sum
}

func (m *Member) identity() (a, b uint64) {
	number := uint64(m.Server)<<32 | uint64(m.Weight)
	return mix(m.Key.hash(0x165667b19e3779f9) + mix(number)), mix(m.Key.hash(0x27d4eb2f165667c5) ^ mix(^number))
}

// Get returns the table of a pool for struct pcn_service, 0 for one without a server, and begins a use of it.
func (t *Tables) Get(members []Member, order Order) (pool uint64, err error) {
	return t.get(identity(members, order), members, order)
}

func (t *Tables) get(sum [2]uint64, members []Member, order Order) (uint64, error) {
	if sum == ([2]uint64{}) {
		return 0, nil
	}
	if known := t.by[sum]; known != nil {
		known.users++
		return known.pool, nil
	}
	in := sorted(members)
	if len(in) > MaxMembers {
		return 0, fmt.Errorf("a pool has %d servers, but at most %d are supported: %w", len(in), MaxMembers, cube.ErrFull)
	}
	made := &poolTable{sum: sum, users: 1}
	what, slots, list, bytes := t.shape(len(in), order)
	if err := t.place(made, (bytes+unitSize-1)/unitSize, what); err != nil {
		return 0, err
	}
	made.pool = uint64(made.part.index)<<32 | uint64(made.first/what.begins())<<8 | uint64(what)
	ranks := t.filled[sum]
	delete(t.filled, sum)
	switch {
	case what == rendezvous:
		writeRendezvous(made.memory(), in)
	case ranks != nil:
		made.write(in, what, ranks, list)
	default:
		ranks = make([]uint16, slots)
		if order == Turns {
			fillTurns(ranks, in)
		} else {
			Fill(ranks, in)
		}
		made.write(in, what, ranks, list)
	}
	t.by[sum], t.at[made.pool] = made, made
	return made.pool, nil
}

// Prepare fills the tables, of the order Spread, of pools that are not there yet, on all CPUs at once; Get, with the same members, is fast then. It
// takes 128 KB for each pool until then.
func (t *Tables) Prepare(pools [][]Member) {
	var group sync.WaitGroup
	for _, members := range pools {
		sum := identity(members, Spread)
		if sum == ([2]uint64{}) || t.by[sum] != nil || t.filled[sum] != nil {
			continue
		}
		in := sorted(members)
		if len(in) > MaxMembers {
			continue // Get refuses it
		}
		what, slots, _, _ := t.shape(len(in), Spread)
		if what == rendezvous {
			continue // written faster than that
		}
		ranks := make([]uint16, slots)
		t.filled[sum] = ranks
		group.Go(func() { Fill(ranks, in) })
	}
	group.Wait()
}

// begins returns the units that a table begins at a multiple of.
func (k kind) begins() int {
	if k == rendezvous {
		return 1
	}
	return wholeUnits
}

// shape returns the form of a table for a number of members: slots, where its list begins, and its bytes.
func (t *Tables) shape(members int, order Order) (what kind, slots, list, bytes int) {
	switch {
	case t.size == Fitting && members <= fewMembers && order == Spread:
		return rendezvous, 0, rendezvousList, rendezvousBytes(members)
	case t.size == Fitting && members <= fewMembers:
		return small, smallSlots, smallList, smallList + 4*narrowMembers
	case members <= narrowMembers:
		return large, largeSlots, largeList, largeList + 4*narrowMembers
	}
	return wide, largeSlots, wideList, wideList + 4*members
}

// memory returns the bytes of a table.
func (made *poolTable) memory() []byte {
	return made.part.mem[made.first*unitSize:][:made.units*unitSize]
}

// write writes a table with slots.
func (made *poolTable) write(members []Member, what kind, ranks []uint16, list int) {
	to := made.memory()
	for slot, rank := range ranks {
		if what == wide {
			binary.NativeEndian.PutUint16(to[2*slot:], rank)
		} else {
			to[slot] = byte(rank)
		}
	}
	binary.NativeEndian.PutUint16(to[list-2:], uint16(len(members)))
	for rank, m := range members {
		binary.NativeEndian.PutUint32(to[list+4*rank:], m.Server)
	}
}

// place finds memory for a table.
func (t *Tables) place(made *poolTable, units int, what kind) error {
	t.reuse()
	for _, p := range t.parts {
		if first, ok := p.find(units, what); ok {
			made.take(p, first, units)
			return nil
		}
	}
	p, err := t.grow()
	if err != nil {
		return err
	}
	made.take(p, 0, units)
	return nil
}

func (made *poolTable) take(p *part, first, units int) {
	made.part, made.first, made.units = p, first, units
	p.mark(first, units, true)
}

// find returns the first run of unused units where a table can be.
func (p *part) find(units int, what kind) (first int, ok bool) {
	begins, needs := what.begins(), units
	if what == rendezvous {
		needs = rendezvousSpace / unitSize
	}
	if p.free < units {
		return 0, false
	}
	for first := 0; first+needs <= partUnits; {
		last := units - 1
		for last >= 0 && !p.used[first+last] {
			last--
		}
		if last < 0 {
			return first, true
		}
		first += (last + begins) / begins * begins // to the first multiple behind the used one
	}
	return 0, false
}

func (p *part) mark(first, units int, used bool) {
	for i := range units {
		p.used[first+i] = used
	}
	if used {
		units = -units
	}
	p.free += units
}

// grow adds a part.
func (t *Tables) grow() (*part, error) {
	index, err := t.unused()
	if err != nil {
		return nil, err
	}
	if err := memory.Check(1, partSize); err != nil {
		return nil, fmt.Errorf("table of servers: %w", err)
	}
	spec, err := t.env.Inner("balance_memory")
	if err != nil {
		return nil, err
	}
	outer, err := t.env.Map("balance_memory")
	if err != nil {
		return nil, err
	}
	inner, err := ebpf.NewMap(spec)
	if err != nil {
		return nil, fmt.Errorf("table of servers: %w", err)
	}
	mem, err := unix.Mmap(inner.FD(), 0, partSize, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err == nil {
		if err = outer.Put(index, inner); err != nil {
			err = errors.Join(err, unix.Munmap(mem))
		}
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("table of servers: %w", err), inner.Close())
	}
	p := &part{index: index, inner: inner, mem: mem, free: partUnits}
	t.parts = append(t.parts, p)
	t.taken[index] = true
	return p, nil
}

// unused returns an index of a part that neither this nor an earlier daemon uses.
func (t *Tables) unused() (uint32, error) {
	for range parts {
		index := t.next
		t.next = (t.next + 1) % parts
		if !t.taken[index] {
			return index, nil
		}
	}
	return 0, fmt.Errorf("tables of servers: all %d MB are used: %w", parts*partSize>>20, cube.ErrFull)
}

// Release ends a use of a table.
func (t *Tables) Release(pool uint64) {
	known := t.at[pool]
	if known == nil {
		return
	}
	if known.users--; known.users == 0 {
		delete(t.by, known.sum)
		delete(t.at, pool)
		t.freed = append(t.freed, freed{known, t.now()})
	}
}

// reuse makes memory available that no packet reads any more.
func (t *Tables) reuse() {
	t.freed = slices.DeleteFunc(t.freed, func(f freed) bool {
		over := t.now().Sub(f.at) >= rest
		if over {
			f.table.part.mark(f.table.first, f.table.units, false)
		}
		return over
	})
}

// Memory returns the bytes of the parts, and the number of tables.
func (t *Tables) Memory() (bytes, tables int) {
	return len(t.parts) * partSize, len(t.by)
}

// Close ends the use of the memory, which stays as it is for packets.
func (t *Tables) Close() (err error) {
	for _, p := range t.parts {
		err = errors.Join(err, unix.Munmap(p.mem), p.inner.Close())
	}
	t.parts = nil
	return err
}
