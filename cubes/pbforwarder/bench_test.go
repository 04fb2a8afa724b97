// SPDX-License-Identifier: Apache-2.0

package pbforwarder

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/polycube/polycube/classifier"
	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/test/bpftest"
	"github.com/polycube/polycube/test/rulesets"
)

// BenchmarkRules measures the time per packet by shape and number of rules, including the framework: one that matches
// the last rule, one that matches none, and sixteen that match rules anywhere, one after the other.
func BenchmarkRules(b *testing.B) {
	for _, shape := range rulesets.Shapes {
		b.Run(shape, func(b *testing.B) {
			l := bpftest.New(b, bpftest.Options{Type: cube.TypeXDPDRV})
			l.Create("pbforwarder", "f", threePorts)
			for _, n := range []int{1, 8, 32, 100, 1000, 10000} {
				b.Run(fmt.Sprint(n), func(b *testing.B) { rulesOf(b, l, shape, n) })
			}
		})
	}
}

// rulesOf measures a set of rules.
func rulesOf(b *testing.B, l *bpftest.Lab, shape string, n int) {
	rules := generated(shape, n, 1)
	texts := make([]string, n)
	for i := range rules {
		texts[i] = text(i, &rules[i], "")
	}
	l.Set("PUT", "f rules", "["+strings.Join(texts, ",")+"]")
	packets := rulesets.NewPackets(rules, 1, 1)
	last := packets.In(n - 1).Frame
	b.Run("last", func(b *testing.B) { l.Time(b, "veth1", last) })
	if frame := outside(rules, packets); frame != nil {
		b.Run("none", func(b *testing.B) { l.Time(b, "veth1", frame) })
	}
	b.Run("any", func(b *testing.B) {
		for i := range 16 {
			l.Flood("veth1", packets.In(i*n/16).Frame, uint32(b.N/16+1))
		}
	})
}

// outside returns a packet similar to those of rules that none of them matches; nil if there is none among many.
func outside(rules []rulesets.Rule, packets *rulesets.Packets) []byte {
	for range 1000 {
		p := packets.Next()
		if k, _ := classifier.KeyOf(p.Frame, p.InPort, 0); !slices.ContainsFunc(rules, func(r rulesets.Rule) bool { m := r.Match(); return m.Matches(&k) }) {
			return p.Frame
		}
	}
	return nil
}
