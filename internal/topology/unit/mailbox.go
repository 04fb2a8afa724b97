// SPDX-License-Identifier: Apache-2.0

package unit

// The queue of events for a cube's code: packets and messages from the fast path, timers, changes around it. Every cube
// has a queue and a goroutine of its own and the queues are bounded, so the reader never waits and a flood for one cube
// does not affect another.

import (
	"context"
	"sync"
	"time"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/internal/datapath"
	"github.com/polycube/polycube/internal/slowpath"
	"github.com/polycube/polycube/internal/tally"
)

// MailPackets and MailBytes limit one cube's queue; what exceeds them is dropped and counted.
const (
	MailPackets = 4096
	MailBytes   = 4 << 20
	// mailTurn is how many packets a cube handles before others, such as a transaction, get the turn.
	mailTurn = 64
)

// letter is an item from the fast path: a packet or, if notice is set, the data of a message whose kind is Metadata[0].
type letter struct {
	cube.PacketIn
	notice bool
}

// Task is a call of the cube's code. Its senders make sure that only few wait at a time. If the cube's code is not
// called any more, Dropped, if not nil, is called instead of Run.
type Task struct {
	What         string
	Run, Dropped func()
}

// mailbox is a cube's queue. Two sets of buffers alternate, so nothing is allocated once they have grown.
type mailbox struct {
	mu      sync.Mutex
	letters []letter
	arena   []byte
	tasks   []Task
	shed    uint64
	// since is when the first of the letters arrived.
	since   time.Time
	closed  bool
	started bool
	wake    chan struct{}
	deliver func(context.Context, []letter)
	perform func(Task)
	// waits counts how long the first item of a batch waited.
	waits *tally.Histogram
}

func newMailbox(deliver func(context.Context, []letter), perform func(Task)) *mailbox {
	return &mailbox{wake: make(chan struct{}, 1), deliver: deliver, perform: perform}
}

// offer copies a packet or message into the queue; it never waits for the cube.
func (b *mailbox) offer(p *cube.PacketIn, notice bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed || len(b.letters) >= MailPackets || len(b.arena)+len(p.Data) > MailBytes {
		b.shed++
		return
	}
	if len(b.letters) == 0 {
		b.since = time.Now()
	}
	// The arena may move while it grows: slices of it are made only when the items are taken.
	b.arena = append(b.arena, p.Data...)
	q := letter{*p, notice}
	q.Data = q.Data[:len(p.Data):len(p.Data)]
	b.letters = append(b.letters, q)
	b.ring()
}

// post queues a call of the cube's code, which runs before packets.
func (b *mailbox) post(t Task) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		t.drop()
		return
	}
	b.tasks = append(b.tasks, t)
	b.ring()
}

// drop says that the task will not run.
func (t Task) drop() {
	if t.Dropped != nil {
		t.Dropped()
	}
}

// ring wakes the goroutine. b.mu is held.
func (b *mailbox) ring() {
	if !b.started {
		b.started = true
		go b.run()
	}
	select {
	case b.wake <- struct{}{}:
	default:
	}
}

// take swaps the queue for empty buffers. ok is false when the mailbox is closed.
func (b *mailbox) take(letters []letter, arena []byte) (full []letter, bytes []byte, ok bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	full, bytes = b.letters, b.arena
	if len(full) > 0 {
		b.waits.Since(b.since)
	}
	b.letters, b.arena = letters[:0], arena[:0]
	at := 0
	for i := range full {
		n := len(full[i].Data)
		full[i].Data = bytes[at : at+n : at+n]
		at += n
	}
	return full, bytes, !b.closed
}

func (b *mailbox) takeTasks() []Task {
	b.mu.Lock()
	defer b.mu.Unlock()
	tasks := b.tasks
	b.tasks = nil
	return tasks
}

func (b *mailbox) run() {
	var letters []letter
	var arena []byte
	var slice slowpath.TimeSlice
	for range b.wake {
		b.work()
		var ok bool
		letters, arena, ok = b.take(letters, arena)
		if !ok {
			return
		}
		for rest := letters; len(rest) > 0; {
			n := min(mailTurn, len(rest))
			b.deliver(context.Background(), rest[:n])
			rest = rest[n:]
			b.work()
			slice.Next()
		}
	}
}

// work runs the waiting tasks.
func (b *mailbox) work() {
	for _, t := range b.takeTasks() {
		b.perform(t)
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
		for _, t := range b.tasks {
			t.drop()
		}
		b.letters, b.arena, b.tasks = nil, nil, nil
		close(b.wake)
	}
}

func (b *mailbox) count() uint64 {
	shed, _, _ := b.numbers()
	return shed
}

// numbers returns how many items were dropped so far, and how many packets and calls wait.
func (b *mailbox) numbers() (shed uint64, packets, calls int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.shed, len(b.letters), len(b.tasks)
}

// PacketIn accepts a packet of the slow path. It copies what it keeps and does not wait.
func (u *Unit) PacketIn(p *cube.PacketIn) { u.mail.offer(p, false) }

// Notify accepts a message of the cube's programs. It copies what it keeps and does not wait.
func (u *Unit) Notify(kind uint32, data []byte) {
	u.mail.offer(&cube.PacketIn{Metadata: [4]uint32{kind}, Data: data}, true)
}

// LogLine writes a line that the cube's programs logged.
func (u *Unit) LogLine(level datapath.LogLevel, msg string) {
	u.env.log.Log(context.Background(), SlowLevel(level), msg)
}

// Post queues a call of the cube's code, which runs before packets.
func (u *Unit) Post(t Task) { u.mail.post(t) }

// Shed is how many packets and messages were not handled, because the queue was full or the code panicked.
func (u *Unit) Shed() uint64 { return u.mail.count() }

// Queued returns Shed, and how many packets and calls wait.
func (u *Unit) Queued() (shed uint64, packets, calls int) { return u.mail.numbers() }

// deliver passes a batch to the cube in one turn.
func (u *Unit) deliver(ctx context.Context, batch []letter) {
	if u.degraded.Load() != nil || u.EnterGate(ctx) != nil {
		u.mail.drop(len(batch))
		return
	}
	defer u.LeaveGate()
	if u.Enter(ctx) != nil {
		u.mail.drop(len(batch))
		return
	}
	defer u.Leave()
	defer u.handlers.Since(time.Now())
	watch := time.AfterFunc(u.Patience, func() { _ = u.hang() }) // the error has been logged
	defer watch.Stop()
	packetIn, notify := u.inst.PacketIn, u.inst.Notify
	what, done := "", 0
	err := Guard(func() error {
		for i := range batch {
			switch l := &batch[i]; {
			case l.notice && notify != nil:
				what = "Notify"
				notify(l.Metadata[0], l.Data)
			case !l.notice && packetIn != nil:
				what = "PacketIn"
				packetIn(&l.PacketIn)
			default:
				u.mail.drop(1)
			}
			done++
		}
		return nil
	})
	if err != nil {
		_ = u.judge(what, u.logPanic(err)) // nobody waits for an answer
		u.mail.drop(len(batch) - done)
	}
}

// perform runs a task in the cube's turn.
func (u *Unit) perform(t Task) {
	ctx := context.Background()
	err := u.EnterGate(ctx)
	if err == nil {
		err = u.Handle(ctx, t.What, func() error { t.Run(); return nil })
		u.LeaveGate()
	}
	if err != nil {
		t.drop() // a panic has been logged, and the sender needs no more
	}
}
