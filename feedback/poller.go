// SPDX-License-Identifier: Apache-2.0

package feedback

// When agents are asked. One goroutine keeps the times of all agents; a poll has a goroutine of its own while it lasts, and the
// number of those is limited.

import (
	"container/heap"
	"context"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"sync"
	"time"
)

const (
	// together is how many polls may be under way at the same time.
	together = 64
	// jitter is the part of the interval by which a poll may start earlier.
	jitter = 10 // percent
	// spread is the time within which the first polls of agents start.
	spread = time.Second
)

// Answer is the result of a poll.
type Answer[K comparable] struct {
	Key     K
	Reading Reading
	Err     error
	At      time.Time
}

// Stats are totals of a Poller.
type Stats struct{ Polls, Failed uint64 }

// collector asks an agent. Calls do not overlap.
type collector interface {
	poll(ctx context.Context) (Reading, error)
}

// Endpoint is an agent, and how it is asked.
type Endpoint struct {
	conf Config
	at   netip.AddrPort
	// Secrets is the directory of secrets; SecretsDir if empty.
	Secrets string
}

// Agent returns the agent of a server, at the server's own address unless `address` is valid.
func (c *Config) Agent(server netip.AddrPort, address netip.Addr) Endpoint {
	return Endpoint{conf: *c, at: c.target(server, address)}
}

func (t *Endpoint) collector() collector {
	switch t.conf.Method {
	case SNMP:
		dir := t.Secrets
		if dir == "" {
			dir = SecretsDir
		}
		return &snmp{at: t.at, conf: t.conf.SNMP, ratios: t.conf.Ratios, full: t.conf.Processes, secrets: dir}
	case HTTP:
		return &web{at: t.at, conf: t.conf.HTTP}
	case Agent, None:
	}
	return &agent{at: t.at}
}

// polled is an agent.
type polled[K comparable] struct {
	key    K
	target Endpoint
	ask    collector
	due    time.Time
	index  int // in the heap; -1: it is not there
	gone   bool
}

// Poller asks agents for their load. Its methods may be called concurrently.
type Poller[K comparable] struct {
	ctx    context.Context
	cancel context.CancelFunc
	wake   chan struct{}
	places chan struct{}
	work   sync.WaitGroup

	mu      sync.Mutex // guards what follows
	all     map[K]*polled[K]
	times   times[K]
	answers []Answer[K]
	stats   Stats
}

// NewPoller starts a Poller without agents.
func NewPoller[K comparable]() *Poller[K] {
	p := &Poller[K]{wake: make(chan struct{}, 1), places: make(chan struct{}, together), all: map[K]*polled[K]{}}
	p.ctx, p.cancel = context.WithCancel(context.Background())
	p.work.Add(1)
	go p.run()
	return p
}

// Set adds an agent, or changes how it is asked. One that stays as it is keeps its time.
func (p *Poller[K]) Set(k K, t Endpoint) {
	p.mu.Lock()
	defer p.mu.Unlock()
	is := p.all[k]
	if is != nil && is.target == t {
		return
	}
	if is != nil {
		p.drop(is)
	}
	within := min(spread, t.conf.interval())
	is = &polled[K]{key: k, target: t, ask: t.collector(), index: -1}
	is.due = time.Now().Add(rand.N(within)) //nolint:gosec // spreads polls
	p.all[k] = is
	heap.Push(&p.times, is)
	p.poke()
}

// Remove ends the polls of an agent, if it is there. There are no answers of it any more.
func (p *Poller[K]) Remove(k K) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if is := p.all[k]; is != nil {
		p.drop(is)
	}
}

// drop removes an agent. The caller holds mu.
func (p *Poller[K]) drop(is *polled[K]) {
	is.gone = true
	delete(p.all, is.key)
	if is.index >= 0 {
		heap.Remove(&p.times, is.index)
	}
	kept := p.answers[:0]
	for _, a := range p.answers {
		if a.Key != is.key {
			kept = append(kept, a)
		}
	}
	p.answers = kept
}

// Take returns the answers since the last call.
func (p *Poller[K]) Take() []Answer[K] {
	p.mu.Lock()
	defer p.mu.Unlock()
	out := p.answers
	p.answers = nil
	return out
}

// Stats returns totals.
func (p *Poller[K]) Stats() Stats {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.stats
}

// Close ends all polls and waits for them.
func (p *Poller[K]) Close() {
	p.cancel()
	p.work.Wait()
}

func (p *Poller[K]) poke() {
	select {
	case p.wake <- struct{}{}:
	default: // it is woken already
	}
}

// run starts polls when they are due.
func (p *Poller[K]) run() {
	defer p.work.Done()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		wait := p.startDue()
		timer.Reset(wait)
		select {
		case <-timer.C:
		case <-p.wake:
		case <-p.ctx.Done():
			return
		}
	}
}

// startDue starts the polls that are due, as far as there are places, and returns when to look again.
func (p *Poller[K]) startDue() time.Duration {
	const forever = time.Hour
	for {
		select {
		case p.places <- struct{}{}:
		default:
			return forever // the end of a poll wakes it
		}
		p.mu.Lock()
		if len(p.times) == 0 {
			p.mu.Unlock()
			<-p.places
			return forever
		}
		if wait := time.Until(p.times[0].due); wait > 0 {
			p.mu.Unlock()
			<-p.places
			return wait
		}
		is := heap.Pop(&p.times).(*polled[K])
		p.mu.Unlock()
		p.work.Add(1)
		go p.ask(is)
	}
}

// ask polls an agent and says when it is polled again.
func (p *Poller[K]) ask(is *polled[K]) {
	defer p.work.Done()
	start := time.Now()
	reading, err := pollSafely(p.ctx, is)
	<-p.places
	defer p.poke()
	p.mu.Lock()
	defer p.mu.Unlock()
	if is.gone || p.ctx.Err() != nil {
		return
	}
	p.stats.Polls++
	if err != nil {
		p.stats.Failed++
	}
	interval := is.target.conf.interval()
	is.due = start.Add(interval - rand.N(interval*jitter/100+1)) //nolint:gosec // spreads polls
	heap.Push(&p.times, is)
	p.answers = append(p.answers, Answer[K]{Key: is.key, Reading: reading, Err: err, At: time.Now()})
}

// pollSafely asks an agent within its time. What an agent sends reaches libraries, and must not end the daemon.
func pollSafely[K comparable](ctx context.Context, is *polled[K]) (r Reading, err error) {
	ctx, cancel := context.WithTimeout(ctx, time.Duration(is.target.conf.Timeout)*time.Millisecond)
	defer cancel()
	defer func() {
		if p := recover(); p != nil {
			r, err = Reading{}, fmt.Errorf("the answer of the agent cannot be parsed: %v", p)
		}
	}()
	return is.ask.poll(ctx)
}

// times is a heap of agents, the one that is due first at its top.
type times[K comparable] []*polled[K]

func (t times[K]) Len() int           { return len(t) }
func (t times[K]) Less(i, j int) bool { return t[i].due.Before(t[j].due) }
func (t times[K]) Swap(i, j int) {
	t[i], t[j] = t[j], t[i]
	t[i].index, t[j].index = i, j
}

// Push implements heap.Interface.
func (t *times[K]) Push(x any) {
	is := x.(*polled[K])
	is.index = len(*t)
	*t = append(*t, is)
}

// Pop implements heap.Interface.
func (t *times[K]) Pop() any {
	all := *t
	is := all[len(all)-1]
	*t = all[:len(all)-1]
	is.index = -1
	return is
}
