// SPDX-License-Identifier: Apache-2.0

package balance

import (
	"encoding/binary"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/polycube/polycube/test/repeat"
)

// logs are pcn_balance_logs of <pcn/balance.h>.
var logs = func() (logs [129]uint32) {
	const steps, e = 128, 1 / math.Ln2
	points := make([]float64, steps+1)
	for i := 1; i < steps; i++ {
		x := float64(i) / steps
		points[i] = -math.Log2(1-x) - e/12/steps/steps/(1-x)/(1-x)
	}
	points[steps] = 2*(math.Log2(steps)+e) - points[steps-1]
	for i := range logs {
		logs[i] = uint32(math.Round(points[i] * (1 << 28)))
	}
	return logs
}()

// behind is pcn_balance_behind.
func behind(random, inverse uint32) uint64 {
	from, to := uint64(logs[random>>25]), uint64(logs[random>>25+1])
	return (from + (to-from)*uint64(random&0x1ffffff)>>25) * uint64(inverse&0xffffff) >> (inverse >> 24)
}

// first is pcn_balance_rendezvous: the server, of members sorted by key, that has a hash.
func first(hash uint64, in []Member) uint32 {
	differ := slices.ContainsFunc(in, func(m Member) bool { return m.Weight != in[0].Weight })
	best, server := uint64(math.MaxUint64), uint32(0)
	for i := range in {
		const k = 0xd6e8feb86659fd93
		is := (hash ^ in[i].Key.hash(0x9e3779b97f4a7c15)) * k
		is = (is ^ is>>32) * k
		if differ {
			is = behind(uint32(is>>32), inverse(in[i].Weight))
		} else {
			is >>= 6
		}
		if is < best {
			best, server = is, in[i].Server
		}
	}
	return server
}

// firsts returns the servers of some hashes.
func firsts(members []Member, count int) []uint32 {
	in, owner := sorted(members), make([]uint32, count)
	for i := range owner {
		owner[i] = first(mix(uint64(i)+1), in)
	}
	return owner
}

// TestProgramsChooseTheFirstServer compares programs with the above, in which the other tests believe.
func TestProgramsChooseTheFirstServer(t *testing.T) {
	r := rand.New(rand.NewPCG(repeat.Seed(t), 3))
	e := newEnv(t, 1000)
	tables, services := e.begin(t, Fitting)
	for _, weight := range []uint32{1, 5, 1000, 1 << 30} {
		for _, count := range []int{1, 2, 3, 4, 10, 31, 32} {
			members := randomMembers(r, count, weight)
			if _, err := services.Set(serviceNumber(7), Wanted{By: ByFlow, Timeout: 10, Members: members}); err != nil {
				t.Fatal(err)
			}
			in := sorted(members)
			for from := range uint32(500) {
				if is := e.packet(t, from, serviceNumber(7).VIP, 80, 1, true); is.Chosen != first(is.Hash, in) {
					t.Fatalf("%d servers with weights up to %d: a flow went to %d, not to %d", count, weight, is.Chosen, first(is.Hash, in))
				}
			}
		}
	}
	if bytes, _ := tables.Memory(); bytes != partSize {
		t.Errorf("the tables take %d bytes", bytes)
	}
}

// TestSharesOfServersAreExact computes the shares of two servers, which are those of any two of a pool, compared with each
// other: -log2 of an even random number is an exponential one, so the error is that of the interpolation.
func TestSharesOfServersAreExact(t *testing.T) {
	const numbers = 1 << 16
	for _, weights := range [][2]uint32{{1, 1}, {1, 2}, {3, 4}, {1, 5}, {1, 10}, {7, 9}, {1, 100}, {100, 30000}, {1, 1000}, {1, 65535}} {
		lighter, heavier := make([]uint64, numbers), make([]uint64, numbers)
		for i := range uint32(numbers) {
			random := i*(1<<32/numbers) + 1<<32/numbers/2
			lighter[i], heavier[i] = behind(random, inverse(weights[0])), behind(random, inverse(weights[1]))
		}
		wins, beaten := 0, 0 // both are sorted
		for _, is := range lighter {
			for beaten < numbers && heavier[beaten] <= is {
				beaten++
			}
			wins += numbers - beaten
		}
		got, want := float64(wins)/numbers/numbers, float64(weights[0])/float64(weights[0]+weights[1])
		if math.Abs(got-want) > 2e-5 {
			t.Errorf("weights %v: the lighter one has %.6f of the flows, want %.6f", weights, got, want)
		}
	}
}

