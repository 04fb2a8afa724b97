// SPDX-License-Identifier: Apache-2.0

// Package slowpath carries packets up from the fast path, through a ring that it shares with the eBPF programs, and
// down into it, through a TAP. A packet costs no system call or allocation on the way up; on the way down it costs one
// write.
//
// The layout of the ring is the kernel's (Documentation/bpf/ringbuf.rst): the reader's position in a separate page,
// followed by the writers' position and the data, which are mapped twice in a row so that a record never wraps. Each
// record has a header of 8 bytes: its length with two flags on top, and a number that only the kernel uses.
package slowpath

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"github.com/polycube/polycube/cube"
)

// Handler receives what comes up. Its methods are called one at a time, from Run's goroutine. A packet, its bytes,
// which may be changed, and the PacketIn itself, are valid only during the call.
type Handler interface {
	// Packet receives a packet for a cube's slow path.
	Packet(cube uint16, p *cube.PacketIn, m Meta)
	// Log receives a log line of a cube's program. It is one line of printable text.
	Log(cube uint16, level uint32, line string)
	// Flood receives a packet that is copied to each port of the cube except p.Port, or with m.Set each port of a
	// set.
	Flood(cube uint16, p *cube.PacketIn, m Meta)
	// Notify receives a message of a cube's program. It is valid only during the call.
	Notify(cube uint16, kind uint32, message []byte)
}

const (
	busyBit    = 1 << 31
	discardBit = 1 << 30
	headSize   = 8

	// publishEvery is how many bytes are read before the space is released: each release costs the writers a cache
	// miss.
	publishEvery = 32 << 10
	// pause is how long the reader stops reading when the ring is empty and more may arrive immediately. It earns one
	// pause for so many records, and keeps at most so many: so a trickle wakes it, and a stream finds it awake.
	pause           = 50 * time.Microsecond
	recordsPerPause = 8
	maxPauses       = 8
	// safetyNet limits a sleep that is never ended.
	safetyNet = time.Second
	// staleDeadline is how long OpenRing waits for programs that are writing.
	staleDeadline = time.Second
)

// ErrClosed is returned after Close.
var ErrClosed = errors.New("it is closed")

// Stats are totals since OpenRing.
type Stats struct {
	Packets, Floods, Logs, Notices uint64
	// Steps are those of traced packets.
	Steps uint64
	// Stale records were in the ring when it was opened; they were for the previous reader.
	Stale uint64
	// Malformed records were dropped, because they are inconsistent.
	Malformed uint64
	// Damaged is how often the reader lost its position and discarded the content of the ring.
	Damaged uint64
	// Sleeps is how often the reader waited for a wakeup.
	Sleeps uint64
}

// handled is how many records were passed on or malformed.
func (s Stats) handled() uint64 {
	return s.Packets + s.Floods + s.Logs + s.Notices + s.Steps + s.Malformed
}

// Ring reads the records of the fast path.
type Ring struct {
	positions, pages []byte // the mappings, to undo
	controlMem       []byte
	sharesMem        []byte

	consumer, producer *uint64
	sleeping           *uint32
	data               []byte // twice in a row
	size               uint64
	shares             shares

	// next is the position of the next record. published is the position that the writers know.
	next, published uint64
	settled         bool
	record          record
	packet          cube.PacketIn
	step            Step
	meta            Meta
	buf             []byte

	counted Stats // by the reader

	statsMu sync.Mutex
	stats   Stats // for readers of the statistics
	// unmapped is set before the mappings are removed.
	unmapped bool

	epoll, kick int
	closing     atomic.Bool
	closeOnce   sync.Once

	running sync.Mutex // held by Run; guards closed
	closed  bool
}

