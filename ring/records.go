// SPDX-License-Identifier: Apache-2.0

// Package ring reads ring buffers of eBPF programs through memory: a record costs no system call and no allocation.
// Reader reads the packets of a cube's own ring, declared with PCN_RING of <pcn/ring.h>; Records is the part that any
// ring needs, such as that of the slow path.
//
// The layout of the ring is the kernel's (Documentation/bpf/ringbuf.rst): the reader's position in a separate page,
// followed by the writers' position and the data, which are mapped twice in a row so that a record never wraps. Each
// record has a header of 8 bytes: its length with two flags on top, and a number that only the kernel uses.
package ring

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

const (
	// HeadSize is the size of a record's header.
	HeadSize = 8
	// Busy marks a record that is being written.
	Busy = 1 << 31
	// Discarded marks a record without content.
	Discarded = 1 << 30

	// publishEvery is how many bytes are read before the space is released: each release costs the writers a cache
	// miss.
	publishEvery = 32 << 10
	// pause is how long the reader stops reading when the ring is empty and more may arrive immediately. It earns one
	// pause for so many records, and keeps at most so many: so a trickle wakes it, and a stream finds it awake.
	pause           = 50 * time.Microsecond
	recordsPerPause = 8
	maxPauses       = 8
	// awake is how long a reader stays awake after it was woken. Programs do not wake it more often than every
	// PCN_RING_WAKE_NS, which is half of it.
	awake = 100 * time.Microsecond
	// safetyNet limits a sleep that is never ended.
	safetyNet = time.Second
	// unfinished is how long a record may be in the making. Programs take a microsecond: the reader has lost its position.
	unfinished = time.Second
)

var (
	// ErrClosed is returned after Close.
	ErrClosed = errors.New("it is closed")
	// ErrTaken is returned when another reader has taken over the ring.
	ErrTaken = errors.New("another reader has taken over")
)

// Memory is a ring in memory.
type Memory struct {
	// Consumer is the reader's position, Producer that of the writers.
	Consumer, Producer *uint64
	// Data are the records, twice in a row; the size of the ring is half of it, a power of two.
	Data []byte
	// Sleeping is the word by which the reader asks to be woken. Nil if nothing wakes it.
	Sleeping *uint32
}

// Records reads the records of a ring. Nothing in the ring is trusted: whatever is there, reading ends.
type Records struct {
	Memory
	size uint64
	// own are the mappings to undo.
	own []([]byte)
	// owner is where readers say who reads; nil if there is only one. The reader stops when it is not token.
	owner *uint64
	token uint64

	// next is the position of the next record. published is the position that the writers know.
	next, published uint64
	// woken is when a program last woke the reader. timed: since then, a sleep has ended by itself.
	woken time.Time
	timed bool
	// due is when Tick is called next.
	due             time.Time
	damaged, sleeps atomic.Uint64

	epoll, kick int
	closing     atomic.Bool
	closeOnce   sync.Once
	running     sync.Mutex // held by Run; guards closed
	closed      bool
	mapped      sync.Mutex // guards unmapped, which is set before the mappings are removed
	unmapped    bool
}

// Over returns a reader of a ring in memory, from the reader's position on. Without a descriptor to sleep on, it cannot
// Run.
func Over(m Memory) *Records {
	r := &Records{Memory: m, size: uint64(len(m.Data)) / 2, epoll: -1, kick: -1, woken: time.Now()}
	r.next = atomic.LoadUint64(r.Consumer)
	r.published = r.next
	return r
}

// Map maps a ring buffer of size bytes into memory, whose descriptor is fd, which may be closed afterwards.
func Map(fd int, size uint64, sleeping *uint32) (*Records, error) {
	page := unix.Getpagesize()
	if size < uint64(page) || size&(size-1) != 0 || size > 1<<30 {
		return nil, fmt.Errorf("a ring of %d bytes: its size is a power of two from %d bytes to 1 GB", size, page)
	}
	positions, err := unix.Mmap(fd, 0, page, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return nil, fmt.Errorf("map the reader's position: %w", err)
	}
	pages, err := unix.Mmap(fd, int64(page), page+2*int(size), unix.PROT_READ, unix.MAP_SHARED)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("map the records: %w", err), unix.Munmap(positions))
	}
	r := Over(Memory{
		Consumer: (*uint64)(unsafe.Pointer(&positions[0])), Producer: (*uint64)(unsafe.Pointer(&pages[0])),
		Data: pages[page:], Sleeping: sleeping,
	})
	r.own = [][]byte{positions, pages}
	if err := r.openPoll(fd); err != nil {
		return nil, errors.Join(err, r.release())
	}
	return r, nil
}

