// SPDX-License-Identifier: Apache-2.0

package lbrp

// What becomes of packets that are not simply from a client to a server and back.

import (
	"bytes"
	"encoding/binary"
	"strings"
	"testing"

	"github.com/polycube/polycube/test/bpftest"
	"github.com/polycube/polycube/test/pkt"
)

const twoPorts = `"ports":[{"name":"f","type":"FRONTEND","peer":"veth1"},{"name":"b","type":"BACKEND","peer":"veth2"}]`

// create makes a load balancer with a port on each side.
func create(l *bpftest.Lab, services string) {
	l.Create("lbrp", "lb", `{`+twoPorts+`,"service":[`+services+`]}`)
}

// each runs a test at each hook.
func each(t *testing.T, services string, test func(t *testing.T, l *bpftest.Lab)) {
	t.Helper()
	bpftest.Each(t, bpftest.Options{Hosts: 2}, func(t *testing.T, l *bpftest.Lab) {
		create(l, services)
		test(t, l)
	})
}

const web = `{"vip":"10.0.0.100","vport":80,"proto":"TCP","backend":[{"ip":"10.0.2.11","port":8080}]}`

func TestServersReachTheirOwnService(t *testing.T) {
	each(t, web+`,{"vip":"10.0.0.101","vport":80,"proto":"TCP","backend":[{"ip":"10.0.2.12","port":8080}]}`, func(t *testing.T, l *bpftest.Lab) {
		// A server behind the backend port, to itself and to another one: it leaves where it came in, with the MAC addresses swapped.
		back := fromClient
		for n, server := range []string{"10.0.2.11", "10.0.2.12"} {
			from := 5000 + uint16(n)
			sends(t, l, "veth2", fromServer().IPv4(server, "10.0.0.100").TCP(from, 80, syn).Bytes(),
				toBackend, back().IPv4("10.0.0.100", "10.0.2.11").TCP(from, 8080, syn).Bytes())
			sends(t, l, "veth2", fromServer().IPv4("10.0.2.11", "10.0.0.100").TCP(8080, from, synAck).Bytes(),
				toBackend, back().IPv4("10.0.0.100", server).TCP(80, from, synAck).Bytes())
		}
		// A host behind the frontend port that is a server itself.
		l.Set("POST", "lb service 10.0.0.102 80 TCP", `{"backend":[{"ip":"10.0.1.2","port":8080}]}`)
		sends(t, l, "veth1", fromClient().IPv4("10.0.1.2", "10.0.0.102").TCP(6000, 80, syn).Bytes(),
			toFrontend, fromServer().IPv4("10.0.0.102", "10.0.1.2").TCP(6000, 8080, syn).Bytes())
		sends(t, l, "veth1", fromClient().IPv4("10.0.1.2", "10.0.0.102").TCP(8080, 6000, synAck).Bytes(),
			toFrontend, fromServer().IPv4("10.0.0.102", "10.0.1.2").TCP(80, 6000, synAck).Bytes())
	})
}

