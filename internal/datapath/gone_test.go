// SPDX-License-Identifier: Apache-2.0

package datapath

import (
	"errors"
	"maps"
	"testing"
)

// TestANetdevThatWentBeforeTheChange: the error names the netdev, whichever error the kernel returned at whichever
// step; everything is as before, and without the netdev the change succeeds.
func TestANetdevThatWentBeforeTheChange(t *testing.T) {
	everywhere(t, func(t *testing.T, b *bench) {
		c := b.cube("probe", 4, map[string]any{"what": uint32(2)})
		a, z := b.host("a", "", c, 0), b.host("z", "", c, 1)
		b.commit()
		b.passes(a, z, frame("before"))
		b.host("gone", "", c, 2)
		index := b.g.Netdevs["gone"].Index
		b.lab.Run("ip", "link", "del", "gone")
		err := b.inLab(b.tryCommit)
		var g *GoneError
		if !errors.As(err, &g) || !maps.Equal(g.Netdevs, map[string]int{"gone": index}) {
			t.Fatalf("the change ends with %v, want that netdev gone has gone", err)
		}
		b.passes(a, z, frame("after"))
		b.g.Netdevs["gone"].Index = 0
		b.commit()
		b.passes(z, a, frame("without"))
	})
}
