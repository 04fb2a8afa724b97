// SPDX-License-Identifier: Apache-2.0

package stp

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"
)

func cmpText(parts ...any) string { return strings.TrimSpace(fmt.Sprintln(parts...)) }

// kinds of networks, and how long each may take after any change.
var kinds = []struct {
	name    string
	version func(n *network) Version
	shared  bool
	limit   time.Duration
}{
	{"RSTP", func(*network) Version { return RSTP }, false, 3 * time.Second},
	{"STP", func(*network) Version { return STP }, false, 50 * time.Second},
	{"mixed", func(n *network) Version { return []Version{STP, RSTP}[n.rng.IntN(2)] }, false, 50 * time.Second},
	{"mixed with shared links", func(n *network) Version { return []Version{STP, RSTP}[n.rng.IntN(2)] }, true, 50 * time.Second},
	{"RSTP with shared links", func(*network) Version { return RSTP }, true, 50 * time.Second},
}

// random makes a network of 2 to 20 bridges in which every bridge can be reached, with links besides.
func (n *network) random(version func(*network) Version, shared bool) {
	count := 2 + n.rng.IntN(19)
	for range count {
		n.add(uint16(4096*(7+n.rng.IntN(3))), version(n))
	}
	for i := 1; i < count; i++ {
		n.join(false, n.rng.IntN(i), i)
	}
	for range 1 + n.rng.IntN(count) {
		n.join(false, n.rng.IntN(count), n.rng.IntN(count))
	}
	for range n.rng.IntN(4) {
		n.join(false, n.rng.IntN(count)) // a station
	}
	if shared {
		for range 1 + n.rng.IntN(2) {
			n.join(true, n.rng.IntN(count), n.rng.IntN(count), n.rng.IntN(count))
		}
	}
}

func (n *network) settle(what string, limit time.Duration) time.Duration {
	n.t.Helper()
	began := n.now
	n.runUntil(began + max(2*limit, 60*time.Second))
	took := n.changed - began
	if wrong := n.wrong(); len(wrong) > 0 {
		n.t.Errorf("%s: the tree is wrong:\n%s\n%s", what, strings.Join(wrong, "\n"), n)
	}
	if took > limit {
		n.t.Errorf("%s: it took %v, more than %v", what, took, limit)
	}
	return took
}

func TestRandomNetworksBecomeTheTreeOfTheReference(t *testing.T) {
	runs := 15
	if os.Getenv("POLYCUBE_SOAK") != "" {
		runs = 1000
	}
	for _, k := range kinds {
		for seed := range uint64(runs) {
			t.Run(fmt.Sprintf("%s/%d", k.name, seed), func(t *testing.T) {
				n := newNetwork(t, seed)
				n.random(k.version, k.shared)
				for _, w := range n.wires {
					n.set(w, true)
				}
				a := n.settle("at first", k.limit)
				cut := n.wires[n.rng.IntN(len(n.wires))]
				n.set(cut, false)
				b := n.settle("after a link was cut", k.limit)
				n.set(cut, true)
				c := n.settle("after it came back", k.limit)
				n.kill(n.nodes[n.rng.IntN(len(n.nodes))])
				d := n.settle("after a bridge was gone", k.limit)
				t.Logf("%d bridges: %v %v %v %v", len(n.nodes), a, b, c, d)
			})
		}
	}
}
