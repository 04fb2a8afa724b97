// SPDX-License-Identifier: Apache-2.0

package lbdsr

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"strings"
	"testing"

	"github.com/polycube/polycube/test/bpftest"
	"github.com/polycube/polycube/test/netns"
	"github.com/polycube/polycube/test/pkt"
	"github.com/polycube/polycube/wire"
)

// several are services with several servers.
const several = `{` + ports + `,"service":[
 {"vip":"10.0.0.100","vport":80,"proto":"ALL","server":[{"address":"` + server1 + `"},{"address":"` + server2 + `"},{"address":"` + server3 + `"}]},
 {"vip":"10.0.0.101","vport":80,"proto":"ALL","select":"SOURCE","server":[{"address":"` + server1 + `"},{"address":"` + server2 + `"},{"address":"` + server3 + `"}]},
 {"vip":"10.0.0.101","vport":81,"proto":"UDP","select":"SOURCE","server":[{"address":"` + server1 + `"},{"address":"` + server2 + `"},{"address":"` + server3 + `"}]},
 {"vip":"10.0.0.102","vport":80,"proto":"ALL","select":"HOSTS","server":[{"address":"` + server1 + `"},{"address":"` + server2 + `"},{"address":"` + server3 + `"}]},
 {"vip":"2001:db8::100","vport":80,"proto":"ALL","server":[{"address":"` + server1 + `"},{"address":"` + server2 + `"},{"address":"` + server3 + `"}]}]}`

// to returns the MAC address that a frame is sent to; "" if it is dropped.
func to(l *bpftest.Lab, frame []byte) string {
	got, out := l.RunBytes("veth1", frame)
	if got != sent {
		return fmt.Sprintf("%+v", got)
	}
	return fmt.Sprintf("%x", out[:6])
}

func TestErrorsGoToTheServerOfTheirFlow(t *testing.T) {
	bpftest.Each(t, bpftest.Options{Hosts: 2}, func(t *testing.T, l *bpftest.Lab) {
		l.Create("lbdsr", "lb", several)
		seen := map[string]bool{}
		for port := range uint16(30) {
			want := to(l, client().IPv4("10.9.0.1", "10.0.0.100").TCP(1000+port, 80, ack).Bytes())
			seen[want] = true
			answer := pkt.Eth(server1, clientMAC).IPv4("10.0.0.100", "10.9.0.1").TCP(80, 1000+port, ack).Payload(100).Bytes()
			body := pkt.ICMPMessage(3, 4, 1400, answer[14:14+28]) // fragmentation needed
			if got := to(l, client().IPv4("10.8.0.1", "10.0.0.100").Protocol(pkt.ProtoICMP).Data(body).Bytes()); got != want {
				t.Errorf("port %d: the error went to %s, the flow to %s", port, got, want)
			}
			want = to(l, client().IPv6("2001:db8:9::1", "2001:db8::100").UDP(1000+port, 80).Payload(9).Bytes())
			answer = pkt.Eth(server1, clientMAC).IPv6("2001:db8::100", "2001:db8:9::1").UDP(80, 1000+port).Payload(100).Bytes()
			body = pkt.ICMPv6Message("2001:db8:8::1", "2001:db8::100", 2, 0, 1400, answer[14:])
			if got := to(l, client().IPv6("2001:db8:8::1", "2001:db8::100").Protocol(pkt.ProtoICMPv6).Data(body).Bytes()); got != want {
				t.Errorf("port %d of IPv6: the error went to %s, the flow to %s", port, got, want)
			}
		}
		if len(seen) != 3 {
			t.Errorf("30 flows went to %v", seen)
		}
		// Another server changes the table; the flows have pins.
		flow := client().IPv4("10.9.0.1", "10.0.0.100").TCP(1007, 80, ack).Bytes()
		want := to(l, flow)
		l.Set("POST", "lb service 10.0.0.100 80 ALL server 02:00:00:00:02:14", `{"weight":65535}`)
		about := client().IPv4("10.0.0.100", "10.9.0.1").TCP(80, 1007, ack).Bytes()[14:]
		fault := client().IPv4("10.8.0.1", "10.0.0.100").Protocol(pkt.ProtoICMP).Data(pkt.ICMPMessage(3, 4, 1400, about)).Bytes()
		if got, is := to(l, fault), to(l, flow); got != want || is != want {
			t.Errorf("with another server, the error went to %s, and the flow from %s to %s", got, want, is)
		}
		answer := pkt.Eth(server1, clientMAC).IPv4("10.0.0.100", "10.9.0.1").TCP(81, 1000, ack).Bytes()
		body := pkt.ICMPMessage(3, 4, 1400, answer[14:14+28])
		if got := to(l, client().IPv4("10.8.0.1", "10.0.0.100").Protocol(pkt.ProtoICMP).Data(body).Bytes()); !strings.Contains(got, "lb no-service") {
			t.Errorf("an error about no service: %s", got)
		}
	})
}

