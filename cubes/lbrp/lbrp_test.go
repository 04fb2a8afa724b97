// SPDX-License-Identifier: Apache-2.0

package lbrp

import (
	"fmt"
	"strings"
	"testing"

	"github.com/polycube/polycube/test/bpftest"
	"github.com/polycube/polycube/test/pkt"
)

const (
	clientMAC = "02:00:00:00:01:02"
	routerMAC = "02:00:00:00:02:02"
)

var (
	syn    = pkt.TCPFlags{SYN: true}
	ack    = pkt.TCPFlags{ACK: true}
	synAck = pkt.TCPFlags{SYN: true, ACK: true}
	rst    = pkt.TCPFlags{RST: true}
)

// one is a load balancer with a port on each side, and services with one server each.
const one = `{"ports":[{"name":"f","type":"FRONTEND","peer":"veth1"},{"name":"b","type":"BACKEND","peer":"veth2"}],"service":[
 {"vip":"10.0.0.100","vport":80,"proto":"ALL","backend":[{"ip":"10.0.2.11","port":8080}]},
 {"vip":"2001:db8::100","vport":80,"proto":"ALL","backend":[{"ip":"2001:db8:2::11","port":8080}]}]}`

var (
	toBackend  = bpftest.Outcome{Verdict: "send", Sent: "lb:b"}
	toFrontend = bpftest.Outcome{Verdict: "send", Sent: "lb:f"}
)

// sends checks what becomes of a frame that comes in at a device.
func sends(t *testing.T, l *bpftest.Lab, device string, frame []byte, want bpftest.Outcome, as []byte) {
	t.Helper()
	got, out := l.RunBytes(device, frame)
	if got != want {
		t.Fatalf("%+v, want %+v", got, want)
	}
	if string(out) != string(as) {
		t.Fatalf("it left as\n% x, want\n% x", out, as)
	}
}

func fromClient() *pkt.Frame { return pkt.Eth(clientMAC, routerMAC) }
func fromServer() *pkt.Frame { return pkt.Eth(routerMAC, clientMAC) }

func TestConnectionsGoToAServerAndBack(t *testing.T) {
	bpftest.Each(t, bpftest.Options{Hosts: 2}, func(t *testing.T, l *bpftest.Lab) {
		l.Create("lbrp", "lb", one)
		sends(t, l, "veth1", fromClient().IPv4("10.0.1.2", "10.0.0.100").TCP(4000, 80, syn).Bytes(),
			toBackend, fromClient().IPv4("10.0.1.2", "10.0.2.11").TCP(4000, 8080, syn).Bytes())
		sends(t, l, "veth2", fromServer().IPv4("10.0.2.11", "10.0.1.2").TCP(8080, 4000, synAck).Bytes(),
			toFrontend, fromServer().IPv4("10.0.0.100", "10.0.1.2").TCP(80, 4000, synAck).Bytes())
		sends(t, l, "veth1", fromClient().IPv4("10.0.1.2", "10.0.0.100").UDP(4000, 80).Payload(33).Bytes(),
			toBackend, fromClient().IPv4("10.0.1.2", "10.0.2.11").UDP(4000, 8080).Payload(33).Bytes())
		sends(t, l, "veth2", fromServer().IPv4("10.0.2.11", "10.0.1.2").UDP(8080, 4000).Payload(33).Bytes(),
			toFrontend, fromServer().IPv4("10.0.0.100", "10.0.1.2").UDP(80, 4000).Payload(33).Bytes())
		sends(t, l, "veth1", fromClient().IPv4("10.0.1.2", "10.0.0.100").Echo(77, 1).Payload(9).Bytes(),
			toBackend, fromClient().IPv4("10.0.1.2", "10.0.2.11").Echo(77, 1).Payload(9).Bytes())
		sends(t, l, "veth1", fromClient().IPv6("2001:db8:1::2", "2001:db8::100").TCP(4000, 80, syn).Bytes(),
			toBackend, fromClient().IPv6("2001:db8:1::2", "2001:db8:2::11").TCP(4000, 8080, syn).Bytes())
		sends(t, l, "veth2", fromServer().IPv6("2001:db8:2::11", "2001:db8:1::2").TCP(8080, 4000, synAck).Bytes(),
			toFrontend, fromServer().IPv6("2001:db8::100", "2001:db8:1::2").TCP(80, 4000, synAck).Bytes())
		sends(t, l, "veth1", fromClient().IPv6("2001:db8:1::2", "2001:db8::100").UDP(4000, 80).Payload(33).Bytes(),
			toBackend, fromClient().IPv6("2001:db8:1::2", "2001:db8:2::11").UDP(4000, 8080).Payload(33).Bytes())
		got := l.Read("lb sessions opened")
		if got != "5" {
			t.Errorf("%s sessions were opened, want 5", got)
		}
		session := l.Read("lb session 10.0.1.2 4000 10.0.0.100 80 TCP")
		for _, want := range []string{`"backend":"10.0.2.11"`, `"backend-port":8080`, `"packets":1`, `"reply-packets":1`, `"state":"SYN_RECV"`} {
			if !strings.Contains(session, want) {
				t.Errorf("session %s, want %s", session, want)
			}
		}
		if backend := l.Read("lb session 10.0.1.2 4000 10.0.0.100 80 TCP backend"); backend != `"10.0.2.11"` {
			t.Errorf("its backend is %s", backend)
		}
		if server := l.Read("lb service 10.0.0.100 80 ALL backend 10.0.2.11 8080"); !strings.Contains(server, `"packets":3`) ||
			!strings.Contains(server, `"reply-packets":2`) || !strings.Contains(server, `"state":"UP"`) {
			t.Error(server)
		}
		if t.Failed() {
			fmt.Println(l.Logs())
		}
	})
}

