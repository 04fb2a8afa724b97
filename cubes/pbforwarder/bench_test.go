// SPDX-License-Identifier: Apache-2.0

package pbforwarder

import (
	"fmt"
	"strings"
	"testing"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/test/bpftest"
	"github.com/polycube/polycube/test/rulesets"
)

// BenchmarkRules is the time of a packet by shape and number of rules, the framework's part included: one that matches the
// last rule, and sixteen that match rules anywhere, one after the other.
func BenchmarkRules(b *testing.B) {
	l := bpftest.New(b, bpftest.Options{Type: cube.TypeXDPDRV})
	l.Create("pbforwarder", "f", threePorts)
	for _, shape := range []string{"acl", "fw", "ipc", "acl6", "l2"} {
		for _, n := range []int{1, 8, 32, 100, 1000, 10000} {
			rules := generated(shape, n, 1)
			texts := make([]string, n)
			for i := range rules {
				texts[i] = text(i, &rules[i], "")
			}
			l.Set("PUT", "f rules", "["+strings.Join(texts, ",")+"]")
			packets := rulesets.NewPackets(rules, 1, 1)
			last := packets.In(n - 1).Frame
			b.Run(fmt.Sprintf("%s/%d/last", shape, n), func(b *testing.B) { l.Time(b, "veth1", last) })
			b.Run(fmt.Sprintf("%s/%d/any", shape, n), func(b *testing.B) {
				for i := range 16 {
					l.Flood("veth1", packets.In(i*n/16).Frame, uint32(b.N/16+1))
				}
			})
		}
	}
}
