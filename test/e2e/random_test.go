// SPDX-License-Identifier: Apache-2.0

// Random operations on a real daemon, compared with the reference model: after each one, frames that should pass do,
// byte for byte, others are counted with place and reason, and nothing else happens. A failing sequence is shortened as
// far as possible and printed as commands. POLYCUBE_SEED=SEED/OPERATIONS repeats one.

package e2e

import (
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/polycube/polycube/test/e2e/model"
)

// mixes are combinations of types of cubes.
var mixes = []struct {
	name  string
	types []string
	args  []string
}{
	{"TC", []string{"TC"}, nil},
	{"XDP_SKB", []string{"XDP_SKB"}, nil},
	{"XDP_DRV", []string{"XDP_DRV"}, nil},
	{"all", types, nil},
	{"one cube a segment", types, []string{"--segment-cubes", "1"}},
	{"two cubes a segment", types, []string{"--segment-cubes", "2"}},
}

func TestRandomOperations(t *testing.T) {
	t.Parallel()
	seeds, length, forShrinking := uint64(1), 60, 30*time.Second
	if soak {
		seeds, length, forShrinking = 100, 500, 10*time.Minute
	}
	first, repeat := seedFor(t)
	if repeat > 0 {
		seeds, length, forShrinking = 1, repeat, 10*time.Minute
	}
	for _, mix := range mixes {
		t.Run(mix.name, func(t *testing.T) {
			t.Parallel()
			for seed := first; seed < first+seeds; seed++ {
				ops, crossed := drawOps(seed, length, mix.types)
				t.Logf("seed %d: %d operations, %d copies of frames arrive", seed, len(ops), crossed)
				begin := time.Now()
				whole := &sequence{ops: ops, args: mix.args}
				if err := whole.try(t); err != nil {
					t.Errorf("POLYCUBE_SEED=%d/%d: %v\n\n%s", seed, length, err, whole.shrink(t, time.Now().Add(forShrinking)))
				}
				t.Logf("seed %d: %v", seed, time.Since(begin).Round(time.Millisecond))
			}
		})
	}
}

// seedFor returns the seed of a test, and a length, if POLYCUBE_SEED gives them.
func seedFor(t testing.TB) (seed uint64, length int) {
	t.Helper()
	given, ok := os.LookupEnv("POLYCUBE_SEED")
	if !ok {
		return uint64(time.Now().UnixNano()) % 1e9, 0
	}
	if _, err := fmt.Sscanf(given, "%d/%d", &seed, &length); err != nil {
		t.Fatalf("POLYCUBE_SEED=%s: want SEED/OPERATIONS: %v", given, err)
	}
	return seed, length
}

// TestTheModelNoticesWhatIsWrong: changes of the daemon behind the model's back are detected.
func TestTheModelNoticesWhatIsWrong(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, method, path, body, says string }{
		{"frames are dropped", "PATCH", "/transparenthelloworld/t1/egress-action", `"DROP"`, "did not arrive"},
		{"a port is cut", "PATCH", "/simplebridge/c1/ports/p2/peer", `""`, "did not arrive"},
		{"a cube is there", "POST", "/helloworld/c9", "", "the daemon shows"},
		{"a frame comes twice", "", "", "", "or not again"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			said, err := try(t, func(t testing.TB) {
				s := newSite(t)
				for _, o := range []model.Op{{Verb: model.AddCube, Cube: "c1", To: model.Bridge, Value: "TC"}, {Verb: model.AddPort, At: "c1:p1"},
					{Verb: model.AddPort, At: "c1:p2"}, {Verb: model.Connect, At: "c1:p1", To: "d1"}, {Verb: model.Connect, At: "c1:p2", To: "d2"},
					{Verb: model.AddCube, Cube: "t1", To: model.Transparent, Value: "TC"}, {Verb: model.Attach, Cube: "t1", To: "c1:p2", Value: "first"}} {
					s.do(o)
				}
				s.configured()
				s.probe()
				if t.Failed() {
					return
				}
				t.Log("all is well so far")
				if c.path == "" {
					s.send(s.hosts["d1"].raw, s.probeFrame(model.Broadcast, s.hosts["d1"].mac.String(), 0))
				} else if status, text, err := s.Request(c.method, c.path, c.body); err != nil || status >= 300 {
					t.Fatalf("status %d, %v: %s", status, err, text)
				}
				s.step++
				s.patience = time.Second
				if strings.HasPrefix(c.says, "the daemon") {
					s.configured()
				}
				s.probe()
			})
			if err == nil || !strings.Contains(said, "all is well so far") || !strings.Contains(said, c.says) {
				t.Errorf("the trial ended with %v and said %q, want %q", err, said, c.says)
			}
		})
	}
}

// hosts is the number of hosts around the cubes.
const hosts = 6

// newWorld is the model's world around the cubes.
func newWorld() *model.World {
	var devices []model.Netdev
	for i := range hosts {
		mac := net.HardwareAddr{2, 0, 0, 0, 1, byte(i + 1)}
		devices = append(devices, model.Netdev{Name: fmt.Sprintf("d%d", i+1), MAC: mac.String()})
	}
	return model.New(devices...)
}

// drawOps generates a sequence from a seed, and counts the frames that arrive in it.
func drawOps(seed uint64, length int, types []string) ([]model.Op, int) {
	g := &model.Generator{Rand: rand.New(rand.NewPCG(seed, 1)), Types: types, Standard: 7, Transparent: 5}
	w := newWorld()
	var ops []model.Op
	crossed := 0
	for i := range length {
		g.Building = i < min(80, length/2)
		o := g.Next(w)
		ops = append(ops, o)
		_ = w.Apply(o) // a refusal is part of the sequence
		out := model.NewOutcome()
		for _, from := range w.Devices() {
			w.Clone().FromHost(from, model.Broadcast, out)
		}
		for _, n := range out.Arrive {
			crossed += n
		}
	}
	return ops, crossed
}