func TestFragmentsGoWhereTheirDatagramGoes(t *testing.T) {
	bpftest.Each(t, bpftest.Options{Hosts: 2}, func(t *testing.T, l *bpftest.Lab) {
		l.Create("lbdsr", "lb", several)
		for port := range uint16(20) {
			want := to(l, client().IPv4("10.9.0.1", "10.0.0.100").UDP(1000+port, 80).Payload(9).Bytes())
			first := client().IPv4("10.9.0.1", "10.0.0.100", pkt.IPv4Options{ID: 100 + port, MoreFragments: true}).UDP(1000+port, 80).Payload(64).Bytes()
			later := client().IPv4("10.9.0.1", "10.0.0.100", pkt.IPv4Options{ID: 100 + port, Offset: 9}).Protocol(pkt.ProtoUDP).Payload(20).Bytes()
			if got := to(l, later); !strings.Contains(got, "lb fragment-unknown") {
				t.Errorf("port %d: a later fragment before the first one: %s", port, got)
			}
			if got := to(l, first); got != want {
				t.Errorf("port %d: the first fragment went to %s, the flow to %s", port, got, want)
			}
			if got := to(l, later); got != want {
				t.Errorf("port %d: the later fragment went to %s, the flow to %s", port, got, want)
			}
			fragmentsOfIPv6(t, l, 1000+port)
		}
	})
}

// fragmentsOfIPv6 compares where the fragments of a datagram of IPv6 and its flow go.
func fragmentsOfIPv6(t *testing.T, l *bpftest.Lab, port uint16) {
	t.Helper()
	const from, vip = "2001:db8:9::1", "2001:db8::100"
	whole := pkt.UDPDatagram(from, vip, port, 80, make([]byte, 84))
	piece := func(offset uint16, data []byte) []byte {
		head := pkt.IPv6Fragment(pkt.ProtoUDP, offset, 100+uint32(port))
		return client().IPv6(from, vip).Protocol(pkt.NextFragment).Data(append(head, data...)).Bytes()
	}
	first, later := piece(1, whole[:72]), piece(72, whole[72:])
	want := to(l, client().IPv6(from, vip).UDP(port, 80).Payload(9).Bytes())
	if got := to(l, later); !strings.Contains(got, "lb fragment-unknown") {
		t.Errorf("port %d: a later fragment of IPv6 before the first one: %s", port, got)
	}
	if got := to(l, first); got != want {
		t.Errorf("port %d: the first fragment of IPv6 went to %s, the flow to %s", port, got, want)
	}
	if got := to(l, later); got != want {
		t.Errorf("port %d: the later fragment of IPv6 went to %s, the flow to %s", port, got, want)
	}
}

