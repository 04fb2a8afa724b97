// SPDX-License-Identifier: Apache-2.0

// Package talk provides random connections between two TCP implementations, with segments that are wrong in one way:
// unlike those of dice, their connections get through all of their states. It knows where our tracking of connections
// differs from that of Linux.
package talk

import (
	"math/rand/v2"

	"github.com/polycube/polycube/conntrack"
)

// after reports whether a sequence number follows another.
func after(a, b uint32) bool { return int32(a-b) > 0 }

// host is one side of a connection.
type host struct {
	isn, next uint32 // sequence numbers: of the SYN, and of what is sent next
	received  uint32 // what it acknowledges
	scale     uint8
	window    uint16
	limit     uint32 // the highest sequence number that it has allowed
	scaled    bool   // windows are, from now on
	fin       bool
}

// Talk is a connection. Kind says what the last segment is.
type Talk struct {
	*rand.Rand
	hosts [2]host
	steps int
	// opener is the side that opens, both is a simultaneous open.
	opener uint8
	both   bool
	Kind   string
}

// New begins a connection, at any of its sides.
func New(r *rand.Rand) *Talk {
	t := &Talk{Rand: r}
	t.restart(uint8(r.IntN(2)))
	return t
}

// restart begins a connection of the same ends.
func (t *Talk) restart(opener uint8) {
	t.steps, t.opener, t.both = 0, opener, t.IntN(6) == 0
	for i := range t.hosts {
		h := &t.hosts[i]
		isn := t.Uint32()
		if h.next != 0 && t.IntN(4) > 0 {
			isn = h.next + uint32(t.IntN(1<<20))
		}
		*h = host{isn: isn, next: isn + 1, scale: []uint8{conntrack.NoScale, 0, 2, 7, 8}[t.IntN(5)], window: uint16(1000 + t.IntN(60000))}
	}
	for i := range t.hosts {
		h := &t.hosts[i]
		h.received = t.hosts[1-i].next
		h.limit = h.received + uint32(h.window)
		h.scaled = h.scale != conntrack.NoScale && t.hosts[1-i].scale != conntrack.NoScale
	}
}

// bytes is the size of a host's window.
func (h *host) bytes() uint32 {
	if h.scaled {
		return uint32(h.window) << h.scale
	}
	return uint32(h.window)
}

// segment is what a host sends.
func (h *host) segment(flags conntrack.Flag, length uint32) conntrack.Segment {
	p := conntrack.Segment{Seq: h.next, Ack: h.received, Length: length, Window: h.window, Flags: flags, Scale: conntrack.NoScale}
	if flags&conntrack.SYN != 0 {
		p.Seq, p.Scale = h.isn, h.scale
	}
	if flags == conntrack.SYN {
		p.Ack = 0
	} else if limit := h.received + h.bytes(); flags&conntrack.SYN == 0 && after(limit, h.limit) {
		h.limit = limit
	}
	return p
}

// handshake is the order of SYN (true) and SYN with ACK in the two ways to open, and who sends them.
func (t *Talk) handshake() (uint8, conntrack.Segment, bool) {
	a, b := t.opener, 1-t.opener
	order := []struct {
		from  uint8
		flags conntrack.Flag
	}{{a, conntrack.SYN}, {b, conntrack.SYN | conntrack.ACK}, {a, conntrack.ACK}}
	if t.both {
		order = order[:0]
		order = append(order, struct {
			from  uint8
			flags conntrack.Flag
		}{a, conntrack.SYN}, struct {
			from  uint8
			flags conntrack.Flag
		}{b, conntrack.SYN}, struct {
			from  uint8
			flags conntrack.Flag
		}{a, conntrack.SYN | conntrack.ACK}, struct {
			from  uint8
			flags conntrack.Flag
		}{b, conntrack.SYN | conntrack.ACK})
	}
	if t.steps >= len(order) {
		return 0, conntrack.Segment{}, false
	}
	if t.steps > 0 && t.IntN(5) == 0 {
		t.steps-- // a retransmission
	}
	step := order[t.steps]
	t.steps++
	t.Kind = "handshake"
	return step.from, t.hosts[step.from].segment(step.flags, 0), true
}

