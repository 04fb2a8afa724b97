// SPDX-License-Identifier: Apache-2.0

package meter

import (
	"errors"
	"math"
	"testing"
	"time"

	"github.com/polycube/polycube/bucket"
	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/test/bpftest"
	"github.com/polycube/polycube/test/modeltest"
)

func TestModelAndCodeSayTheSame(t *testing.T) {
	modeltest.Match(t, modeltest.Load(t, modeltest.Service(t, files).Model), Config{})
}

func TestRowsAreThoseOfThePrograms(t *testing.T) {
	for _, name := range []string{"meter.tc.o", "meter.xdp.o"} {
		object, err := files.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		bpftest.Layout(t, object, "sides", side{})
		bpftest.Layout(t, object, "buckets", bucketsOf{})
		bpftest.Layout(t, object, "owners", owner{})
	}
}

func TestBurstsFollowFromTheRate(t *testing.T) {
	for _, tt := range []struct {
		limit Limit
		burst uint32
	}{
		{Limit{Rate: 1, Unit: Bits, Burst: 1514}, 1514},
		{Limit{Rate: 1_000_000, Unit: Bits}, 131_072},
		{Limit{Rate: 1_000_000_000, Unit: Bits}, 31_250_000},
		{Limit{Rate: 400_000_000_000_000, Unit: Bits}, math.MaxUint32},
		{Limit{Rate: 10, Unit: Packets}, 100},
		{Limit{Rate: 100_000, Unit: Packets}, 25_000},
		{Limit{Rate: 100_000, Unit: Packets, Burst: 7}, 7},
	} {
		r, err := tt.limit.row()
		if err != nil || r.Rate.Burst != tt.burst {
			t.Errorf("%+v: a burst of %d, %v, want %d", tt.limit, r.Rate.Burst, err, tt.burst)
		}
		period := time.Second
		if tt.limit.Unit == Bits {
			period = 8 * time.Second
		}
		if want, _ := bucket.New(tt.limit.Rate, period, tt.burst); r.Rate != want {
			t.Errorf("%+v: %+v, want %+v", tt.limit, r.Rate, want)
		}
	}
	long := Limit{Rate: 1, Unit: Bits, Burst: math.MaxUint32}
	if _, err := long.row(); !errors.Is(err, cube.ErrInvalid) {
		t.Errorf("a burst of a thousand years: %v", err)
	}
}