func TestFullNATHidesClients(t *testing.T) {
	service := strings.Replace(web, `"proto"`, `"full-nat":true,"proto"`, 1)
	each(t, service, func(t *testing.T, l *bpftest.Lab) {
		sends(t, l, "veth1", fromClient().IPv4("10.0.1.2", "10.0.0.100").TCP(4000, 80, syn).Bytes(),
			toBackend, fromClient().IPv4("10.0.0.100", "10.0.2.11").TCP(4000, 8080, syn).Bytes())
		sends(t, l, "veth2", fromServer().IPv4("10.0.2.11", "10.0.0.100").TCP(8080, 4000, synAck).Bytes(),
			toFrontend, fromServer().IPv4("10.0.0.100", "10.0.1.2").TCP(80, 4000, synAck).Bytes())
		// Another client with the same port gets another one towards the server.
		got, out := l.RunBytes("veth1", fromClient().IPv4("10.0.1.3", "10.0.0.100").TCP(4000, 80, syn).Bytes())
		if got != toBackend {
			t.Fatal(got)
		}
		port := binary.BigEndian.Uint16(out[34:])
		if want := fromClient().IPv4("10.0.0.100", "10.0.2.11").TCP(port, 8080, syn).Bytes(); port == 4000 || port < 1024 || string(out) != string(want) {
			t.Fatalf("port %d:\n% x, want\n% x", port, out, want)
		}
		sends(t, l, "veth2", fromServer().IPv4("10.0.2.11", "10.0.0.100").TCP(8080, port, synAck).Bytes(),
			toFrontend, fromServer().IPv4("10.0.0.100", "10.0.1.3").TCP(80, 4000, synAck).Bytes())
		if taken := l.Read("lb sessions source-ports-taken"); taken == "0" {
			t.Error("no source port was counted as taken")
		}
		l.Set("PATCH", "lb service 10.0.0.100 80 TCP full-nat", "false")
		sends(t, l, "veth1", fromClient().IPv4("10.0.1.4", "10.0.0.100").TCP(4000, 80, syn).Bytes(),
			toBackend, fromClient().IPv4("10.0.1.4", "10.0.2.11").TCP(4000, 8080, syn).Bytes())
	})
}

// TestTwoServicesOfAServerDoNotMixUp: a client uses one port for both.
func TestTwoServicesOfAServerDoNotMixUp(t *testing.T) {
	each(t, web+`,{"vip":"10.0.0.101","vport":80,"proto":"TCP","backend":[{"ip":"10.0.2.11","port":8080}]}`, func(t *testing.T, l *bpftest.Lab) {
		sends(t, l, "veth1", fromClient().IPv4("10.0.1.2", "10.0.0.100").TCP(4000, 80, syn).Bytes(),
			toBackend, fromClient().IPv4("10.0.1.2", "10.0.2.11").TCP(4000, 8080, syn).Bytes())
		_, out := l.RunBytes("veth1", fromClient().IPv4("10.0.1.2", "10.0.0.101").TCP(4000, 80, syn).Bytes())
		port := binary.BigEndian.Uint16(out[34:])
		if want := fromClient().IPv4("10.0.1.2", "10.0.2.11").TCP(port, 8080, syn).Bytes(); port == 4000 || string(out) != string(want) {
			t.Fatalf("% x, want\n% x", out, want)
		}
		sends(t, l, "veth2", fromServer().IPv4("10.0.2.11", "10.0.1.2").TCP(8080, port, synAck).Bytes(),
			toFrontend, fromServer().IPv4("10.0.0.101", "10.0.1.2").TCP(80, 4000, synAck).Bytes())
		sends(t, l, "veth2", fromServer().IPv4("10.0.2.11", "10.0.1.2").TCP(8080, 4000, synAck).Bytes(),
			toFrontend, fromServer().IPv4("10.0.0.100", "10.0.1.2").TCP(80, 4000, synAck).Bytes())
	})
}

// cut is the beginning of an IP packet in a frame.
func cut(frame []byte, n int) []byte { return frame[14 : 14+n] }

