// SPDX-License-Identifier: Apache-2.0

package policer

// Every algorithm on a clock of the test, and under packets of several CPUs at once.

import (
	_ "embed"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"github.com/polycube/polycube/bucket"
	"github.com/polycube/polycube/cube/table"
	"github.com/polycube/polycube/test/bpftest"
	"github.com/polycube/polycube/test/pace"
	"github.com/polycube/polycube/test/repeat"
)

var (
	//go:embed testdata/limit.tc.o
	limitTC []byte
	//go:embed testdata/limit.xdp.o
	limitXDP []byte
)

// setup is struct limit_setup.
type setup struct {
	Limit           bucket.Limit
	Quota, Window   uint64
	Algorithm       Algorithm
	Steps           uint32
	Word            uint64
	Near, Warned    uint64
	Passed, Offered uint64
	Bytes           uint32
	Refer           uint32
}

// reference is struct limit_reference.
type reference struct {
	Lock               uint32
	_                  uint32
	At, Credit, Passed uint64
}

// packet is struct limit_step.
type packet struct {
	Now            uint64
	Bytes          uint32
	Passed, Marked uint16
}

// steps is how many packets a run has.
const steps = 16384

var algorithmNames = []string{"compare and swap", "fixed window", "token bucket", "token bucket, reduced lock", "sliding window", "sliding window, reduced lock"}

// bench are the programs of testdata, with their maps.
type bench struct {
	t       testing.TB
	coll    *ebpf.Collection
	setup   *setup
	packets []packet
}

func newBench(t testing.TB, object []byte) *bench {
	t.Helper()
	b := &bench{t: t, coll: bpftest.Load(t, object)}
	setups, err := table.MappedOf[setup]("setup", b.coll.Maps["setup"])
	if err != nil {
		t.Fatal(err)
	}
	packets, err := table.MappedOf[packet]("steps", b.coll.Maps["steps"])
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { setups.Close(); packets.Close() })
	all, err := setups.Values()
	if err != nil {
		t.Fatal(err)
	}
	b.setup = &all[0]
	if b.packets, err = packets.Values(); err != nil {
		t.Fatal(err)
	}
	return b
}

// begin sets an algorithm up, with a state.
func (b *bench) begin(s setup, is state) {
	b.t.Helper()
	*b.setup = s
	if err := b.coll.Maps["states"].Update(uint32(0), is, ebpf.UpdateLock); err != nil {
		b.t.Fatal(err)
	}
}

// run processes the packets.
func (b *bench) run(program string, repeat uint32) {
	b.t.Helper()
	if _, err := b.coll.Programs[program].Run(&ebpf.RunOptions{Data: make([]byte, 64), Repeat: repeat}); err != nil {
		b.t.Error(err)
	}
}

func TestTheStructsAreAlike(t *testing.T) {
	for _, object := range [][]byte{limitTC, limitXDP} {
		bpftest.Layout(t, object, "setup", setup{})
		bpftest.Layout(t, object, "steps", packet{})
		bpftest.Layout(t, object, "reference", reference{})
	}
}

// arrivals are when packets come, and how long they are.
type arrivals struct {
	name string
	// load is the offered rate as a multiple of the limit; 0 for packets that come in bursts with pauses of all lengths.
	load  float64
	sizes []uint32
}

var allArrivals = []arrivals{
	{"half of the rate", 0.5, []uint32{1250}}, {"the rate", 1, []uint32{64, 1250, 9000}}, {"a percent more", 1.01, []uint32{1250}},
	{"four times", 4, []uint32{64}}, {"a hundred times", 100, []uint32{64, 1250, 9000}}, {"bursts and pauses", 0, []uint32{64, 1250, 9000}},
}

// fill writes the packets of a run for a limit in bytes per second, and returns how long the run takes and the bytes that it
// offers.
func (a arrivals) fill(r *rand.Rand, packets []packet, start uint64, rate, burst float64) (took time.Duration, offered, longest float64) {
	at := float64(start)
	for i := range packets {
		size := a.sizes[r.IntN(len(a.sizes))]
		gap := float64(size) / rate / max(a.load, 0.01) * 1e9
		if a.load == 0 { // mostly at once, sometimes after up to two bursts' time
			gap = 0
			if r.IntN(50) == 0 {
				gap = 2 * r.Float64() * burst / rate * 1e9
			}
		}
		at += gap
		packets[i] = packet{Now: uint64(at), Bytes: size}
		offered += float64(size)
		longest = max(longest, float64(size))
	}
	return time.Duration(at) - time.Duration(start), offered, longest
}