func TestFlowsAreToldApartAsSelected(t *testing.T) {
	bpftest.Each(t, bpftest.Options{Hosts: 2}, func(t *testing.T, l *bpftest.Lab) {
		l.Create("lbdsr", "lb", several)
		different := map[string]map[string]bool{"10.0.0.101": {}, "10.0.0.102": {}}
		for host := range 20 {
			from := fmt.Sprintf("10.9.0.%d", 1+host)
			for vip, seen := range different {
				want := to(l, client().IPv4(from, vip).UDP(1000, 80).Payload(9).Bytes())
				seen[want] = true
				for port := range uint16(8) {
					if got := to(l, client().IPv4(from, vip).UDP(1001+port, 80).Payload(9).Bytes()); got != want {
						t.Fatalf("%s to %s: port %d went to %s, another one to %s", from, vip, 1001+port, got, want)
					}
				}
			}
			one := to(l, client().IPv4(from, "10.0.0.101").UDP(1000, 80).Payload(9).Bytes())
			if other := to(l, client().IPv4(from, "10.0.0.101").UDP(7, 81).Payload(9).Bytes()); other != one {
				t.Errorf("%s: the two services by source have servers %s and %s", from, one, other)
			}
		}
		for vip, seen := range different {
			if len(seen) != 3 {
				t.Errorf("20 clients of %s went to %v", vip, seen)
			}
		}
	})
}

// quic are two servers with IDs in two configurations.
const quicService = `{` + ports + `,"quic-config":[{"id":1,"server-id-length":4}],"service":[{"vip":"10.0.0.100","vport":443,"proto":"UDP","select":"QUIC","server":[
 {"address":"` + server1 + `","quic-server-id":"01:02:03:04"},{"address":"` + server2 + `","quic-server-id":"05:06:07:08"},{"address":"` + server3 + `"}]}]}`

// quicPacket is a packet of a connection with a long or a short header.
func quicPacket(from string, port uint16, long bool, id ...byte) []byte {
	data := append([]byte{0x40}, id...)
	if long {
		data = append([]byte{0xc0, 0, 0, 0, 1, byte(len(id))}, id...)
	}
	return client().IPv4(from, "10.0.0.100").UDP(port, 443).Data(append(data, make([]byte, 40)...)).Bytes()
}

func TestAConnectionOfQUICStaysWhenItsClientMoves(t *testing.T) {
	bpftest.Each(t, bpftest.Options{Hosts: 2}, func(t *testing.T, l *bpftest.Lab) {
		l.Create("lbdsr", "lb", quicService)
		hex := func(mac string) string { return fmt.Sprintf("%x", []byte(pkt.MAC(mac))) }
		id := func(config byte, server ...byte) []byte {
			return append(append([]byte{config<<5 | 8}, server...), 9, 9, 9, 9)
		}
		seen := map[string]bool{}
		for i := range 20 {
			from := fmt.Sprintf("10.9.7.%d", i)
			for server, sid := range map[string][]byte{server1: {1, 2, 3, 4}, server2: {5, 6, 7, 8}} {
				for _, long := range []bool{false, true} {
					if got := to(l, quicPacket(from, uint16(5000+i), long, id(1, sid...)...)); got != hex(server) {
						t.Fatalf("a packet with the ID of %s from %s, long header %v: %s", server, from, long, got)
					}
				}
			}
			// of no server, of another configuration, and of none: by flow
			for _, other := range [][]byte{id(1, 7, 7, 7, 7), id(2, 1, 2, 3, 4), id(7, 1, 2, 3, 4)} {
				got := to(l, quicPacket(from, 6000, false, other...))
				seen[got] = true
				if again := to(l, quicPacket(from, 6000, false, other...)); again != got {
					t.Errorf("a flow went to %s and to %s", got, again)
				}
			}
		}
		if len(seen) != 3 {
			t.Errorf("connections without a server's ID went to %v", seen)
		}
		// the next configuration, with longer IDs, beside the first one
		l.Set("POST", "lb quic-config 2", `{"server-id-length":5}`)
		l.Set("POST", "lb service 10.0.0.100 443 UDP server 02:00:00:00:02:15", `{"quic-server-id":"01:02:03:04:05"}`)
		l.Set("POST", "lb service 10.0.0.100 443 UDP server 02:00:00:00:02:14", `{"quic-server-id":"01:02:03:04:06"}`)
		if got := to(l, quicPacket("10.9.8.8", 7000, false, id(2, 1, 2, 3, 4, 6)...)); got != hex("02:00:00:00:02:14") {
			t.Errorf("an ID of the next configuration: %s", got)
		}
		if got := to(l, quicPacket("10.9.8.8", 7000, false, id(1, 1, 2, 3, 4)...)); got != hex(server1) {
			t.Errorf("an ID of the first configuration: %s", got)
		}
		for _, server := range []string{server1, server2} {
			if err := l.Try("DELETE", "lb quic-config 1", ""); err == nil || !strings.Contains(err.Error(), "server-id-length=4") {
				t.Errorf("a configuration that server IDs need is deleted: %v", err)
			}
			l.Set("DELETE", "lb service 10.0.0.100 443 UDP server "+server+" quic-server-id", "")
		}
		l.Set("DELETE", "lb quic-config 1", "")
		short := quicPacket("10.9.8.8", 7000, false)
		if got := to(l, short[:44]); got == "" || len(got) != 12 {
			t.Errorf("a packet without an ID: %s", got)
		}
	})
}

