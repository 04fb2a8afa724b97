// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"fmt"
	"slices"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/polycube/polycube/test/netns"
)

// TestProbeAgreesWithNewKernels: from the version on that brought a feature, the probe must find it; before, a feature may
// have been ported back.
func TestProbeAgreesWithNewKernels(t *testing.T) {
	netns.NeedRoot(t)
	got, err := Probe()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range []struct {
		name         string
		has          bool
		major, minor int
	}{
		{"arg:nonnull", got.NonNullArgs, 6, 8},
		{"loops that fall through into their head", got.LoopsByFallThrough, 6, 7},
		{"bpf_cast_to_kern_ctx", got.SkbOfContext, 6, 2},
		{"redirects of frames in several buffers", got.RedirectFrags, 6, 3},
		{"the stack read by any register", got.StackByAnyRegister, 6, 8},
	} {
		if !f.has && runs(t, f.major, f.minor) {
			t.Errorf("%s: not found on a kernel from %d.%d on", f.name, f.major, f.minor)
		}
		t.Logf("%s: %t", f.name, f.has)
	}
}

// runs tells whether the kernel is of a version or newer.
func runs(t *testing.T, major, minor int) bool {
	t.Helper()
	var name unix.Utsname
	if err := unix.Uname(&name); err != nil {
		t.Fatal(err)
	}
	var have [2]int
	release := unix.ByteSliceToString(name.Release[:])
	if _, err := fmt.Sscanf(release, "%d.%d", &have[0], &have[1]); err != nil {
		t.Fatalf("the kernel's release %q: %v", release, err)
	}
	return slices.Compare(have[:], []int{major, minor}) >= 0
}