// OpenRing maps the ring (pcn_ring), the flag of the sleeping reader (pcn_control) and the cubes' shares (pcn_shares).
// Existing records are skipped: they are packets from before a restart, and one of them may have crashed the last
// reader. The maps may be closed afterwards.
func OpenRing(ring, control, shares *ebpf.Map) (*Ring, error) {
	r := &Ring{epoll: -1, kick: -1, buf: make([]byte, maxCapture+vlanTag)}
	if err := r.open(ring, control, shares); err != nil {
		return nil, fmt.Errorf("open the ring of the slow path: %w", errors.Join(err, r.release()))
	}
	return r, nil
}

func (r *Ring) open(ring, ctl, shs *ebpf.Map) error {
	if ring == nil || ring.Type() != ebpf.RingBuf {
		return errors.New("map pcn_ring: it is not a ring buffer")
	}
	page := os.Getpagesize()
	r.size = uint64(ring.MaxEntries())
	var err error
	if r.controlMem, err = mapArray(ctl, "pcn_control", uint32(unsafe.Sizeof(control{})), 1); err != nil {
		return err
	}
	if r.sharesMem, err = mapArray(shs, "pcn_shares", uint32(unsafe.Sizeof(share{})), 1); err != nil {
		return err
	}
	if r.positions, err = mapMemory(ring, 0, page, unix.PROT_READ|unix.PROT_WRITE); err != nil {
		return fmt.Errorf("map pcn_ring: reader's position: %w", err)
	}
	if r.pages, err = mapMemory(ring, int64(page), page+2*int(r.size), unix.PROT_READ); err != nil {
		return fmt.Errorf("map pcn_ring: data: %w", err)
	}
	r.consumer = (*uint64)(unsafe.Pointer(&r.positions[0]))
	r.producer = (*uint64)(unsafe.Pointer(&r.pages[0]))
	r.data = r.pages[page:]
	r.sleeping = &(*control)(unsafe.Pointer(&r.controlMem[0])).Sleeping
	r.shares = unsafe.Slice((*share)(unsafe.Pointer(&r.sharesMem[0])), shs.MaxEntries())
	if err := r.openPoll(ring.FD()); err != nil {
		return err
	}
	r.next = atomic.LoadUint64(r.consumer)
	r.published = r.next
	return r.skip(staleDeadline)
}

// openPoll creates what the reader sleeps on: the ring, or its end. The caller may close the map: its mapping keeps
// the file open that epoll watches.
func (r *Ring) openPoll(ring int) error {
	var err error
	if r.epoll, err = unix.EpollCreate1(unix.EPOLL_CLOEXEC); err != nil {
		return fmt.Errorf("epoll: %w", err)
	}
	if r.kick, err = unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK); err != nil {
		return fmt.Errorf("eventfd: %w", err)
	}
	for _, fd := range []int{ring, r.kick} {
		ev := unix.EpollEvent{Events: unix.EPOLLIN, Fd: int32(fd)}
		if err := unix.EpollCtl(r.epoll, unix.EPOLL_CTL_ADD, fd, &ev); err != nil {
			return fmt.Errorf("epoll: %w", err)
		}
	}
	return nil
}

// skip drops what is in the ring now. It waits for records that are being written, because their writers would
// otherwise write into released space.
func (r *Ring) skip(within time.Duration) error {
	end, deadline := atomic.LoadUint64(r.producer), time.Now().Add(within)
	before := r.counted
	for r.next < end {
		if r.drain(nil) == 0 && r.next < end {
			if time.Now().After(deadline) {
				return fmt.Errorf("a record of the ring was not finished within %v", within)
			}
			shortSleep()
		}
	}
	read := r.counted
	r.counted = before
	r.counted.Damaged = read.Damaged
	r.counted.Stale += read.handled() - before.handled()
	r.report()
	return nil
}

