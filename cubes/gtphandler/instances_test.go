// SPDX-License-Identifier: Apache-2.0

package gtphandler_test

// Network instances: local addresses with TEIDs of their own.

import (
	"errors"
	"strings"
	"testing"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/gtpu"
	"github.com/polycube/polycube/test/bpftest"
	"github.com/polycube/polycube/test/mobile"
)

const gatewayN9, gatewayN9v6, upf = "192.0.3.1", "2001:db8:9::1", "192.0.3.20"

// instances are the addresses of the gateway and those of a network instance n9, each with a device that has TEID 257, and one
// whose TEID is its class.
const instances = `{"local-address":[{"address":"` + gateway + `"},{"address":"` + gateway6 + `"},
	{"address":"` + gatewayN9 + `","network-instance":"n9"},{"address":"` + gatewayN9v6 + `","network-instance":"n9"}],
	"user-equipment":[
	{"ip":"10.1.0.1","tunnel-endpoint":"` + station + `","teid":257,"remote-teid":1025,"qfi":9},
	{"ip":"10.1.0.2","tunnel-endpoint":"` + station + `"},
	{"ip":"10.1.0.4","tunnel-endpoint":"` + upf + `","network-instance":"n9","teid":257,"remote-teid":1029,"traffic-class":44},
	{"ip":"10.1.0.5","tunnel-endpoint":"` + upf + `","network-instance":"n9"},
	{"ip":"10.1.0.6","tunnel-endpoint":"` + station6 + `","network-instance":"n9","teid":300,"remote-teid":1031}],"echo-interval":0}`

// addressed is a packet in a tunnel to an address of the gateway.
func addressed(to string, teid uint32, packet []byte) []byte {
	from := station
	if strings.Contains(to, ":") {
		from = station6
	}
	return mobile.Frame(stationMAC, gatewayMAC, mobile.Message(from, to, gtpu.Message{Type: gtpu.PDU, TEID: teid, Payload: packet}))
}

// unknown checks that a frame is answered with an Error Indication, number n of the daemon.
func (g *gatewayLab) unknown(what string, f []byte, n int) {
	g.t.Helper()
	if outcome, _ := g.RunBytes("veth1", f); outcome.Fate != "g slowpath" {
		g.t.Errorf("%s: %+v, want an Error Indication", what, outcome)
	}
	g.counts(map[string]int{"error-indications-sent": n})
}

func TestNetworkInstancesHaveTEIDsOfTheirOwn(t *testing.T) {
	each(t, 0, instances, func(t *testing.T, g *gatewayLab) {
		from := func(ip string) []byte {
			return mobile.Datagram(ip, server, 1, 53, []byte("long enough for Linux 6.1"), 0)
		}
		comes := func(what, to string, teid uint32, ip string, class uint32) {
			t.Helper()
			g.comes(what, addressed(to, teid, from(ip)), from(ip), class)
		}
		check := func() {
			t.Helper()
			comes("without a name", gateway, 257, "10.1.0.1", 257)
			comes("without a name, IPv6", gateway6, 257, "10.1.0.1", 257)
			comes("the same TEID in n9", gatewayN9, 257, "10.1.0.4", 44)
			comes("in n9, IPv6", gatewayN9v6, 257, "10.1.0.4", 44)
			comes("a TEID of n9 alone", gatewayN9, 300, "10.1.0.6", 300)
			comes("any TEID", gateway, 300, "10.1.0.2", 300) // which n9 uses
			comes("any TEID in n9", gatewayN9, 1234, "10.1.0.5", 1234)
			g.fate("the device of n9", "veth1", addressed(gateway, 257, from("10.1.0.4")), "g spoofed-source")
			g.fate("the device without a name", "veth1", addressed(gatewayN9, 257, from("10.1.0.1")), "g spoofed-source")
			g.fate("an address that is not one of the gateway", "veth1", addressed("192.0.3.2", 257, from("10.1.0.4")), "p2")
			g.unknown("a TEID of n9 alone, without a name", addressed(gateway, 300, from("10.1.0.6")), 1)
			g.unknown("any TEID of the other network instance", addressed(gatewayN9, 1234, from("10.1.0.2")), 2)
			g.unknown("any TEID of n9", addressed(gateway, 1234, from("10.1.0.5")), 3)
			for ip, source := range map[string]string{"10.1.0.1": gateway, "10.1.0.4": gatewayN9, "10.1.0.6": gatewayN9v6} {
				if got := g.down(mobile.Datagram(server, ip, 53, 1, nil, 0)); got.From.String() != source {
					t.Errorf("the tunnel to %s comes from %s, want %s", ip, got.From, source)
				}
			}
		}
		check()
		g.Restart(nil)
		check()
		n := uint64(len(from("10.1.0.1")))
		down := uint64(len(mobile.Datagram(server, "10.1.0.4", 53, 1, nil, 0)))
		g.counted("10.1.0.4", 4, 4*n, 2, 2*down)

		g.Set("PATCH", "g user-equipment 10.1.0.6", `{"network-instance":null}`)
		comes("moved", gateway, 300, "10.1.0.6", 300)
		g.unknown("moved away", addressed(gatewayN9, 300, from("10.1.0.6")), 4)
		if got := g.down(mobile.Datagram(server, "10.1.0.6", 53, 1, nil, 0)); got.From.String() != gateway6 {
			t.Errorf("the moved tunnel comes from %s", got.From)
		}
		g.Set("DELETE", "g user-equipment 10.1.0.4", "")
		g.unknown("a device that is gone", addressed(gatewayN9, 257, from("10.1.0.4")), 5)
		comes("the other one stays", gateway, 257, "10.1.0.1", 257)
	})
}

