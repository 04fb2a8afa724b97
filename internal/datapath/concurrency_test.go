// SPDX-License-Identifier: Apache-2.0

package datapath

import (
	"testing"
	"time"

	"github.com/polycube/polycube/test/netns"
)

// TestBothWaysAtOnceLosesAndMiscountsNothing sends in both directions, each from its own CPU, while programs are
// swapped and maps are written: per-CPU memory is shared by all packets of a CPU, and a packet that used another one's
// would be sent wrongly or counted wrongly.
func TestBothWaysAtOnceLosesAndMiscountsNothing(t *testing.T) {
	some := []setting{settings[0], settings[1], settings[3], settings[4], settings[6], settings[7]}
	in(t, some, func(t *testing.T, b *bench) {
		one, two, a, z := b.chain()
		toZ, toA := netns.OpenRaw(t, z, netns.Inner), netns.OpenRaw(t, a, netns.Inner)
		seen, err := b.plane.Map(two.ID, "seen")
		if err != nil {
			t.Fatal(err)
		}
		const every = 50 * time.Microsecond
		fromA, fromZ := stream(b, a, every), stream(b, z, every)
		defer fromA()
		defer fromZ()
		for n, end := 0, time.Now().Add(reloads/2); n < 10 || time.Now().Before(end); n++ {
			c := []*Node{one, two}[n%2]
			c.Constants = map[string]any{"what": uint32(6), "out": uint16(n + 2)} // out is not read if what is 6
			b.commit()
			if err := seen.Put(uint32(1+n%3), uint64(n)); err != nil {
				t.Fatal(err)
			}
		}
		there, back := fromA(), fromZ()
		arrive(b, toZ, there)
		arrive(b, toA, back)
		b.packets(one, 0, uint64(there), uint64(back))
		b.packets(one, 1, uint64(back), uint64(there))
		b.packets(two, 0, uint64(there), uint64(back))
		b.packets(two, 1, uint64(back), uint64(there))
		var passed uint64
		if err := seen.Lookup(uint32(0), &passed); err != nil || passed != uint64(there)+uint64(back) {
			t.Errorf("the second cube saw %d packets (%v), %d were sent", passed, err, there+back)
		}
	})
}
