// SPDX-License-Identifier: Apache-2.0

package ddosmitigator

// Entries whose lifetime is over. The program ignores them at once; the control plane removes them from the configuration.

import (
	"container/heap"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/cube/author"
)

// dueEntry is an entry of a list that expires.
type dueEntry struct {
	at   uint64 // pcn_time_coarse()
	key  prefix
	list int
}

// dueQueue is a heap of entries that expire. Those that were changed or removed meanwhile are recognized when they are due.
type dueQueue []dueEntry

func (q *dueQueue) push(e dueEntry) { heap.Push((*dueHeap)(q), e) }
func (q *dueQueue) pop() dueEntry   { return heap.Pop((*dueHeap)(q)).(dueEntry) }

// dueHeap implements heap.Interface.
type dueHeap []dueEntry

func (h dueHeap) Len() int           { return len(h) }
func (h dueHeap) Less(i, j int) bool { return h[i].at < h[j].at }
func (h dueHeap) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *dueHeap) Push(e any)        { *h = append(*h, e.(dueEntry)) }
func (h *dueHeap) Pop() any {
	last := len(*h) - 1
	e := (*h)[last]
	*h = (*h)[:last]
	return e
}

// together is how many entries are removed in one change: other changes wait for it.
const together = 10_000

// expire requests the removal of entries whose lifetime is over.
func (p *prefixes) expire() error {
	now, err := cube.TimeCoarse()
	if err != nil || p.expiring || len(p.due) == 0 || p.due[0].at > now {
		return err
	}
	p.expiring = true
	author.EditLater(p.env, p.expired, p.ended)
	return nil
}

// expired returns the edits that remove entries whose lifetime is over, at the time of the change: until then, an entry may
// have been changed.
func (p *prefixes) expired() ([]cube.Edit, error) {
	now, err := cube.TimeCoarse()
	if err != nil {
		return nil, err
	}
	var edits []cube.Edit
	for len(p.due) > 0 && p.due[0].at <= now && len(edits) < together {
		d := p.due.pop()
		e, ok, err := p.entries.Get(d.key)
		if err != nil {
			p.removing = append(p.removing, d)
			return nil, err
		}
		if ok && e.Lists&(1<<d.list) != 0 && e.Expires[d.list] == d.at {
			p.removing = append(p.removing, d)
			edits = append(edits, cube.Edit{Delete: true, Path: []string{listNames[d.list], d.key.address().String()}})
		}
	}
	return edits, nil
}

// ended is called when entries have been removed, or not: then they are removed later.
func (p *prefixes) ended(err error) {
	if err != nil {
		p.env.Logger().Error("remove expired entries", "entries", len(p.removing), "error", err)
		for _, d := range p.removing {
			p.due.push(d)
		}
	}
	p.expiring, p.removing = false, nil
}
