// SPDX-License-Identifier: Apache-2.0

// Package slowpath carries packets up from the fast path, through a ring that it shares with the eBPF programs, and
// down into it, through a TAP. A packet costs no system call or allocation on the way up; on the way down it costs one
// write.
package slowpath

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"time"
	"unsafe"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/ring"
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

// staleDeadline is how long OpenRing waits for programs that are writing.
const staleDeadline = time.Second

// ErrClosed is returned after Close.
var ErrClosed = ring.ErrClosed

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
	records               *ring.Records
	controlMem, sharesMem []byte // the mappings, to undo
	shares                shares
	// settled says that the shares are right, with damaged resets of the ring.
	settled bool
	damaged uint64

	record record
	packet cube.PacketIn
	step   Step
	meta   Meta
	buf    []byte

	counted Stats // by the reader

	statsMu sync.Mutex
	stats   Stats // for readers of the statistics

	closeOnce sync.Once
}

// OpenRing maps the ring (pcn_ring), the flag of the sleeping reader (pcn_control) and the cubes' shares (pcn_shares).
// Existing records are skipped: they are packets from before a restart, and one of them may have crashed the last
// reader. The maps may be closed afterwards.
func OpenRing(ring, control, shares *ebpf.Map) (*Ring, error) {
	r := newRing()
	if err := r.open(ring, control, shares); err != nil {
		return nil, fmt.Errorf("open the ring of the slow path: %w", errors.Join(err, r.Close()))
	}
	return r, nil
}

func newRing() *Ring { return &Ring{buf: make([]byte, maxCapture+vlanTag)} }

func (r *Ring) open(of, ctl, shs *ebpf.Map) error {
	if of == nil || of.Type() != ebpf.RingBuf {
		return errors.New("map pcn_ring: it is not a ring buffer")
	}
	var err error
	if r.controlMem, err = mapArray(ctl, "pcn_control", uint32(unsafe.Sizeof(control{})), 1); err != nil {
		return err
	}
	if r.sharesMem, err = mapArray(shs, "pcn_shares", uint32(unsafe.Sizeof(share{})), 1); err != nil {
		return err
	}
	r.shares = unsafe.Slice((*share)(unsafe.Pointer(&r.sharesMem[0])), shs.MaxEntries())
	sleeping := &(*control)(unsafe.Pointer(&r.controlMem[0])).Sleeping
	if r.records, err = ring.Map(of.FD(), uint64(of.MaxEntries()), sleeping); err != nil {
		return fmt.Errorf("map pcn_ring: %w", err)
	}
	return r.skip(staleDeadline)
}

// skip drops what is in the ring now.
func (r *Ring) skip(within time.Duration) error {
	before := r.counted
	err := r.records.Skip(within, func(b []byte) { r.deliver(b, nil) })
	stale := r.counted.handled() - before.handled()
	r.counted = before
	r.counted.Stale += stale
	r.report()
	return err
}

// Run reads records and calls h until ctx ends, which is not an error. Only one Run reads at a time.
func (r *Ring) Run(ctx context.Context, h Handler) error {
	raisePriority()
	defer r.report()
	err := r.records.Run(ctx, ring.Handler{Deliver: func(b []byte) { r.deliver(b, h) }, Drained: r.report, Idle: r.idle})
	if err != nil {
		return fmt.Errorf("read the ring of the slow path: %w", err)
	}
	return nil
}

// idle is called before the reader sleeps.
func (r *Ring) idle() {
	if damaged := r.records.Damaged(); damaged != r.damaged {
		r.damaged, r.settled = damaged, false
	}
	if !r.settled {
		r.settled = r.shares.settle(r.records.Empty)
	}
	r.report()
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
	s := r.stats
	s.Damaged, s.Sleeps = r.records.Damaged(), r.records.Sleeps()
	return s
}

// Load is how full the ring is.
type Load struct {
	Stats
	// Size is that of the ring in bytes, Used how much of it waits to be read.
	Size, Used uint64
}

// Load returns the counters and how full the ring is.
func (r *Ring) Load() Load {
	return Load{Stats: r.Stats(), Size: r.records.Size(), Used: r.records.Used()}
}

// Close ends Run, waits for it, and unmaps the ring, which stays. A handler must not call it.
func (r *Ring) Close() error {
	var err error
	r.closeOnce.Do(func() {
		if r.records != nil {
			err = r.records.Close()
		}
		err = errors.Join(err, unmap(r.controlMem, r.sharesMem))
	})
	if err != nil {
		return fmt.Errorf("close the ring of the slow path: %w", err)
	}
	return nil
}
