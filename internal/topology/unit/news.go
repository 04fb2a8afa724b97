// SPDX-License-Identifier: Apache-2.0

package unit

// Cubes hear of changes around them by their mailboxes, when the transaction is over. Who asked for the change gets the
// answer when they have: a bridge that still knows addresses behind a port that was just disconnected would surprise.

import (
	"sync"
	"time"
)

// NewsTimeout bounds how long an answer waits for the cubes to hear of the change.
const NewsTimeout = time.Second

// News is what living cubes have been told and have not heard yet.
type News struct {
	mu      sync.Mutex
	pending map[chan struct{}]bool
}

// Tell has a cube's code called by its mailbox.
func (n *News) Tell(u *Unit, what string, call func()) {
	done := make(chan struct{})
	n.mu.Lock()
	if n.pending == nil {
		n.pending = map[chan struct{}]bool{}
	}
	n.pending[done] = true
	n.mu.Unlock()
	delivered := sync.OnceFunc(func() {
		n.mu.Lock()
		delete(n.pending, done)
		n.mu.Unlock()
		close(done)
	})
	u.Post(Task{What: what, Run: func() { defer delivered(); call() }, Dropped: delivered})
}

// Wait waits until the cubes have heard what was told before, for a while: one whose code is slow must not stop others.
func (n *News) Wait() {
	n.mu.Lock()
	var list []chan struct{}
	for done := range n.pending {
		list = append(list, done)
	}
	n.mu.Unlock()
	if len(list) == 0 {
		return
	}
	timer := time.NewTimer(NewsTimeout)
	defer timer.Stop()
	for _, done := range list {
		select {
		case <-done:
		case <-timer.C: // nobody waits for those again
			n.mu.Lock()
			defer n.mu.Unlock()
			for _, late := range list {
				delete(n.pending, late)
			}
			return
		}
	}
}