// openPoll creates what the reader sleeps on: the ring, or its end. The caller may close the map: its mapping keeps
// the file open that epoll watches.
func (r *Records) openPoll(fd int) error {
	var err error
	if r.epoll, err = unix.EpollCreate1(unix.EPOLL_CLOEXEC); err != nil {
		return fmt.Errorf("epoll: %w", err)
	}
	if r.kick, err = unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK); err != nil {
		return fmt.Errorf("eventfd: %w", err)
	}
	for _, fd := range []int{fd, r.kick} {
		ev := unix.EpollEvent{Events: unix.EPOLLIN, Fd: int32(fd)}
		if err := unix.EpollCtl(r.epoll, unix.EPOLL_CTL_ADD, fd, &ev); err != nil {
			return fmt.Errorf("epoll: %w", err)
		}
	}
	return nil
}

// Handler is what Run calls, from its own goroutine. All but Deliver may be nil.
type Handler struct {
	// Deliver receives a record. It is part of the ring: valid during the call, or until Release if there is one, and a write to
	// it ends the process.
	Deliver func(record []byte)
	// Release is called before the space of records is released that were delivered.
	Release func()
	// Drained is called after records were delivered.
	Drained func()
	// Idle is called before the reader sleeps.
	Idle func()
	// Tick is called at the start, and again after the time that it returns, also while the ring is never empty. A reader that sleeps
	// wakes up for it, and first reads what programs wrote without waking it.
	Tick func() (again time.Duration)
}

// Run delivers records until ctx ends, which is not an error, or until Close. Only one Run reads at a time.
func (r *Records) Run(ctx context.Context, h Handler) error {
	r.running.Lock()
	defer r.running.Unlock()
	if r.closed {
		return ErrClosed
	}
	kicked := make(chan struct{})
	stop := context.AfterFunc(ctx, func() { defer close(kicked); r.wake() })
	defer func() {
		if !stop() {
			<-kicked // the descriptor may be closed afterwards
		}
	}()
	earned, progress := 0, time.Now()
	release := func() {
		call(h.Release)
		r.tick(&h)
	}
	for ctx.Err() == nil && !r.closing.Load() {
		if r.taken() {
			return ErrTaken
		}
		switch n := r.drain(h.Deliver, release); {
		case n > 0:
			call(h.Drained)
			earned, progress = min(earned+n, maxPauses*recordsPerPause), time.Now()
		case r.Empty():
			progress = time.Now()
			r.tick(&h)
			if err := r.rest(&earned, &h); err != nil {
				return err
			}
		case time.Since(progress) > unfinished:
			r.damage(atomic.LoadUint64(r.Producer))
		default: // someone writes
			shortSleep()
		}
	}
	return nil
}

// tick calls Tick if it is time.
func (r *Records) tick(h *Handler) {
	if h.Tick == nil {
		return
	}
	if now := time.Now(); !now.Before(r.due) {
		r.due = now.Add(h.Tick())
	}
}

// rest pauses or sleeps. A pause is for a stream of records, which wakes a reader; what is there after a sleep that has ended by
// itself is none.
func (r *Records) rest(earned *int, h *Handler) error {
	switch {
	case r.timed:
		*earned = 0
		call(h.Idle)
		return r.sleep(r.nap(h))
	case *earned >= recordsPerPause:
		*earned -= recordsPerPause
		shortSleep()
	case time.Since(r.woken) < awake:
		shortSleep()
	default:
		call(h.Idle)
		return r.sleep(r.nap(h))
	}
	return nil
}

// nap is how long a sleep lasts that is never ended.
func (r *Records) nap(h *Handler) time.Duration {
	if h.Tick == nil {
		return safetyNet
	}
	return min(safetyNet, max(time.Millisecond, time.Until(r.due)))
}

func call(fn func()) {
	if fn != nil {
		fn()
	}
}

// taken reports whether another reader has taken over.
func (r *Records) taken() bool { return r.owner != nil && atomic.LoadUint64(r.owner) != r.token }

// shortSleep does not use the runtime's timers, which have millisecond resolution only when nothing else runs.
func shortSleep() {
	t := unix.NsecToTimespec(int64(pause))
	_ = unix.Nanosleep(&t, nil) // a signal ends it early; the caller checks again
}

// Empty reports whether no record is written or being written.
func (r *Records) Empty() bool { return atomic.LoadUint64(r.Producer) == r.next }

