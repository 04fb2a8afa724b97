// SPDX-License-Identifier: Apache-2.0

// Random operations on a real daemon, held to the reference model: after each one, what should pass does, byte for byte,
// what should not is counted where and why, and nothing else happens. A sequence that fails is made as short as can be and
// printed as commands. POLYCUBE_SEED=N repeats the sequence with that seed.

package e2e

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/polycube/polycube/test/e2e/model"
	"github.com/polycube/polycube/test/netns"
)

// mixes are the types of cubes that stand together.
var mixes = []struct {
	name  string
	types []string
	args  []string
}{
	{"TC", []string{"TC"}, nil},
	{"XDP_SKB", []string{"XDP_SKB"}, nil},
	{"XDP_DRV", []string{"XDP_DRV"}, nil},
	{"all", types, nil},
}

func TestRandomOperations(t *testing.T) {
	t.Parallel()
	seeds, length, forShrinking := uint64(1), 150, 30*time.Second
	if soak {
		seeds, length, forShrinking = 100, 500, 10*time.Minute
	}
	first := uint64(time.Now().UnixNano()) % 1e9
	if given, ok := os.LookupEnv("POLYCUBE_SEED"); ok {
		n, err := strconv.ParseUint(given, 10, 64)
		if err != nil {
			t.Fatalf("POLYCUBE_SEED: %v", err)
		}
		seeds, first = 1, n
	}
	for _, mix := range mixes {
		t.Run(mix.name, func(t *testing.T) {
			t.Parallel()
			for seed := first; seed < first+seeds; seed++ {
				ops, crossed := drawOps(seed, length, mix.types)
				t.Logf("seed %d: %d operations, %d copies of frames arrive", seed, len(ops), crossed)
				begin := time.Now()
				_, err := try(t, func(t testing.TB) { replay(t, ops, mix.args) })
				if err == nil {
					t.Logf("seed %d: %v", seed, time.Since(begin).Round(time.Millisecond))
					continue
				}
				report(t, seed, ops, mix.args, err, time.Now().Add(forShrinking))
			}
		})
	}
}

// TestTheModelNoticesWhatIsWrong: what the daemon does behind the model's back does not go unseen.
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

// hosts is how many stand around the cubes.
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

// drawOps draws a sequence from a seed, and counts what arrives in it.
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

// report makes a sequence that fails short, and fails the test with it.
func report(t *testing.T, seed uint64, ops []model.Op, args []string, failure error, until time.Time) {
	t.Helper()
	why := failure
	fails := func(some []model.Op) bool {
		_, err := try(t, func(t testing.TB) { replay(t, some, args) })
		if err != nil {
			why = err
		}
		return err != nil
	}
	short := ops
	if some := granted(ops); fails(some) {
		short = some
	}
	short = model.Shrink(short, until, fails)
	var commands []string
	for _, o := range short {
		commands = append(commands, o.String())
	}
	t.Errorf("POLYCUBE_SEED=%d: %v\n\n%d of %d operations are enough (daemon options %v):\n%s\n\nthey end with: %v",
		seed, failure, len(short), len(ops), args, strings.Join(commands, "\n"), why)
}

// granted leaves out the operations of a sequence that are refused.
func granted(ops []model.Op) []model.Op {
	w := newWorld()
	return slices.DeleteFunc(slices.Clone(ops), func(o model.Op) bool { return !w.Sensible(o) || w.Apply(o) != nil })
}

// replay does a sequence on a machine of its own. What cannot be done without an operation that is missing is left out.
func replay(t testing.TB, ops []model.Op, args []string) {
	t.Helper()
	s := newSite(t, args...)
	before := s.d.settled()
	for _, o := range ops {
		if !s.world.Sensible(o) {
			continue
		}
		s.do(o)
		s.configured()
		s.probe()
		if t.Failed() {
			t.Fatalf("after operation %d, %s", s.step, o)
		}
	}
	s.clear(before)
}

// clear takes everything away: nothing is left of it.
func (s *site) clear(before inventory) {
	s.t.Helper()
	if s.world.Down {
		s.do(model.Op{Verb: model.Start})
		s.configured()
	}
	for _, name := range s.world.Names() {
		s.do(model.Op{Verb: model.DelCube, Cube: name})
	}
	for _, name := range s.world.Devices() {
		if !s.world.Netdevs[name].Present {
			s.do(model.Op{Verb: model.AddNetdev, To: name})
		}
	}
	s.configured()
	before.RSS = 0
	netns.Eventually(s.t, patience, func() error {
		now := s.d.Inventory()
		if now.RSS = 0; now != before {
			return fmt.Errorf("the daemon holds %v, and %v before the operations", now, before)
		}
		return nil
	})
	s.d.Stop()
	if r := s.Polycubed("cleanup"); r.code != 0 {
		s.t.Error(r)
	}
	s.nothingLeft()
}

// probe sends frames between all hosts, and holds what happens to the model.
func (s *site) probe() {
	s.t.Helper()
	if s.away != nil && !s.world.Down {
		s.quiet()
	}
	// Broadcasts first: what bridges learn from them does not depend on the order in which processors take the frames.
	s.round(0, func(string, *plug) []string { return []string{model.Broadcast} })
	s.round(1, func(from string, _ *plug) []string {
		var to []string
		for name, p := range s.hosts {
			if name != from {
				to = append(to, p.mac.String())
			}
		}
		return to
	})
	if s.step%8 == 0 {
		s.learnedAsModelled()
	}
}

// round sends frames from each host to the addresses that it is given, and waits until each has ended as the model says.
func (s *site) round(number byte, targets func(string, *plug) []string) {
	s.t.Helper()
	x := &expected{site: s, outcome: model.NewOutcome(), frames: map[string]map[string]int{}}
	if s.world.Down {
		if s.away == nil {
			s.away = x.outcome
		}
		x.outcome = s.away
	}
	for _, name := range s.world.Devices() {
		p, n := s.hosts[name], s.world.Netdevs[name]
		if !n.Present || !n.Up || n.Touched {
			continue
		}
		for i, dst := range targets(name, p) {
			x.fromHost(p, dst, number, byte(i))
		}
		if len(n.Chain) > 0 && number == 0 {
			x.fromStack(p)
		}
	}
	x.settle()
}

// probeFrame is a frame that no other is equal to.
func (s *site) probeFrame(dst, src string, marks ...byte) []byte {
	body := binary.BigEndian.AppendUint32([]byte("pcn-prop"), s.step)
	body = append(body, marks...)
	body = append(body, noise(40+int(s.step)*37%1300)...)
	return ethernet(unhex(strings.ReplaceAll(dst, ":", "")), unhex(strings.ReplaceAll(src, ":", "")), streamType, body)
}
