// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"strings"
	"testing"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/test/bpftest"
)

// A known frame through the whole fused program: root, entry, counters, two lookups, exit.
func BenchmarkForward(b *testing.B) {
	for _, typ := range []cube.Type{cube.TypeTC, cube.TypeXDPDRV} {
		b.Run(strings.ToLower(string(typ)), func(b *testing.B) {
			l := bpftest.New(b, bpftest.Options{Type: typ})
			l.Create("bridge", "br", threePorts)
			l.Run("veth2", frame(two, one))
			l.Run("veth1", frame(one, two))
			l.Time(b, "veth1", frame(one, two))
		})
	}
}
