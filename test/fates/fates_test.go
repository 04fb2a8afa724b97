// SPDX-License-Identifier: Apache-2.0

package fates

import (
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/polycube/polycube/cube"
	_ "github.com/polycube/polycube/cubes/all" // the shipped services
	"github.com/polycube/polycube/internal/datapath"
	"github.com/polycube/polycube/internal/yang"
	"github.com/polycube/polycube/test/bpftest"
	"github.com/polycube/polycube/test/netns"
	"github.com/polycube/polycube/test/pace"
	"github.com/polycube/polycube/test/repeat"
)

func TestMain(m *testing.M) { os.Exit(netns.CheckLeaks(m)) }

// unexplained are fates that indicate that a program did not know what it did.
var unexplained = []string{" unspecified", " bad-verdict", " bad-port", " no-program"}

// variant is how the programs are linked.
type variant struct {
	typ  cube.Type
	mode datapath.Mode
	old  bool // as on a kernel without any optional feature
}

var variants = []variant{
	{cube.TypeTC, datapath.ModeInline, false}, {cube.TypeXDPDRV, datapath.ModeInline, false},
	{cube.TypeTC, datapath.ModeCall, true}, {cube.TypeXDPDRV, datapath.ModeCall, true},
}

func (v variant) String() string {
	name := strings.ToLower(string(v.typ))
	if v.old {
		name += "_old"
	}
	return name
}

// TestEveryFrameHasAFate: the seed is printed, and decides on all frames.
func TestEveryFrameHasAFate(t *testing.T) {
	frames := 300
	switch {
	case pace.Slow():
		frames = 150
	case os.Getenv("POLYCUBE_SOAK") != "":
		frames = 100_000
	}
	for _, s := range cube.Services() {
		name := nameOf(t, s)
		set, ok := setups[name]
		if !ok {
			t.Errorf("service %s ships and has no setup: add one to setups_test.go", name)
			continue
		}
		for _, v := range variants {
			if v.old && pace.Slow() {
				continue // another kernel runs there, itself an old one perhaps
			}
			t.Run(name+"/"+v.String(), func(t *testing.T) {
				t.Parallel()
				l := bpftest.New(t, bpftest.Options{Type: v.typ, Mode: v.mode, Old: v.old})
				set(l)
				// The table of kernels shows it.
				t.Attr("verified", strconv.Itoa(l.Verified(l.Newest())))
				seed := repeat.Seed(t)
				n := frames
				if v.old {
					n = min(n, 150) // the C is the same
				}
				good := meant()
				if of := subjects[name]; of != nil {
					s := of(t, l)
					s.run(t, l)
					for _, one := range s.samples {
						good = append(good, one.frame)
					}
					n += len(s.samples)
				}
				feed(t, l, rand.New(rand.NewPCG(seed, 0)), good, n)
			})
		}
	}
}

// nameOf returns the name of a service in its model.
func nameOf(t *testing.T, s cube.Service) string {
	t.Helper()
	schema, err := yang.Load(s.Model)
	if err != nil {
		t.Fatal(err)
	}
	defer schema.Close()
	return schema.Service().Name
}

// explained sends a frame in, and requires a fate. It returns that.
func explained(t *testing.T, l *bpftest.Lab, dev string, frame []byte) string {
	t.Helper()
	out, _ := l.RunBytes(dev, slices.Clone(frame))
	for _, no := range unexplained {
		if strings.Contains(out.Fate, no) {
			t.Errorf("%x: its fate is %s: %+v", frame, out.Fate, out)
		}
	}
	return out.Verdict + " " + out.Fate
}

// feed sends a lab frames on its first two netdevs: the good ones, and then bad ones.
func feed(t *testing.T, l *bpftest.Lab, rng *rand.Rand, good [][]byte, frames int) {
	t.Helper()
	seen := map[string]int{}
	for i := range frames {
		frame := good[rng.IntN(len(good))]
		if i >= len(good) {
			frame = wrong(rng, frame)
		} else {
			frame = good[i] // each once unmodified
		}
		fate := explained(t, l, []string{"veth1", "veth2"}[rng.IntN(2)], frame)
		if t.Failed() {
			t.Fatalf("frame %d: %s", i, fate)
		}
		seen[fate]++
	}
	t.Logf("%v", seen)
}
