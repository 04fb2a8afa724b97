// SPDX-License-Identifier: Apache-2.0

// Package trace shows what happens to packets: which cubes drop them and why, and what each cube on their path did
// with them.
package trace

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/internal/datapath"
)

// Framework is the name for drops outside any cube.
const Framework = "framework"

// Drop is a drop reason of a cube.
type Drop struct {
	Cube    string `json:"cube"`
	Reason  string `json:"reason"`
	Packets uint64 `json:"packets"`
	// PerSecond is the rate over the last one to two seconds, at least 1 if there was any.
	PerSecond uint64 `json:"per-second"`
	// First is when the daemon saw the first packet, Last the last one; nil for drops before it started. Both are as
	// exact as the sampling interval.
	First *time.Time `json:"first,omitempty"`
	Last  *time.Time `json:"last,omitempty"`
}

// Counters is the source of drop counters: *topology.Manager.
type Counters interface {
	// CubeNames lists the cubes in display order.
	CubeNames() []string
	// Fates of a cube; an error for a deleted one.
	Fates(cube string) ([]datapath.Fate, error)
	// FrameworkFates are those of packets outside any cube.
	FrameworkFates() ([]datapath.Fate, error)
}

// sampleEvery is how often counters are read, for rates and times.
const sampleEvery = time.Second

// Drops samples the drop counters. Sampling reads one map row for each cube.
type Drops struct {
	from Counters
	now  func() time.Time

	mu   sync.Mutex
	seen map[dropKey]*history
	// begun is false until the first sample: earlier drops are from before the start.
	begun bool
}

type dropKey struct{ cube, reason string }

// history of one counter: its value at the last two samples, and when it changed.
type history struct {
	packets     uint64
	older, last mark
	first, grew *time.Time
}

// mark is a counter value at a time.
type mark struct {
	packets uint64
	at      time.Time
}

// NewDrops creates a sampler without samples. now is the clock, time.Now if nil.
func NewDrops(from Counters, now func() time.Time) *Drops {
	if now == nil {
		now = time.Now
	}
	return &Drops{from: from, now: now, seen: map[dropKey]*history{}}
}

// Run samples until ctx ends.
func (d *Drops) Run(ctx context.Context) {
	d.Sample()
	t := time.NewTicker(sampleEvery)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
			d.Sample()
		}
	}
}

// Sample reads all counters once, and moves the window of the rates.
func (d *Drops) Sample() {
	d.mu.Lock()
	defer d.mu.Unlock()
	now := d.now()
	alive := map[string]bool{Framework: true}
	for _, name := range d.from.CubeNames() {
		alive[name] = true
		if fates, err := d.from.Fates(name); err == nil {
			d.note(name, fates, now)
		}
	}
	if fates, err := d.from.FrameworkFates(); err == nil {
		d.note(Framework, fates, now)
	}
	for key, h := range d.seen {
		if !alive[key.cube] {
			delete(d.seen, key)
			continue
		}
		h.older, h.last = h.last, mark{h.packets, now}
	}
	d.begun = true
}

// note updates the counters of a cube.
func (d *Drops) note(name string, fates []datapath.Fate, now time.Time) {
	for _, f := range fates {
		if !f.Drop {
			continue
		}
		key := dropKey{name, f.Name}
		h := d.seen[key]
		if h != nil && f.Packets < h.packets {
			h = nil // another cube of the same name
		}
		if h == nil {
			if f.Packets == 0 {
				delete(d.seen, key)
				continue
			}
			h = &history{}
			d.seen[key] = h
			if !d.begun {
				h.packets = f.Packets
				h.older, h.last = mark{f.Packets, now}, mark{f.Packets, now}
				continue
			}
			h.first = &now
			h.older = mark{0, now.Add(-sampleEvery)}
			h.last = h.older
		}
		if f.Packets > h.packets {
			h.packets, h.grew = f.Packets, &now
		}
	}
}

// Report lists the drops of one cube, or of all and the framework if name is "": cubes in their order, the most
// frequent reason first.
func (d *Drops) Report(name string) ([]Drop, error) {
	names := append(d.from.CubeNames(), Framework)
	if name != "" {
		if !slices.Contains(names, name) {
			return nil, fmt.Errorf("cube %.80s: %w", name, cube.ErrNotFound)
		}
		names = []string{name}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	now := d.now()
	out := []Drop{}
	for _, n := range names {
		fates, err := d.read(n)
		if err != nil {
			continue // the cube was deleted meanwhile
		}
		d.note(n, fates, now)
		at := len(out)
		for _, f := range fates {
			if h := d.seen[dropKey{n, f.Name}]; f.Drop && h != nil && f.Packets > 0 {
				out = append(out, Drop{Cube: n, Reason: f.Name, Packets: f.Packets,
					PerSecond: h.rate(now), First: h.first, Last: h.grew})
			}
		}
		slices.SortStableFunc(out[at:], func(a, b Drop) int { return cmp.Compare(b.Packets, a.Packets) })
	}
	return out, nil
}

func (d *Drops) read(name string) ([]datapath.Fate, error) {
	if name == Framework {
		return d.from.FrameworkFates()
	}
	return d.from.Fates(name)
}

// rate is per second, over the time since the sample before the last.
func (h *history) rate(now time.Time) uint64 {
	n, took := h.packets-h.older.packets, now.Sub(h.older.at)
	if n == 0 || took <= 0 {
		return 0
	}
	return max(1, uint64(float64(n)/took.Seconds()+0.5))
}
