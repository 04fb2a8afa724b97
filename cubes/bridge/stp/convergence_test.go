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

func always(v Version) func(*network) Version { return func(*network) Version { return v } }

func either(n *network) Version { return []Version{STP, RSTP}[n.rng.IntN(2)] }

func withLinux(n *network) Version { return []Version{RSTP, linux}[n.rng.IntN(2)] }

// kinds of networks, with the maximum convergence time when links are added, and when links or bridges are removed.
var kinds = []struct {
	name    string
	version func(n *network) Version
	shared  bool
	come    time.Duration
	gone    time.Duration
	// lenient: see network.
	lenient bool
}{
	{"RSTP", always(RSTP), false, 6 * time.Second, 25 * time.Second, true},
	{"STP", always(STP), false, 50 * time.Second, 60 * time.Second, false},
	{"mixed", either, false, 50 * time.Second, 60 * time.Second, true},
	{"mixed with shared links", either, true, 50 * time.Second, 70 * time.Second, true},
	{"RSTP with Linux bridges", withLinux, false, 50 * time.Second, 60 * time.Second, true},
	{"Linux bridges", always(linux), false, 50 * time.Second, 60 * time.Second, false},
	{"RSTP with shared links", always(RSTP), true, 50 * time.Second, 60 * time.Second, true},
}

// random creates a connected network of 2 to 20 bridges, with additional links.
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
	loops, changes := 0, 0
	for _, k := range kinds {
		for seed := range runs() {
			t.Run(fmt.Sprintf("%s/%d", k.name, seed), func(t *testing.T) {
				n := newNetwork(t, seed)
				n.random(k.version, k.shared)
				for _, w := range n.wires {
					n.set(w, true)
				}
				a := n.settle("at first", k.come)
				cut := n.wires[n.rng.IntN(len(n.wires))]
				n.lenient = k.lenient
				n.set(cut, false)
				b := n.settle("after a link was cut", k.gone)
				n.lenient = false
				n.set(cut, true)
				c := n.settle("after it came back", k.come)
				n.lenient = k.lenient
				n.kill(n.nodes[n.rng.IntN(len(n.nodes))])
				d := n.settle("after a bridge was gone", k.gone)
				t.Logf("%d bridges: %v %v %v %v", len(n.nodes), a, b, c, d)
				changes += 2
				loops += min(1, n.loops)
			})
		}
	}
	t.Logf("%d of %d losses led to a loop for a moment", loops, changes)
	if loops*50 > changes {
		t.Errorf("%d of %d losses led to a loop for a moment", loops, changes)
	}
}

// runs are the seeds.
func runs() uint64 {
	if os.Getenv("POLYCUBE_SOAK") != "" {
		return 1000
	}
	return 15
}

// ring creates a ring of bridges, each with a station.
func (n *network) ring(size int, version func(*network) Version) (around []*wire) {
	for range size {
		n.add(uint16(4096*(7+n.rng.IntN(3))), version(n))
	}
	for i := range size {
		around = append(around, n.join(false, i, (i+1)%size))
		n.join(false, i)
	}
	for _, w := range n.wires {
		n.set(w, true)
	}
	return around
}

// A ring is the usual topology: whatever is lost, even the root, it never has a loop, and converges in time. Initially
// it takes longer, because ports to stations need three seconds to detect that these are no bridges.
func TestRingsHealInTime(t *testing.T) {
	for _, k := range []struct {
		name    string
		version func(*network) Version
		first   time.Duration
		limit   time.Duration
	}{
		{"RSTP", always(RSTP), 6 * time.Second, 3 * time.Second},
		{"STP", always(STP), 50 * time.Second, 50 * time.Second},
		{"mixed", either, 50 * time.Second, 50 * time.Second},
		{"with Linux bridges", withLinux, 50 * time.Second, 60 * time.Second},
	} {
		for seed := range runs() {
			t.Run(fmt.Sprintf("%s/%d", k.name, seed), func(t *testing.T) {
				n := newNetwork(t, seed)
				around := n.ring(3+n.rng.IntN(5), k.version)
				n.settle("at first", k.first)
				cut := around[n.rng.IntN(len(around))]
				n.set(cut, false)
				n.settle("after a link was cut", k.limit)
				n.set(cut, true)
				n.settle("after it came back", k.limit)
				n.kill(n.nodes[n.rng.IntN(len(n.nodes))])
				n.settle("after a bridge was gone", k.limit)
			})
		}
	}
}