func TestErrorsAreTranslated(t *testing.T) {
	services := `{"vip":"10.0.0.100","vport":80,"proto":"ALL","backend":[{"ip":"10.0.2.11","port":8080}]},
		{"vip":"2001:db8::100","vport":80,"proto":"ALL","backend":[{"ip":"2001:db8:2::11","port":8080}]}`
	each(t, services, func(t *testing.T, l *bpftest.Lab) {
		sends(t, l, "veth1", fromClient().IPv4("10.0.1.2", "10.0.0.100").TCP(4000, 80, syn).Bytes(),
			toBackend, fromClient().IPv4("10.0.1.2", "10.0.2.11").TCP(4000, 8080, syn).Bytes())
		sends(t, l, "veth1", fromClient().IPv6("2001:db8:1::2", "2001:db8::100").UDP(4000, 80).Payload(33).Bytes(),
			toBackend, fromClient().IPv6("2001:db8:1::2", "2001:db8:2::11").UDP(4000, 8080).Payload(33).Bytes())
		echo := fromClient().IPv4("10.0.1.2", "10.0.0.100").Echo(7, 1).Payload(9)
		sends(t, l, "veth1", echo.Bytes(), toBackend, fromClient().IPv4("10.0.1.2", "10.0.2.11").Echo(7, 1).Payload(9).Bytes())

		// The router behind the load balancer about the client's packet, with all of its header, and with 8 bytes of it.
		for _, n := range []int{40, 28} {
			inner := cut(fromClient().IPv4("10.0.1.2", "10.0.2.11").TCP(4000, 8080, syn).Bytes(), n)
			want := cut(fromClient().IPv4("10.0.1.2", "10.0.0.100").TCP(4000, 80, syn).Bytes(), n)
			sends(t, l, "veth2", fromServer().IPv4("10.0.2.1", "10.0.1.2").Protocol(1).Data(pkt.ICMPMessage(3, 4, 1400, inner)).Bytes(),
				toFrontend, fromServer().IPv4("10.0.0.100", "10.0.1.2").Protocol(1).Data(pkt.ICMPMessage(3, 4, 1400, want)).Bytes())
		}
		// A router on the client's side about the server's packet.
		inner := cut(fromServer().IPv4("10.0.0.100", "10.0.1.2").TCP(80, 4000, synAck).Bytes(), 40)
		want := cut(fromServer().IPv4("10.0.2.11", "10.0.1.2").TCP(8080, 4000, synAck).Bytes(), 40)
		sends(t, l, "veth1", fromClient().IPv4("10.0.1.1", "10.0.0.100").Protocol(1).Data(pkt.ICMPMessage(11, 0, 0, inner)).Bytes(),
			toBackend, fromClient().IPv4("10.0.1.1", "10.0.2.11").Protocol(1).Data(pkt.ICMPMessage(11, 0, 0, want)).Bytes())
		// About an echo request.
		inner = cut(fromClient().IPv4("10.0.1.2", "10.0.2.11").Echo(7, 1).Payload(9).Bytes(), 36)
		sends(t, l, "veth2", fromServer().IPv4("10.0.2.1", "10.0.1.2").Protocol(1).Data(pkt.ICMPMessage(3, 1, 0, inner)).Bytes(),
			toFrontend, fromServer().IPv4("10.0.0.100", "10.0.1.2").Protocol(1).Data(pkt.ICMPMessage(3, 1, 0, cut(echo.Bytes(), 36))).Bytes())
		// IPv6.
		inner = cut(fromClient().IPv6("2001:db8:1::2", "2001:db8:2::11").UDP(4000, 8080).Payload(33).Bytes(), 81)
		want = cut(fromClient().IPv6("2001:db8:1::2", "2001:db8::100").UDP(4000, 80).Payload(33).Bytes(), 81)
		sends(t, l, "veth2", fromServer().IPv6("2001:db8:2::1", "2001:db8:1::2").Protocol(58).Data(pkt.ICMPv6Message("2001:db8:2::1", "2001:db8:1::2", 2, 0, 1400, inner)).Bytes(),
			toFrontend, fromServer().IPv6("2001:db8::100", "2001:db8:1::2").Protocol(58).Data(pkt.ICMPv6Message("2001:db8::100", "2001:db8:1::2", 2, 0, 1400, want)).Bytes())
		if n := l.Read("lb sessions icmp-errors"); n != "5" {
			t.Errorf("%s errors were counted, want 5", n)
		}
		// About no session: it crosses as it is.
		inner = cut(fromClient().IPv4("10.0.1.2", "10.0.2.11").TCP(4001, 8080, syn).Bytes(), 40)
		other := fromServer().IPv4("10.0.2.1", "10.0.1.2").Protocol(1).Data(pkt.ICMPMessage(3, 4, 1400, inner)).Bytes()
		sends(t, l, "veth2", other, toFrontend, other)
	})
}

