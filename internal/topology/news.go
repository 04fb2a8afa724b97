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

// news is what cubes have not heard yet.
type news struct {
	mu      sync.Mutex
	pending map[chan struct{}]bool
}

// tell has a cube's code called by its mailbox.
func (m *Manager) tell(u *unit, what string, call func()) {
	done := make(chan struct{})
	m.news.mu.Lock()
	if m.news.pending == nil {
		m.news.pending = map[chan struct{}]bool{}
	}
	m.news.pending[done] = true
	m.news.mu.Unlock()
	heard := sync.OnceFunc(func() {
		m.news.mu.Lock()
		delete(m.news.pending, done)
		m.news.mu.Unlock()
		close(done)
	})
	u.mail.post(task{what: what, run: func() { defer heard(); call() }, dropped: heard})
}

// heard waits until the cubes have heard what was told before, for a while: one whose code is slow must not stop others.
func (m *Manager) heard() {
	m.news.mu.Lock()
	var list []chan struct{}
	for done := range m.news.pending {
		list = append(list, done)
	}
	m.news.mu.Unlock()
	if len(list) == 0 {
		return
	}
	timer := time.NewTimer(newsTimeout)
	defer timer.Stop()
	for _, done := range list {
		select {
		case <-done:
		case <-timer.C: // nobody waits for those again
			m.news.mu.Lock()
			defer m.news.mu.Unlock()
			for _, late := range list {
				delete(m.news.pending, late)
			}
			return
		}
	}
}