// Run reads records and calls h until ctx ends, which is not an error. Only one Run reads at a time.
func (r *Ring) Run(ctx context.Context, h Handler) error {
	r.running.Lock()
	defer r.running.Unlock()
	if r.closed {
		return fmt.Errorf("read the ring of the slow path: %w", ErrClosed)
	}
	raisePriority()
	kicked := make(chan struct{})
	stop := context.AfterFunc(ctx, func() { defer close(kicked); r.wake() })
	defer func() {
		if !stop() {
			<-kicked // the descriptor may be closed afterwards
		}
	}()
	defer r.report()
	earned := 0
	for ctx.Err() == nil && !r.closing.Load() {
		if n := r.drain(h); n > 0 {
			earned = min(earned+n, maxPauses*recordsPerPause)
			continue
		}
		switch {
		case !r.empty(): // someone writes
			shortSleep()
		case earned >= recordsPerPause:
			earned -= recordsPerPause
			shortSleep()
		default:
			if err := r.sleep(); err != nil {
				return fmt.Errorf("read the ring of the slow path: %w", err)
			}
		}
	}
	return nil
}

// raisePriority gives the calling goroutine a separate thread with a higher priority, so that a cube whose handler
// uses all its time does not keep the reader from the packets of others. The thread ends with the goroutine. Without
// the permission, the reader continues with normal priority.
func raisePriority() {
	runtime.LockOSThread()
	_ = unix.Setpriority(unix.PRIO_PROCESS, unix.Gettid(), readerNice)
}

// readerNice is far from real time: a polling thread must not starve the kernel's own.
const readerNice = -10

// shortSleep does not use the runtime's timers, which have millisecond resolution only when nothing else runs.
func shortSleep() {
	t := unix.NsecToTimespec(int64(pause))
	_ = unix.Nanosleep(&t, nil) // a signal ends it early; the caller checks again
}

// empty reports whether no record is written or being written.
func (r *Ring) empty() bool { return atomic.LoadUint64(r.producer) == r.next }

// sleep waits until a program writes a record. The flag is set before the last check, and programs reserve before they
// clear the flag, so one of the two sees the other.
func (r *Ring) sleep() error {
	if !r.settled {
		r.settled = r.shares.settle(r.empty)
	}
	r.counted.Sleeps++
	r.report()
	atomic.StoreUint32(r.sleeping, 1)
	defer atomic.StoreUint32(r.sleeping, 0)
	if !r.empty() {
		return nil
	}
	var events [2]unix.EpollEvent
	n, err := unix.EpollWait(r.epoll, events[:], int(safetyNet.Milliseconds()))
	if err != nil && !errors.Is(err, unix.EINTR) {
		return fmt.Errorf("epoll: %w", err)
	}
	for _, ev := range events[:max(n, 0)] {
		if int(ev.Fd) == r.kick {
			var count [8]byte
			if _, err := unix.Read(r.kick, count[:]); err != nil && !errors.Is(err, unix.EAGAIN) {
				return fmt.Errorf("eventfd: %w", err)
			}
		}
	}
	return nil
}

// wake ends a sleep, this one or the next.
func (r *Ring) wake() {
	one := [8]byte{1, 1} // any number but 0, whatever the byte order
	_, _ = unix.Write(r.kick, one[:])
}

// drain handles the finished records, in order, and returns how many. A nil handler only removes them.
func (r *Ring) drain(h Handler) int {
	n, end := 0, atomic.LoadUint64(r.producer)
	for r.next != end {
		if left := end - r.next; left > r.size {
			r.damaged(end)
			break
		}
		at := r.next & (r.size - 1)
		head := atomic.LoadUint32((*uint32)(unsafe.Pointer(&r.data[at])))
		if head&busyBit != 0 {
			break
		}
		length := uint64(head &^ (busyBit | discardBit))
		step := (headSize + length + 7) &^ 7
		if step > end-r.next {
			r.damaged(end)
			break
		}
		// Before the handler runs: if it panics and the panic is recovered, it does not get the same record again.
		r.next += step
		n++
		if head&discardBit == 0 {
			r.deliver(r.data[at+headSize:at+headSize+length], h)
		}
		if r.next-r.published >= publishEvery {
			r.publish()
		}
	}
	r.publish()
	if n > 0 {
		r.report()
	}
	return n
}

// publish releases the space of the records that were read.
func (r *Ring) publish() {
	if r.published != r.next {
		r.published = r.next
		atomic.StoreUint64(r.consumer, r.next)
	}
}

