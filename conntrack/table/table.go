// SPDX-License-Identifier: Apache-2.0

package table

import (
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"github.com/polycube/polycube/conntrack"
	"github.com/polycube/polycube/cube/shared"
)

// Names of the maps in C.
const (
	linesMap   = "ct_lines"
	entriesMap = "ct_entries"
	ringMap    = "ct_ring"
	controlMap = "ct_control"
	zonesMap   = "ct_zones"
	takenMap   = "ct_taken"

	embryosMap     = "ct_embryos"
	embryoLinesMap = "ct_embryo_lines"
	embryoRingMap  = "ct_embryo_ring"
)

// tables are the open tables, by the map of entries.
var tables shared.Registry[*Table]

// Table is the table of connections. Its methods may be called by several goroutines at a time.
type Table struct {
	mapped  [][]byte
	lines   []line
	entries []Entry
	ring    []uint32
	zones   []zone
	control *control
	taken   *ebpf.Map
	young   embryos

	sweeping sync.Mutex // held while entries are removed; guards what follows
	spare    []uint32   // free numbers that are too few for a part of the ring

	setting  sync.Mutex // guards what follows
	timeouts map[uint16]*conntrack.Timeouts
	swept    time.Duration // when the last sweep began

	// giving is held for writing while numbers of removed entries become free, and for reading while an entry is
	// read: it is not used for another connection meanwhile.
	giving sync.RWMutex
}

// Open returns the table whose maps a function finds by name: the Map method of a cube.Env. All callers in a process get
// the same one. The first prepares the maps if they are new; if not, it collects numbers that an earlier process lost.
// The caller closes it.
func Open(maps func(name string) (*ebpf.Map, error)) (*Table, error) {
	entries, err := maps(entriesMap)
	if err != nil {
		return nil, err
	}
	return tables.Open(entries, func() (*Table, error) {
		t := &Table{}
		if err := t.start(maps); err != nil {
			return nil, errors.Join(fmt.Errorf("connection table: %w", err), t.unmap())
		}
		return t, nil
	})
}

// Close ends a use of the table. Connections remain in the kernel.
func (t *Table) Close() error { return tables.Release(t, t.unmap) }

// Size is the number of connections for which the table has memory.
func (t *Table) Size() int { return len(t.entries) - 1 }

// start maps the table into memory and makes it ready.
func (t *Table) start(maps func(name string) (*ebpf.Map, error)) error {
	var err error
	if t.lines, err = mapped[line](t, maps, linesMap); err != nil {
		return err
	}
	if t.entries, err = mapped[Entry](t, maps, entriesMap); err != nil {
		return err
	}
	if t.ring, err = mapped[uint32](t, maps, ringMap); err != nil {
		return err
	}
	if t.zones, err = mapped[zone](t, maps, zonesMap); err != nil {
		return err
	}
	controls, err := mapped[control](t, maps, controlMap)
	if err != nil {
		return err
	}
	t.control = &controls[0]
	if err := t.startEmbryos(maps); err != nil {
		return err
	}
	taken, err := maps(takenMap)
	if err != nil {
		return err
	}
	if t.taken, err = taken.Clone(); err != nil { // it is used longer than the cube's own descriptor
		return fmt.Errorf("map %s: %w", takenMap, err)
	}
	if n := len(t.entries); len(t.ring) != n || n&(n-1) != 0 || n < 2*takes || n>>numberBits > 0 || len(t.lines)&(len(t.lines)-1) != 0 {
		return fmt.Errorf("%d entries, %d lines and %d numbers do not fit together: %w", n, len(t.lines), len(t.ring), ebpf.ErrNotSupported)
	}
	if atomic.LoadUint32(&t.control.ring) == 0 {
		return t.prepare()
	}
	return t.collect()
}

// mapped maps a map into memory, as a slice of its elements or of parts of them.
func mapped[T any](t *Table, maps func(name string) (*ebpf.Map, error), name string) ([]T, error) {
	m, err := maps(name)
	if err != nil {
		return nil, err
	}
	size := int(m.ValueSize()) * int(m.MaxEntries())
	mem, err := unix.Mmap(m.FD(), 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return nil, fmt.Errorf("map %s: map it into memory: %w", name, err)
	}
	t.mapped = append(t.mapped, mem)
	var one T
	return unsafe.Slice((*T)(unsafe.Pointer(&mem[0])), size/int(unsafe.Sizeof(one))), nil
}

func (t *Table) unmap() error {
	var errs []error
	for _, mem := range t.mapped {
		errs = append(errs, unix.Munmap(mem))
	}
	if t.taken != nil {
		errs = append(errs, t.taken.Close())
	}
	return errors.Join(errs...)
}

// prepare makes a new table ready: programs refuse all connections until it has numbers.
func (t *Table) prepare() error {
	for i := range t.control.seed {
		var b [8]byte
		if _, err := rand.Read(b[:]); err != nil {
			return fmt.Errorf("random numbers for the hash: %w", err)
		}
		t.control.seed[i] = binary.NativeEndian.Uint64(b[:])
	}
	t.control.lines = uint32(len(t.lines) - 1)
	atomic.StoreUint32(&t.control.ring, uint32(len(t.ring)/takes-1))
	numbers := make([]uint32, 0, t.Size())
	for n := range t.Size() {
		numbers = append(numbers, uint32(n+1))
	}
	t.give(numbers)
	return nil
}

// give puts free numbers into the ring: whole parts, and the rest with the next ones.
func (t *Table) give(numbers []uint32) {
	numbers = append(t.spare, numbers...)
	tail := atomic.LoadUint32(&t.control.tail)
	whole := len(numbers) / takes * takes
	for i, n := range numbers[:whole] {
		t.ring[(int(tail)+i)&(len(t.ring)-1)] = n
	}
	atomic.StoreUint32(&t.control.tail, tail+uint32(whole))
	t.spare = append([]uint32(nil), numbers[whole:]...)
}

// collect gives back the numbers that a process lost when it was killed: of entries that are free, but in no list. A
// number goes from the ring to a CPU's own list and from there to an entry, each within one run of a program, so it is
// seen if the three are read in this order, with a grace period in between.
func (t *Table) collect() error {
	known := make([]bool, len(t.entries))
	head, tail := atomic.LoadUint32(&t.control.head), atomic.LoadUint32(&t.control.tail)
	for at := head; at != tail; at++ {
		known[t.ring[int(at)&(len(t.ring)-1)]&uint32(len(t.entries)-1)] = true
	}
	if err := waitForPrograms(); err != nil {
		return err
	}
	var all []taken
	if err := t.taken.Lookup(uint32(0), &all); err != nil {
		return fmt.Errorf("map %s: %w", takenMap, err)
	}
	for _, cpu := range all {
		for _, n := range cpu.Number[takes-min(cpu.Left, takes):] {
			known[n&uint32(len(t.entries)-1)] = true
		}
	}
	if err := waitForPrograms(); err != nil {
		return err
	}
	var lost []uint32
	for n := 1; n < len(t.entries); n++ {
		if !known[n] && atomic.LoadUint32(&t.entries[n].Status) == free {
			lost = append(lost, uint32(n))
		}
	}
	t.give(lost)
	return nil
}

// waitForPrograms returns when every program that was running has ended: they run under RCU, and membarrier(2) waits
// for a grace period.
func waitForPrograms() error {
	const global = 1 // MEMBARRIER_CMD_GLOBAL of <linux/membarrier.h>
	if _, _, errno := unix.Syscall(unix.SYS_MEMBARRIER, global, 0, 0); errno != 0 {
		return fmt.Errorf("membarrier: %w", errno)
	}
	return nil
}
