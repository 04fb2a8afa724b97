// SPDX-License-Identifier: Apache-2.0

package unit

// Cubes are told of changes around them through their mailboxes, after the transaction. The request is answered once
// they have handled that: it would be surprising if a bridge still knew addresses behind a port that was just
// disconnected.

import (
	"sync"
	"time"
)

// NewsTimeout limits how long an answer waits for the cubes to handle the change.
const NewsTimeout = time.Second

// News are the notifications of changes that cubes have not handled yet.
type News struct {
	mu      sync.Mutex
	pending map[chan struct{}]bool
}

// Tell queues a call of a cube's code in its mailbox.
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

// Wait waits until the cubes have handled earlier notifications, with a timeout: a cube whose code is slow must not
// block others.
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
