// SPDX-License-Identifier: Apache-2.0

package netdevs

import (
	"testing"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/internal/datapath/framework"
)

// TestForgetHelper: a packet that came down by a helper interface did not enter there.
func TestForgetHelper(t *testing.T) {
	h := NewHelpers(Options{Taps: map[cube.Hook]int{cube.TC: 7}, Loop: framework.Loop{In: 8}})
	for netdev, want := range map[int]int{0: 0, 6: 6, 7: 0, 8: 0} {
		trip, rest := cube.Trip{Hops: 3, Netdev: netdev, FlowHash: 4, Tenant: 5}, cube.Trip{Hops: 3, Netdev: want, FlowHash: 4, Tenant: 5}
		if h.ForgetHelper(&trip); trip != rest {
			t.Errorf("entered at %d: %+v, want %+v", netdev, trip, rest)
		}
	}
}