// dropped is the outcome of a frame that the load balancer drops.
func dropped(reason string) bpftest.Outcome {
	return bpftest.Outcome{Verdict: "drop", Fate: "lb " + reason}
}

func TestFragmentsFollowTheirFirst(t *testing.T) {
	each(t, `{"vip":"10.0.0.100","vport":80,"proto":"UDP","backend":[{"ip":"10.0.2.11","port":8080}]}`, func(t *testing.T, l *bpftest.Lab) {
		first := pkt.IPv4Options{ID: 9, MoreFragments: true}
		later := pkt.IPv4Options{ID: 9, Offset: 9}
		piece := fromClient().IPv4("10.0.1.2", "10.0.0.100", later).Protocol(17).Payload(20).Bytes()
		if got := l.Run("veth1", piece); got != dropped("first-unknown") {
			t.Errorf("a later fragment before the first one: %+v", got)
		}
		sends(t, l, "veth1", fromClient().IPv4("10.0.1.2", "10.0.0.100", first).UDP(4000, 80).Payload(64).Bytes(),
			toBackend, fromClient().IPv4("10.0.1.2", "10.0.2.11", first).UDP(4000, 8080).Payload(64).Bytes())
		sends(t, l, "veth1", piece, toBackend, fromClient().IPv4("10.0.1.2", "10.0.2.11", later).Protocol(17).Payload(20).Bytes())
		sends(t, l, "veth2", fromServer().IPv4("10.0.2.11", "10.0.1.2", first).UDP(8080, 4000).Payload(64).Bytes(),
			toFrontend, fromServer().IPv4("10.0.0.100", "10.0.1.2", first).UDP(80, 4000).Payload(64).Bytes())
		sends(t, l, "veth2", fromServer().IPv4("10.0.2.11", "10.0.1.2", later).Protocol(17).Payload(20).Bytes(),
			toFrontend, fromServer().IPv4("10.0.0.100", "10.0.1.2", later).Protocol(17).Payload(20).Bytes())
		if n := l.Read("lb sessions fragments"); n != "2" {
			t.Errorf("%s fragments were counted, want 2", n)
		}
		other := fromClient().IPv4("10.0.1.2", "10.0.3.1", later).Protocol(17).Payload(20).Bytes()
		sends(t, l, "veth1", other, toBackend, other)
	})
}

func TestFragmentsOfIPv6FollowTheirFirst(t *testing.T) {
	each(t, `{"vip":"2001:db8::100","vport":80,"proto":"UDP","backend":[{"ip":"2001:db8:2::11","port":8080}]}`, func(t *testing.T, l *bpftest.Lab) {
		const client, vip, server = "2001:db8:1::2", "2001:db8::100", "2001:db8:2::11"
		// both returns the two fragments of a datagram.
		both := func(f func() *pkt.Frame, from, to string, sport, dport uint16) (first, later []byte) {
			datagram := pkt.UDPDatagram(from, to, sport, dport, bytes.Repeat([]byte{0x5a}, 60))
			h := pkt.IPv6Header{From: from, To: to, Next: 44, HopLimit: 64}
			return f().IP(h.Packet(append(pkt.IPv6Fragment(17, 1, 9), datagram[:40]...))).Bytes(),
				f().IP(h.Packet(append(pkt.IPv6Fragment(17, 40, 9), datagram[40:]...))).Bytes()
		}
		first, later := both(fromClient, client, vip, 4000, 80)
		wantFirst, wantLater := both(fromClient, client, server, 4000, 8080)
		if got := l.Run("veth1", later); got != dropped("first-unknown") {
			t.Errorf("a later fragment before the first one: %+v", got)
		}
		sends(t, l, "veth1", first, toBackend, wantFirst)
		sends(t, l, "veth1", later, toBackend, wantLater)
		first, later = both(fromServer, server, client, 8080, 4000)
		wantFirst, wantLater = both(fromServer, vip, client, 80, 4000)
		sends(t, l, "veth2", first, toFrontend, wantFirst)
		sends(t, l, "veth2", later, toFrontend, wantLater)
		if n := l.Read("lb sessions fragments"); n != "2" {
			t.Errorf("%s fragments were counted, want 2", n)
		}
		_, other := both(fromClient, client, "2001:db8:3::1", 4000, 80)
		sends(t, l, "veth1", other, toBackend, other)
	})
}