// damaged continues with the next record that will be written: positions are always at the start of a record. This
// happens only if another process writes to the ring.
func (r *Ring) damaged(end uint64) {
	r.next = end
	r.counted.Damaged++
	r.settled = false
}

// deliver handles one record and credits its cube.
func (r *Ring) deliver(b []byte, h Handler) {
	rec := &r.record
	if rec.decode(b) != nil {
		r.counted.Malformed++
		return
	}
	if int(rec.cube) >= len(r.shares) {
		r.counted.Malformed++
		return
	}
	defer r.shares.credit(rec.cube, rec.size)
	if err := r.dispatch(b, h); err != nil {
		r.counted.Malformed++
	}
}

// dispatch calls the handler with a decoded record.
func (r *Ring) dispatch(b []byte, h Handler) error {
	rec := &r.record
	body, err := rec.body(b)
	if err != nil {
		return err
	}
	switch rec.kind {
	case recordLog:
		level, line, err := formatLog(body)
		if err != nil {
			return err
		}
		r.counted.Logs++
		if h != nil {
			h.Log(rec.cube, level, line)
		}
	case recordNotify:
		r.counted.Notices++
		if h != nil {
			// A copy: a write to the ring would crash the process.
			h.Notify(rec.cube, rec.md[0], r.buf[:copy(r.buf, body)])
		}
	case recordPacket, recordFlood, recordFloodSet:
		if err := rec.checkPacket(body); err != nil {
			return err
		}
		rec.packet(body, r.buf, &r.packet, &r.meta)
		if rec.kind == recordPacket {
			r.counted.Packets++
			if h != nil {
				h.Packet(rec.cube, &r.packet, r.meta)
			}
			return nil
		}
		r.counted.Floods++
		if h != nil {
			h.Flood(rec.cube, &r.packet, r.meta)
		}
	case recordTrace:
		return r.trace(body, h)
	default:
		return errRecordKind
	}
	return nil
}

// trace passes a step of a packet to a handler that supports them.
func (r *Ring) trace(body []byte, h Handler) error {
	if err := r.record.step(body, r.buf, &r.step); err != nil {
		return err
	}
	r.counted.Steps++
	if t, ok := h.(Tracer); ok {
		t.Trace(&r.step)
	}
	return nil
}

// report publishes the counters.
func (r *Ring) report() {
	r.statsMu.Lock()
	defer r.statsMu.Unlock()
	r.stats = r.counted
}

// Stats returns the counters.
func (r *Ring) Stats() Stats {
	r.statsMu.Lock()
	defer r.statsMu.Unlock()
	return r.stats
}

// Load is how full the ring is.
type Load struct {
	Stats
	// Size is that of the ring in bytes, Used how much of it waits to be read.
	Size, Used uint64
}

// Load returns the counters and how full the ring is.
func (r *Ring) Load() Load {
	l := Load{Stats: r.Stats(), Size: r.size}
	r.statsMu.Lock()
	defer r.statsMu.Unlock()
	if !r.unmapped {
		consumed := atomic.LoadUint64(r.consumer)
		l.Used = atomic.LoadUint64(r.producer) - consumed
	}
	return l
}

// Close ends Run, waits for it, and unmaps the ring, which stays. A handler must not call it.
func (r *Ring) Close() error {
	var err error
	r.closeOnce.Do(func() {
		r.closing.Store(true)
		r.wake()
		r.running.Lock()
		defer r.running.Unlock()
		r.closed = true
		err = r.release()
	})
	if err != nil {
		return fmt.Errorf("close the ring of the slow path: %w", err)
	}
	return nil
}

func (r *Ring) release() error {
	r.statsMu.Lock()
	r.unmapped = true
	r.statsMu.Unlock()
	err := unmap(r.positions, r.pages, r.controlMem, r.sharesMem)
	for _, fd := range []int{r.epoll, r.kick} {
		if fd >= 0 {
			err = errors.Join(err, unix.Close(fd))
		}
	}
	return err
}