func TestNetworkInstancesThatCannotBe(t *testing.T) {
	l := bpftest.New(t, bpftest.Options{})
	g := handle(t, l, instances)
	for _, tt := range []struct {
		method, words, body, why string
		as                       error
	}{
		{"POST", "g user-equipment 10.1.0.7", `{"tunnel-endpoint":"` + upf + `","network-instance":"n9","teid":257}`, "10.1.0.4 has the same teid", cube.ErrExists},
		{"PATCH", "g user-equipment 10.1.0.1", `{"network-instance":"n9"}`, "10.1.0.4 has the same teid", cube.ErrExists},
		{"POST", "g user-equipment 10.1.0.7", `{"tunnel-endpoint":"` + upf + `","network-instance":"n3"}`, "no local-address of IPv4 in network-instance n3", cube.ErrInvalid},
		{"DELETE", "g local-address " + gatewayN9, "", "no local-address of IPv4 in network-instance n9", cube.ErrInvalid},
		{"PATCH", "g local-address " + gatewayN9v6, `{"network-instance":"n3"}`, "user-equipment 10.1.0.6: tunnel-endpoint 2001:db8:a::10: no local-address of IPv6 in network-instance n9", cube.ErrInvalid},
		{"PATCH", "g local-address " + gatewayN9v6, `{"network-instance":"n 3"}`, "network-instance", nil},
	} {
		err := l.Try(tt.method, tt.words, tt.body)
		if err == nil || !strings.Contains(err.Error(), tt.why) || tt.as != nil && !errors.Is(err, tt.as) {
			t.Errorf("%s %s %s: %v, want %v: %s", tt.method, tt.words, tt.body, err, tt.as, tt.why)
		}
	}
	packet := mobile.Datagram("10.1.0.4", server, 1, 53, nil, 0)
	g.comes("after all that", addressed(gatewayN9, 257, packet), packet, 44)
}

func TestEthernetSessionsBelongToANetworkInstance(t *testing.T) {
	const conf = sessions + `,"local-address":[{"address":"` + gateway + `"},{"address":"192.0.2.2"},{"address":"` + gateway6 + `"},
		{"address":"` + gatewayN9 + `","network-instance":"n9"}]`
	bpftest.Each(t, bpftest.Options{}, func(t *testing.T, l *bpftest.Lab) {
		g := handle(t, l, `{`+conf+`,"echo-interval":0}`)
		frame := udp(deviceB, hostMAC, 30)
		fate := func(what, to, want string) {
			t.Helper()
			g.fate(what, "veth1", addressed(to, 258, frame), want)
		}
		fate("the address of its tunnel", gateway, "p2")
		fate("another one of the network instance", "192.0.2.2", "p2")
		fate("another one, IPv6", gateway6, "p2")
		g.unknown("in n9", addressed(gatewayN9, 258, frame), 1)
		g.Set("PATCH", "g ethernet-session 258", `{"network-instance":"n9"}`)
		fate("moved to n9", gatewayN9, "p2")
		g.unknown("moved away", addressed(gateway, 258, frame), 2)
	})
}