func TestSettingsOfQUICWithoutEffectAreRefused(t *testing.T) {
	l := bpftest.New(t, bpftest.Options{Hosts: 2})
	l.Create("lbdsr", "lb", quicService)
	before := l.Read("lb service")
	const service = "lb service 10.0.0.100 443 UDP"
	for _, c := range []struct{ method, words, body, says string }{
		{"POST", "lb service 10.0.0.101 443 TCP", `{"select":"QUIC"}`, "select=QUIC needs proto=UDP or ALL"},
		{"POST", service + " server 02:00:00:00:02:14", `{"quic-server-id":"01:02:03:04:05"}`, "server-id-length=5"},
		{"PATCH", service + " server " + server3, `{"quic-other-server-id":"01:02:03"}`, "server-id-length=3"},
		{"PATCH", "lb quic-config 1 server-id-length", "5", "server-id-length=4"},
		{"DELETE", "lb quic-config 1", "", "server-id-length=4"},
	} {
		if err := l.Try(c.method, c.words, c.body); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s %s %s: %v, want %q", c.method, c.words, c.body, err, c.says)
		}
	}
	if after := l.Read("lb service"); after != before {
		t.Errorf("refused edits changed\n%s to\n%s", before, after)
	}
	if err := l.TryCreate("lbdsr", "lb2", `{"service":[{"vip":"10.0.0.100","vport":443,"proto":"UDP","select":"QUIC","server":[
		{"address":"`+server1+`","quic-server-id":"01:02:03:04"}]}]}`); err == nil || !strings.Contains(err.Error(), "server-id-length=4") {
		t.Errorf("a cube without a quic-config: %v", err)
	}
	l.Set("POST", "lb service 10.0.0.101 443 ALL", `{"select":"QUIC"}`)
}

