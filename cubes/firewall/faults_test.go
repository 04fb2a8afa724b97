// SPDX-License-Identifier: Apache-2.0

package firewall_test

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/test/bpftest"
	"github.com/polycube/polycube/test/pkt"
)

// sessions reads how many there are, open and half open.
func (g *guarded) sessions() (active, halfOpen int) {
	g.t.Helper()
	var is struct {
		Active   int `json:"active"`
		HalfOpen int `json:"half-open"`
	}
	if err := json.Unmarshal([]byte(g.Read("fw sessions")), &is); err != nil {
		g.t.Fatal(err)
	}
	return is.Active, is.HalfOpen
}

// TestTruncatedHeadersOpenNoConnection, wherever a packet ends. One that ends before its ports or its type matches no rule for
// them.
func TestTruncatedHeadersOpenNoConnection(t *testing.T) {
	// At TC, the kernel runs no program for a test with less than an IP header.
	l := bpftest.New(t, bpftest.Options{Hosts: 2, Type: cube.TypeXDPDRV})
	g := guard(t, l, `{"families":["ipv4","ipv6"],"chain":[{"name":"INGRESS","default":"DROP"}]}`)
	for _, rule := range []string{`"l4proto":"TCP","dport":80`, `"l4proto":"UDP","dport":53`, `"icmp_type":8`, `"icmpv6_type":128`} {
		g.Action("fw chain INGRESS append", "{"+rule+`,"action":"ACCEPT"}`)
	}
	const far6, near6 = "2001:db8::1", "2001:db8::2"
	options := []byte{7, 4, 0, 0} // record route
	for _, c := range []struct {
		name  string
		frame []byte
		// whole is the length of the headers, ports how much of it a rule needs.
		whole, ports int
	}{
		{"TCP", tcp(outside, inside, 1, 80, pkt.TCPFlags{SYN: true}), 54, 38},
		{"TCP with a VLAN tag", pkt.Eth(macOut, macIn).VLAN(7).IPv4(outside, inside).TCP(1, 80, pkt.TCPFlags{SYN: true}).Bytes(), 58, 42},
		{"UDP", udp(outside, inside, 1, 53), 42, 38},
		{"ICMP", echo(outside, inside), 42, 42},
		{"UDP behind options", pkt.Eth(macOut, macIn).IP(pkt.IPv4Header{From: outside, To: inside, Protocol: pkt.ProtoUDP, TTL: 64, Options: options}.
			Packet(pkt.UDPDatagram(outside, inside, 1, 53, make([]byte, 20)))).Bytes(), 46, 42},
		{"UDP over IPv6", pkt.Eth(macOut, macIn).IPv6(far6, near6).UDP(1, 53).Payload(20).Bytes(), 62, 58},
		{"TCP over IPv6", pkt.Eth(macOut, macIn).IPv6(far6, near6).TCP(1, 80, pkt.TCPFlags{SYN: true}).Bytes(), 74, 58},
	} {
		for n := 14; n <= len(c.frame); n++ {
			got := g.Run("veth1", c.frame[:n])
			if n < c.ports && got.Verdict != "drop" {
				t.Errorf("%s, %d of %d bytes: %+v", c.name, n, len(c.frame), got)
			}
			if active, half := g.sessions(); n < c.whole && active+half > 0 {
				t.Fatalf("%s, %d of %d bytes: %d sessions, %d half open", c.name, n, len(c.frame), active, half)
			}
		}
		g.Action("fw delete-sessions", "")
	}
}

// TestAFullTableKeepsWhatIsEstablished: new connections are refused and counted, those that are open go on.
func TestAFullTableKeepsWhatIsEstablished(t *testing.T) {
	const most = 1024
	g := guard(t, bpftest.New(t, hosts), fmt.Sprintf(`{"max-sessions":%d,"chain":[{"name":"INGRESS","default":"DROP"}]}`, most))
	for port := range uint16(most) {
		g.out("opens", udp(inside, outside, 1000+port, 53), "")
		g.in("its reply", udp(outside, inside, 53, 1000+port), "")
	}
	if active, _ := g.sessions(); active != most {
		t.Fatalf("%d sessions, want %d", active, most)
	}
	for port := range uint16(8) {
		g.out("one too many", udp(inside, outside, 4000+port, 53), "no-entry")
		g.in("an established one", udp(outside, inside, 53, 1000+port), "")
		g.out("an established one", udp(inside, outside, 1000+port, 53), "")
	}
	g.Action("fw delete-sessions", `{"sport":1000}`)
	g.out("there is room", udp(inside, outside, 5000, 53), "")
	g.in("its reply", udp(outside, inside, 53, 5000), "")
}