// Next returns the next segment, and the side that sends it.
func (t *Talk) Next() (uint8, conntrack.Segment) {
	if t.IntN(12) == 0 {
		return t.wrong()
	}
	if from, p, ok := t.handshake(); ok {
		return from, p
	}
	from := uint8(t.IntN(2))
	me, peer := &t.hosts[from], &t.hosts[1-from]
	if t.IntN(4) > 0 {
		me.received = peer.next
	}
	me.window = uint16(1 + t.IntN(1<<(6+t.IntN(11))-1))
	t.Kind = "data"
	unacknowledged := me.next - peer.received
	switch t.IntN(9) {
	case 0:
		t.Kind = "acknowledgement"
		return from, me.segment(conntrack.ACK, 0)
	case 1:
		t.Kind = "keep-alive"
		p := me.segment(conntrack.ACK, 0)
		p.Seq--
		return from, p
	case 2:
		if unacknowledged > 0 && unacknowledged <= 1400 && !me.fin {
			t.Kind = "retransmission"
			p := me.segment(conntrack.ACK, unacknowledged)
			p.Seq -= unacknowledged
			return from, p
		}
	case 3, 4:
		if t.steps++; t.steps > 5 && !me.fin && after(peer.limit, me.next) { // a FIN beyond the window is sent again
			t.Kind = "FIN"
			p := me.segment(conntrack.FIN|conntrack.ACK, 0)
			me.next++
			me.fin = true
			return from, p
		}
	case 5:
		if t.IntN(20) == 0 {
			t.Kind = "RST"
			p := me.segment([]conntrack.Flag{conntrack.RST, conntrack.RST | conntrack.ACK}[t.IntN(2)], 0)
			return from, p
		}
	}
	room := int(min(1400, int32(peer.limit-me.next)))
	if me.fin || room <= 0 {
		t.Kind = "acknowledgement"
		return from, me.segment(conntrack.ACK, 0)
	}
	p := me.segment(conntrack.ACK, uint32(t.IntN(room+1)))
	me.next += p.Length
	return from, p
}

// TooOld is what is wrong with a segment from long before the window.
const TooOld = "older than the window"

// wrong is a segment that a host does not send there, and what is wrong with it.
func (t *Talk) wrong() (uint8, conntrack.Segment) {
	from := uint8(t.IntN(2))
	me, peer := &t.hosts[from], &t.hosts[1-from]
	allowed := me.limit
	p := me.segment(conntrack.ACK, 10)
	switch t.IntN(11) {
	case 0:
		t.Kind = "beyond the window"
		p.Seq += 1<<30 + 1<<17
	case 1:
		t.Kind = TooOld
		p.Seq -= 1<<30 + 1<<17
	case 2:
		t.Kind = "acknowledges what was not sent"
		p.Ack = peer.next + 1 + uint32(t.IntN(1000))
	case 3:
		t.Kind = "acknowledges what was acknowledged long ago"
		p.Ack = peer.next - 1<<30 - 1<<17
	case 4:
		t.Kind = "RST beyond the window"
		p = me.segment(conntrack.RST, 0)
		p.Seq += 1<<30 + 1<<17
	case 5:
		t.Kind = "RST older than the window"
		p = me.segment(conntrack.RST|conntrack.ACK, 0)
		p.Seq -= 1<<30 + 1<<17
	case 6:
		t.Kind = "no such flags"
		p.Flags = []conntrack.Flag{0, conntrack.FIN, conntrack.SYN | conntrack.FIN, conntrack.SYN | conntrack.RST, conntrack.FIN | conntrack.RST, conntrack.SYN | conntrack.FIN | conntrack.RST | conntrack.ACK, conntrack.FIN | 0x28, conntrack.SYN | conntrack.FIN | conntrack.ACK}[t.IntN(8)]
	case 7:
		t.Kind = "SYN again"
		p = me.segment(conntrack.SYN, 0)
	case 8:
		t.Kind = "SYN of another connection"
		p = me.segment(conntrack.SYN, 0)
		p.Seq = t.Uint32()
	case 9:
		t.Kind = "SYN that answers nothing"
		p = me.segment(conntrack.SYN|conntrack.ACK, 0)
		p.Seq += 1<<30 + 1<<17
		p.Ack = peer.next + 1<<30
	case 10:
		t.Kind = "port reuse"
		t.restart(from)
		t.steps = 1
		p = t.hosts[from].segment(conntrack.SYN, 0)
		t.opener, t.both = from, false
	}
	if t.Kind != "port reuse" {
		me.limit = allowed // the segment may not be believed
	}
	return from, p
}