// TestAServerOfQUICChangesItsID: from one configuration to another, with both IDs for a while.
func TestAServerOfQUICChangesItsID(t *testing.T) {
	bpftest.Each(t, bpftest.Options{Hosts: 2}, func(t *testing.T, l *bpftest.Lab) {
		l.Create("lbdsr", "lb", quicService)
		l.Set("POST", "lb quic-config 2", `{"server-id-length":5}`)
		hex := func(mac string) string { return fmt.Sprintf("%x", []byte(pkt.MAC(mac))) }
		id := func(config byte, server ...byte) []byte { return append([]byte{config<<5 | 8}, server...) }
		l.Set("PATCH", "lb service 10.0.0.100 443 UDP server "+server1, `{"quic-other-server-id":"01:02:03:04:07"}`)
		old, next := quicPacket("10.9.8.8", 7000, false, id(1, 1, 2, 3, 4)...), quicPacket("10.9.8.9", 7000, false, id(2, 1, 2, 3, 4, 7)...)
		if a, b := to(l, old), to(l, next); a != hex(server1) || b != hex(server1) {
			t.Errorf("packets with both IDs of a server: %s and %s", a, b)
		}
		if err := l.Try("PATCH", "lb service 10.0.0.100 443 UDP server "+server2, `{"quic-other-server-id":"01:02:03:04:07"}`); err == nil ||
			!strings.Contains(err.Error(), "has the same quic-server-id") {
			t.Errorf("a second ID that another server has: %v", err)
		}
		l.Set("PATCH", "lb service 10.0.0.100 443 UDP server "+server1, `{"quic-server-id":"01:02:03:04:07","quic-other-server-id":null}`)
		l.Set("PATCH", "lb service 10.0.0.100 443 UDP server "+server2, `{"quic-server-id":"05:06:07:08:09"}`)
		l.Set("DELETE", "lb quic-config 1", "")
		if got := to(l, quicPacket("10.9.8.10", 7000, false, id(2, 1, 2, 3, 4, 7)...)); got != hex(server1) {
			t.Errorf("an ID of the only configuration: %s", got)
		}
		seen := map[string]bool{}
		for port := range uint16(20) {
			seen[to(l, quicPacket("10.9.8.11", 7000+port, false, id(1, 1, 2, 3, 4)...))] = true
		}
		if len(seen) < 2 {
			t.Errorf("IDs of a configuration that is gone went to %v, want several servers", seen)
		}
	})
}

// TestErrorsAndFragmentsOfQUICGoToTheServerOfTheConnection: neither has the connection ID that says which one it is, and the client
// may have another address than in the beginning.
func TestErrorsAndFragmentsOfQUICGoToTheServerOfTheConnection(t *testing.T) {
	bpftest.Each(t, bpftest.Options{Hosts: 2}, func(t *testing.T, l *bpftest.Lab) {
		l.Create("lbdsr", "lb", quicService)
		hex := func(mac string) string { return fmt.Sprintf("%x", []byte(pkt.MAC(mac))) }
		for port := range uint16(20) {
			for server, id := range map[string][]byte{server1: {1<<5 | 8, 1, 2, 3, 4}, server2: {1<<5 | 8, 5, 6, 7, 8}} {
				packet := quicPacket("10.9.7.7", 5000+port, false, id...)
				if got := to(l, packet); got != hex(server) {
					t.Fatalf("a packet with the ID of %s: %s", server, got)
				}
				about := client().IPv4("10.0.0.100", "10.9.7.7").UDP(443, 5000+port).Payload(40).Bytes()[14:]
				fault := client().IPv4("10.8.0.1", "10.0.0.100").Protocol(pkt.ProtoICMP).Data(pkt.ICMPMessage(3, 4, 1400, about)).Bytes()
				if got := to(l, fault); got != hex(server) {
					t.Errorf("port %d: the error about a connection with %s went to %s", port, server, got)
				}
				first := client().IPv4("10.9.7.7", "10.0.0.100", pkt.IPv4Options{ID: 7, MoreFragments: true}).Protocol(pkt.ProtoUDP).Data(packet[34:74]).Bytes()
				later := client().IPv4("10.9.7.7", "10.0.0.100", pkt.IPv4Options{ID: 7, Offset: 5}).Protocol(pkt.ProtoUDP).Data(packet[74:]).Bytes()
				if got, behind := to(l, first), to(l, later); got != hex(server) || behind != hex(server) {
					t.Errorf("port %d: the fragments for %s went to %s and %s", port, server, got, behind)
				}
			}
		}
	})
}