// sleep waits until a program writes a record. The flag is set before the last check, and programs reserve before they
// clear the flag, so one of the two sees the other.
func (r *Records) sleep(longest time.Duration) error {
	r.sleeps.Add(1)
	atomic.StoreUint32(r.Sleeping, 1)
	defer atomic.StoreUint32(r.Sleeping, 0)
	if !r.Empty() {
		r.timed, r.woken = false, time.Now()
		return nil
	}
	var events [2]unix.EpollEvent
	n, err := unix.EpollWait(r.epoll, events[:], int((longest+time.Millisecond-1)/time.Millisecond))
	// A program that has cleared the flag wakes nobody again for a while.
	if r.timed = n <= 0 && atomic.LoadUint32(r.Sleeping) != 0; !r.timed {
		r.woken = time.Now()
	}
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
func (r *Records) wake() {
	one := [8]byte{1, 1} // any number but 0, whatever the byte order
	_, _ = unix.Write(r.kick, one[:])
}

// Drain delivers the finished records, in order, and returns how many it removed, including discarded ones. It must not
// be called while Run runs.
func (r *Records) Drain(deliver func(record []byte)) int { return r.drain(deliver, nil) }

// drain does that, and calls release before it releases space.
func (r *Records) drain(deliver func(record []byte), release func()) int {
	n, end := 0, atomic.LoadUint64(r.Producer)
	for r.next != end {
		if end-r.next > r.size {
			r.damage(end)
			break
		}
		at := r.next & (r.size - 1)
		head := atomic.LoadUint32((*uint32)(unsafe.Pointer(&r.Data[at])))
		if head&Busy != 0 {
			break
		}
		length := uint64(head &^ (Busy | Discarded))
		step := (HeadSize + length + 7) &^ 7
		if step > end-r.next {
			r.damage(end)
			break
		}
		// Before the handler runs: if it panics and the panic is recovered, it does not get the same record again.
		r.next += step
		n++
		if head&Discarded == 0 {
			deliver(r.Data[at+HeadSize : at+HeadSize+length : at+HeadSize+length])
		}
		if r.next-r.published >= publishEvery {
			call(release)
			r.publish()
		}
	}
	if r.published != r.next {
		call(release)
		r.publish()
	}
	return n
}

// publish releases the space of the records that were read, unless another reader does that now.
func (r *Records) publish() {
	if r.published != r.next && !r.taken() {
		r.published = r.next
		atomic.StoreUint64(r.Consumer, r.next)
	}
}

// damage continues with the next record that will be written: positions are always at the start of a record. This
// happens only if another process writes to the ring.
func (r *Records) damage(end uint64) {
	r.next = end
	r.damaged.Add(1)
}

// Skip drains what is in the ring now. It waits for records that are being written, because their writers would
// otherwise write into released space.
func (r *Records) Skip(within time.Duration, deliver func(record []byte)) error {
	end, deadline := atomic.LoadUint64(r.Producer), time.Now().Add(within)
	for r.next < end {
		if r.Drain(deliver) == 0 && r.next < end {
			if time.Now().After(deadline) {
				return fmt.Errorf("a record of the ring was not finished within %v", within)
			}
			shortSleep()
		}
	}
	return nil
}

// Damaged is how often the reader lost its position and discarded the content of the ring.
func (r *Records) Damaged() uint64 { return r.damaged.Load() }

// Sleeps is how often the reader waited for a wakeup.
func (r *Records) Sleeps() uint64 { return r.sleeps.Load() }

// Size is that of the ring in bytes.
func (r *Records) Size() uint64 { return r.size }

// Used is how many bytes of the ring wait to be read.
func (r *Records) Used() uint64 {
	r.mapped.Lock()
	defer r.mapped.Unlock()
	if r.unmapped {
		return 0
	}
	consumed := atomic.LoadUint64(r.Consumer)
	return min(atomic.LoadUint64(r.Producer)-consumed, r.size)
}

// Close ends Run, waits for it, and unmaps the ring, which stays. A handler must not call it.
func (r *Records) Close() error {
	var err error
	r.closeOnce.Do(func() {
		r.closing.Store(true)
		r.wake()
		r.running.Lock()
		defer r.running.Unlock()
		r.closed = true
		err = r.release()
	})
	return err
}

func (r *Records) release() error {
	r.mapped.Lock()
	r.unmapped = true
	r.mapped.Unlock()
	var err error
	for _, m := range r.own {
		err = errors.Join(err, unix.Munmap(m))
	}
	for _, fd := range []int{r.epoll, r.kick} {
		if fd >= 0 {
			err = errors.Join(err, unix.Close(fd))
		}
	}
	return err
}
