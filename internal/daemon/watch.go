// SPDX-License-Identifier: Apache-2.0

package daemon

import (
	"context"
	"sync"
	"time"

	"github.com/polycube/polycube/internal/netdev"
)

// Events of network devices are queued while the previous ones are handled, and are passed on together: a burst of
// events becomes one change of the data plane.

// eventQueue holds events until they are taken.
type eventQueue struct {
	mu     sync.Mutex
	events []netdev.Event
	// some holds a token while there are events.
	some chan struct{}
}

func newEventQueue() *eventQueue { return &eventQueue{some: make(chan struct{}, 1)} }

// put never waits: the kernel drops events that are not read in time.
func (q *eventQueue) put(e netdev.Event) {
	q.mu.Lock()
	q.events = append(q.events, e)
	q.mu.Unlock()
	select {
	case q.some <- struct{}{}:
	default:
	}
}

func (q *eventQueue) take() []netdev.Event {
	q.mu.Lock()
	defer q.mu.Unlock()
	events := q.events
	q.events = nil
	return events
}

// run passes on the queued events until ctx ends.
func (q *eventQueue) run(ctx context.Context, fn func([]netdev.Event)) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-q.some:
			fn(q.take())
		}
	}
}

// startWatch reports network devices to the manager. A watch that fails is restarted: it starts by listing all
// devices, so nothing is missed.
func (d *daemon) startWatch(ctx context.Context) error {
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	queue := newEventQueue()
	var done sync.WaitGroup
	done.Go(func() { queue.run(ctx, d.manager.NetdevEvents) })
	done.Go(func() {
		for ctx.Err() == nil {
			if err := d.parts.watch(ctx, queue.put); err != nil && ctx.Err() == nil {
				d.log.Error("watch network devices, trying again", "err", err)
			}
			select {
			case <-ctx.Done():
			case <-time.After(watchRetry):
			}
		}
	})
	d.undo = append(d.undo, func() error {
		cancel()
		done.Wait()
		return nil
	})
	return nil
}
