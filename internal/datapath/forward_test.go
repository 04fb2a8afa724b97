// SPDX-License-Identifier: Apache-2.0

package datapath

import (
	"bytes"
	"net"
	"testing"
)

func ifindex(name string) (int, error) {
	i, err := net.InterfaceByName(name)
	if err != nil {
		return 0, err
	}
	return i.Index, nil
}

func TestChainForwardsBothWaysAndCounts(t *testing.T) {
	everywhere(t, func(t *testing.T, b *bench) {
		one := b.cube("probe", 2, map[string]any{"what": uint32(6)})
		two := b.cube("probe", 2, map[string]any{"what": uint32(6)})
		b.link(one, 1, two, 0)
		a := b.host("a", "", one, 0)
		z := b.host("z", "", two, 1)
		b.commit()

		there := frame("there")
		if got := b.passes(a, z, there); !bytes.Equal(got, there) {
			t.Errorf("there: got % x, want % x", got, there)
		}
		back := frame("back")
		if got := b.passes(z, a, back); !bytes.Equal(got, back) {
			t.Errorf("back: got % x, want % x", got, back)
		}
		want := PortCounters{RxPackets: 1, RxBytes: 64, TxPackets: 1, TxBytes: 64}
		for _, n := range []*Node{one, two} {
			for p := range uint16(2) {
				if got := b.counters(n, p); got != want {
					t.Errorf("%s port %d: %+v, want %+v", n.Name, p, got, want)
				}
			}
		}
	})
}