func TestUDPWithoutAChecksumStaysWithoutOne(t *testing.T) {
	each(t, `{"vip":"10.0.0.100","vport":80,"proto":"UDP","backend":[{"ip":"10.0.2.11","port":8080}]}`, func(t *testing.T, l *bpftest.Lab) {
		frame := fromClient().IPv4("10.0.1.2", "10.0.0.100").UDP(4000, 80).Payload(10).Bytes()
		want := fromClient().IPv4("10.0.1.2", "10.0.2.11").UDP(4000, 8080).Payload(10).Bytes()
		copy(frame[40:42], []byte{0, 0})
		copy(want[40:42], []byte{0, 0})
		sends(t, l, "veth1", frame, toBackend, want)
	})
}

func TestSCTPKeepsItsPorts(t *testing.T) {
	each(t, `{"vip":"10.0.0.100","vport":80,"proto":"SCTP","backend":[{"ip":"10.0.2.11","port":0}]}`, func(t *testing.T, l *bpftest.Lab) {
		sctp := append([]byte{0x0f, 0xa0, 0, 80, 1, 2, 3, 4, 5, 6, 7, 8}, make([]byte, 20)...)
		sends(t, l, "veth1", fromClient().IPv4("10.0.1.2", "10.0.0.100").Protocol(132).Data(sctp).Bytes(),
			toBackend, fromClient().IPv4("10.0.1.2", "10.0.2.11").Protocol(132).Data(sctp).Bytes())
		if err := l.Try("POST", "lb service 10.0.0.100 80 SCTP backend 10.0.2.12 81", "{}"); err == nil || !strings.Contains(err.Error(), "port of the service") {
			t.Errorf("a server with another port: %v", err)
		}
	})
}

func TestServicesWithoutServersRefuse(t *testing.T) {
	services := `{"vip":"10.0.0.100","vport":80,"proto":"ALL"},{"vip":"2001:db8::100","vport":80,"proto":"TCP"},
		{"vip":"10.0.0.101","vport":80,"proto":"ALL","no-servers":"DROP"}`
	bpftest.Each(t, bpftest.Options{Hosts: 2}, func(t *testing.T, l *bpftest.Lab) {
		create(l, services)
		for _, frame := range [][]byte{
			fromClient().IPv4("10.0.1.2", "10.0.0.100").TCP(4000, 80, syn).Bytes(),
			fromClient().IPv4("10.0.1.2", "10.0.0.100").UDP(4000, 80).Payload(3).Bytes(),
			fromClient().IPv6("2001:db8:1::2", "2001:db8::100").TCP(4000, 80, syn).Bytes(),
		} {
			if got := l.Run("veth1", frame); got.Fate != "lb slowpath" {
				t.Errorf("%+v, want it refused", got)
			}
		}
		// The answers may be on their way out at the same time, so what was sent does not count.
		if got := l.Run("veth1", fromClient().IPv4("10.0.1.2", "10.0.0.101").TCP(4000, 80, syn).Bytes()); got.Verdict != "drop" || got.Fate != "lb no-server" {
			t.Errorf("%+v", got)
		}
		if got := l.Run("veth1", fromClient().IPv4("10.0.1.2", "10.0.0.100").TCP(4000, 80, rst).Bytes()); got.Verdict != "drop" || got.Fate != "lb no-session" {
			t.Errorf("a reset: %+v", got)
		}
	})
}

