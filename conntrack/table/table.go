// SPDX-License-Identifier: Apache-2.0

package table

import (
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cilium/ebpf"

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

// Maps are the maps of the cube that opens a table: a cube.Env.
type Maps interface {
	Map(name string) (*ebpf.Map, error)
	Inner(name string) (*ebpf.MapSpec, error)
}

// DefaultSize is for tables that all cubes share.
const DefaultSize = 1 << 18

// Table is the table of connections. Its methods may be called by several goroutines at a time.
type Table struct {
	memory  []mapping // the maps that are not in parts
	zones   []zone
	control *control
	young   embryos

	sweeping sync.Mutex // held while entries are removed or the size changes; guards what follows
	lines    [2]parts[line]
	ring     ring
	watching map[uint16]func(*Entry) // by zone

	setting  sync.Mutex // guards what follows
	timeouts map[uint16]*conntrack.Timeouts
	swept    time.Duration // when the last sweep began

	// giving is held for writing while numbers of removed entries become free, and for reading while an entry is
	// read: it is not used for another connection meanwhile. It guards what follows, and where lines are in use.
	giving   sync.RWMutex
	entries  parts[Entry]
	counting counting
}

// Open returns the table in a cube's maps. All callers in a process get the same one. The first prepares the maps for a
// number of connections if they are new. If not, the table keeps its size, and numbers that an earlier process lost are
// collected. The caller closes it.
func Open(maps Maps, size int) (*Table, error) {
	entries, err := maps.Map(entriesMap)
	if err != nil {
		return nil, err
	}
	return tables.Open(entries, func() (*Table, error) {
		t := &Table{}
		if err := t.start(maps, size); err != nil {
			return nil, errors.Join(fmt.Errorf("connection table: %w", err), t.unmap())
		}
		return t, nil
	})
}

// Room returns the size of a table that always has an entry for a number of connections: CPUs keep free ones, and some may
// have ended and not be removed yet.
func Room(connections int) int { return connections + connections/8 + 2*takes*runtime.NumCPU() }

// Close ends a use of the table. Connections remain in the kernel.
func (t *Table) Close() error { return tables.Release(t, t.unmap) }

// Size is the number of connections for which the table has memory.
func (t *Table) Size() int { return int(atomic.LoadUint32(&t.control.size)) }

// start maps the table into memory and makes it ready.
func (t *Table) start(maps Maps, size int) (err error) {
	if t.zones, err = mapped[zone](t, maps, zonesMap); err != nil {
		return err
	}
	controls, err := mapped[control](t, maps, controlMap)
	if err != nil {
		return err
	}
	t.control, t.ring.control = &controls[0], &controls[0]
	if err := t.startEmbryos(maps); err != nil {
		return err
	}
	taken, err := maps.Map(takenMap)
	if err != nil {
		return err
	}
	if t.ring.taken, err = taken.Clone(); err != nil { // it is used longer than the cube's own descriptor
		return fmt.Errorf("map %s: %w", takenMap, err)
	}
	err = errors.Join(t.entries.open(maps, entriesMap, 0), t.lines[0].open(maps, linesMap, 0), t.ring.places.open(maps, ringMap, 0))
	if err != nil {
		return err
	}
	if err := t.lines[1].open(maps, linesMap, t.entries.most()); err != nil {
		return err
	}
	if err := t.counting.open(maps); err != nil {
		return err
	}
	if t.Size() > 0 {
		return t.adopt()
	}
	for i := range t.control.seed {
		var b [8]byte
		if _, err := rand.Read(b[:]); err != nil {
			return fmt.Errorf("random numbers for the hash: %w", err)
		}
		t.control.seed[i] = binary.NativeEndian.Uint64(b[:])
	}
	t.control.lines, t.control.ring = 0, 0 // an earlier process may have been killed here
	return t.grow(size)
}

// mapped maps a map into memory, as a slice of its elements.
func mapped[T any](t *Table, maps Maps, name string) ([]T, error) {
	m, err := maps.Map(name)
	if err != nil {
		return nil, err
	}
	mem, err := mapMemory(m, name)
	if err != nil {
		return nil, err
	}
	t.memory = append(t.memory, mem)
	return elements[T](mem), nil
}

func (t *Table) unmap() error {
	errs := []error{t.entries.close(), t.lines[0].close(), t.lines[1].close(), t.ring.places.close(), t.counting.close()}
	for _, mem := range t.memory {
		errs = append(errs, mem.unmap())
	}
	if t.ring.taken != nil {
		errs = append(errs, t.ring.taken.Close())
	}
	return errors.Join(errs...)
}

// entry returns an entry, nil for one without memory.
func (t *Table) entry(n uint32) *Entry { return t.entries.at(n) }

// line returns the line for a hash, or the one after it, in lines of pcn_conntrack_control.
func (t *Table) line(lines uint32, hash uint64, next uint64) *line {
	return t.lines[lines>>31].at(uint32(hash+next) & lines & linesMask)
}

// inUse are the lines in which programs look up connections, and others in which they write them, too, or 0.
func (t *Table) inUse() (lines, also uint32) {
	both := atomic.LoadUint64(&t.control.lines)
	return uint32(both), uint32(both >> 32)
}

// collect gives numbers that are free but in no list: of a larger size, and those that a process lost when it was killed.
func (t *Table) collect() error {
	listed, err := t.ring.listed(len(t.entries.elem) * partEntries)
	if err != nil {
		return err
	}
	var lost []uint32
	for n := uint32(1); n <= uint32(t.Size()); n++ {
		if !listed(n) && atomic.LoadUint32(&t.entry(n).Status) == free {
			lost = append(lost, n)
		}
	}
	t.ring.give(lost)
	return nil
}
