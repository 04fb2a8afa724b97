// SPDX-License-Identifier: Apache-2.0

package daemon

import (
	"testing"

	"github.com/polycube/polycube/cube"
)

// TestTapName: helper interfaces have names that fit, and that differ between instances.
func TestTapName(t *testing.T) {
	seen := map[string]bool{}
	for _, instance := range []string{"", "a", "b", "cp", "an-instance-with-a-very-long-name"} {
		for _, h := range []cube.Hook{cube.TC, cube.XDP} {
			name := helperName(h.String()+"_cp", instance)
			if len(name) > 15 || seen[name] {
				t.Errorf("instance %q: name %q is too long or taken", instance, name)
			}
			seen[name] = true
		}
	}
	if helperName("tc_cp", "") != "pcn_tc_cp" || helperName("xdp_cp", "") != "pcn_xdp_cp" {
		t.Error("the main daemon's interfaces have other names than the first Polycube's")
	}
}