func TestPacketsTooBigForATunnelAreAnswered(t *testing.T) {
	bpftest.Each(t, bpftest.Options{Hosts: 2}, func(t *testing.T, l *bpftest.Lab) {
		l.Create("lbdsr", "lb", tunnels)
		wires := l.Wires()
		answer(t, wires[1], "10.0.2.254", gatewayMAC)
		answer(t, wires[1], "2001:db8:2::254", gatewayMAC)
		netns.Eventually(t, bpftest.Patience, func() error {
			for _, vip := range []string{"10.0.0.100", "10.0.0.101"} {
				if got := to(l, client().IPv4("10.9.0.1", vip).UDP(1000, 80).Bytes()); len(got) != 12 {
					return fmt.Errorf("%s: %s", vip, got)
				}
			}
			return nil
		})
		whole := client().IPv4("10.9.0.1", "10.0.0.100", pkt.IPv4Options{DontFragment: true, ID: 3}).UDP(1000, 80).Payload(1500 - 20 - 28).Bytes()
		if got := to(l, whole); len(got) != 12 {
			t.Errorf("a packet that just fits: %s", got)
		}
		big := client().IPv4("10.9.0.1", "10.0.0.100", pkt.IPv4Options{DontFragment: true, ID: 3}).UDP(1000, 80).Payload(1500 - 20 - 27).Bytes()
		wires[0].Puts(big)
		want := pkt.Eth(frontMAC, clientMAC).IPv4("10.0.0.100", "10.9.0.1").Bytes()
		frame, err := wires[0].Recv(func(f []byte) bool { return len(f) > 60 && bytes.Equal(f[:12], want[:12]) && f[23] == pkt.ProtoICMP }, bpftest.Patience)
		if err != nil || frame[34] != 3 || frame[35] != 4 || binary.BigEndian.Uint16(frame[40:]) != 1480 {
			t.Fatalf("the answer is % x, %v; want fragmentation needed with MTU 1480", frame, err)
		}
		big6 := client().IPv6("2001:db8:9::1", "2001:db8::101").UDP(1000, 80).Payload(1413).Bytes()
		wires[0].Puts(big6)
		frame, err = wires[0].Recv(func(f []byte) bool { return len(f) > 60 && f[12] == 0x86 && f[20] == pkt.ProtoICMPv6 && f[54] == 2 }, bpftest.Patience)
		if err != nil || binary.BigEndian.Uint32(frame[58:]) != 1460 {
			t.Fatalf("the answer is % x, %v; want packet too big with MTU 1460", frame, err)
		}
		wires[0].Puts(client().IPv4("10.9.0.1", "10.0.0.100", pkt.IPv4Options{ID: 4}).UDP(1000, 80).Payload(1472).Bytes())
		for _, offset := range []uint16{0, 182} {
			frame, err = wires[1].Recv(func(f []byte) bool {
				return len(f) > 60 && f[23] == 4 && f[34+9] == pkt.ProtoUDP && binary.BigEndian.Uint16(f[34+6:])&0x1fff == offset
			}, bpftest.Patience)
			if err != nil {
				t.Fatalf("no fragment at offset %d: %v", 8*offset, err)
			}
			if p, err := wire.ParseIP(append(append([]byte{}, frame[:14]...), frame[34:]...)); err != nil || p.ID != 4 {
				t.Errorf("the fragment at offset %d is %+v, %v", 8*offset, p, err)
			}
		}
		wires[0].Puts(client().IPv4("127.0.0.1", "10.0.0.100", pkt.IPv4Options{DontFragment: true}).UDP(1000, 80).Payload(1472).Bytes())
		netns.Eventually(t, bpftest.Patience, func() error {
			if got := l.Read("lb tunnel"); !strings.Contains(got, `"answered":2,"fragmented":1,"unanswered":1`) {
				return fmt.Errorf("too big packets are counted as %s", got)
			}
			return nil
		})
		// The MTU of the port decides.
		l.Set("PATCH", "lb ports b mtu", "1600")
		if got := to(l, big); len(got) != 12 {
			t.Errorf("with a larger MTU, the packet that was too big: %s", got)
		}
		l.Set("PATCH", "lb ports b mtu", "1400")
		if got := to(l, whole); !strings.Contains(got, "lb slowpath") {
			t.Errorf("with a smaller MTU, the packet that did fit: %s", got)
		}
	})
}
