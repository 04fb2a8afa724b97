// SPDX-License-Identifier: Apache-2.0

package packetcapture

// Packets on their way from the ring to files or into the queue.

import (
	"log/slog"
	"sync"
	"time"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/ring"
)

// chunkSize is how much is written at once: files are written in few calls, and the buffer is bounded by its chunks.
const chunkSize = 256 << 10

// chunk is a sequence of records for a file.
type chunk struct {
	of      *target
	records []byte
	packets uint64
	// last says that no more follow for the same target.
	last bool
}

// target says how the files of a capture are written. Each capture has its own.
type target struct {
	format   format
	base     string
	rotation Rotation
}

// intake takes packets.
type intake struct {
	files *writer
	queue queue
	clock clock

	mu      sync.Mutex // guards what follows
	format  format
	network bool
	// target is nil if no file is written. ending says that the capture has ended, and packets may still be in the ring.
	target *target
	ending bool
	chunk  chunk
}

func newIntake(log *slog.Logger) *intake { return &intake{files: newWriter(log)} }

// use follows a configuration; undo goes back.
func (n *intake) use(conf *Config) (undo func()) {
	n.mu.Lock()
	defer n.mu.Unlock()
	target, ending, format, network := n.target, n.ending, n.format, n.network
	switch {
	case !conf.captures():
		n.ending = true
	case conf.NetworkMode:
		n.target, n.ending = nil, false
	default:
		to := conf.target()
		if n.target == nil || n.ending || *n.target != to {
			n.target = &to
		}
		n.ending = false
	}
	n.network, n.format = conf.NetworkMode, conf.format()
	return func() {
		n.mu.Lock()
		defer n.mu.Unlock()
		n.target, n.ending, n.format, n.network = target, ending, format, network
	}
}

func (c *Config) target() target { return target{c.format(), c.base(), c.Rotation} }

// take takes a packet from the ring.
func (n *intake) take(p *ring.Packet) {
	n.mu.Lock()
	defer n.mu.Unlock()
	data, at := p.Data, n.clock.wall(p.Time)
	if len(data) > int(n.format.snap) {
		data = data[:n.format.snap] // a tag that TC keeps outside the frame is in addition
	}
	switch {
	case n.network:
		n.queue.push(at, cube.Direction(p.Kind), data, p.Length)
	case n.target != nil:
		n.append(at, data, p.Length)
	}
}

// append adds a packet to the chunk.
func (n *intake) append(at time.Time, data []byte, length int) {
	if n.chunk.of != n.target || len(n.chunk.records)+recordHeaderSize+len(data) > chunkSize {
		n.hand(false)
	}
	if n.chunk.records == nil {
		n.chunk = chunk{of: n.target, records: n.files.buffer()}
	}
	n.chunk.records = n.target.format.record(n.chunk.records, at, data, length)
	n.chunk.packets++
}

// hand gives the chunk to the writer, or drops its packets. It is false if there was no room.
func (n *intake) hand(last bool) bool {
	c := n.chunk
	c.last = last
	n.chunk = chunk{}
	return c.records == nil && !last || n.files.put(c)
}

// flush hands over what there is. idle says that the ring is empty.
func (n *intake) flush(idle bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.ending && idle && n.target != nil {
		if n.chunk.of == nil {
			n.chunk.of = n.target
		}
		if n.hand(true) {
			n.target = nil
		}
		return
	}
	if n.chunk.packets > 0 {
		n.hand(false)
	}
}

// waiting is the number of packets that are not in a file yet, or wait for a client.
func (n *intake) waiting() uint64 {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.chunk.packets + n.files.waiting.Load() + uint64(n.queue.length())
}

// close writes the rest. It is false if that takes longer than wait.
func (n *intake) close(wait time.Duration) bool {
	n.mu.Lock()
	n.hand(false)
	n.mu.Unlock()
	return n.files.stop(wait)
}

// clock converts the time of programs into that of the world.
type clock struct {
	// offset is the difference, valid until the monotonic time `until`.
	offset time.Duration
	until  time.Duration
}

// clockInterval is how soon steps of the world's clock are followed.
const clockInterval = 100 * time.Millisecond

// wall returns the time at which a program said that it was `at`.
func (c *clock) wall(at time.Duration) time.Time {
	if at >= c.until || at < c.until-time.Minute {
		c.set(at)
	}
	return time.Unix(0, int64(at+c.offset))
}

// set compares the clocks, between two reads of one that are close to each other.
func (c *clock) set(at time.Duration) {
	for range 5 {
		before, err := cube.Time()
		now := time.Now()
		after, err2 := cube.Time()
		if err != nil || err2 != nil {
			return // there is no clock without /proc: times are those since the start of the machine
		}
		c.offset = time.Duration(now.UnixNano()) - time.Duration(before+(after-before)/2)
		if after-before < uint64(10*time.Microsecond) {
			break
		}
	}
	c.until = at + clockInterval
}