// TestFlowsAreSharedByWeight: as in slots, but flows are drawn, so their numbers vary as drawn ones do.
func TestFlowsAreSharedByWeight(t *testing.T) {
	r := rand.New(rand.NewPCG(repeat.Seed(t), 1))
	const flows = 100_000
	for range 20 {
		members, total := randomMembers(r, 1+r.IntN(fewMembers), 1+r.Uint32N(100)), 0.0
		got := map[uint32]int{}
		for _, server := range firsts(members, flows) {
			got[server]++
		}
		for _, m := range members {
			total += float64(m.Weight)
		}
		for _, m := range members {
			share := float64(m.Weight) / total
			if n, want := float64(got[m.Server]), flows*share; math.Abs(n-want) > 6*math.Sqrt(flows*share*(1-share))+3 {
				t.Errorf("%d members: weight %d of %v has %v flows, want %.1f", len(members), m.Weight, total, n, want)
			}
		}
	}
}

// TestAChangeMovesNoFlowOfOthers: for every number of servers, and equal and different weights, a server that is removed, or that has
// another weight, moves no flow from one of the others to another, and its own in one direction.
func TestAChangeMovesNoFlowOfOthers(t *testing.T) {
	r := rand.New(rand.NewPCG(repeat.Seed(t), 1))
	const flows = 5000
	for count := 2; count <= fewMembers; count++ {
		for _, weight := range []uint32{1, 100, 1 << 30} {
			members := randomMembers(r, count, weight)
			was := firsts(members, flows)
			i := r.IntN(count)
			server := members[i].Server
			without := firsts(slices.Concat(members[:i], members[i+1:]), flows)
			if n := moved(was, without, server); n != 0 {
				t.Errorf("%d servers, weights up to %d: one was removed, and %d flows of others moved", count, weight, n)
			}
			changed := slices.Clone(members)
			r.Shuffle(count, func(a, b int) { changed[a], changed[b] = changed[b], changed[a] })
			at := slices.IndexFunc(changed, func(m Member) bool { return m.Server == server })
			changed[at].Weight = 1 + r.Uint32N(2*weight-1)
			is := firsts(changed, flows)
			taken, given, others := 0, 0, 0
			for flow := range was {
				switch {
				case was[flow] == is[flow]:
				case is[flow] == server:
					taken++
				case was[flow] == server:
					given++
				default:
					others++
				}
			}
			if others != 0 || taken > 0 && given > 0 {
				t.Errorf("%d servers: the weight %d became %d: its server took %d flows and gave %d, and others moved %d",
					count, members[i].Weight, changed[at].Weight, taken, given, others)
			}
		}
	}
}

func TestInversesOfWeights(t *testing.T) {
	r := rand.New(rand.NewPCG(repeat.Seed(t), 1))
	check := func(weight uint32) {
		word := inverse(weight)
		is := float64(word&0xffffff) / (1 << 23) / float64(uint64(1)<<(word>>24))
		if math.Abs(is*float64(weight)-1) > 1e-6 {
			t.Errorf("the inverse of %d is %v", weight, is)
		}
	}
	for _, weight := range []uint32{1, 2, 3, 65535, math.MaxUint32} {
		check(weight)
	}
	for range 1000 {
		check(1 + r.Uint32N(1<<r.IntN(32)))
	}
}

