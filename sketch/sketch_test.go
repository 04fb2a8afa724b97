// SPDX-License-Identifier: Apache-2.0

package sketch

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/polycube/polycube/test/repeat"
)

// streams are numbers of packets by key, of shapes that are easy and hard for a sketch.
func streams(rng *rand.Rand) map[string][]uint64 {
	const keys = 20_000
	all := map[string][]uint64{}
	for range keys {
		all["equal"] = append(all["equal"], 10)
		all["random"] = append(all["random"], rng.Uint64N(100))
	}
	for i := range keys {
		all["zipf"] = append(all["zipf"], uint64(100_000/(i+1))+1)
		all["one heavy"] = append(all["one heavy"], map[bool]uint64{true: 1_000_000, false: 1}[i == 0])
		all["spoofed"] = append(all["spoofed"], map[bool]uint64{true: 300, false: 1}[i%1000 == 0])
	}
	return all
}

// keyOf is a key of a stream: addresses one after the other, as a scan has them.
func keyOf(i int) (k Key) {
	copy(k.Address[:], []byte{10: 0xff, 11: 0xff, 12: 10, 13: byte(i >> 16), 14: byte(i >> 8), 15: byte(i)})
	return k
}

// TestSumsHaveTheErrorOfThePaper: none is too small, and not more than 2 % exceed the bound. With 20,000 keys, 3 % would be
// ten standard deviations, if errors of keys were independent; they share counters, so the bound of the test is 4 %.
func TestSumsHaveTheErrorOfThePaper(t *testing.T) {
	rng := rand.New(rand.NewPCG(repeat.Seed(t), 3))
	for name, stream := range streams(rng) {
		for _, columns := range []int{256, 4096} {
			seed, s, total := NewSeed(), make(Sums, rows*columns), uint64(0)
			for i, n := range stream {
				s.Add(seed.Hash(keyOf(i).Address, 0), n)
				total += n
			}
			far := 0
			for i, n := range stream {
				got := s.Of(seed.Hash(keyOf(i).Address, 0))
				if got < n {
					t.Fatalf("%s: key %d has %d, less than the true %d", name, i, got, n)
				}
				if got > n+Surplus(columns, total) {
					far++
				}
			}
			if far > len(stream)/25 {
				t.Errorf("%s, %d columns: %d of %d sums exceed the bound", name, columns, far, len(stream))
			}
			s.Clear()
			if got := s.Of(seed.Hash(keyOf(0).Address, 0)); got != 0 {
				t.Errorf("after Clear, a sum is %d", got)
			}
		}
	}
}

// TestCollisionsForOneSeedAreNoneForAnother: keys that share all counters with a victim, as somebody who knows the seed would
// choose them, do nothing to it with another seed.
func TestCollisionsForOneSeedAreNoneForAnother(t *testing.T) {
	const columns = 16
	known, victim := NewSeed(), Key{}
	place := func(s Seed, k Key) (at [rows]int) {
		for row := range rows {
			at[row] = column(rows*columns, row, s.Hash(k.Address, k.Number))
		}
		return at
	}
	var attack []Key
	for n := uint64(1); len(attack) < 20; n++ {
		if k := (Key{Number: n}); place(known, k) == place(known, victim) {
			attack = append(attack, k)
		}
	}
	const seeds = 50
	hit := 0
	for range seeds {
		other := NewSeed()
		for _, k := range attack {
			if place(other, k) == place(other, victim) {
				hit++
			}
		}
	}
	if hit > 5 { // one of 65,536 pairs collides by chance
		t.Errorf("%d of %d keys collide under other seeds, too", hit, seeds*len(attack))
	}
}

func TestAHashHasAllBitsOfTheKey(t *testing.T) {
	for bit := range 192 {
		var flipped [rows]int
		for range 64 {
			s := NewSeed()
			k := Key{}
			if bit < 128 {
				k.Address[bit/8] ^= 1 << (bit % 8)
			} else {
				k.Number ^= 1 << (bit - 128)
			}
			difference := s.Hash(k.Address, k.Number) ^ s.Hash(Key{}.Address, 0)
			for row := range rows {
				if uint16(difference>>(bitsOfRow*row)) != 0 {
					flipped[row]++
				}
			}
		}
		for row, n := range flipped {
			if n < 60 {
				t.Errorf("bit %d of the key changes row %d of the hash with %d of 64 seeds", bit, row, n)
			}
		}
	}
}

// TestARateFollowsItsStream: a steady one is known exactly, it decays to nothing in two windows, and whoever sends twice the
// limit within a window is above it.
func TestARateFollowsItsStream(t *testing.T) {
	for _, perSecond := range []uint64{1000, 50_000} {
		rates := make(Rates, rows*256)
		hash := NewSeed().Hash(keyOf(1).Address, 0)
		gap := uint64(time.Second) / perSecond
		now, last := uint64(3*time.Hour), uint64(0)
		for start := now; now < start+uint64(5*time.Second); now += gap {
			last = rates.Add(hash, 1, now)
			if passed := now - start; passed > 2*uint64(Window) {
				if got := PerSecond(last); got < perSecond*98/100-2 || got > perSecond*102/100+2 {
					t.Fatalf("%d per second are taken for %d after %s", perSecond, got, time.Duration(passed))
				}
			}
		}
		if got := rates.Of(hash, now+uint64(Window)/2); got >= last {
			t.Errorf("half a window later the rate is %d, it was %d", got, last)
		}
		if got := rates.Of(hash, now+2*uint64(Window)); got != 0 {
			t.Errorf("two windows later the rate is %d", got)
		}
	}
	rng := rand.New(rand.NewPCG(repeat.Seed(t), 4))
	for range 1000 {
		rates, hash, limit := make(Rates, rows*256), rng.Uint64(), 10+rng.Uint64N(100)
		start, above := rng.Uint64(), false
		for i := range 2 * limit {
			above = above || rates.Add(hash, 1, start+i*uint64(Window)/(2*limit)) >= limit
		}
		if !above {
			t.Fatalf("%d in a window from %d on are never above %d", 2*limit, start, limit)
		}
	}
}

