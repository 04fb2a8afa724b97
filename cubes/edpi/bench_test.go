// SPDX-License-Identifier: Apache-2.0

package edpi_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/dpi"
	"github.com/polycube/polycube/test/bpftest"
)

// BenchmarkPacket measures a packet of a classified flow, with and without a policy for it: the difference to the cube that is not
// there is the cost of inspection for all packets but the first ones.
func BenchmarkPacket(b *testing.B) {
	for _, typ := range []cube.Type{cube.TypeTC, cube.TypeXDPDRV} {
		for _, tt := range []struct{ name, conf string }{
			{"without", ""},
			{"classified", `{}`},
			{"policy", `{"policy":[{"kind":"ELEPHANT","name":"any","action":"MARK","mark":1}]}`},
			{"rates", `{"elephant-rate":1000000}`},
		} {
			b.Run(fmt.Sprintf("%s/%s", strings.ToLower(string(typ)), tt.name), func(b *testing.B) {
				l := bpftest.New(b, bpftest.Options{Type: typ, Hosts: 2})
				if tt.conf != "" {
					r := newRig(b, l, tt.conf)
					r.run("first", "veth1", udp(1, 53), "")
					r.decide(udp(1, 53), dpi.Class{Protocol: dns, Category: media})
				} else {
					l.Create("simpleforwarder", "f", `{"ports":[{"name":"p1","peer":"veth1"},{"name":"p2","peer":"veth2"}],
						"actions":[{"inport":"p1","action":"FORWARD","outport":"p2"}]}`)
				}
				l.Time(b, "veth1", udp(1, 53))
			})
		}
	}
}
