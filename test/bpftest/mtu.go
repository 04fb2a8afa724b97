// SPDX-License-Identifier: Apache-2.0

package bpftest

import (
	"testing"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/internal/kernel"
	"github.com/polycube/polycube/test/netns"
)

// LongestMTU returns an MTU for hosts of cubes of a type: one for jumbo frames or, if the kernel cannot redirect frames
// in several buffers, one whose frames fit a buffer.
func LongestMTU(t testing.TB, typ cube.Type) int {
	t.Helper()
	netns.NeedRoot(t)
	features, err := kernel.Probe()
	if err != nil {
		t.Fatal(err)
	}
	if typ == cube.TypeXDPDRV && !features.RedirectFrags {
		return 3000
	}
	return 9000
}