// A client's packet after one that opened a session, and a SYN, are taken for the first of theirs.
func TestPacketsTakenForNewOnesHaveTheirSession(t *testing.T) {
	bpftest.Each(t, bpftest.Options{Hosts: 2}, func(t *testing.T, l *bpftest.Lab) {
		l.Create("lbrp", "lb", one)
		for _, port := range []uint16{4000, 4001, 4001, 4002, 4000, 4003, 4000} {
			sends(t, l, "veth1", fromClient().IPv4("10.0.1.2", "10.0.0.100").UDP(port, 80).Payload(33).Bytes(),
				toBackend, fromClient().IPv4("10.0.1.2", "10.0.2.11").UDP(port, 8080).Payload(33).Bytes())
			sends(t, l, "veth2", fromServer().IPv4("10.0.2.11", "10.0.1.2").UDP(8080, port).Payload(33).Bytes(),
				toFrontend, fromServer().IPv4("10.0.0.100", "10.0.1.2").UDP(80, port).Payload(33).Bytes())
		}
		other := fromClient().IPv4("10.0.1.2", "10.0.3.1").UDP(4000, 80).Payload(3).Bytes()
		sends(t, l, "veth1", other, toBackend, other)
		for range 2 {
			sends(t, l, "veth1", fromClient().IPv4("10.0.1.2", "10.0.0.100").TCP(4000, 80, syn).Bytes(),
				toBackend, fromClient().IPv4("10.0.1.2", "10.0.2.11").TCP(4000, 8080, syn).Bytes())
		}
		if got := l.Read("lb sessions opened"); got != "5" {
			t.Errorf("%s sessions were opened, want 5", got)
		}
		for port, packets := range map[int]int{4000: 3, 4001: 2, 4002: 1, 4003: 1} {
			session := l.Read(fmt.Sprintf("lb session 10.0.1.2 %d 10.0.0.100 80 UDP", port))
			if !strings.Contains(session, fmt.Sprintf(`"packets":%d,`, packets)) {
				t.Errorf("session %s, want %d packets", session, packets)
			}
		}
	})
}

func TestOtherPacketsCross(t *testing.T) {
	bpftest.Each(t, bpftest.Options{Hosts: 2}, func(t *testing.T, l *bpftest.Lab) {
		l.Create("lbrp", "lb", one)
		for _, frame := range [][]byte{
			fromClient().IPv4("10.0.1.2", "10.0.0.100").TCP(4000, 81, syn).Bytes(),
			fromClient().IPv4("10.0.1.2", "10.0.3.1").UDP(4000, 80).Payload(3).Bytes(),
			fromClient().IPv4("10.0.1.2", "10.0.0.100").Protocol(47).Payload(30).Bytes(),
			fromClient().ARPRequest(clientMAC, "10.0.1.2", "10.0.1.1").Bytes(),
			fromClient().EtherType(0x88b5).Payload(50).Bytes(),
			fromClient().IPv6("2001:db8:1::2", "2001:db8::100").Echo(7, 1).Payload(3).Bytes()[:60],
		} {
			sends(t, l, "veth1", frame, toBackend, frame)
			sends(t, l, "veth2", frame, toFrontend, frame)
		}
	})
}
