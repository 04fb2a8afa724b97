// SPDX-License-Identifier: Apache-2.0

// Package tally counts events in the daemon, and measures durations. Counting code does not know its readers, so the
// layers below the API need no monitoring library.
//
// A nil counter counts nothing: a part of the daemon without a reader needs no check for it.
package tally

import (
	"maps"
	"math"
	"sync"
	"sync/atomic"
	"time"
)

// Bounds in seconds for durations from a tenth of a millisecond to ten seconds.
var Bounds = []float64{0.0001, 0.0003, 0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1, 3, 10}

// Histogram counts values in buckets. Its methods may be called concurrently.
type Histogram struct {
	bounds []float64
	counts []atomic.Uint64 // one more than bounds, for larger values
	sum    atomic.Uint64   // the bits of a float64
}

// NewHistogram creates a histogram with the upper bounds of its buckets, in ascending order; without any, it has
// [Bounds].
func NewHistogram(bounds ...float64) *Histogram {
	if len(bounds) == 0 {
		bounds = Bounds
	}
	return &Histogram{bounds: bounds, counts: make([]atomic.Uint64, len(bounds)+1)}
}

// Observe counts one value.
func (h *Histogram) Observe(v float64) {
	if h == nil {
		return
	}
	i := 0
	for i < len(h.bounds) && v > h.bounds[i] {
		i++
	}
	for {
		old := h.sum.Load()
		if h.sum.CompareAndSwap(old, math.Float64bits(math.Float64frombits(old)+v)) {
			break
		}
	}
	h.counts[i].Add(1)
}

// Since counts the seconds since a time.
func (h *Histogram) Since(t time.Time) { h.Observe(time.Since(t).Seconds()) }

// Snapshot is the content of a histogram at one moment.
type Snapshot struct {
	// Bounds are the buckets' upper bounds, Cumulative the number of values up to each.
	Bounds     []float64
	Cumulative []uint64
	Count      uint64
	Sum        float64
}

// Snapshot reads the histogram; that of nil is empty.
func (h *Histogram) Snapshot() Snapshot {
	if h == nil {
		return Snapshot{}
	}
	s := Snapshot{Bounds: h.bounds, Cumulative: make([]uint64, len(h.bounds))}
	for i := range h.counts {
		s.Count += h.counts[i].Load()
		if i < len(h.bounds) {
			s.Cumulative[i] = s.Count
		}
	}
	s.Sum = math.Float64frombits(h.sum.Load())
	return s
}

// Counters are counters by a label with few values. The zero value is ready to use.
type Counters struct {
	mu    sync.Mutex
	count map[string]uint64
}

// Add increments the counter of a label.
func (c *Counters) Add(label string) {
	if c == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.count == nil {
		c.count = map[string]uint64{}
	}
	c.count[label]++
}

// Snapshot reads all of them.
func (c *Counters) Snapshot() map[string]uint64 {
	if c == nil {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return maps.Clone(c.count)
}
