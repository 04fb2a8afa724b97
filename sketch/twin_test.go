// SPDX-License-Identifier: Apache-2.0

package sketch

// Programs and Go do the same with a stream, and programs on several CPUs lose nothing.

import (
	_ "embed"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/cilium/ebpf"

	"github.com/polycube/polycube/cube/table"
	"github.com/polycube/polycube/test/bpftest"
	"github.com/polycube/polycube/test/netns"
	"github.com/polycube/polycube/test/repeat"
)

var (
	//go:embed testdata/sketch.tc.o
	sketchTC []byte
	//go:embed testdata/sketch.xdp.o
	sketchXDP []byte
)

// item is struct sketch_item.
type item struct {
	Key         Key
	Amount, Now uint64
	Hash        uint64
	Sum, Rate   uint64
}

// stream is struct sketch_stream.
type stream struct{ Next, End uint64 }

// Sizes of the maps of the program, and items of a run.
const (
	columns = 256
	sets    = 16
	takes   = 1024
)

// rig has the maps of the program.
type rig struct {
	*ebpf.Collection
	t      testing.TB
	seed   Seed
	items  []item
	stream *stream
	sums   Sums
	rates  Rates
}

func newRig(t testing.TB, object []byte) *rig {
	t.Helper()
	r := &rig{Collection: bpftest.Load(t, object), t: t, seed: NewSeed()}
	if err := r.Maps["seeds"].Put(uint32(0), r.seed); err != nil {
		t.Fatal(err)
	}
	r.items = mapped[item](t, r.Maps["items"])
	r.stream = &mapped[stream](t, r.Maps["stream"])[0]
	r.sums, r.rates = mapped[uint64](t, r.Maps["sums"]), mapped[Windows](t, r.Maps["rates"])
	return r
}

func mapped[V any](t testing.TB, m *ebpf.Map) []V {
	t.Helper()
	view, err := table.MappedOf[V]("map", m)
	if err != nil {
		t.Fatal(err)
	}
	values, err := view.Values()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := view.Close(); err != nil {
			t.Error(err)
		}
	})
	return values
}

// add passes a stream through the program, by threads on a CPU each, and returns the results.
func (r *rig) add(all []item, threads int) []item {
	r.t.Helper()
	if len(all) > len(r.items) {
		r.t.Fatalf("%d items, the map has %d", len(all), len(r.items))
	}
	copy(r.items, all)
	*r.stream = stream{End: uint64(len(all))}
	cpus, err := netns.CPUs()
	if err != nil {
		r.t.Fatal(err)
	}
	var wg sync.WaitGroup
	for i := range threads {
		wg.Go(func() {
			opts := ebpf.RunOptions{Data: make([]byte, 64), Repeat: uint32(len(all)/takes/threads + 1)}
			// The kernel would move the thread to another CPU between two runs of the program.
			err := netns.OnCPU(cpus[i%len(cpus)], func() error {
				_, err := r.Programs["sketch_add"].Run(&opts)
				return err
			})
			if err != nil {
				r.t.Error(err)
			}
		})
	}
	wg.Wait()
	if r.stream.Next < r.stream.End { // one thread has taken more than the other expected
		r.t.Fatalf("%d of %d items were added", r.stream.Next, r.stream.End)
	}
	return slices.Clone(r.items[:len(all)])
}

// distinct reads the registers of all CPUs.
func (r *rig) distinct() (d Distinct) {
	r.t.Helper()
	view, err := table.PerCPUOf[uint32, Distinct]("distinct", r.Maps["distinct"])
	if err != nil {
		r.t.Fatal(err)
	}
	all, _, err := view.Get(0)
	if err != nil {
		r.t.Fatal(err)
	}
	d.Merge(all...)
	return d
}

// top reads the heaviest keys of all CPUs.
func (r *rig) top(k int) []Heavy {
	r.t.Helper()
	view, err := table.PerCPUOf[uint32, Set]("top", r.Maps["top"])
	if err != nil {
		r.t.Fatal(err)
	}
	all := Top(r.seed, k, func(yield func([]Set)) {
		for _, perCPU := range view.All(&err) {
			yield(perCPU)
		}
	})
	if err != nil {
		r.t.Fatal(err)
	}
	return all
}