// excess is how much the packets that passed exceed a rate in the worst of all intervals, and the sum of their bytes.
func excess(packets []packet, rate float64) (most, sum float64) {
	level, last := 0.0, packets[0].Now
	for _, p := range packets {
		level = max(0, level-float64(p.Now-last)*rate/1e9)
		last = p.Now
		if p.Passed != 0 {
			level += float64(p.Bytes)
			sum += float64(p.Bytes)
		}
		most = max(most, level)
	}
	return most, sum
}

// TestNoIntervalHasMoreThanRateAndBurst: for every algorithm and any time from s to t, what passes is at most the rate times
// t - s, the burst, and a packet; with a fixed window, twice the window. It is as much as possible, but for half a percent.
func TestNoIntervalHasMoreThanRateAndBurst(t *testing.T) {
	seed := repeat.Seed(t)
	for hook, object := range map[string][]byte{"TC": limitTC, "XDP": limitXDP} {
		t.Run(hook, func(t *testing.T) {
			b := newBench(t, object)
			r := rand.New(rand.NewPCG(seed, 0))
			for algorithm := CompareAndSwap; algorithm <= SlidingWindowReduced; algorithm++ {
				for bits := 1e6; bits <= 1e11; bits *= 10 {
					for _, share := range []float64{1, 0.1, 0.01, 0.002, 0.001} {
						for _, a := range allArrivals {
							b.follows(r, algorithm, uint64(bits/8), share, a)
						}
					}
				}
			}
		})
	}
}

// follows runs packets through an algorithm, with a burst that is a share of what the rate carries in a second.
func (b *bench) follows(r *rand.Rand, algorithm Algorithm, rate uint64, share float64, a arrivals) {
	b.t.Helper()
	burst := float64(rate) * share
	what := fmt.Sprintf("%s, %d bytes per second, burst %.0f bytes, %s", algorithmNames[algorithm], rate, burst, a.name)
	limit, err := bucket.New(rate, time.Second, uint32(min(burst, math.MaxUint32)))
	if err != nil {
		b.t.Fatal(err)
	}
	burst = float64(limit.Burst)
	start := r.Uint64() >> 12 // up to 52 days
	s := setup{Limit: limit, Algorithm: algorithm, Steps: steps, Window: uint64(share * 1e9), Quota: uint64(float64(rate) * share)}
	is := state{}
	if r.IntN(2) == 0 { // the bucket is empty
		s.Word, is.At = start<<8, start<<8
	}
	bound, waste := burst, 0.0
	took, offered, longest := a.fill(r, b.packets, start, float64(rate), burst)
	if algorithm == FixedWindow {
		s.Word, bound, waste = 0, 2*float64(s.Quota), float64(s.Quota)
	}
	b.begin(s, is)
	b.run("limit_steps", 1)
	most, passed := excess(b.packets, float64(rate))
	if most > bound+longest {
		b.t.Errorf("%s: in an interval, %.0f bytes more than the rate passed, at most %.0f may", what, most, bound+longest)
	}
	if a.load == 0 || burst < 2*longest {
		return
	}
	least := min(offered, float64(rate)*took.Seconds())*0.995 - longest - waste
	if algorithm == FixedWindow { // the rest of a window is too short for a packet
		least *= 1 - longest/float64(s.Quota)
	}
	if passed < least {
		b.t.Errorf("%s: %.0f bytes passed of %.0f in %s, at least %.0f should", what, passed, offered, took, least)
	}
}

// TestNothingPassesTwice: packets of all CPUs together empty a bucket that hardly fills. With a reduced lock, the other CPUs
// may each have one packet more.
func TestNothingPassesTwice(t *testing.T) {
	const burst, size = 50_000_000, 100
	threads := max(2, runtime.NumCPU())
	for algorithm := CompareAndSwap; algorithm <= SlidingWindowReduced; algorithm++ {
		t.Run(algorithmNames[algorithm], func(t *testing.T) {
			b := newBench(t, limitTC)
			limit, err := bucket.New(100, time.Second, burst)
			if err != nil {
				t.Fatal(err)
			}
			b.begin(setup{Limit: limit, Quota: burst, Window: uint64(time.Hour), Algorithm: algorithm, Bytes: size}, state{})
			begin := time.Now()
			var all sync.WaitGroup
			for range threads {
				all.Go(func() {
					for time.Since(begin) < pace.Stretch(20*time.Second) && atomic.LoadUint64(&b.setup.Offered) < 2*burst {
						b.run("limit_race", 1000)
					}
				})
			}
			all.Wait()
			most := uint64(burst + 100*math.Ceil(time.Since(begin).Seconds()))
			if algorithm == TokenBucketReduced || algorithm == SlidingWindowReduced {
				most += uint64(threads-1) * size
			}
			if algorithm == FixedWindow { // two hours may meet
				most += burst
			}
			passed := b.setup.Passed
			if passed > most || passed < burst-size*uint64(threads) {
				t.Errorf("%d bytes passed, at least %d should, and %d may", passed, burst, most)
			}
		})
	}
}

