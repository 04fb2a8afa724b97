// SPDX-License-Identifier: Apache-2.0

package health

// A timing wheel: setting, stopping and firing a timer takes constant time. Timers fire at the first tick that is not
// before their time.

import (
	"math/bits"
	"time"
)

const (
	// tick is the resolution. All checks that are due in a tick start together, so a busy thread wakes up 100 times a
	// second, not once for each check.
	tick  = 10 * time.Millisecond
	slots = 1024 // one turn is 10 s; a later timer stays in its slot for several turns
)

// timer is an element of the ring of a slot, or unlinked.
type timer struct {
	prev, next *timer
	at         int64 // tick
	owner      *server
}

func (t *timer) unlink() {
	if t.next != nil {
		t.prev.next, t.next.prev = t.next, t.prev
		t.prev, t.next = nil, nil
	}
}

func (t *timer) insertBefore(head *timer) {
	t.prev, t.next = head.prev, head
	head.prev.next, head.prev = t, t
}

// wheel holds timers. Times are durations since any fixed time.
type wheel struct {
	heads [slots]timer // of rings
	// used has a bit for each slot that may have timers.
	used [slots / 64]uint64
	now  int64 // the last tick whose timers have fired
}

func newWheel() *wheel {
	w := &wheel{}
	for i := range w.heads {
		w.heads[i].prev, w.heads[i].next = &w.heads[i], &w.heads[i]
	}
	return w
}

// set sets a timer, which may be running.
func (w *wheel) set(t *timer, at time.Duration) {
	t.unlink()
	t.at = max(int64((at+tick-1)/tick), w.now+1)
	w.link(t)
}

func (w *wheel) link(t *timer) {
	slot := t.at % slots
	t.insertBefore(&w.heads[slot])
	w.used[slot/64] |= 1 << (slot % 64)
}

// stop stops a timer, which need not run.
func (w *wheel) stop(t *timer) { t.unlink() }

// advance fires the timers up to a time. fire may set and stop any timer.
func (w *wheel) advance(now time.Duration, fire func(*server)) {
	last := int64(now / tick)
	first := max(w.now+1, last-slots+1) // one turn visits every slot
	w.now = max(w.now, last)
	for i := first; i <= last; i++ {
		if slot := i % slots; w.used[slot/64]&(1<<(slot%64)) != 0 {
			w.visit(slot, fire)
		}
	}
}

// visit fires the timers of a slot that are due. Others, of later turns, stay.
func (w *wheel) visit(slot int64, fire func(*server)) {
	var due timer
	due.prev, due.next = &due, &due
	head := &w.heads[slot]
	for t := head.next; t != head; {
		next := t.next
		if t.at <= w.now {
			t.unlink()
			t.insertBefore(&due)
		}
		t = next
	}
	for due.next != &due {
		t := due.next
		t.unlink()
		fire(t.owner)
	}
	if head.next == head {
		w.used[slot/64] &^= 1 << (slot % 64)
	}
}

// next returns when advance is due again: it may be earlier than the next timer, never later. False: there is none.
func (w *wheel) next() (time.Duration, bool) {
	start := (w.now + 1) % slots
	for i := int64(0); i <= slots/64; i++ {
		word := (start/64 + i) % (slots / 64)
		mask := w.used[word]
		switch i {
		case 0:
			mask &= ^uint64(0) << (start % 64)
		case slots / 64: // the word where the search began, now its other part
			mask &^= ^uint64(0) << (start % 64)
		}
		if mask != 0 {
			slot := word*64 + int64(bits.TrailingZeros64(mask))
			return time.Duration(w.now+1+(slot-start+slots)%slots) * tick, true
		}
	}
	return 0, false
}
