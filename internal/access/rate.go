// SPDX-License-Identifier: Apache-2.0

package access

import (
	"fmt"
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// Rate limits for clients: token buckets, one for each recently seen client; and limits on how much of something each
// may use at a time.

// maxClients limits the number of buckets; above it, new clients share one.
const maxClients = 4096

// Rate limits the requests of each client.
type Rate struct {
	perSecond rate.Limit
	burst     int

	mu      sync.Mutex
	clients map[string]*rate.Limiter
	others  *rate.Limiter
}

// NewRate allows each client this many requests per second, and this burst.
func NewRate(perSecond, burst float64) *Rate {
	r := &Rate{perSecond: rate.Limit(perSecond), burst: int(burst), clients: map[string]*rate.Limiter{}}
	r.others = r.bucket()
	return r
}

func (r *Rate) bucket() *rate.Limiter { return rate.NewLimiter(r.perSecond, r.burst) }

// Take counts a request of a client. If it must wait, it says how long.
func (r *Rate) Take(client string, now time.Time) (wait time.Duration, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	b := r.clients[client]
	if b == nil {
		b = r.admit(client, now)
	}
	if b.AllowN(now, 1) {
		return 0, true
	}
	return time.Duration((1 - b.TokensAt(now)) / float64(r.perSecond) * float64(time.Second)), false
}

// admit creates a bucket, after removing those that are full again.
func (r *Rate) admit(client string, now time.Time) *rate.Limiter {
	if len(r.clients) >= maxClients {
		for key, b := range r.clients {
			if b.TokensAt(now) >= float64(r.burst) {
				delete(r.clients, key)
			}
		}
	}
	if len(r.clients) >= maxClients {
		return r.others
	}
	b := r.bucket()
	r.clients[client] = b
	return b
}

// Slots limits concurrent use, by all clients and by each.
type Slots struct {
	all, each int

	mu   sync.Mutex
	held int
	by   map[string]int
}

// NewSlots has this many slots, and a maximum for one client.
func NewSlots(all, each int) *Slots { return &Slots{all: all, each: each, by: map[string]int{}} }

// Enter takes a slot for a client. The error says which limit was reached.
func (s *Slots) Enter(client string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.held >= s.all:
		return fmt.Errorf("%d in progress", s.all)
	case s.by[client] >= s.each:
		return fmt.Errorf("%d of %s in progress", s.each, client)
	}
	s.held++
	s.by[client]++
	return nil
}

// Leave releases a client's slot.
func (s *Slots) Leave(client string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.held--
	if s.by[client]--; s.by[client] == 0 {
		delete(s.by, client)
	}
}
