// SPDX-License-Identifier: Apache-2.0

package packetcapture

// The queue of network mode.

import (
	"slices"
	"sync"
	"time"

	"github.com/polycube/polycube/cube"
)

// Limits of the queue. What does not fit is lost: a client that reads slowly gets the packets in their order, without gaps
// up to the moment at which the queue was full.
const (
	queuePackets = 1 << 17
	queueBytes   = 32 << 20
	// packetCost is the memory for a queued packet in addition to its bytes.
	packetCost = 64
)

// captured is a packet of the queue.
type captured struct {
	at        time.Time
	direction cube.Direction
	data      []byte
	length    int
}

// queue is a bounded queue.
type queue struct {
	mu        sync.Mutex // guards what follows
	packets   []captured
	bytes     int
	lost      uint64
	delivered uint64
}

// push appends a packet, whose bytes are copied.
func (q *queue) push(at time.Time, d cube.Direction, data []byte, length int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.packets) == queuePackets || q.bytes+len(data)+packetCost > queueBytes {
		q.lost++
		return
	}
	q.packets = append(q.packets, captured{at, d, append([]byte(nil), data...), length})
	q.bytes += len(data) + packetCost
}

// pop removes up to max packets with up to limit bytes, but at least one if there is one.
func (q *queue) pop(most, limit int) []captured {
	q.mu.Lock()
	defer q.mu.Unlock()
	n, bytes := 0, 0
	for ; n < min(most, len(q.packets)); n++ {
		size := len(q.packets[n].data) + packetCost
		if n > 0 && bytes+size > limit {
			break
		}
		bytes += size
	}
	out := slices.Clone(q.packets[:n])
	clear(q.packets[:n]) // the array stays until it is full: it must not keep their bytes
	if q.packets = q.packets[n:]; len(q.packets) == 0 {
		q.packets = nil
	}
	q.bytes -= bytes
	q.delivered += uint64(n)
	return out
}

// first returns the first packet without removing it.
func (q *queue) first() (p captured, ok bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.packets) == 0 {
		return p, false
	}
	return q.packets[0], true
}

func (q *queue) length() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.packets)
}

// totals are the numbers of packets that were delivered and lost.
func (q *queue) totals() (delivered, lost uint64) {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.delivered, q.lost
}
