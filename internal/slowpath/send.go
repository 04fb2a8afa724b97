// SPDX-License-Identifier: Apache-2.0

// Sending down: what to do with a frame is written to memory that the TAP's program reads, then the frame is written
// to the TAP. The kernel runs the program inside that write, so nothing needs to be added to the frame.

package slowpath

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"runtime"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/polycube/polycube/cube"
)

const downSize = uint32(unsafe.Sizeof(down{}))

// ErrNotTaken is returned when the kernel accepted a frame but the TAP's program did not run.
var ErrNotTaken = errors.New("no program on the TAP processed the frame")

// Send sends a packet into the fast path at target. When it returns nil the programs have run; the fate of the packet
// is in their counters. m has XDP set when the TAP is that of XDP cubes. A superframe's checksum field has the sum of
// its pseudo header, as it came up.
func (t *Tap) Send(target Target, p *cube.PacketOut, m Meta) error {
	if err := checkOut(target, p, m); err != nil {
		return fmt.Errorf("send to cube %d: %w", target.Cube, err)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if err := t.send(target, p, m); err != nil {
		return fmt.Errorf("send to cube %d by the TAP %s: %w", target.Cube, t.name, err)
	}
	return nil
}

func checkOut(target Target, p *cube.PacketOut, m Meta) error {
	if err := target.check(p.Port); err != nil {
		return err
	}
	switch {
	case len(p.Data) < ethernetHead:
		return fmt.Errorf("a frame of %d bytes has no Ethernet header", len(p.Data))
	case len(p.Data) > maxFrame:
		return fmt.Errorf("a frame of %d bytes is longer than %d", len(p.Data), maxFrame)
	case p.Trip.Netdev < 0 || p.Trip.Netdev > math.MaxInt32:
		return fmt.Errorf("network interface %d: indexes range from 1 to %d", p.Trip.Netdev, math.MaxInt32)
	case p.Trip.OfferedFrom >= maxPorts:
		return fmt.Errorf("port %d: indexes range from 0 to %d", p.Trip.OfferedFrom, maxPorts-1)
	case m.XDP && p.Offload.GSOSize != 0:
		return errors.New("XDP accepts no superframes")
	}
	return nil
}

// send runs with the lock held: there is one record and one frame at a time. The TAP of a kernel before Linux 6.2
// refuses a UDP superframe, which is then sent in segments.
func (t *Tap) send(target Target, p *cube.PacketOut, m Meta) error {
	err := t.sendOne(target, p, m)
	if p.Offload.GSOSize == 0 || !errors.Is(err, unix.EINVAL) {
		return err
	}
	for _, segment := range cutUDP(p.Data, int(p.Offload.GSOSize)) {
		one := *p
		one.Data, one.Offload = segment, cube.Offload{}
		if err = t.sendOne(target, &one, m); err != nil {
			break
		}
	}
	return err
}

func (t *Tap) sendOne(target Target, p *cube.PacketOut, m Meta) error {
	switch {
	case t.fd < 0:
		return ErrClosed
	case t.down == nil:
		return errors.New("SetDown was not called")
	}
	if m.XDP { // an XDP program would lose the header's content
		t.head = [virtioHead]byte{}
	} else if err := virtioHeader(&t.head, p.Data, p.Offload); err != nil {
		return err
	}
	if err := t.wait(m.Generic); err != nil {
		return err
	}
	t.fill(target, p, m)
	n, err := t.writeFrame(p.Data)
	// Whatever happened, no later frame must use this record.
	state := atomic.SwapUint32(&t.down.State, downIdle)
	switch {
	case err != nil:
		return fmt.Errorf("write %d bytes: %w", len(p.Data), err)
	case n != virtioHead+len(p.Data):
		return fmt.Errorf("write %d bytes: short write of %d", len(p.Data), n-virtioHead)
	case state != downConsumed:
		return ErrNotTaken
	}
	return nil
}

// fill writes the record; the state last.
func (t *Tap) fill(target Target, p *cube.PacketOut, m Meta) {
	to := &t.down.Resume
	*to = resume{
		MD: md{
			Hops:         p.Trip.Hops,
			TrafficClass: p.TrafficClass,
			FlowHash:     p.Trip.FlowHash,
			Tenant:       p.Trip.Tenant,
			MD:           p.Metadata,
			PassIfindex:  uint32(cmp.Or(p.Trip.Netdev, m.Ifindex)),
		},
		Cube:   target.Cube,
		Target: target.Kind,
	}
	to.MD.Flags = target.flags(p.Trip)
	switch target.Kind {
	case ToRX, ToIn, ToInNext:
		to.MD.InPort = p.Port
	case ToOffer:
		to.MD.InPort, to.MD.OutPort = p.Port, p.Port
	default:
		to.MD.OutPort = p.Port
	}
	if target.Kind == ToInNext || target.Kind == ToOutNext {
		to.MD.MD = [4]uint32{} // they are private to the cube, and the next program belongs to another one
	}
	atomic.StoreUint32(&t.down.State, downSet)
}

// flags are those of a packet where it enters: one that comes in may have been turned, one that leaves may be on
// offer, and a standard cube may receive what it offered.
func (t Target) flags(trip cube.Trip) (flags uint16) {
	if trip.Turned && (t.Kind == ToRX || t.Kind == ToIn || t.Kind == ToInNext) {
		flags |= mdTurned
	}
	if trip.Offered && (t.Kind == ToRX || t.Kind == ToOut || t.Kind == ToOutNext) {
		flags |= mdOffered | trip.OfferedFrom<<mdFrom
	}
	return flags
}

// wait says whether writes may wait, which is never needed here. If not, the kernel runs the TAP's XDP program
// natively on a frame that fits into a page; otherwise it creates an skb first, which is generic XDP.
func (t *Tap) wait(may bool) error {
	if t.waits == may {
		return nil
	}
	if err := unix.SetNonblock(t.fd, !may); err != nil {
		return fmt.Errorf("set the TAP to blocking writes: %v: %w", may, err)
	}
	t.waits = may
	return nil
}

// writeFrame writes the header and the frame in one call, without copying them into one buffer.
func (t *Tap) writeFrame(frame []byte) (int, error) {
	t.iov[0] = unix.Iovec{Base: &t.head[0], Len: virtioHead}
	t.iov[1] = unix.Iovec{Base: &frame[0]}
	t.iov[1].SetLen(len(frame))
	for {
		n, _, errno := unix.Syscall(unix.SYS_WRITEV, uintptr(t.fd), uintptr(unsafe.Pointer(&t.iov[0])), uintptr(len(t.iov)))
		if errno == unix.EINTR && atomic.LoadUint32(&t.down.State) == downSet {
			continue
		}
		t.iov[1].Base = nil
		runtime.KeepAlive(frame)
		if errno != 0 {
			return 0, errno
		}
		return int(n), nil
	}
}

func (t *Tap) setMemory(mem []byte) {
	t.mem = mem
	t.down = (*down)(unsafe.Pointer(&mem[0]))
	atomic.StoreUint32(&t.down.State, downIdle)
}
