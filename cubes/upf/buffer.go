// SPDX-License-Identifier: Apache-2.0

package upf

// Buffers packets until their device is reachable. They are in the memory of the daemon, and are lost with it.

import (
	"time"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/pdusession"
)

const (
	// look is how often the buffer checks whether packets are to be sent.
	look = 2 * time.Millisecond
	// late is the longest time that a packet takes to reach the buffer. One that has not arrived by then was lost.
	late = time.Second
	// released is UPF_RELEASED: the first metadata word of a packet that was buffered.
	released = 1
)

// bufferState is the container `buffer`.
type bufferState struct {
	Packets    int    `json:"packets"`
	Bytes      int    `json:"bytes"`
	Released   uint64 `json:"released"`
	Discarded  uint64 `json:"discarded"`
	Overflowed uint64 `json:"overflowed"`
}

// buffer holds packets by the row of their queue.
type buffer struct {
	env    cube.Env
	queues *pdusession.Queues
	of     map[uint32]*waiting
	limit  int // bytes
	bufferState
	// arrived is called with an End Marker once no packet of a row is ahead of it.
	arrived func(*ended)
	// stop ends the periodic calls of send, which are made while packets are buffered.
	stop func()
}

// waiting are the packets of a row in order of arrival. Since is when the last one arrived or was sent, and ends is the number of
// End Markers among them.
type waiting struct {
	packets []packet
	since   time.Time
	ends    int
}

// packet is a buffered packet. An End Marker is sent by its owner once no packet is ahead of it.
type packet struct {
	cube.PacketOut
	end *ended
}

// maxEnds is the maximum number of End Markers in a row: each tunnel of the row has one, unless a peer repeats it.
const maxEnds = 8

func newBuffer(env cube.Env) *buffer {
	return &buffer{env: env, queues: pdusession.NewQueues(env), of: map[uint32]*waiting{}}
}

// begin resets the counts of packets that a previous daemon had buffered: otherwise newer packets of their rows would wait for them.
func (b *buffer) begin() error {
	busy, err := b.queues.Busy()
	for _, row := range busy {
		n := b.queues.Waiting(row)
		b.queues.Done(row, n)
		b.env.Logger().Warn("packets buffered by the previous daemon were lost", "packets", n)
	}
	return err
}

// take takes a packet from the program.
func (b *buffer) take(p *cube.PacketIn) {
	row := p.Metadata[0]
	if len(p.Data) < p.Length || b.Bytes+len(p.Data) > b.limit {
		b.Overflowed++
		b.queues.Done(row, 1)
		return
	}
	b.add(row, packet{PacketOut: cube.PacketOut{
		Direction: p.Direction, Recirculate: true, Metadata: [4]uint32{released, p.Metadata[1], p.Metadata[2]}, TrafficClass: p.TrafficClass,
		Trip: p.Trip, Offload: p.Offload, Data: append([]byte(nil), p.Data...),
	}})
}

// add buffers a packet that the row already counts.
func (b *buffer) add(row uint32, p packet) {
	w := b.of[row]
	if w == nil {
		w = &waiting{}
		b.of[row] = w
	}
	w.since = time.Now()
	w.packets = append(w.packets, p)
	if p.end != nil {
		w.ends++
	}
	b.Packets++
	b.Bytes += len(p.Data)
	if b.queues.Order(row) != pdusession.Hold {
		b.serve(row, w)
	}
	if b.stop == nil {
		b.stop = b.env.Every(look, b.send)
	}
}

// follow queues an End Marker behind the packets of a row. It reports whether there was room.
func (b *buffer) follow(row uint32, e *ended) bool {
	if w := b.of[row]; b.Bytes+len(e.frame) > b.limit || w != nil && w.ends >= maxEnds {
		return false
	}
	if !b.queues.Wait(row) {
		return false
	}
	b.add(row, packet{cube.PacketOut{Data: e.frame}, e})
	return true
}

// send serves all rows. It stops its own periodic calls once nothing is buffered.
func (b *buffer) send() {
	for row, w := range b.of {
		b.serve(row, w)
	}
	if len(b.of) == 0 && b.stop != nil {
		b.stop()
		b.stop = nil
	}
}

// serve holds, sends or drops the packets of a row, as its state says.
func (b *buffer) serve(row uint32, w *waiting) {
	switch b.queues.Order(row) {
	case pdusession.Hold:
		return
	case pdusession.Release:
		for i := range w.packets {
			b.leave(row, &w.packets[i], true)
		}
	default:
		for i := range w.packets {
			b.leave(row, &w.packets[i], false)
		}
	}
	if len(w.packets) > 0 {
		w.packets, w.ends, w.since = nil, 0, time.Now()
	}
	switch {
	case b.queues.Waiting(row) == 0:
		delete(b.of, row)
	case time.Since(w.since) > late:
		b.queues.Done(row, b.queues.Waiting(row))
	}
}

// leave sends a packet, or drops it.
func (b *buffer) leave(row uint32, p *packet, send bool) {
	switch {
	case p.end != nil:
		b.arrived(p.end)
	case !send:
		b.Discarded++
	default:
		if err := b.env.Send(&p.PacketOut); err != nil {
			b.env.Logger().Debug("send a buffered packet", "error", err)
			b.Discarded++
		} else {
			b.Released++
		}
	}
	b.Packets--
	b.Bytes -= len(p.Data)
	b.queues.Done(row, 1)
}

// tick finds rows whose packets were lost on the way to user space.
func (b *buffer) tick() {
	busy, err := b.queues.Busy()
	if err != nil {
		return
	}
	for _, row := range busy {
		if b.of[row] == nil {
			b.of[row] = &waiting{since: time.Now()}
		}
	}
	if len(b.of) > 0 && b.stop == nil {
		b.stop = b.env.Every(look, b.send)
	}
}
