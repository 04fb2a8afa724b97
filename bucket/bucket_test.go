// SPDX-License-Identifier: Apache-2.0

package bucket

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/test/repeat"
)

// rate is a limit for bytes with a rate in bits per second and a burst that is some part of a second's bytes.
func rate(t testing.TB, bits uint64, part float64) (Limit, uint32) {
	t.Helper()
	burst := uint32(min(float64(bits)/8*part, math.MaxUint32))
	l, err := New(bits/8, time.Second, burst)
	if err != nil {
		t.Fatal(err)
	}
	return l, burst
}

// arrivals are packets with sizes and times, in a pattern.
type arrivals struct {
	*rand.Rand
	sizes []uint32
	load  float64 // of the rate
	pause bool    // long pauses, too
}

// next returns the size of the next packet and the time until it arrives, in ns, at a rate in bytes per second.
func (a arrivals) next(perSecond float64) (uint32, float64) {
	size := a.sizes[a.IntN(len(a.sizes))]
	gap := float64(size) / (perSecond * a.load) * 1e9 * 2 * a.Float64()
	if a.pause && a.IntN(100) == 0 {
		gap += 2e9 * a.Float64()
	}
	return size, gap
}

// TestNoIntervalHasMoreThanTheRateAndABurst, and a bucket under more load than its rate lets the rate through: with any
// clock that ticks more often than the burst takes.
func TestNoIntervalHasMoreThanTheRateAndABurst(t *testing.T) {
	seed := repeat.Seed(t)
	for _, bits := range []uint64{1e6, 10e6, 100e6, 1e9, 10e9, 100e9} {
		for _, part := range []float64{1, 0.1, 0.01, 0.002} {
			for _, load := range []float64{0.5, 1, 1.01, 4, 100} {
				for _, tick := range []time.Duration{1, time.Millisecond} {
					l, burst := rate(t, bits, part)
					name := fmt.Sprintf("%d bit/s, burst of %d bytes, load %g, tick %s", bits, burst, load, tick)
					sizes := []uint32{64, 1250, 1250, 9000}
					perSecond := float64(bits / 8)
					if burst < 9000 || float64(burst) < perSecond*tick.Seconds() {
						sizes = []uint32{64}
						if burst < 64 || float64(burst) < perSecond*tick.Seconds() {
							continue
						}
					}
					a := arrivals{rand.New(rand.NewPCG(seed, bits)), sizes, load, load == 4}
					offered, passed, busy := check(t, name, l, a, perSecond, tick)
					if want := 0.999 * min(perSecond*busy, offered); load >= 4 && !a.pause && passed < want {
						t.Errorf("%s: %.0f of %.0f bytes in %.4f s, want %.0f", name, passed, offered, busy, want)
					}
				}
			}
		}
	}
}

// check sends packets through a bucket. The excess over the rate since any moment is never more than the burst: a virtual
// queue that is emptied at the rate never has more.
func check(t *testing.T, name string, l Limit, a arrivals, perSecond float64, tick time.Duration) (offered, passed, seconds float64) {
	t.Helper()
	var bucket uint64
	start := 5 * time.Hour
	clock, queue, last := float64(start), 0.0, float64(start)
	for range 3000 {
		size, gap := a.next(perSecond)
		clock += gap
		offered += float64(size)
		now := time.Duration(clock).Truncate(tick)
		before := bucket
		if !l.Take(&bucket, size, now) {
			if bucket != before {
				t.Fatalf("%s: a packet that is refused changes the bucket", name)
			}
			continue
		}
		passed += float64(size)
		queue = max(0, queue-float64(now-time.Duration(last))*perSecond/1e9) + float64(size)
		last = float64(now)
		if queue > float64(l.Burst)*1.000001+1 {
			t.Fatalf("%s: %.1f bytes more than the rate allows, the burst is %d", name, queue, l.Burst)
		}
	}
	return offered, passed, (clock - float64(start)) / 1e9
}

