// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"testing"

	"github.com/polycube/polycube/test/need"
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
		{"functions that count for a multiple of 16 bytes", got.SmallFrames, 6, 8},
	} {
		if !f.has && need.Linux(t, f.major, f.minor) {
			t.Errorf("%s: not found on a kernel from %d.%d on", f.name, f.major, f.minor)
		}
		t.Logf("%s: %t", f.name, f.has)
	}
}
