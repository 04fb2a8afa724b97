// SPDX-License-Identifier: Apache-2.0

package efw_test

import (
	"strings"
	"testing"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/test/bpftest"
	"github.com/polycube/polycube/test/pkt"
)

// BenchmarkIdle measures a packet that efw leaves to the stack since it has nothing to offload, beside one that a cube passes which
// does nothing else. What the stack does with it is not part of it.
func BenchmarkIdle(b *testing.B) {
	for _, typ := range []cube.Type{cube.TypeTC, cube.TypeXDPDRV} {
		for _, tt := range []struct{ service, conf string }{{"transparenthelloworld", `{}`}, {"efw", `{"offload":false}`}, {"efw", `{}`}} {
			b.Run(strings.ToLower(string(typ))+"/"+tt.service+tt.conf, func(b *testing.B) {
				l := bpftest.New(b, bpftest.Options{Type: typ, Hosts: 2, ServicesIn: services})
				l.Create(tt.service, "f", tt.conf)
				l.Attach("f", "veth1")
				l.Time(b, "veth1", pkt.Eth("02:00:00:00:00:01", "02:00:00:00:00:02").IPv4(client, server).UDP(1, 80).Bytes())
			})
		}
	}
}
