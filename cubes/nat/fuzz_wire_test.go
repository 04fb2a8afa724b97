// SPDX-License-Identifier: Apache-2.0

package nat

// Random frames at full speed from both sides at once, while rules change: every frame comes out or is counted as
// dropped, exactly.

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/test/bpftest"
	"github.com/polycube/polycube/test/netns"
	"github.com/polycube/polycube/test/pace"
	"github.com/polycube/polycube/test/repeat"
)

// wireTotals contains the counts of cubes and hosts.
type wireTotals struct{ received, sent, dropped, arrived uint64 }

func TestEveryFrameOnTheWireIsSentOrCountedAsDropped(t *testing.T) {
	t.Parallel()
	seed, bursts := repeat.Seed(t), 60
	switch {
	case os.Getenv("POLYCUBE_SOAK") != "":
		bursts = 20000
	case pace.Slow():
		bursts = 6
	}
	for _, typ := range []cube.Type{cube.TypeTC, cube.TypeXDPDRV} {
		t.Run(strings.ToLower(string(typ)), func(t *testing.T) {
			t.Parallel()
			r := newRig(t, typ, true)
			err := r.reset(drawBehaviour(seed))
			for _, n := range []int{0, 4} { // an IPv4 and an IPv6 rule, so that there is work from the beginning
				err = errors.Join(err, r.change(op{verb: opSnat, n: n}))
			}
			if err != nil {
				t.Fatal(err)
			}
			for burst := range uint64(bursts) {
				r.burst(rand.New(rand.NewPCG(seed, burst)), burst%3 == 2)
				if t.Failed() {
					t.Fatalf("burst %d", burst)
				}
			}
			t.Logf("%+v: %v", r.totals, r.Fates("n"))
			if r.totals.dropped < r.totals.sent/20 || r.totals.sent < r.totals.received/4 {
				t.Errorf("%+v: too one-sided to prove anything", r.totals)
			}
		})
	}
}

// inBurst is the number of frames that each side sends at once: more than fit into the queue of a veth would be lost
// before the NAT.
const inBurst = 100

// burst sends frames from both sides, and waits until all are accounted for. With changes, rules change meanwhile.
func (r *rig) burst(random *rand.Rand, changes bool) {
	r.t.Helper()
	var frames [2][][]byte
	for side := range frames {
		for len(frames[side]) < inBurst {
			// The kernel itself drops frames that end within or directly after a VLAN tag, before TC
			// programs.
			if in, frame, _ := (op{verb: opFresh, ref: -1, seed: random.Uint64()}).build(nil); in == (side == 1) && len(frame) >= 20 {
				frames[side] = append(frames[side], frame)
			}
		}
	}
	var sending sync.WaitGroup
	errs := make([]error, 3)
	for side := range frames {
		sending.Go(func() {
			for _, frame := range frames[side] {
				errs[side] = errors.Join(errs[side], r.wires[side].Send(frame))
			}
		})
	}
	for range random.IntN(4) {
		if !changes {
			break
		}
		o := op{verb: []verb{opSnat, opSnat, opDnat, opForward, opMasquerade, opParent, opFlush}[random.IntN(7)], n: random.IntN(1000), seed: random.Uint64()}
		errs[2] = errors.Join(errs[2], r.change(o))
	}
	sending.Wait()
	if err := errors.Join(errs...); err != nil {
		r.t.Fatal(err)
	}
	want := r.totals
	want.received += 2 * inBurst
	netns.Eventually(r.t, bpftest.Patience, func() error {
		switch now := r.account(); {
		case now.received != want.received, now.sent+now.dropped != now.received, now.arrived != now.sent:
			return fmt.Errorf("%d frames were sent to the cube, and it counts %+v", want.received, now)
		}
		return nil
	})
}

// account sums the counts of the cubes, and the frames that arrived at the hosts.
func (r *rig) account() wireTotals {
	r.t.Helper()
	now := wireTotals{arrived: r.totals.arrived}
	for _, w := range r.wires {
		for {
			if _, err := w.Recv(nil, 0); err != nil {
				if !errors.Is(err, os.ErrDeadlineExceeded) {
					r.t.Fatal(err)
				}
				break
			}
			now.arrived++
		}
	}
	for _, port := range []string{"p1", "p2"} {
		c := r.Counters("f", port)
		now.received, now.sent = now.received+c.RxPackets, now.sent+c.TxPackets
	}
	for _, name := range []string{"n", "f"} {
		for _, n := range r.Fates(name) {
			now.dropped += n
		}
	}
	r.totals = now
	return now
}
