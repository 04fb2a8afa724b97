// SPDX-License-Identifier: Apache-2.0

package neigh

import (
	"container/heap"
	"math"
	"time"
)

// never is later than anything.
const never = time.Duration(math.MaxInt64)

// heapOf orders entries by the time of their next action.
type heapOf[P any] []*entry[P]

func (h heapOf[P]) Len() int           { return len(h) }
func (h heapOf[P]) Less(i, j int) bool { return h[i].at < h[j].at }
func (h heapOf[P]) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].place, h[j].place = i, j
}

// Push and Pop implement heap.Interface.
func (h *heapOf[P]) Push(x any) {
	e := x.(*entry[P])
	e.place = len(*h)
	*h = append(*h, e)
}

// Pop removes the last element.
func (h *heapOf[P]) Pop() any {
	last := len(*h) - 1
	e := (*h)[last]
	(*h)[last] = nil
	*h = (*h)[:last]
	e.place = -1
	return e
}

// schedule sets when an entry is due.
func (t *Table[P]) schedule(e *entry[P], at time.Duration) {
	e.at = at
	switch {
	case e.place >= 0 && at == never:
		heap.Remove(&t.due, e.place)
	case e.place >= 0:
		heap.Fix(&t.due, e.place)
	case at != never:
		heap.Push(&t.due, e)
	}
}

// Next returns when Tick is due; false if it never is.
func (t *Table[P]) Next() (time.Duration, bool) {
	if len(t.due) == 0 {
		return 0, false
	}
	return t.due[0].at, true
}

// Tick does the work that is due.
func (t *Table[P]) Tick(now time.Duration) {
	for len(t.due) > 0 && t.due[0].at <= now {
		t.expire(t.due[0], now)
	}
}
