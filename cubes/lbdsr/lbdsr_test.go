// SPDX-License-Identifier: Apache-2.0

package lbdsr

import (
	"fmt"
	"testing"

	"github.com/polycube/polycube/test/bpftest"
	"github.com/polycube/polycube/test/pkt"
)

const (
	frontMAC  = "02:00:00:00:01:01"
	backMAC   = "02:00:00:00:02:01"
	clientMAC = "02:00:00:00:01:02"
)

// two is a load balancer with a port on each side.
const two = `{"frontend":{"vip":"10.0.0.100","mac":"` + frontMAC + `"},
"backend":{"pool":[{"id":1,"mac":"02:00:00:00:02:11"},{"id":2,"mac":"02:00:00:00:02:12"}]},
"ports":[{"name":"f","type":"FRONTEND","peer":"veth1"},{"name":"b","type":"BACKEND","peer":"veth2","mac":"` + backMAC + `"}]}`

// toVIP is a packet of a flow.
func toVIP(port uint16) []byte {
	return pkt.Eth(clientMAC, frontMAC).IPv4("10.9.0.1", "10.0.0.100").UDP(port, 80).Payload(20).Bytes()
}

func TestPacketsForTheFirstAddressGoToItsServers(t *testing.T) {
	bpftest.Each(t, bpftest.Options{Hosts: 2}, func(t *testing.T, l *bpftest.Lab) {
		l.Create("lbdsr", "lb", two)
		seen := map[string]int{}
		for flow := range uint16(64) {
			got, frame := l.RunBytes("veth1", toVIP(1000+flow))
			if want := (bpftest.Outcome{Verdict: "send", Sent: "lb:b"}); got != want {
				t.Fatalf("flow %d: %+v, want %+v", flow, got, want)
			}
			want := toVIP(1000 + flow)
			copy(want, frame[:6])
			copy(want[6:], pkt.MAC(backMAC))
			if string(frame) != string(want) {
				t.Fatalf("flow %d: only the MAC addresses may change:\n% x\n% x", flow, frame, want)
			}
			seen[fmt.Sprintf("% x", frame[:6])]++
		}
		if len(seen) != 2 {
			t.Errorf("64 flows went to %v, want both servers", seen)
		}
	})
}
