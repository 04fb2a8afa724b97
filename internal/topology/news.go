// SPDX-License-Identifier: Apache-2.0

package topology

// Cubes hear of changes around them by their mailboxes, when the transaction is over. Who asked for the change gets the
// answer when they have: a bridge that still knows addresses behind a port that was just disconnected would surprise.

import (
	"sync"
	"time"
)

// newsTimeout bounds how long an answer waits for the cubes to hear of the change.
const newsTimeout = time.Second

// news is what living cubes have been told and have not heard yet.
type news struct {
	mu      sync.Mutex
	pending map[chan struct{}]bool
}

// tell has a cube's code called by its mailbox.
func (n *news) tell(u *unit, what string, call func()) {
	done := make(chan struct{})
	n.mu.Lock()
	if n.pending == nil {
		n.pending = map[chan struct{}]bool{}
	}
	n.pending[done] = true
	n.mu.Unlock()
	heard := sync.OnceFunc(func() {
		n.mu.Lock()
		delete(n.pending, done)
		n.mu.Unlock()
		close(done)
	})
	u.post(task{what: what, run: func() { defer heard(); call() }, dropped: heard})
}

// heard waits until the cubes have heard what was told before, for a while: one whose code is slow must not stop others.
func (n *news) heard() {
	n.mu.Lock()
	var list []chan struct{}
	for done := range n.pending {
		list = append(list, done)
	}
	n.mu.Unlock()
	if len(list) == 0 {
		return
	}
	timer := time.NewTimer(newsTimeout)
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
