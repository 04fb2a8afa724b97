// SPDX-License-Identifier: Apache-2.0

package hairpin

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"testing"

	"github.com/polycube/polycube/test/bpftest"
	"github.com/polycube/polycube/test/pkt"
)

// masquerades reports whether the nat has taken over these addresses.
func (g *gateway) masquerades(want ...string) error {
	var got []string
	if err := json.Unmarshal([]byte(g.Read("masq rule masquerade external-ip")), &got); err != nil {
		return err
	}
	if !slices.Equal(got, want) {
		return fmt.Errorf("the addresses of the masquerade are %v, want %v", got, want)
	}
	return nil
}

// number reads one.
func (g *gateway) number(words string) int {
	g.t.Helper()
	n, err := strconv.Atoi(g.Read(words))
	if err != nil {
		g.t.Fatal(err)
	}
	return n
}

var (
	syn = pkt.TCPFlags{SYN: true}
	ack = pkt.TCPFlags{SYN: true, ACK: true}
)

func TestHostsReachAForwardedPortOfTheRoutersAddress(t *testing.T) {
	each(t, bpftest.Options{}, func(g *gateway) {
		for _, v := range []struct{ wan, client, server, guest string }{{wan, client, server, guest}, {wan6, client6, server6, guest6}} {
			g.steps(
				step{"from the same network", "veth1", fromTo(clientMAC, lanMAC, v.client, v.wan).TCP(4000, 8080, syn).Bytes(),
					"lan", routed(fromTo(lanMAC, serverMAC, v.wan, v.server).TCP(4000, 80, syn)), ""},
				step{"the answer", "veth1", fromTo(serverMAC, lanMAC, v.server, v.wan).TCP(80, 4000, ack).Bytes(),
					"lan", routed(fromTo(lanMAC, clientMAC, v.wan, v.client).TCP(8080, 4000, ack)), ""},
				step{"from another network", "veth3", fromTo(guestMAC, guestsMAC, v.guest, v.wan).UDP(4100, 8080).Payload(33).Bytes(),
					"lan", routed(fromTo(lanMAC, serverMAC, v.wan, v.server).UDP(4100, 80).Payload(33)), ""},
				step{"the answer", "veth1", fromTo(serverMAC, lanMAC, v.server, v.wan).UDP(80, 4100).Payload(34).Bytes(),
					"guests", routed(fromTo(guestsMAC, guestMAC, v.wan, v.guest).UDP(8080, 4100).Payload(34)), ""},
				step{"from the server itself", "veth1", fromTo(serverMAC, lanMAC, v.server, v.wan).TCP(4200, 8080, syn).Bytes(),
					"lan", routed(fromTo(lanMAC, serverMAC, v.wan, v.server).TCP(4200, 80, syn)), ""},
				step{"its answer to itself", "veth1", fromTo(serverMAC, lanMAC, v.server, v.wan).TCP(80, 4200, ack).Bytes(),
					"lan", routed(fromTo(lanMAC, serverMAC, v.wan, v.server).TCP(8080, 4200, ack)), ""},
			)
		}
		if n := g.number("masq sessions hairpinned"); n != 12 {
			g.t.Errorf("the nat counts %d hairpinned packets, want 12", n)
		}
		if c := g.Counters("gw", "wan"); c.RxPackets != 0 {
			g.t.Errorf("the port wan counts %d packets as received, and nothing came in there", c.RxPackets)
		}
	})
}

// TestOldKernelsHairpinToo: programs for kernels without newer features behave the same.
func TestOldKernelsHairpinToo(t *testing.T) {
	each(t, bpftest.Options{Old: true}, func(g *gateway) {
		g.wantHairpin("a rule", 4000)
		g.steps(own("a ping", "veth1", fromTo(clientMAC, lanMAC, client, wan).Echo(4000, 1).Payload(20).Bytes()))
	})
}

