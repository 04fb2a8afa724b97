// SPDX-License-Identifier: Apache-2.0

package bucket

// Programs and Go do the same, and programs on several CPUs take no token twice.

import (
	_ "embed"
	"math"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"github.com/polycube/polycube/test/bpftest"
	"github.com/polycube/polycube/test/pace"
	"github.com/polycube/polycube/test/repeat"
)

var (
	//go:embed testdata/bucket.tc.o
	bucketTC []byte
	//go:embed testdata/bucket.xdp.o
	bucketXDP []byte
)

// one is struct bucket_case.
type one struct {
	Limit  Limit
	Bucket uint64
	Now    uint64
	Tokens uint32
	Taken  uint32
}

// shared is struct bucket_shared.
type shared struct {
	Limit                  Limit
	Bucket, Taken, Refused uint64
}

func TestTheStructsAreAlike(t *testing.T) {
	bpftest.Layout(t, bucketTC, "cases", one{})
	bpftest.Layout(t, bucketTC, "shared", shared{})
}

// draw is a random case: limits of all sizes, buckets that are empty, full, ahead of the clock or anything.
func draw(r *rand.Rand) one {
	for {
		l, err := New(r.Uint64()>>r.IntN(64), time.Duration(r.Int64()>>r.IntN(63)), r.Uint32()>>r.IntN(32))
		if err != nil {
			continue
		}
		c := one{Limit: l, Now: r.Uint64() >> (8 + r.IntN(20)), Tokens: r.Uint32() >> r.IntN(32)}
		at := c.Now << fraction
		c.Bucket = []uint64{0, at, at - l.Size, at - r.Uint64()%(l.Size+1), at + r.Uint64()%uint64(2*ahead), r.Uint64()}[r.IntN(6)]
		switch r.IntN(4) {
		case 0:
			c.Tokens = l.Burst
		case 1:
			c.Tokens = uint32(r.Uint64N(uint64(l.Burst) + 1))
		}
		return c
	}
}

func TestProgramsAndGoDoTheSame(t *testing.T) {
	seed := repeat.Seed(t)
	for hook, object := range map[string][]byte{"TC": bucketTC, "XDP": bucketXDP} {
		t.Run(hook, func(t *testing.T) {
			prog := bpftest.Load(t, object).Programs["bucket_take"]
			r := rand.New(rand.NewPCG(seed, 0))
			taken := 0
			for range 4000 {
				in := draw(r)
				got, want := in, in
				if want.Limit.Take(&want.Bucket, want.Tokens, time.Duration(want.Now)) {
					want.Taken = 1
					taken++
				}
				bpftest.Exchange(t, prog, &got)
				if got != want {
					t.Fatalf("in %+v\n got %+v\nwant %+v", in, got, want)
				}
			}
			if taken < 1000 || taken > 3500 {
				t.Errorf("%d of 4000 packets pass: the cases are one-sided", taken)
			}
		})
	}
}

// monotonic is the clock of programs.
func monotonic(t *testing.T) time.Duration {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts); err != nil {
		t.Fatal(err)
	}
	return time.Duration(ts.Nano())
}

// TestNoTokenIsTakenTwice, by programs on all CPUs at once, and none is lost: together they empty a bucket that fills slowly.
func TestNoTokenIsTakenTwice(t *testing.T) {
	const perSecond, burst = 1000, 15_000_000
	c := bpftest.Load(t, bucketTC)
	l, err := New(perSecond, time.Second, burst)
	if err != nil {
		t.Fatal(err)
	}
	state := c.Maps["shared"]
	if err := state.Put(uint32(0), shared{Limit: l}); err != nil {
		t.Fatal(err)
	}
	start := monotonic(t)
	var wg sync.WaitGroup
	var empty atomic.Bool
	for range max(2, runtime.NumCPU()) {
		wg.Go(func() {
			for !empty.Load() && monotonic(t)-start < pace.Stretch(20*time.Second) {
				opts := ebpf.RunOptions{Data: make([]byte, 64), Repeat: 1000}
				if _, err := c.Programs["bucket_race"].Run(&opts); err != nil {
					t.Error(err)
					return
				}
				var is shared
				if err := state.Lookup(uint32(0), &is); err != nil {
					t.Error(err)
				}
				empty.Store(is.Refused > 0 && is.Taken >= burst-2) // it may be refused for other CPUs, too
			}
		})
	}
	wg.Wait()
	took := monotonic(t) - start
	var is shared
	if err := state.Lookup(uint32(0), &is); err != nil {
		t.Fatal(err)
	}
	most := burst + uint64(math.Ceil(took.Seconds()*perSecond))
	if is.Refused == 0 || is.Taken < burst-2 || is.Taken > most {
		t.Errorf("%d tokens in %s, %d packets refused; the burst is %d, and with the rate there are at most %d", is.Taken, took, is.Refused, burst, most)
	}
}