func TestABucketAtItsLimits(t *testing.T) {
	l, err := New(10, time.Minute, 5)
	if err != nil {
		t.Fatal(err)
	}
	var b uint64
	now := 3 * time.Second // the machine has just booted: the bucket is full nevertheless
	for i := range 5 {
		if left := l.Left(b, now); left != uint32(5-i) || !l.Take(&b, 1, now) {
			t.Fatalf("packet %d of a burst of 5: %d left", i, left)
		}
	}
	for _, at := range []time.Duration{now, now + 5999*time.Millisecond} {
		if l.Left(b, at) != 0 || l.Take(&b, 1, at) {
			t.Fatalf("a packet after the burst passes at %s", at)
		}
	}
	if now += 6 * time.Second; l.Left(b, now) != 1 || !l.Take(&b, 1, now) || l.Take(&b, 1, now) {
		t.Fatal("after 6 s there is one token")
	}
	if l.Take(&b, 6, now+time.Hour) {
		t.Error("a packet of more than the burst passes")
	}
	if now += time.Hour; l.Left(b, now) != 5 || !l.Take(&b, 5, now) || l.Take(&b, 1, now) {
		t.Error("an hour fills a bucket of 5")
	}
	if l.Take(&b, 1, now-time.Millisecond) {
		t.Error("a packet passes on a CPU whose clock is behind")
	}
	b = uint64(now+48*time.Hour) << 8 // not from this clock
	if !l.Take(&b, 5, now) {
		t.Error("a bucket of the future is not full")
	}
	b = 0
	if (Limit{}).Take(&b, 1, now) || !Unlimited.Take(&b, math.MaxUint32, now) || !Unlimited.Take(&b, math.MaxUint32, now) {
		t.Error("a limit of zeros lets something through, or Unlimited does not")
	}
	if Unlimited.Left(b, now) != math.MaxUint32 || (Limit{}).Left(b, now) != 0 {
		t.Error("what is left of no limit")
	}
}

// TestTheClockWraps: buckets count 2^-8 ns modulo 2^64, which come round after 833 days.
func TestTheClockWraps(t *testing.T) {
	l, err := New(1000, time.Second, 10)
	if err != nil {
		t.Fatal(err)
	}
	for _, from := range []uint64{1 << 55, 1 << 56} { // ns: the sign changes, and zero is passed
		now := time.Duration(from) - 20*time.Millisecond
		var b uint64
		passed := 0
		for range 4000 { // 40 ms
			now += 10 * time.Microsecond
			if l.Take(&b, 1, now) {
				passed++
			}
		}
		if passed < 49 || passed > 51 {
			t.Errorf("%d packets pass in 40 ms around %s, want 40 and a burst of 10", passed, now)
		}
	}
}

func TestRatesThatAreRefused(t *testing.T) {
	for _, c := range []struct {
		tokens uint64
		period time.Duration
		burst  uint32
		says   string
	}{
		{0, time.Second, 1, "must be positive"}, {1, 0, 1, "must be positive"}, {1, -1, 1, "must be positive"},
		{1, time.Second, 0, "a burst of 0"}, {1, 24 * time.Hour, 201, "must not take longer than 4800h"},
	} {
		if _, err := New(c.tokens, c.period, c.burst); !errors.Is(err, cube.ErrInvalid) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("New(%d, %s, %d): %v, want %q", c.tokens, c.period, c.burst, err, c.says)
		}
	}
	for _, c := range []struct {
		tokens uint64
		period time.Duration
		burst  uint32
	}{{1, 24 * time.Hour, 200}, {math.MaxUint64, 1, math.MaxUint32}, {1, 1, 1}, {50e9, time.Second, math.MaxUint32}, {1, time.Second, 17e6}} {
		l, err := New(c.tokens, c.period, c.burst)
		if err != nil {
			t.Errorf("New(%d, %s, %d): %v", c.tokens, c.period, c.burst, err)
		}
		var b uint64
		if !l.Take(&b, c.burst, time.Hour) {
			t.Errorf("%+v: the burst does not fit into the full bucket", l)
		}
	}
}

// TestAMovedBucketHasAsManyTokens: with rates that rise and fall, and a smaller burst.
func TestAMovedBucketHasAsManyTokens(t *testing.T) {
	limit := func(rate uint64, burst uint32) Limit {
		l, err := New(rate, time.Second, burst)
		if err != nil {
			t.Fatal(err)
		}
		return l
	}
	const now = 1000 * time.Hour
	slow, fast, small := limit(1000, 5000), limit(1_000_000_000, 5000), limit(1000, 50)
	for _, tokens := range []uint32{0, 1, 49, 51, 4999, 5000} {
		for _, tt := range []struct{ from, to Limit }{{slow, fast}, {fast, slow}, {slow, small}, {small, slow}, {slow, slow}} {
			var word uint64
			if taken := tt.from.Burst - min(tokens, tt.from.Burst); taken > 0 && !tt.from.Take(&word, taken, now) {
				t.Fatalf("%d tokens cannot be taken from a full bucket of %+v", taken, tt.from)
			}
			had := tt.from.Left(word, now)
			got, want := tt.to.Left(tt.from.Moved(word, tt.to, now), now), min(had, tt.to.Burst)
			if got != want {
				t.Errorf("%d tokens of %+v are %d of %+v, want %d", had, tt.from, got, tt.to, want)
			}
		}
	}
}
