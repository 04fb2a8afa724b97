// SPDX-License-Identifier: Apache-2.0

package topology

// Packets from the fast path wait for their cube here. Every cube has a queue and a goroutine of its own and the queues
// are bounded, so the reader never waits and a flood for one cube takes nothing from another.

import (
	"context"
	"sync"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/internal/datapath"
)

// Bounds of one cube's queue; what comes on top is shed and counted.
const (
	mailPackets = 4096
	mailBytes   = 4 << 20
	// mailTurn is how many packets a cube handles before others, such as a transaction, get their turn.
	mailTurn = 64
)

// mailbox is a cube's queue. Two sets of buffers take turns, so nothing is allocated once it has warmed up.
type mailbox struct {
	mu      sync.Mutex
	packets []cube.PacketIn
	arena   []byte
	shed    uint64
	closed  bool
	started bool
	wake    chan struct{}
	deliver func(context.Context, []cube.PacketIn)
}

func newMailbox(deliver func(context.Context, []cube.PacketIn)) *mailbox {
	return &mailbox{wake: make(chan struct{}, 1), deliver: deliver}
}

// offer copies a packet into the queue; it never waits for the cube.
func (b *mailbox) offer(p *cube.PacketIn) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed || len(b.packets) >= mailPackets || len(b.arena)+len(p.Data) > mailBytes {
		b.shed++
		return
	}
	if !b.started {
		b.started = true
		go b.run()
	}
	// The arena may move while it grows: the bytes are cut out of it when they are taken.
	b.arena = append(b.arena, p.Data...)
	q := *p
	q.Data = q.Data[:len(p.Data):len(p.Data)]
	b.packets = append(b.packets, q)
	select {
	case b.wake <- struct{}{}:
	default:
	}
}

// take swaps the queue for empty buffers. ok is false when the mailbox is closed.
func (b *mailbox) take(packets []cube.PacketIn, arena []byte) (full []cube.PacketIn, bytes []byte, ok bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	full, bytes = b.packets, b.arena
	b.packets, b.arena = packets[:0], arena[:0]
	at := 0
	for i := range full {
		n := len(full[i].Data)
		full[i].Data = bytes[at : at+n : at+n]
		at += n
	}
	return full, bytes, !b.closed
}

func (b *mailbox) run() {
	var packets []cube.PacketIn
	var arena []byte
	for range b.wake {
		var ok bool
		packets, arena, ok = b.take(packets, arena)
		if !ok {
			return
		}
		for rest := packets; len(rest) > 0; {
			n := min(mailTurn, len(rest))
			b.deliver(context.Background(), rest[:n])
			rest = rest[n:]
		}
	}
}

// drop counts packets that were queued and not handled.
func (b *mailbox) drop(n int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.shed += uint64(n)
}

func (b *mailbox) close() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.closed {
		b.closed = true
		b.packets, b.arena = nil, nil
		close(b.wake)
	}
}

func (b *mailbox) count() uint64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.shed
}

// deliver hands a batch to the cube in one turn.
func (u *unit) deliver(ctx context.Context, batch []cube.PacketIn) {
	handler, ok := u.inst.(cube.PacketHandler)
	if !ok {
		u.mail.drop(len(batch))
		return
	}
	if u.degraded.Load() != nil || u.enter(ctx) != nil {
		u.mail.drop(len(batch))
		return
	}
	defer u.leave()
	done := 0
	err := guard(func() error {
		for i := range batch {
			handler.PacketIn(&batch[i])
			done++
		}
		return nil
	})
	if err != nil {
		_ = u.judge("PacketIn", u.logPanic(err)) // nobody waits for an answer
		u.mail.drop(len(batch) - done)
	}
}

// PacketIn takes a packet of the slow path for a cube. It copies what it keeps and does not wait.
func (m *Manager) PacketIn(id datapath.CubeID, p *cube.PacketIn) {
	if u, ok := m.byID.Load(id); ok {
		u.(*unit).mail.offer(p)
		return
	}
	m.strays.Add(1)
}

// DatapathLog writes a line that a cube's program logged.
func (m *Manager) DatapathLog(id datapath.CubeID, level datapath.LogLevel, msg string) {
	if u, ok := m.byID.Load(id); ok {
		u.(*unit).env.log.Log(context.Background(), slowLevel(level), msg)
		return
	}
	m.strays.Add(1)
}

// StrayPackets returns how many packets and log lines came from the fast path for cubes that do not exist (any more).
func (m *Manager) StrayPackets() uint64 { return m.strays.Load() }

// ShedPackets returns how many packets of the slow path were not handled because the cube had too many waiting, or its
// code panicked. It returns 0 for a cube that does not exist.
func (m *Manager) ShedPackets(name string) uint64 {
	if u := m.view.Load().units[name]; u != nil {
		return u.mail.count()
	}
	return 0
}