// TestALateCPUChangesNothing: its clock is behind those that have begun the next windows.
func TestALateCPUChangesNothing(t *testing.T) {
	var w Windows
	const now = 100 << window
	w.add(5, now)
	w.add(7, now+1<<window)
	was := w
	if got := w.add(3, now-1<<window); got != 7 || w != was {
		t.Errorf("a packet two windows ago is counted as %d: %+v, was %+v", got, w, was)
	}
	if got := w.add(2, now+1); got != 7 || w.rate(now+1<<window) != 7+7 {
		t.Errorf("one of the window before: %d, %+v", got, w)
	}
	w = Windows{}
	if got := w.add(1, numberMask<<window); got != 1 {
		t.Errorf("a counter that was never used does not count after 208 days: %d", got)
	}
	if got := w.add(1, (numberMask+1)<<window); got != 2 {
		t.Errorf("when numbers come round, the rate is %d, want 2", got)
	}
}

func TestRatesAreConverted(t *testing.T) {
	for _, tt := range []struct{ second, window uint64 }{{0, 0}, {1, 2}, {1000, 1074}, {1_000_000_000, 1 << 30}, {math.MaxUint64, math.MaxUint64}} {
		if got := PerWindow(tt.second); got != tt.window {
			t.Errorf("PerWindow(%d) = %d, want %d", tt.second, got, tt.window)
		}
	}
	if got := PerSecond(1 << 30); got != 1_000_000_000 {
		t.Errorf("PerSecond(2^30) = %d", got)
	}
}

// TestDistinctKeysAreCounted from none to a million: within five standard errors, and exactly where there are few.
func TestDistinctKeysAreCounted(t *testing.T) {
	seed := NewSeed()
	var d [2]Distinct
	n := 0
	for _, upTo := range []int{0, 1, 10, 100, 1000, 3000, 10_000, 20_000, 100_000, 1_000_000} {
		for ; n < upTo; n++ {
			hash := seed.Hash(keyOf(n).Address, 0)
			d[n%2].Add(hash)
			d[n%3%2].Add(hash) // some on both CPUs
		}
		all := d[0]
		all.Merge(d[1])
		within := 5*1.04/math.Sqrt(1<<registerBits)*float64(n) + 1
		if got := all.Count(); math.Abs(float64(got)-float64(n)) > within {
			t.Errorf("%d keys are counted as %d", n, got)
		}
	}
	full := Distinct{}
	for i := range full.Rank {
		full.Rank[i] = 64 - registerBits + 1
	}
	if got := full.Count(); got < 1<<60 {
		t.Errorf("full registers are counted as %d", got)
	}
}

// TestTheHeaviestKeysAreFound among streams of all shapes, also those that bring each key once before the heavy ones return.
func TestTheHeaviestKeysAreFound(t *testing.T) {
	rng := rand.New(rand.NewPCG(repeat.Seed(t), 5))
	for name, counts := range streams(rng) {
		var order []int
		for i, n := range counts {
			for range min(n, 100_000) {
				order = append(order, i)
			}
		}
		for _, shuffled := range []bool{false, true} {
			if shuffled {
				rng.Shuffle(len(order), func(i, j int) { order[i], order[j] = order[j], order[i] })
			}
			t.Run(fmt.Sprintf("%s, shuffled %t", name, shuffled), func(t *testing.T) {
				seed, perCPU := NewSeed(), [2][sets]Set{}
				truth := map[Key]uint64{}
				for n, i := range order {
					key := keyOf(i)
					hash := seed.Hash(key.Address, key.Number)
					perCPU[n%2][SetOf(sets, hash)].Add(hash, key, 1)
					truth[key]++
				}
				all := Top(seed, 2*sets*ways, func(yield func([]Set)) {
					for i := range sets {
						yield([]Set{perCPU[0][i], perCPU[1][i]})
					}
				})
				checkTop(t, all, truth, seed, 2)
				if few := Top(seed, 3, func(yield func([]Set)) { yield(perCPU[0][:1]) }); len(few) != 3 {
					t.Errorf("the first three are %d", len(few))
				}
			})
		}
	}
}

// TestAKeyThatIsBeingWrittenIsLeftOut: its hash is that of another one.
func TestAKeyThatIsBeingWrittenIsLeftOut(t *testing.T) {
	seed := NewSeed()
	var s Set
	a, b := keyOf(1), keyOf(2)
	s.Add(seed.Hash(a.Address, 0), a, 10)
	s.Add(seed.Hash(b.Address, 0), b, 5)
	s.Key[0].Address[15]++
	s.Key[0].Number = 9
	all := Top(seed, 5, func(yield func([]Set)) { yield([]Set{s}) })
	if len(all) != 1 || all[0] != (Heavy{Key: b, Sum: 5}) {
		t.Errorf("the keys are %+v, want %v alone", all, b)
	}
}