func TestTheStructsAreAlike(t *testing.T) {
	for _, object := range [][]byte{sketchTC, sketchXDP} {
		bpftest.Layout(t, object, "items", item{})
		bpftest.Layout(t, object, "stream", stream{})
		bpftest.Layout(t, object, "seeds", Seed{})
		bpftest.Layout(t, object, "rates", Windows{})
		bpftest.Layout(t, object, "distinct", Distinct{})
		bpftest.Layout(t, object, "top", Set{})
	}
}

// everyHook runs a test with the program of each hook.
func everyHook(t *testing.T, test func(t *testing.T, r *rig, seed uint64)) {
	seed := repeat.Seed(t)
	for hook, object := range map[string][]byte{"TC": sketchTC, "XDP": sketchXDP} {
		t.Run(hook, func(t *testing.T) { test(t, newRig(t, object), seed) })
	}
}

// TestProgramsAndGoDoTheSame: with each item, on one CPU, and with a clock that also stands still, jumps and goes back.
func TestProgramsAndGoDoTheSame(t *testing.T) {
	everyHook(t, func(t *testing.T, r *rig, seed uint64) {
		rng := rand.New(rand.NewPCG(seed, 1))
		all := make([]item, 50_000)
		now := rng.Uint64()
		for i := range all {
			switch rng.IntN(1000) {
			case 0:
				now += rng.Uint64N(20 * uint64(Window))
			case 1:
				now -= rng.Uint64N(3 * uint64(Window))
			case 2:
				now = rng.Uint64()
			default:
				now += rng.Uint64N(uint64(Window) / 1000)
			}
			all[i] = item{Key: draw(rng), Amount: rng.Uint64N(2000), Now: now}
		}
		sums, rates, distinct, top := make(Sums, rows*columns), make(Rates, rows*columns), Distinct{}, make([]Set, sets)
		for i, got := range r.add(all, 1) {
			want := all[i]
			want.Hash = r.seed.Hash(want.Key.Address, want.Key.Number)
			want.Sum, want.Rate = sums.Add(want.Hash, want.Amount), rates.Add(want.Hash, want.Amount, want.Now)
			distinct.Add(want.Hash)
			top[SetOf(sets, want.Hash)].Add(want.Hash, want.Key, want.Amount)
			if got != want {
				t.Fatalf("item %d:\n got %+v\nwant %+v", i, got, want)
			}
			if n := sums.Of(want.Hash); n != want.Sum {
				t.Fatalf("item %d: the sum is read as %d, want %d", i, n, want.Sum)
			}
		}
		if !slices.Equal(r.sums, sums) || !slices.Equal(r.rates, rates) {
			t.Error("the counters differ")
		}
		if r.distinct() != distinct {
			t.Error("the registers differ")
		}
		want := Top(r.seed, 1000, func(yield func([]Set)) {
			for i := range top {
				yield(top[i : i+1])
			}
		})
		if got := r.top(1000); !slices.Equal(got, want) {
			t.Errorf("the heaviest keys are\n%v\nwant\n%v", got, want)
		}
	})
}

// draw returns a key: few of them are frequent, of both families.
func draw(rng *rand.Rand) (k Key) {
	n := uint32(rng.ExpFloat64() * rng.ExpFloat64() * 50)
	copy(k.Address[:], []byte{10: 0xff, 11: 0xff, 12: 10, 13: byte(n >> 16), 14: byte(n >> 8), 15: byte(n)})
	if n%3 == 0 {
		k.Address[0], k.Address[10] = 0x20, 0
	}
	k.Number = uint64(n % 2)
	return k
}