func TestPacketsThatNoRuleIsForAreTheRouters(t *testing.T) {
	each(t, bpftest.Options{}, func(g *gateway) {
		at := func(to string) *pkt.Frame { return fromTo(clientMAC, lanMAC, client, to) }
		fragment := pkt.IPv4Options{ID: 7, MoreFragments: true}
		g.steps(
			own("a ping", "veth1", at(wan).Echo(4000, 1).Payload(20).Bytes()),
			own("a ping with id 0", "veth1", at(wan).Echo(0, 1).Payload(20).Bytes()),
			own("another port of TCP", "veth1", at(wan).TCP(4000, 22, syn).Bytes()),
			own("a reset", "veth1", at(wan).TCP(4000, 22, pkt.TCPFlags{RST: true}).Bytes()),
			own("another port of UDP", "veth1", at(wan).UDP(4000, 9999).Payload(8).Bytes()),
			own("a protocol without ports", "veth1", at(wan).Payload(40).Bytes()),
			own("too short for TCP", "veth1", at(wan).Protocol(6).Payload(10).Bytes()),
			own("the first fragment of a ping", "veth1", pkt.Eth(clientMAC, lanMAC).IPv4(client, wan, fragment).Echo(4000, 2).Payload(64).Bytes()),
			own("a later one", "veth1", pkt.Eth(clientMAC, lanMAC).IPv4(client, wan, pkt.IPv4Options{ID: 7, Offset: 9}).Protocol(1).Payload(64).Bytes()),
			own("an error about a packet of the router", "veth1", icmpError(clientMAC, lanMAC, client, wan, 3, 3,
				fromTo(wanMAC, ispMAC, wan, client).UDP(161, 162).Payload(8).Bytes())),
			own("an error about nothing that can be", "veth1", icmpError(clientMAC, lanMAC, client, wan, 3, 3, make([]byte, 30))),
			own("IPv6", "veth1", fromTo(clientMAC, lanMAC, client6, wan6).UDP(4000, 9999).Payload(8).Bytes()),
			own("the address of the port itself", "veth1", at("10.0.1.1").TCP(4000, 8080, syn).Bytes()),
			own("the address of a port without a nat", "veth1", at("10.0.3.1").TCP(4000, 8080, syn).Bytes()),
			own("from outside", "veth2", fromTo(ispMAC, wanMAC, isp, wan).TCP(4000, 22, syn).Bytes()),
			step{name: "a forged source", in: "veth1", send: fromTo(clientMAC, lanMAC, wan, wan).TCP(4000, 8080, syn).Bytes(), fate: "gw spoofed"},
			step{name: "a forged source from outside", in: "veth2", send: fromTo(ispMAC, wanMAC, wan, wan).TCP(4000, 22, syn).Bytes(), fate: "gw spoofed"},
			own("a forwarded port, in a frame for all", "veth1", fromTo(clientMAC, pkt.Broadcast, client, wan).TCP(4000, 8080, syn).Bytes()),
		)
		if n := g.number("masq sessions active"); n != 0 {
			g.t.Errorf("the nat has %d sessions of packets that are none of its business", n)
		}
	})
}

func TestErrorsAndFragmentsOfHairpinnedPackets(t *testing.T) {
	each(t, bpftest.Options{}, func(g *gateway) {
		for _, v := range []struct {
			wan, client, server string
			kind, code          byte
		}{{wan, client, server, 3, 3}, {wan6, client6, server6, 1, 4}} {
			inside := routed(fromTo(lanMAC, serverMAC, v.wan, v.server).UDP(4000, 80).Payload(20))
			outside := pkt.Hop(fromTo(clientMAC, lanMAC, v.client, v.wan).UDP(4000, 8080).Payload(20).Bytes())
			g.steps(
				step{"a datagram", "veth1", fromTo(clientMAC, lanMAC, v.client, v.wan).UDP(4000, 8080).Payload(20).Bytes(), "lan", inside, ""},
				step{"nobody listens", "veth1", icmpError(serverMAC, lanMAC, v.server, v.wan, v.kind, v.code, inside),
					"lan", pkt.Hop(icmpError(lanMAC, clientMAC, v.wan, v.client, v.kind, v.code, outside)), ""},
			)
		}
		first, later := pkt.IPv4Options{ID: 7, MoreFragments: true}, pkt.IPv4Options{ID: 7, Offset: 9}
		whole := pkt.Eth(clientMAC, lanMAC).IPv4(client, wan, first).UDP(4000, 8080).Payload(64).Bytes()
		// The checksum is that of the datagram; a fragment's part is changed by the difference.
		translated := pkt.Eth(lanMAC, serverMAC).IPv4(wan, server, first).UDP(4000, 80).Payload(64).Bytes()
		g.steps(
			step{"the first fragment", "veth1", whole, "lan", pkt.Hop(translated), ""},
			step{"a later one", "veth1", pkt.Eth(clientMAC, lanMAC).IPv4(client, wan, later).Protocol(17).Payload(30).Bytes(),
				"lan", pkt.Hop(pkt.Eth(lanMAC, serverMAC).IPv4(wan, server, later).Protocol(17).Payload(30).Bytes()), ""},
		)
	})
}
