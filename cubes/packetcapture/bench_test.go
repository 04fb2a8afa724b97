// SPDX-License-Identifier: Apache-2.0

package packetcapture_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/test/bpftest"
)

// BenchmarkPacket is the time of a packet of UDP through a forwarder, with and without the cube on its port. The difference
// between a filter that rejects it and `off` is the cost of the filter.
func BenchmarkPacket(b *testing.B) {
	for _, typ := range []cube.Type{cube.TypeTC, cube.TypeXDPDRV} {
		for _, tt := range []struct{ name, body string }{
			{"without", ""},
			{"off", `{"capture":"OFF","filter":"all"}`},
			{"rejected-by-tcp-port", `{"capture":"INGRESS","filter":"tcp port 80"}`},
			{"rejected-by-host", `{"capture":"INGRESS","filter":"host 10.9.9.9 and udp port 53"}`},
			{"rejected-by-last", `{"capture":"INGRESS","filter":"udp and udp[100] = 255"}`},
		} {
			b.Run(fmt.Sprintf("%s/%s", strings.ToLower(string(typ)), tt.name), func(b *testing.B) {
				l := bpftest.New(b, bpftest.Options{Type: typ, Hosts: 2})
				l.Create("simpleforwarder", "f", `{"ports":[{"name":"p1","peer":"veth1"},{"name":"p2","peer":"veth2"}],
					"actions":[{"inport":"p1","action":"FORWARD","outport":"p2"}]}`)
				if tt.body != "" {
					l.Create("packetcapture", "pc", tt.body)
					l.Attach("pc", "f:p1")
				}
				l.Time(b, "veth1", udp4)
			})
		}
	}
}
