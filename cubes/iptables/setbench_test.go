// SPDX-License-Identifier: Apache-2.0

package iptables_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/polycube/polycube/test/bpftest"
	"github.com/polycube/polycube/test/pkt"
)

// BenchmarkSets measures the time per packet, including the framework, with one rule on a set of 50,000 elements that has the
// packet, in the forms that a set may have.
func BenchmarkSets(b *testing.B) {
	l := bpftest.New(b, bpftest.Options{Hosts: 2})
	l.Create("simpleforwarder", "f", `{"ports":[{"name":"p1","peer":"veth1"},{"name":"p2","peer":"veth2"}],
		"actions":[{"inport":"p1","action":"FORWARD","outport":"p2"}]}`)
	l.Create("iptables", "ipt", `{}`)
	l.Attach("ipt", "f:p1")
	h := l.Hosts[0]
	frame := pkt.Eth(h.MAC.String(), h.OuterMAC.String()).IP(udp(1, 7)).Bytes()
	const many = 50_000
	for _, tt := range []struct{ name, set, entry, dirs string }{
		{"address", "", "", ""}, {"plain", `{`, `"prefix":"10.%d.%d.1"`, "src"}, {"later", `{`, `"prefix":"10.%d.%d.1"`, "src,src"},
		{"timeout", `{"set-type":"hash:ip","timeout":0,`, `"entry":"10.%d.%d.1"`, "src"},
		{"counters", `{"set-type":"hash:ip","counters":true,`, `"entry":"10.%d.%d.1"`, "src"},
		{"port", `{"set-type":"hash:ip,port",`, `"entry":"10.%d.%d.1,udp:7"`, "src,dst"},
	} {
		rule := "-s 192.0.2.1 -j DROP"
		if tt.set != "" {
			var all []string
			for i := range many {
				all = append(all, "{"+fmt.Sprintf(tt.entry, i>>8, i&255)+"}")
			}
			list := "element"
			if strings.Contains(tt.entry, "prefix") {
				list = "prefixes"
			}
			own := strings.NewReplacer("10.%d.%d.1", "192.0.2.1").Replace(tt.entry)
			l.Create("ipset", tt.name, fmt.Sprintf(`%s"%s":[{%s},%s]}`, tt.set, list, own, strings.Join(all, ",")))
			rule = "-m set --match-set " + tt.name + " " + tt.dirs + " -j DROP"
		}
		l.Set("PUT", "ipt chain INPUT rule", fmt.Sprintf(`[{"id":0,"spec":%q}]`, rule))
		b.Run(tt.name, func(b *testing.B) { l.Time(b, h.Outer, frame) })
	}
}
