// SPDX-License-Identifier: Apache-2.0

package policer

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/polycube/polycube/bucket"
	"github.com/polycube/polycube/test/bpftest"
	"github.com/polycube/polycube/test/modeltest"
	"github.com/polycube/polycube/test/repeat"
)

func TestModelAndCodeSayTheSame(t *testing.T) {
	modeltest.Match(t, modeltest.Load(t, modeltest.Service(t, files).Model), Config{})
}

func TestMapsAreLaidOutAsInC(t *testing.T) {
	for _, name := range []string{"policer.tc.o", "policer.xdp.o"} {
		object, err := files.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		bpftest.Layout(t, object, "contracts", contract{})
		bpftest.Layout(t, object, "counts", counts{})
		bpftest.Layout(t, object, "states", state{})
	}
}

func TestExamplesOfTheReadme(t *testing.T) { bpftest.Readme(t, "README.md") }

// TestABucketHasNoMoreTokensAfterAChange, unless it was full.
func TestABucketHasNoMoreTokensAfterAChange(t *testing.T) {
	r := rand.New(rand.NewPCG(repeat.Seed(t), 0))
	limit := func() bucket.Limit {
		for {
			if l, err := bucket.New(1+r.Uint64N(1<<36), time.Second, 1625+r.Uint32N(1<<30)); err == nil {
				return l
			}
		}
	}
	for range 10_000 {
		was, is, now := limit(), limit(), time.Duration(1+r.Int64N(1<<50))
		word := uint64(now)<<8 - r.Uint64N(was.Size+1)
		left := was.Left(word, now)
		after := is.Left((&writing{algorithm: CompareAndSwap}).fitted(word, was, contract{Limit: is}, now), now)
		if after > left && left < was.Burst || left == was.Burst && after != is.Burst {
			t.Fatalf("%+v with %d tokens has %d as %+v", was, left, after, is)
		}
	}
}
