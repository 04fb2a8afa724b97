// SPDX-License-Identifier: Apache-2.0

package ipset_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/test/bpftest"
)

// BenchmarkSets measures the time per packet, including the framework, that a forwarder takes with one rule on a source
// address, and with rules on 1 to 32 sets of 100,000 prefixes that contain it or not.
func BenchmarkSets(b *testing.B) {
	l := bpftest.New(b, bpftest.Options{Hosts: 2, Type: cube.TypeXDPDRV})
	forwarder(l, "f", []int{1, 2})
	rng := rand.New(rand.NewPCG(1, 1))
	all := spread(rng, many)
	l.Create("ipset", "s0", `{"prefixes":`+list(all)+`}`)
	for i := range 31 {
		l.Create("ipset", fmt.Sprintf("s%d", i+1), `{"prefixes":`+list(all[:100])+`}`)
	}
	four, six := all[1].Addr(), all[len(all)-2].Addr()
	for _, tt := range []struct{ name, rules, from string }{
		{"prefix", `{"id":1,"src_ip":"` + four.String() + `"}`, four.String()},
		{"in", `{"id":1,"src_set":"s0"}`, four.String()},
		{"out", `{"id":1,"src_set":"s0"}`, "9.9.9.9"},
		{"in6", `{"id":1,"src_set":"s0"}`, six.String()},
		{"not", `{"id":1,"not":{"src_set":"s0"}}`, "9.9.9.9"},
		{"both", `{"id":1,"src_set":"s0","dst_set":"s0"}`, four.String()},
		{"4", rulesOn(4), four.String()},
		{"32", rulesOn(32), four.String()},
	} {
		l.Set("PUT", "f rules", "["+tt.rules+"]")
		b.Run(tt.name, func(b *testing.B) { l.Time(b, "veth1", frame(tt.from, tt.from)) })
	}
}

// rulesOn are rules on that many sets, of which the last matches.
func rulesOn(sets int) (rules string) {
	for i := range sets {
		rules += fmt.Sprintf(`{"id":%d,"src_set":"s%d"},`, i, sets-1-i)
	}
	return rules[:len(rules)-1]
}
