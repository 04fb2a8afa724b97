// SPDX-License-Identifier: Apache-2.0

package firewall_test

import (
	"testing"

	"github.com/polycube/polycube/test/bpftest"
	_ "github.com/polycube/polycube/test/classes" // registers a cube that gives packets a class
)

// TestTrafficClassesAreMatched: the class of a packet is its destination port.
func TestTrafficClassesAreMatched(t *testing.T) {
	bpftest.Each(t, bpftest.Options{}, func(t *testing.T, l *bpftest.Lab) {
		g := guard(t, l, `{"chain":[{"name":"INGRESS","default":"DROP","rule":[
			{"id":0,"traffic-class":10,"action":"ACCEPT"},
			{"id":1,"not":{"traffic-class":20},"l4proto":"UDP","sport":7,"action":"ACCEPT"},
			{"id":2,"traffic-class":0,"l4proto":"ICMP","action":"ACCEPT"}]}]}`)
		l.Create("classes", "c", "")
		l.Attach("c", "f:p1")
		g.in("a class", udp(outside, inside, 1, 10), "")
		g.in("another one", udp(outside, inside, 1, 20), "default")
		g.in("not the one", udp(outside, inside, 7, 21), "")
		g.in("just that one", udp(outside, inside, 7, 20), "default")
		g.in("no class", echo(outside, inside), "")
	})
}
