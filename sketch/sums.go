// SPDX-License-Identifier: Apache-2.0

package sketch

// Count-min sketches: sums and rates by key.

import (
	"math"
	"math/bits"
	"sync/atomic"
	"time"
)

const (
	rows = 4
	// bitsOfRow are the bits of the hash that choose the column of a row.
	bitsOfRow = 16
)

// Sums are the counters of a PCN_SKETCH, such as those that table.NewMapped[uint64] maps into memory.
type Sums []uint64

// Of returns the sum of a key, by its hash: what pcn_sketch_add returns.
func (s Sums) Of(hash uint64) uint64 {
	least := uint64(math.MaxUint64)
	for row := range rows {
		least = min(least, atomic.LoadUint64(&s[column(len(s), row, hash)]))
	}
	return least
}

// Add does what pcn_sketch_add does.
func (s Sums) Add(hash, amount uint64) uint64 {
	least := uint64(math.MaxUint64)
	for row := range rows {
		least = min(least, atomic.AddUint64(&s[column(len(s), row, hash)], amount))
	}
	return least
}

// Clear starts again from zero. What programs add meanwhile may be lost or stay.
func (s Sums) Clear() {
	for i := range s {
		atomic.StoreUint64(&s[i], 0)
	}
}

// column is the index of the counter of a hash in a row.
func column(counters, row int, hash uint64) int {
	columns := counters / rows
	return row*columns + int(hash>>(bitsOfRow*row))&(columns-1)
}

// Surplus returns by how much an estimate may exceed the true value, with a probability of 98 % (1 - e^-4), if programs have
// added total to a sketch with a number of columns: e/columns of it (Cormode and Muthukrishnan, 2005, theorem 1).
func Surplus(columns int, total uint64) uint64 {
	return uint64(math.Ceil(math.E / float64(columns) * float64(total)))
}

const (
	window     = 30 // log2 of its ns
	amountBits = 40
	numberMask = 1<<(64-amountBits) - 1
	amountMask = 1<<amountBits - 1
	ahead      = 4
)

// Window is the time that rates are for.
const Window = time.Duration(1) << window

// PerWindow converts a rate per second to one that programs compare, rounded up.
func PerWindow(perSecond uint64) uint64 {
	return scaled(perSecond, uint64(Window), uint64(time.Second))
}

// PerSecond converts the rate that programs return to one per second, rounded up.
func PerSecond(perWindow uint64) uint64 {
	return scaled(perWindow, uint64(time.Second), uint64(Window))
}

// scaled is n*to/by, rounded up; at most the largest number.
func scaled(n, to, by uint64) uint64 {
	high, low := bits.Mul64(n, to)
	low, carry := bits.Add64(low, by-1, 0)
	if high += carry; high >= by {
		return math.MaxUint64
	}
	q, _ := bits.Div64(high, low, by)
	return q
}

// Windows is a counter of a sketch of rates: struct pcn_sketch_windows.
type Windows struct{ Of [2]uint64 }

// Rates are the counters of a PCN_SKETCH_RATES, such as those that table.NewMapped[Windows] maps into memory.
type Rates []Windows

// Of returns the rate of a key by its hash; now is the clock that programs use. PerSecond converts it.
func (r Rates) Of(hash uint64, now uint64) uint64 { return r.each(hash, now, (*Windows).rate) }

// Add does what pcn_sketch_rate does.
func (r Rates) Add(hash, amount, now uint64) uint64 {
	return r.each(hash, now, func(w *Windows, now uint64) uint64 { return w.add(amount, now) })
}

func (r Rates) each(hash, now uint64, of func(*Windows, uint64) uint64) uint64 {
	least := uint64(math.MaxUint64)
	for row := range rows {
		least = min(least, of(&r[column(len(r), row, hash)], now))
	}
	return least
}

// add is pcn_sketch_window.
func (w *Windows) add(amount, now uint64) uint64 {
	number := now >> window & numberMask
	word := &w.Of[number&1]
	was := atomic.LoadUint64(word)
	if is := was >> amountBits; is != number {
		if was != 0 && (is-number)&numberMask <= ahead {
			return was & amountMask
		}
		atomic.CompareAndSwapUint64(word, was, number<<amountBits)
	}
	atomic.AddUint64(word, amount)
	return w.rate(now)
}

// rate is what was added in the last window.
func (w *Windows) rate(now uint64) (sum uint64) {
	number := now >> window & numberMask
	if is := atomic.LoadUint64(&w.Of[number&1]); is>>amountBits == number {
		sum = is & amountMask
	}
	if before := atomic.LoadUint64(&w.Of[^number&1]); before>>amountBits == (number-1)&numberMask {
		left := uint64(Window) - now&(uint64(Window)-1)
		sum += before & amountMask * (left >> (window - 10)) >> 10
	}
	return sum
}
