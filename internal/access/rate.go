// SPDX-License-Identifier: Apache-2.0

package access

import (
	"fmt"
	"sync"
	"time"
)

// How often each client may ask: token buckets, one for each client that was seen lately.
// And how much of something each may hold at a time.

// maxClients bounds the buckets; beyond it, new clients share one.
const maxClients = 4096

// bucket is full at its zero value: what was taken flows back with time.
type bucket struct {
	used float64
	at   time.Time
}

// take takes one, if there is one left.
func (b *bucket) take(now time.Time, rate, burst float64) bool {
	b.flow(now, rate)
	if b.used+1 > burst {
		return false
	}
	b.used++
	return true
}

func (b *bucket) flow(now time.Time, rate float64) {
	if passed := now.Sub(b.at).Seconds(); passed > 0 {
		b.used = max(0, b.used-passed*rate)
		b.at = now
	}
}

// Rate bounds the requests of each client.
type Rate struct {
	rate, burst float64

	mu      sync.Mutex
	clients map[string]*bucket
	others  bucket
}

// NewRate allows each client so many requests a second, and so many at once.
func NewRate(rate, burst float64) *Rate {
	return &Rate{rate: rate, burst: burst, clients: map[string]*bucket{}}
}

// Take counts a request of a client. When it has to wait, it says how long.
func (r *Rate) Take(client string, now time.Time) (wait time.Duration, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	b := r.clients[client]
	if b == nil {
		b = r.admit(client, now)
	}
	if b.take(now, r.rate, r.burst) {
		return 0, true
	}
	return time.Duration((b.used + 1 - r.burst) / r.rate * float64(time.Second)), false
}

// admit makes a bucket, after it forgot those that are full again.
func (r *Rate) admit(client string, now time.Time) *bucket {
	if len(r.clients) >= maxClients {
		for key, b := range r.clients {
			if b.flow(now, r.rate); b.used == 0 {
				delete(r.clients, key)
			}
		}
	}
	if len(r.clients) >= maxClients {
		return &r.others
	}
	b := &bucket{at: now}
	r.clients[client] = b
	return b
}

// Slots bounds what is held at a time, by all clients and by each.
type Slots struct {
	all, each int

	mu   sync.Mutex
	held int
	by   map[string]int
}

// NewSlots has so many slots, and so many of them for one client at most.
func NewSlots(all, each int) *Slots { return &Slots{all: all, each: each, by: map[string]int{}} }

// Enter takes a slot for a client. The error says what there is too much of.
func (s *Slots) Enter(client string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.held >= s.all:
		return fmt.Errorf("%d are under way", s.all)
	case s.by[client] >= s.each:
		return fmt.Errorf("%d of %s are under way", s.each, client)
	}
	s.held++
	s.by[client]++
	return nil
}

// Leave gives a client's slot back.
func (s *Slots) Leave(client string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.held--
	if s.by[client]--; s.by[client] == 0 {
		delete(s.by, client)
	}
}