// monotonic is the clock of programs.
func monotonic(t testing.TB) time.Duration {
	t.Helper()
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts); err != nil {
		t.Fatal(err)
	}
	return time.Duration(ts.Nano())
}

// TestTimedTwoCPUsGetTheRate: packets of two CPUs, far above the rate, get the rate and no more. Where the machine lets neither of them run
// for long, they get what they would of the same limit with a lock around it.
func TestTimedTwoCPUsGetTheRate(t *testing.T) {
	const size, rate = 1250, 125_000_000 // 1 Gbit/s
	length := 2 * time.Second
	if os.Getenv("POLYCUBE_SOAK") != "" {
		length = 10 * time.Second
	}
	for algorithm := CompareAndSwap; algorithm <= SlidingWindowReduced; algorithm++ {
		for _, share := range []float64{0.1, 0.01} {
			t.Run(fmt.Sprintf("%s, burst/rate %v", algorithmNames[algorithm], share), func(t *testing.T) {
				b := newBench(t, limitTC)
				limit, err := bucket.New(rate, time.Second, uint32(rate*share))
				if err != nil {
					t.Fatal(err)
				}
				begin := monotonic(t)
				at := uint64(begin) << 8 // empty
				s := setup{Limit: limit, Quota: uint64(rate * share), Window: uint64(1e9 * share), Algorithm: algorithm, Bytes: size, Word: at, Refer: 1}
				refer := reference{At: at}
				if algorithm == FixedWindow {
					s.Word, refer.At = 0, 0
				}
				if err := b.coll.Maps["reference"].Update(uint32(0), refer, ebpf.UpdateLock); err != nil {
					t.Fatal(err)
				}
				b.begin(s, state{At: at})
				var all sync.WaitGroup
				for range 2 {
					all.Go(func() {
						for now := begin; now-begin < length; now = monotonic(t) {
							b.run("limit_race", 20)
						}
					})
				}
				all.Wait()
				took := monotonic(t) - begin
				if err := b.coll.Maps["reference"].Lookup(uint32(0), &refer); err != nil {
					t.Fatal(err)
				}
				could := float64(refer.Passed) / 256 / float64(took)
				if algorithm == FixedWindow {
					could = float64(refer.Passed) / (rate * took.Seconds())
				}
				of := float64(b.setup.Passed) / (rate * took.Seconds())
				most := 1.005 + share/took.Seconds()
				if algorithm == FixedWindow {
					most += share / took.Seconds()
				}
				t.Logf("%.4f of the rate in %s, with a lock around it %.4f; %.1f times the rate came", of, took, could, float64(b.setup.Offered)/(rate*took.Seconds()))
				if of > min(most, 1.01*could) || of < 0.99*could {
					t.Errorf("%.4f of the rate passed, at least %.4f should, and %.4f may", of, 0.99*could, min(most, 1.01*could))
				}
			})
		}
	}
}

// BenchmarkAlgorithms: a packet that conforms, the exact clock included, alone and while another CPU takes from the same
// contract.
func BenchmarkAlgorithms(b *testing.B) {
	const rate, each = 1 << 40, 64 * 1000 // packets of a call
	for algorithm := CompareAndSwap; algorithm <= SlidingWindowReduced; algorithm++ {
		for _, threads := range []int{1, 2} {
			b.Run(fmt.Sprintf("%s/%d CPUs", algorithmNames[algorithm], threads), func(b *testing.B) {
				is := newBench(b, limitTC)
				limit, err := bucket.New(rate, time.Second, math.MaxUint32)
				if err != nil {
					b.Fatal(err)
				}
				is.begin(setup{Limit: limit, Quota: 1 << 39, Window: uint64(time.Second), Algorithm: algorithm, Bytes: 64}, state{})
				b.ResetTimer()
				var all sync.WaitGroup
				for range threads {
					all.Go(func() {
						for done := 0; done < b.N; done += each {
							is.run("limit_race", each/64)
						}
					})
				}
				all.Wait()
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64((b.N+each-1)/each*each), "ns/packet")
			})
		}
	}
}
