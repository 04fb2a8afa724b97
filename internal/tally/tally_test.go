// SPDX-License-Identifier: Apache-2.0

package tally

import (
	"reflect"
	"sync"
	"testing"
)

// TestHistogram: a value on a bound is in its bucket, one above all counts only in the total.
func TestHistogram(t *testing.T) {
	h := NewHistogram(1, 2, 4)
	for _, v := range []float64{0.5, 1, 1.5, 4, 9} {
		h.Observe(v)
	}
	want := Snapshot{Bounds: []float64{1, 2, 4}, Cumulative: []uint64{2, 3, 4}, Count: 5, Sum: 16}
	if got := h.Snapshot(); !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, want %+v", got, want)
	}
}

// TestTogether: nothing is lost when many count at once.
func TestTogether(t *testing.T) {
	h, c := NewHistogram(), &Counters{}
	var done sync.WaitGroup
	for range 8 {
		done.Go(func() {
			for range 1000 {
				h.Observe(0.5)
				c.Add("a")
			}
		})
	}
	done.Wait()
	if s := h.Snapshot(); s.Count != 8000 || s.Sum != 4000 {
		t.Errorf("the histogram has %d values of sum %v, want 8000 of 4000", s.Count, s.Sum)
	}
	if got := c.Snapshot()["a"]; got != 8000 {
		t.Errorf("counted %d, want 8000", got)
	}
}

// TestNobodyWatches: what is nil counts nothing and is empty.
func TestNobodyWatches(t *testing.T) {
	var h *Histogram
	var c *Counters
	h.Observe(1)
	c.Add("a")
	if s, n := h.Snapshot(), c.Snapshot(); s.Count != 0 || len(n) != 0 {
		t.Errorf("%+v and %v, want nothing", s, n)
	}
}