func TestRefusalsAreThoseOfAHost(t *testing.T) {
	b := &balancer{}
	got := b.refusal(fromClient().IPv4("10.0.1.2", "10.0.0.100").TCP(4000, 80, pkt.TCPFlags{SYN: true, Seq: 100}).Bytes())
	if len(got) != 54 || string(got[26:34]) != string([]byte{10, 0, 0, 100, 10, 0, 1, 2}) || got[47] != 0x14 ||
		binary.BigEndian.Uint32(got[42:]) != 101 || string(got[:6]) != string(pkt.MAC(clientMAC)) {
		t.Errorf("TCP: % x, want an RST with an ACK for 101", got)
	}
	got = b.refusal(fromClient().IPv4("10.0.1.2", "10.0.0.100").UDP(4000, 80).Payload(3).Bytes())
	if len(got) < 42 || got[34] != 3 || got[35] != 3 {
		t.Errorf("UDP: % x", got)
	}
	got = b.refusal(fromClient().IPv4("10.0.1.2", "10.0.0.100").Echo(1, 1).Bytes())
	if len(got) < 42 || got[34] != 3 || got[35] != 1 {
		t.Errorf("echo: % x", got)
	}
	if got := b.refusal([]byte{1, 2, 3}); got != nil {
		t.Errorf("no frame: % x", got)
	}
}

func TestClientsAreRenumbered(t *testing.T) {
	bpftest.Each(t, bpftest.Options{Hosts: 2}, func(t *testing.T, l *bpftest.Lab) {
		l.Create("lbrp", "lb", `{`+twoPorts+`,"src-ip-rewrite":{"ip-range":"10.0.1.0/24","new_ip_range":"10.99.1.0/24"},"service":[`+web+`]}`)
		sends(t, l, "veth1", fromClient().IPv4("10.0.1.2", "10.0.0.100").TCP(4000, 80, syn).Bytes(),
			toBackend, fromClient().IPv4("10.99.1.2", "10.0.2.11").TCP(4000, 8080, syn).Bytes())
		sends(t, l, "veth2", fromServer().IPv4("10.0.2.11", "10.99.1.2").TCP(8080, 4000, synAck).Bytes(),
			toFrontend, fromServer().IPv4("10.0.0.100", "10.0.1.2").TCP(80, 4000, synAck).Bytes())
		// Packets of no service.
		sends(t, l, "veth1", fromClient().IPv4("10.0.1.2", "10.0.3.1").UDP(4000, 53).Payload(5).Bytes(),
			toBackend, fromClient().IPv4("10.99.1.2", "10.0.3.1").UDP(4000, 53).Payload(5).Bytes())
		sends(t, l, "veth2", fromServer().IPv4("10.0.3.1", "10.99.1.2").TCP(53, 4000, ack).Bytes(),
			toFrontend, fromServer().IPv4("10.0.3.1", "10.0.1.2").TCP(53, 4000, ack).Bytes())
		other := fromClient().IPv4("10.0.4.2", "10.0.3.1").UDP(4000, 53).Payload(5).Bytes()
		sends(t, l, "veth1", other, toBackend, other)
		inner := cut(fromClient().IPv4("10.99.1.2", "10.0.3.1").UDP(4000, 53).Payload(5).Bytes(), 33)
		want := cut(fromClient().IPv4("10.0.1.2", "10.0.3.1").UDP(4000, 53).Payload(5).Bytes(), 33)
		sends(t, l, "veth2", fromServer().IPv4("10.0.3.1", "10.99.1.2").Protocol(1).Data(pkt.ICMPMessage(3, 3, 0, inner)).Bytes(),
			toFrontend, fromServer().IPv4("10.0.3.1", "10.0.1.2").Protocol(1).Data(pkt.ICMPMessage(3, 3, 0, want)).Bytes())
		// ARP.
		sends(t, l, "veth1", fromClient().ARPRequest(clientMAC, "10.0.1.2", "10.0.1.1").Bytes(),
			toBackend, fromClient().ARPRequest(clientMAC, "10.99.1.2", "10.0.1.1").Bytes())
		sends(t, l, "veth2", fromServer().ARPRequest(routerMAC, "10.0.1.1", "10.99.1.2").Bytes(),
			toFrontend, fromServer().ARPRequest(routerMAC, "10.0.1.1", "10.0.1.2").Bytes())
		l.Set("DELETE", "lb src-ip-rewrite", "")
		sends(t, l, "veth1", fromClient().IPv4("10.0.1.2", "10.0.3.1").UDP(4001, 53).Payload(5).Bytes(),
			toBackend, fromClient().IPv4("10.0.1.2", "10.0.3.1").UDP(4001, 53).Payload(5).Bytes())
	})
}

