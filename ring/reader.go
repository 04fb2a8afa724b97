// SPDX-License-Identifier: Apache-2.0

package ring

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"
)

// Maps finds the maps of a cube by their C names; cube.Env does.
type Maps interface {
	Map(name string) (*ebpf.Map, error)
}

// ReaderSuffix and CountsSuffix name the two maps that PCN_RING declares with the ring: one that its reader writes, and the
// counters of programs.
const (
	ReaderSuffix = "_reader"
	CountsSuffix = "_counts"
)

// readerPage is struct pcn_ring_reader.
type readerPage struct {
	Sleeping, Pad uint32
	Owner         uint64
}

// Counts is struct pcn_ring_counts: what programs counted, by CPU.
type Counts struct {
	// Written and Lost are packets; lost ones found the ring full.
	Written, Lost uint64
	// Woken is when the reader was last woken.
	Woken uint64
}

// Sum adds what programs counted on all CPUs, from the map NAME_counts. Woken is 0.
func Sum(counts *ebpf.Map) (Counts, error) {
	var each []Counts
	if err := counts.Lookup(uint32(0), &each); err != nil {
		return Counts{}, fmt.Errorf("read the counters of a ring: %w", err)
	}
	var sum Counts
	for _, c := range each {
		sum.Written, sum.Lost = sum.Written+c.Written, sum.Lost+c.Lost
	}
	return sum, nil
}

// Waiting is how many bytes of a ring were not read yet, without being its reader.
func Waiting(ring *ebpf.Map) (uint64, error) {
	r, err := Map(ring.FD(), uint64(ring.MaxEntries()), nil)
	if err != nil {
		return 0, err
	}
	return r.Used(), r.Close()
}

// Stats are totals of one reader.
type Stats struct {
	Packets uint64
	// Malformed records were dropped.
	Malformed uint64
	// Damaged is how often the reader lost its position and skipped what was in the ring: someone else wrote there.
	Damaged uint64
	// Sleeps is how often the reader waited to be woken.
	Sleeps uint64
}

// Reader reads the packets of a ring. One reader reads at a time: a new one takes over, and Run of the other one returns
// ErrTaken.
type Reader struct {
	records            *Records
	page               []byte
	packet             Packet
	buf                []byte
	packets, malformed atomic.Uint64
	closed             sync.Once
}

// Open opens a ring of a cube in the same process, by its C name. Packets in the ring are read as well, from the place
// where the last reader stopped: see Skip. Call it from a step of the first plan on: the map does not exist before.
func Open(m Maps, name string) (*Reader, error) {
	of, err := m.Map(name)
	if err != nil {
		return nil, err
	}
	page, err := m.Map(name + ReaderSuffix)
	if err != nil {
		return nil, err
	}
	if of.Type() != ebpf.RingBuf || page.Type() != ebpf.Array || page.ValueSize() != uint32(unsafe.Sizeof(readerPage{})) {
		return nil, fmt.Errorf("map %s: it is not a ring; declare it with PCN_RING", name)
	}
	return open(name, of.FD(), page.FD(), uint64(of.MaxEntries()))
}

// OpenFiles opens a ring by the descriptors of the ring buffer, of size bytes, and of the map that its reader writes. They
// may be closed afterwards. It makes no call that a confined service may not make.
func OpenFiles(name string, ring, reader *os.File, size uint64) (*Reader, error) {
	return open(name, int(ring.Fd()), int(reader.Fd()), size)
}

func open(name string, ring, reader int, size uint64) (*Reader, error) {
	page, err := unix.Mmap(reader, 0, unix.Getpagesize(), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return nil, fmt.Errorf("ring %s: map the page of its reader: %w", name, err)
	}
	p := (*readerPage)(unsafe.Pointer(&page[0]))
	token := newToken()
	atomic.StoreUint64(&p.Owner, token)
	records, err := Map(ring, size, &p.Sleeping)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("ring %s: %w", name, err), unix.Munmap(page))
	}
	records.owner, records.token = &p.Owner, token
	return &Reader{records: records, page: page, buf: make([]byte, maxCapture+vlanTag)}, nil
}

// newToken is a number that no other reader has.
func newToken() uint64 {
	var b [8]byte
	_, _ = rand.Read(b[:]) // never fails: the runtime ends the process if the kernel has no randomness
	return binary.NativeEndian.Uint64(b[:]) | 1
}

// Run calls fn with each packet until ctx ends, which is not an error, or until Close. The error is ErrTaken if another
// reader has taken over, and ErrClosed after Close.
func (r *Reader) Run(ctx context.Context, fn func(*Packet)) error {
	return r.records.Run(ctx, Handler{Deliver: func(b []byte) { r.deliver(b, fn) }})
}

// Batches is what RunBatches calls.
type Batches struct {
	// Packet is called with each packet, whose Data remain valid until Done is called.
	Packet func(*Packet)
	Done   func()
	// Tick is called at the start, and again after the time that it returns, between batches; what programs wrote without waking the
	// reader was read before.
	Tick func() (again time.Duration)
}

// RunBatches is Run for a function that is cheaper for many packets at once: those that are in the ring, as far as they fill less
// than publishEvery or a few more.
func (r *Reader) RunBatches(ctx context.Context, b Batches) error {
	deliver := func(record []byte) {
		r.deliver(record, b.Packet)
		if r.packet.inserted {
			b.Done() // the buffer is used again
		}
	}
	return r.records.Run(ctx, Handler{Deliver: deliver, Release: b.Done, Tick: b.Tick})
}

// Read calls fn with the packets that are in the ring now, and returns their number. It must not be called while Run runs.
func (r *Reader) Read(fn func(*Packet)) int {
	before := r.packets.Load()
	r.records.Drain(func(b []byte) { r.deliver(b, fn) })
	return int(r.packets.Load() - before)
}

func (r *Reader) deliver(b []byte, fn func(*Packet)) {
	if r.packet.decode(b, r.buf) != nil {
		r.packet.inserted = false
		r.malformed.Add(1)
		return
	}
	r.packets.Add(1)
	fn(&r.packet)
}

// Skip drops the packets that are in the ring, before Run: for a reader to which old packets are of no use, or one that
// would fail at the packet at which the last one failed.
func (r *Reader) Skip() error { return r.records.Skip(safetyNet, func([]byte) {}) }

// Stats returns what this reader counted.
func (r *Reader) Stats() Stats {
	return Stats{Packets: r.packets.Load(), Malformed: r.malformed.Load(), Damaged: r.records.Damaged(), Sleeps: r.records.Sleeps()}
}

// Wake has Run read what is in the ring, also what a program wrote without waking it (pcn_ring_packet_later). It must not be called
// after Close.
func (r *Reader) Wake() { r.records.wake() }

// Used is how many bytes of the ring wait to be read, of Size.
func (r *Reader) Used() uint64 { return r.records.Used() }

// Size is that of the ring in bytes.
func (r *Reader) Size() uint64 { return r.records.Size() }

// Close ends Run, waits for it, and unmaps the ring, which stays. fn must not call it.
func (r *Reader) Close() error {
	var err error
	r.closed.Do(func() { err = errors.Join(r.records.Close(), unix.Munmap(r.page)) })
	return err
}
