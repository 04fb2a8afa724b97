// SPDX-License-Identifier: Apache-2.0

package mgw

import (
	"net"
	"slices"
	"testing"
	"time"

	"github.com/polycube/polycube/test/perf/contest"
	"github.com/polycube/polycube/test/perf/report"
)

// chainTakes and policerTakes are ns per packet.
const chainTakes, policerTakes = 80, 40

// missed are the checks that fail.
func missed(out *Result) (names []string) {
	for _, c := range out.Checks {
		if !c.Pass {
			names = append(names, c.What)
		}
	}
	return names
}

func same(t *testing.T, got, want []string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("the goals that are missed are %q, want %q", got, want)
	}
}

// TestTheCostOfAnAlgorithmIsWithoutTheChain: the difference to the fixed window counts, and that to the reduced lock.
func TestTheCostOfAnAlgorithmIsWithoutTheChain(t *testing.T) {
	times := map[string]report.Sample{}
	for algorithm, more := range map[string]float64{
		unlimited: -policerTakes, fixedWindow: 0, compareAndSwap: 11, tokenBucket: 20, tokenBucket + reduced: 10, slidingWindow: 5, slidingWindow + reduced: 4,
	} {
		for _, n := range contractCounts {
			times[of(algorithm, plural(n, "contract"))] = report.Sample{chainTakes + policerTakes + more}
		}
	}
	out := &Result{}
	costs(times, out)
	rows := out.Tables[0].Rows
	if len(rows) != len(algorithms) || rows[0][0] != compareAndSwap || rows[0][len(contractCounts)] != "51.0 (51.0–51.0)" {
		t.Errorf("rows %q", rows)
	}
	same(t, missed(out), []string{
		"policer, COMPARE_AND_SWAP against FIXED_WINDOW, 1 contract", "policer, COMPARE_AND_SWAP against FIXED_WINDOW, 1,000 contracts",
		"policer, SLIDING_WINDOW against SLIDING_WINDOW_REDUCED_LOCK, 1 contract, net",
	})
}

// TestTwoCPUsAreComparedWithOne: by the sum of their rates.
func TestTwoCPUsAreComparedWithOne(t *testing.T) {
	pairs := map[string]*contest.Pair{}
	for _, algorithm := range append([]string{unlimited}, algorithms...) {
		for _, s := range sharings {
			pairs[of(algorithm, s.name)] = &contest.Pair{One: report.Sample{8}, Both: report.Sample{12}}
		}
	}
	pairs[of(tokenBucket+reduced, "1 class")].Both = report.Sample{10}
	out := &Result{}
	scaling(pairs, out)
	rows := out.Tables[0].Rows
	if len(rows) != 1+len(algorithms) || rows[0][0] != unlimited || rows[0][3] != "1.50 (1.50–1.50)" {
		t.Errorf("rows %q", rows)
	}
	same(t, missed(out), []string{"policer, two CPUs on 1 class, packets of TOKEN_BUCKET_REDUCED_LOCK against FIXED_WINDOW"})
}

// TestCPUsHaveClassesOfTheirOwnOrShareThem: then the classes alternate.
func TestCPUsHaveClassesOfTheirOwnOrShareThem(t *testing.T) {
	if one, other := (sharing{classes: 4}).users(0), (sharing{classes: 4}).users(1); !slices.Equal(one, []int{0, 1, 2, 3}) || !slices.Equal(other, one) {
		t.Errorf("shared: users %v and %v", one, other)
	}
	if one, other := (sharing{classes: 4, apart: true}).users(0), (sharing{classes: 4, apart: true}).users(1); !slices.Equal(one, []int{0, 2}) || !slices.Equal(other, []int{1, 3}) {
		t.Errorf("apart: users %v and %v", one, other)
	}
}

// TestReadingEndsWithTheTimeOrTheBytes, whatever comes first.
func TestReadingEndsWithTheTimeOrTheBytes(t *testing.T) {
	from, to := net.Pipe()
	defer from.Close()
	defer to.Close()
	go func() { _, _ = from.Write(make([]byte, 300)) }()
	if n, err := readFor(to, time.Minute, 300); n != 300 || err != nil {
		t.Errorf("%d bytes, error %v; want 300", n, err)
	}
	if n, err := readFor(to, time.Millisecond, 1); n != 0 || err != nil {
		t.Errorf("%d bytes, error %v; want none, and no error, when the time is over", n, err)
	}
	_ = from.Close()
	if _, err := readFor(to, time.Minute, 1); err == nil {
		t.Error("a connection that ends is no error")
	}
}
