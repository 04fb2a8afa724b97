// SPDX-License-Identifier: Apache-2.0

package perf

import (
	"maps"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/test/lint/reference"
	"github.com/polycube/polycube/test/netns"
)

// weighedOn is the kernel with whose verifier the reference was generated; others count differently.
const weighedOn = "6.18."

func TestTheReferenceHasTheWeightsOfTheHelpers(t *testing.T) {
	netns.NeedRoot(t)
	t.Parallel()
	now, err := WeighHelpers()
	if err != nil {
		t.Fatal(err)
	}
	cases, err := helperCases(cube.TC)
	if err != nil {
		t.Fatal(err)
	}
	if len(now) != len(cases)-1 {
		t.Errorf("%d helpers are weighed, want %d: %v", len(now), len(cases)-1, slices.Sorted(maps.Keys(now)))
	}
	for name, of := range now {
		if len(of) != 2 {
			t.Errorf("%s is weighed at %v", name, of)
		}
	}
	if w := now["pcn_notify"]["tc"]; w.Stack < 32 || w.Verified == 0 {
		t.Errorf("pcn_notify, which fills a record on the stack, is as light as %s", w)
	}
	text, err := os.ReadFile("../../" + reference.Document)
	if err != nil {
		t.Fatal(err)
	}
	was := WeightsOf(reference.FiguresOf(text).Weights)
	if len(was) != len(now) {
		t.Errorf("the reference has weights of %d helpers, want %d: go run ./test/perf/cmd/weigh -write .", len(was), len(now))
	}
	var u unix.Utsname
	if err := unix.Uname(&u); err != nil {
		t.Fatal(err)
	}
	if release := unix.ByteSliceToString(u.Release[:]); !strings.HasPrefix(release, weighedOn) {
		t.Logf("the weights of the reference are of Linux %s, this is %s", weighedOn, release)
		return
	}
	for _, drifted := range Drifted(now, was) {
		t.Errorf("%s: if it is to be, go run ./test/perf/cmd/weigh -write .", drifted)
	}
}

func TestWeightsAreReadAsTheyAreWritten(t *testing.T) {
	of := map[string]map[string]HelperWeight{"pcn_x": {"tc": {12, 0}, "xdp": {9130, 32}}, "pcn_y": {"tc": {0, 8}, "xdp": {1, 2}}}
	text := Weights(of)
	if got := text["pcn_x"]; got != "12 instructions, 0 bytes of stack at TC; 9130 instructions, 32 bytes of stack at XDP" {
		t.Errorf("it is written %q", got)
	}
	if got := WeightsOf(text); !reflect.DeepEqual(got, of) {
		t.Errorf("read as %v, want %v", got, of)
	}
}

func TestOnlyGrossDriftIsReported(t *testing.T) {
	weight := func(verified, stack int) map[string]map[string]HelperWeight {
		return map[string]map[string]HelperWeight{"pcn_x": {"tc": {verified, stack}}}
	}
	for _, tt := range []struct {
		now, was [2]int
		drifted  bool
	}{
		{[2]int{12, 0}, [2]int{12, 0}, false},
		{[2]int{16, 24}, [2]int{2, 0}, false}, // a few
		{[2]int{190, 60}, [2]int{100, 40}, false},
		{[2]int{210, 0}, [2]int{100, 0}, true},
		{[2]int{100, 0}, [2]int{210, 0}, true},
		{[2]int{12, 100}, [2]int{12, 40}, true},
	} {
		if got := Drifted(weight(tt.now[0], tt.now[1]), weight(tt.was[0], tt.was[1])); (len(got) > 0) != tt.drifted {
			t.Errorf("%v after %v: %v", tt.now, tt.was, got)
		}
	}
}