func TestSeveralFrontends(t *testing.T) {
	bpftest.Each(t, bpftest.Options{Hosts: 3}, func(t *testing.T, l *bpftest.Lab) {
		l.Create("lbrp", "lb", `{"port_mode":"MULTI","ports":[{"name":"f","type":"FRONTEND","peer":"veth1","ip":"10.0.1.2"},
			{"name":"b","type":"BACKEND","peer":"veth2"},{"name":"g","type":"FRONTEND","peer":"veth3","ip":"10.0.1.3"}],"service":[`+web+`]}`)
		sends(t, l, "veth3", fromClient().IPv4("10.0.1.3", "10.0.0.100").TCP(4000, 80, syn).Bytes(),
			toBackend, fromClient().IPv4("10.0.1.3", "10.0.2.11").TCP(4000, 8080, syn).Bytes())
		toG := bpftest.Outcome{Verdict: "send", Sent: "lb:g"}
		sends(t, l, "veth2", fromServer().IPv4("10.0.2.11", "10.0.1.3").TCP(8080, 4000, synAck).Bytes(),
			toG, fromServer().IPv4("10.0.0.100", "10.0.1.3").TCP(80, 4000, synAck).Bytes())
		for ip, want := range map[string]bpftest.Outcome{"10.0.1.2": toFrontend, "10.0.1.3": toG} {
			frame := fromServer().IPv4("10.0.3.1", ip).UDP(53, 53).Payload(3).Bytes()
			sends(t, l, "veth2", frame, want, frame)
			frame = fromServer().ARPRequest(routerMAC, "10.0.1.1", ip).Bytes()
			sends(t, l, "veth2", frame, want, frame)
		}
		if got := l.Run("veth2", fromServer().IPv4("10.0.3.1", "10.0.1.9").UDP(53, 53).Payload(3).Bytes()); got.Verdict != "flood" || got.Sent != "lb:f lb:g" {
			t.Errorf("to a host that is behind no port: %+v", got)
		}
	})
}

func TestMalformedPacketsAreDropped(t *testing.T) {
	each(t, web, func(t *testing.T, l *bpftest.Lab) {
		frame := fromClient().IPv4("10.0.1.2", "10.0.0.100").TCP(4000, 80, syn).Bytes()
		if got := l.Run("veth1", frame[:40]); got != dropped("malformed") {
			t.Errorf("half of a TCP header: %+v", got)
		}
		frame[14] = 0x42 // a header of 8 bytes
		if got := l.Run("veth1", frame); got.Verdict == "pass" {
			t.Errorf("an IP header of 8 bytes: %+v", got)
		}
	})
}

func TestAReplyThatBelongsToNoSessionCrosses(t *testing.T) {
	each(t, web, func(t *testing.T, l *bpftest.Lab) {
		frame := fromServer().IPv4("10.0.2.11", "10.0.1.2").TCP(8080, 4000, synAck).Bytes()
		sends(t, l, "veth2", frame, toFrontend, frame)
	})
}