// TestTimedTenThousandPools: 10,000 different pools of 10 servers, then a change of one server in each.
func TestTimedTenThousandPools(t *testing.T) {
	e := newEnv(t, 1000)
	tables, services := e.begin(t, Fitting)
	members := randomMembers(rand.New(rand.NewPCG(1, 2)), 10, 1)
	set := func(from, to int, kind byte) time.Duration {
		t.Helper()
		start := time.Now()
		for n := from; n < to; n++ {
			binary.LittleEndian.PutUint32(members[0].Key[:], uint32(n))
			members[0].Key[9] = kind
			if _, err := services.Set(serviceNumber(n), Wanted{By: ByFlow, Members: members}); err != nil {
				t.Fatal(err)
			}
		}
		return time.Since(start)
	}
	took := set(0, 10000, 1)
	bytes, count := tables.Memory()
	changes := set(0, 1000, 2)
	t.Logf("10,000 pools of 10 servers: %v, %d bytes; 1,000 changes: %v", took, bytes, changes)
	if count != 10000 || bytes > 4<<20 || took > 2*time.Second || changes > 500*time.Millisecond {
		t.Errorf("%d pools: %d bytes, %v; 1,000 changes: %v", count, bytes, took, changes)
	}
	if is := e.packet(t, 1, serviceNumber(9999).VIP, 80, 1, true); !slices.ContainsFunc(members, func(m Member) bool { return m.Server == is.Chosen }) {
		t.Errorf("a flow of the last service: %+v", is)
	}
}

// TestKindsOfTablesShareMemory takes and releases tables of all kinds.
func TestKindsOfTablesShareMemory(t *testing.T) {
	e := newEnv(t, 1000)
	tables, _ := e.begin(t, Fitting)
	r := rand.New(rand.NewPCG(repeat.Seed(t), 4))
	type use struct {
		pool         uint64
		first, until int
	}
	var uses []use
	for range 100 {
		members := randomMembers(r, []int{1, 3, 32, 33, 256, 300}[r.IntN(6)], 3)
		pool, err := tables.Get(members, Order(r.IntN(2)))
		if err != nil {
			t.Fatal(err)
		}
		shift := 11
		if kind(pool) == rendezvous {
			shift = 7
		}
		at := int(pool>>32)<<18 + int(uint32(pool)>>8)<<shift
		made := tables.at[pool]
		if at != int(made.part.index)*partSize+made.first*unitSize {
			t.Fatalf("programs look for a table at %#x", at)
		}
		for _, u := range uses {
			if at < u.until && u.first < at+made.units*unitSize {
				t.Fatalf("tables %#x and %#x overlap", pool, u.pool)
			}
		}
		uses = append(uses, use{pool, at, at + made.units*unitSize})
		if len(uses) > 20 {
			i := r.IntN(len(uses))
			tables.Release(uses[i].pool)
			uses = slices.Delete(uses, i, i+1)
			tables.now = func() time.Time { return time.Now().Add(time.Hour) }
		}
	}
	for _, u := range uses {
		tables.Release(u.pool)
	}
	tables.reuse()
	tables.now = func() time.Time { return time.Now().Add(3 * time.Hour) }
	tables.reuse()
	for _, p := range tables.parts {
		if p.free != partUnits || slices.Contains(p.used[:], true) {
			t.Errorf("%d of %d units are free after all", p.free, partUnits)
		}
	}
}

// BenchmarkChoose is for comparing tables: it includes the test's program, with a search for the service and for the pin.
func BenchmarkChoose(b *testing.B) {
	for _, c := range []struct {
		name   string
		size   Size
		count  int
		weight uint32
	}{
		{"slots", Large, 10, 1}, {"3", Fitting, 3, 1}, {"10", Fitting, 10, 1}, {"32", Fitting, 32, 1},
		{"3 different", Fitting, 3, 100}, {"10 different", Fitting, 10, 100}, {"32 different", Fitting, 32, 100},
	} {
		b.Run(c.name, func(b *testing.B) {
			e := newEnv(b, 1000)
			_, services := e.begin(b, c.size)
			members := randomMembers(rand.New(rand.NewPCG(1, 2)), c.count, c.weight)
			if _, err := services.Set(serviceNumber(7), Wanted{By: ByFlow, Timeout: 10, Members: members}); err != nil {
				b.Fatal(err)
			}
			data, err := binary.Append(make([]byte, 16), binary.NativeEndian, flowTo(1, serviceNumber(7).VIP, 80))
			if err != nil {
				b.Fatal(err)
			}
			const runs = 1_000_000
			var took time.Duration
			for b.Loop() {
				_, t, err := e.coll.Programs["balance_run"].Benchmark(data, runs, nil)
				if err != nil {
					b.Fatal(err)
				}
				took += t // of one run
			}
			b.ReportMetric(float64(took.Nanoseconds())/float64(b.N), "ns/packet")
		})
	}
}
