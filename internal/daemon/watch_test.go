// SPDX-License-Identifier: Apache-2.0

package daemon

import (
	"context"
	"testing"

	"github.com/polycube/polycube/internal/netdev"
)

func TestEventsThatWaitAreHandedOnTogether(t *testing.T) {
	q := newEventQueue()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	batches, busy := make(chan []netdev.Event), make(chan struct{})
	go q.run(ctx, func(events []netdev.Event) {
		batches <- events
		<-busy
	})
	put := func(from, to int) {
		for i := from; i < to; i++ {
			q.put(netdev.Event{Kind: netdev.Added, Info: netdev.Info{Index: i}})
		}
	}
	put(0, 1)
	first := <-batches
	put(1, 500) // while the first is acted upon
	busy <- struct{}{}
	second := <-batches
	busy <- struct{}{}
	if len(first) != 1 || len(second) != 499 {
		t.Fatalf("batches of %d and %d events, want 1 and 499", len(first), len(second))
	}
	for i, e := range second {
		if e.Info.Index != i+1 {
			t.Fatalf("event %d is of device %d: they are out of order", i, e.Info.Index)
		}
	}
}
