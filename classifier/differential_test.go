// SPDX-License-Identifier: Apache-2.0

package classifier_test

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"testing"
	"time"

	"github.com/polycube/polycube/classifier"
	"github.com/polycube/polycube/test/repeat"
	"github.com/polycube/polycube/test/rulesets"
)

func changes(rules []rulesets.Rule) []classifier.Change {
	out := make([]classifier.Change, len(rules))
	for i := range rules {
		out[i] = classifier.Change{Order: uint32(i), Rule: &classifier.Rule{Match: rules[i].Match(), Result: uint32(i) + 1000}}
	}
	return out
}

func TestASetFindsWhatALinearSearchFinds(t *testing.T) {
	seed := repeat.Seed(t)
	sizes, packets := []int{0, 1, 7, 8, 9, 33, 300, 2000}, 1500
	if os.Getenv("POLYCUBE_SOAK") != "" {
		sizes, packets = append(sizes, 10000), 20000
	}
	for _, shape := range rulesets.Shapes {
		t.Run(shape, func(t *testing.T) {
			t.Parallel()
			for _, n := range sizes {
				l := classifier.NewLab(t)
				rules := rulesets.Make(shape, n, seed)
				l.Apply(changes(rules))
				p := rulesets.NewPackets(rules, 4, seed)
				for range packets / 2 {
					l.CheckFrame(p.Next().InPort, p.Next().Frame)
				}
				rng := rand.New(rand.NewPCG(seed, 1))
				for round := range 12 {
					more := rulesets.Make(shape, 40, seed+uint64(round)+1)
					fresh := func() classifier.Match { return more[rng.IntN(len(more))].Match() }
					l.Apply(l.Edits(rng, 1+rng.IntN(20), fresh))
					if round%4 == 3 {
						l.ApplyAndUndo(l.Edits(rng, 1+rng.IntN(200), fresh))
					}
					l.Tight()
					for range packets / 24 {
						packet := p.Next()
						l.CheckFrame(packet.InPort, packet.Frame)
					}
				}
			}
		})
	}
}

// TestFigures prints properties of the trees; run it with -v.
func TestFigures(t *testing.T) {
	if flag.Lookup("test.v").Value.String() != "true" { // go test -json is always verbose
		t.Skip("it only prints")
	}
	for _, shape := range rulesets.Shapes {
		for _, n := range []int{32, 100, 1000, 10000} {
			rules := rulesets.Make(shape, n, 1)
			l := classifier.NewLab(t)
			begin := time.Now()
			l.Apply(changes(rules))
			build := time.Since(begin)
			branches, found, most := l.Work()
			fmt.Printf("%-12s %6d rules: build %10v  %s work %5.1f %6.1f most %5.0f\n", shape, n, build.Round(time.Microsecond), l.Describe()[:24], branches, found, most)
		}
	}
}