// TestSeveralCPUsLoseNothing: sums are at least the true ones, and together exactly what was added; each key has a rate that
// is not below what was added in the current window.
func TestSeveralCPUsLoseNothing(t *testing.T) {
	everyHook(t, func(t *testing.T, r *rig, seed uint64) {
		rng := rand.New(rand.NewPCG(seed, 2))
		all := make([]item, 100_000)
		truth, total := map[Key]uint64{}, uint64(0)
		const now = 77<<window + 5
		for i := range all {
			all[i] = item{Key: draw(rng), Amount: 1 + rng.Uint64N(1500), Now: now}
			truth[all[i].Key] += all[i].Amount
			total += all[i].Amount
		}
		r.add(all, max(2, runtime.NumCPU()))
		for row := range rows {
			var sum, rate uint64
			for i := range columns {
				sum += r.sums[row*columns+i]
				rate += r.rates[row*columns+i].rate(now)
			}
			if sum != total || rate != total {
				t.Errorf("row %d has %d, and rates of %d, want %d", row, sum, rate, total)
			}
		}
		for key, want := range truth {
			hash := r.seed.Hash(key.Address, key.Number)
			if sum, rate := r.sums.Of(hash), r.rates.Of(hash, now); sum < want || rate < want {
				t.Errorf("%v: %d, and a rate of %d, want at least %d", key, sum, rate, want)
			}
		}
		distinct := r.distinct()
		if got, want := distinct.Count(), uint64(len(truth)); got < want*9/10 || got > want*11/10 {
			t.Errorf("%d different keys, want about %d", got, want)
		}
		checkTop(t, r.top(sets*ways*runtime.NumCPU()), truth, r.seed, runtime.NumCPU())
	})
}

// checkTop checks the bounds of each key, and that no key is missing that must be there.
func checkTop(t *testing.T, top []Heavy, truth map[Key]uint64, seed Seed, cpus int) {
	t.Helper()
	var ofSet [sets]uint64
	for key, n := range truth {
		ofSet[SetOf(sets, seed.Hash(key.Address, key.Number))] += n
	}
	found := map[Key]bool{}
	for i, h := range top {
		if want := truth[h.Key]; want > h.Sum || h.Error > h.Sum || want < h.Sum-h.Error {
			t.Errorf("%v has %d, at most %d less: in truth %d", h.Key, h.Sum, h.Error, want)
		}
		if i > 0 && h.Sum > top[i-1].Sum {
			t.Errorf("key %d is heavier than the one before it", i)
		}
		found[h.Key] = true
	}
	var checked int
	for key, n := range truth {
		if n > ofSet[SetOf(sets, seed.Hash(key.Address, key.Number))]/ways*uint64(cpus) {
			checked++
			if !found[key] {
				t.Errorf("%v with %d is missing", key, n)
			}
		}
	}
	if len(found) < min(len(truth), sets) {
		t.Errorf("only %d keys of %d", len(found), len(truth))
	}
	t.Logf("%d keys, %d of which must not be missing", len(found), checked)
}

// BenchmarkCost times each kind of sketch, on one CPU and on all at once, with one key and with many.
func BenchmarkCost(b *testing.B) {
	r := newRig(b, sketchTC)
	rng := rand.New(rand.NewPCG(1, 2))
	for i := range r.items {
		r.items[i].Key = Key{Number: rng.Uint64()}
	}
	for _, name := range []string{"hash", "sum", "cpu_sum", "rate", "distinct", "top"} {
		for keys, mask := range map[string]uint64{"one key": 0, "many keys": 1<<17 - 1} {
			for _, threads := range []int{1, runtime.NumCPU()} {
				b.Run(name+"/"+keys+"/"+[]string{"one CPU", "all CPUs"}[min(1, threads-1)], func(b *testing.B) {
					*r.stream = stream{Next: 7 << window, End: mask}
					var times []time.Duration
					for b.Loop() {
						times = append(times, r.time("cost_"+name, threads))
					}
					slices.Sort(times)
					b.ReportMetric(float64(times[0].Nanoseconds())/takes, "ns/least")
					b.ReportMetric(float64(times[len(times)/2].Nanoseconds())/takes, "ns/median")
					b.ReportMetric(0, "ns/op")
				})
			}
		}
	}
}

// time returns the time of a run, the mean of those on all CPUs.
func (r *rig) time(program string, threads int) time.Duration {
	var wg sync.WaitGroup
	times := make([]time.Duration, threads)
	for i := range threads {
		wg.Go(func() {
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			_, d, err := r.Programs[program].Benchmark(make([]byte, 64), 500, nil)
			if err != nil {
				r.t.Error(err)
			}
			times[i] = d
		})
	}
	wg.Wait()
	var sum time.Duration
	for _, d := range times {
		sum += d
	}
	return sum / time.Duration(threads)
}
