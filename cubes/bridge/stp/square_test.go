// SPDX-License-Identifier: Apache-2.0

package stp

import (
	"fmt"
	"testing"
	"time"
)

// square creates four bridges with a link between any two: two of ours, of which the second is the root, and two of
// Linux, all with the default cost of 10 Gbit/s.
func (n *network) square() (links map[string]*wire) {
	for i, priority := range []uint16{28672, 24576, 32768, 36864} {
		version := []Version{RSTP, linux}[i/2]
		if d := n.add(priority, version); version != linux {
			d.cfg.ForwardDelay = 10 // the model's
			d.SetParameters(d.cfg)
		}
	}
	links = map[string]*wire{}
	for i := range 4 {
		for j := i + 1; j < 4; j++ {
			w := &wire{delay: time.Duration(100+n.rng.IntN(5000)) * time.Microsecond}
			for _, node := range []int{i, j} {
				cost := uint32(2) // the Linux bridge's
				if n.nodes[node].classic == nil {
					cost = PathCost(10000)
				}
				n.plug(w, node, cost, 128, false)
			}
			n.wires = append(n.wires, w)
			links[fmt.Sprint(i+1, "-", j+1)] = w
			n.set(w, true)
		}
	}
	return links
}

// The third bridge loses its link to the root, and its port to the first of ours opens after two forward delays. With a
// higher cost of ours that did not last: the fourth bridge keeps the third one's message (802.1D-1998, 8.6.2) until it
// is too old, then offers it a cheaper path, and its own port takes two more forward delays. The third bridge was cut
// off for 40 s.
func TestASquareWithLinuxBridgesHealsInTwoForwardDelays(t *testing.T) {
	for _, first := range []string{"1-4", "2-4"} {
		for _, gap := range []time.Duration{0, 60 * time.Second} {
			for seed := range uint64(10) {
				t.Run(fmt.Sprint(first, " ", gap, " ", seed), func(t *testing.T) {
					n := newNetwork(t, seed)
					links := n.square()
					n.settle("at first", 45*time.Second)
					n.set(links[first], false)
					n.runUntil(n.now + gap)
					n.set(links["2-3"], false)
					cut, healed := n.now, n.now
					for n.now < cut+60*time.Second {
						n.runUntil(n.now + 50*time.Millisecond)
						for _, other := range []int{0, 1, 3} {
							if !n.connected(2, other) {
								healed = n.now
							}
						}
					}
					if took, limit := healed-cut, 23*time.Second; took > limit {
						t.Errorf("it took %v, more than %v\n%s", took, limit, n)
					}
				})
			}
		}
	}
}

func TestPathCosts(t *testing.T) {
	for speed, want := range map[uint32]uint32{0: 100, 10: 100, 100: 19, 1000: 5, 2500: 4, 5000: 3, 10000: 2, 25000: 1, 400000: 1,
		1: 100, 11: 100, 9999: 100, 1<<32 - 1: 1} {
		if got := PathCost(speed); got != want {
			t.Errorf("at %d Mbit/s the cost is %d, want %d", speed, got, want)
		}
	}
}
