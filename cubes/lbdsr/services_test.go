// SPDX-License-Identifier: Apache-2.0

package lbdsr

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/polycube/polycube/test/bpftest"
	"github.com/polycube/polycube/test/netns"
	"github.com/polycube/polycube/test/pkt"
)

const (
	ports = `"ports":[{"name":"f","type":"FRONTEND","peer":"veth1","mac":"` + frontMAC + `"},
 {"name":"b","type":"BACKEND","peer":"veth2","mac":"` + backMAC + `","ip":"10.0.2.1/24","ip6":"2001:db8:2::1/64",
  "gateway":"10.0.2.254","gateway6":"2001:db8:2::254"}]`
	server1 = "02:00:00:00:02:11"
	server2 = "02:00:00:00:02:12"
	server3 = "02:00:00:00:02:13"
)

// services is a load balancer with services of all kinds.
const services = `{` + ports + `,"service":[
 {"vip":"10.0.0.100","vport":80,"proto":"TCP","server":[{"address":"` + server1 + `"}]},
 {"vip":"10.0.0.100","vport":53,"proto":"ALL","server":[{"address":"` + server2 + `"}]},
 {"vip":"10.0.0.101","vport":0,"proto":"ALL","server":[{"address":"` + server3 + `"}]},
 {"vip":"2001:db8::100","vport":80,"proto":"TCP","server":[{"address":"` + server1 + `"}]},
 {"vip":"10.0.0.102","vport":80,"proto":"TCP"}]}`

var (
	sent    = bpftest.Outcome{Verdict: "send", Sent: "lb:b"}
	replied = bpftest.Outcome{Verdict: "send", Sent: "lb:f"}
)

func dropped(why string) bpftest.Outcome {
	return bpftest.Outcome{Verdict: "drop", Fate: "lb " + why}
}

// client starts a frame of a client.
func client() *pkt.Frame { return pkt.Eth(clientMAC, frontMAC) }

// toServer is the frame that a server gets for one of a client.
func toServer(frame []byte, server string) []byte {
	return append(append(append([]byte{}, pkt.MAC(server)...), pkt.MAC(backMAC)...), frame[12:]...)
}

// mustBe fails the test unless a program's result is this.
func mustBe(t *testing.T, what string, got bpftest.Outcome, frame []byte, want bpftest.Outcome, wantFrame []byte) {
	t.Helper()
	if got != want {
		t.Errorf("%s: %+v, want %+v", what, got, want)
	} else if wantFrame != nil && string(frame) != string(wantFrame) {
		t.Errorf("%s: the frame is\n% x, want\n% x", what, frame, wantFrame)
	}
}

func TestEachServiceHasItsServers(t *testing.T) {
	bpftest.Each(t, bpftest.Options{Hosts: 2}, func(t *testing.T, l *bpftest.Lab) {
		l.Create("lbdsr", "lb", services)
		for _, tt := range []struct {
			what, to string // the server's MAC address
			frame    []byte
			want     bpftest.Outcome
		}{
			{"TCP", server1, client().IPv4("10.9.0.1", "10.0.0.100").TCP(1000, 80, pkt.TCPFlags{SYN: true}).Bytes(), sent},
			{"a port without a service", "", client().IPv4("10.9.0.1", "10.0.0.100").TCP(1000, 81, pkt.TCPFlags{SYN: true}).Bytes(), dropped("no-service")},
			{"another protocol", "", client().IPv4("10.9.0.1", "10.0.0.100").UDP(1000, 80).Bytes(), dropped("no-service")},
			{"UDP of both", server2, client().IPv4("10.9.0.1", "10.0.0.100").UDP(1000, 53).Payload(9).Bytes(), sent},
			{"TCP of both", server2, client().IPv4("10.9.0.1", "10.0.0.100").TCP(1000, 53, pkt.TCPFlags{ACK: true}).Bytes(), sent},
			{"all ports", server3, client().IPv4("10.9.0.1", "10.0.0.101").UDP(1000, 9).Bytes(), sent},
			{"all protocols", server3, client().IPv4("10.9.0.1", "10.0.0.101").Protocol(pkt.ProtoESP).Payload(20).Bytes(), sent},
			{"IPv6", server1, client().IPv6("2001:db8:9::1", "2001:db8::100").TCP(1000, 80, pkt.TCPFlags{SYN: true}).Bytes(), sent},
			{"IPv6 without a service", "", client().IPv6("2001:db8:9::1", "2001:db8::101").TCP(1000, 80, pkt.TCPFlags{SYN: true}).Bytes(), dropped("no-service")},
			{"no server", "", client().IPv4("10.9.0.1", "10.0.0.102").TCP(1000, 80, pkt.TCPFlags{SYN: true}).Bytes(), dropped("no-server")},
			{"another station", "", pkt.Eth(clientMAC, server1).IPv4("10.9.0.1", "10.0.0.100").TCP(1000, 80, pkt.TCPFlags{SYN: true}).Bytes(), dropped("other-station")},
			{"neither IP nor ARP", "", client().EtherType(0x88cc).Payload(46).Bytes(), dropped("no-service")},
			{"a VLAN", "", client().VLAN(7).IPv4("10.9.0.1", "10.0.0.100").TCP(1000, 80, pkt.TCPFlags{SYN: true}).Bytes(), dropped("no-service")},
		} {
			got, frame := l.RunBytes("veth1", tt.frame)
			var want []byte
			if tt.to != "" {
				want = toServer(tt.frame, tt.to)
			}
			mustBe(t, tt.what, got, frame, tt.want, want)
		}
	})
}

func TestTheCubeAnswersForItsAddresses(t *testing.T) {
	bpftest.Each(t, bpftest.Options{Hosts: 2}, func(t *testing.T, l *bpftest.Lab) {
		l.Create("lbdsr", "lb", services)
		request := pkt.Eth(clientMAC, pkt.Broadcast).ARPRequest(clientMAC, "10.0.0.1", "10.0.0.100").Bytes()
		got, frame := l.RunBytes("veth1", request)
		mustBe(t, "ARP for a service", got, frame, replied, pkt.Eth(frontMAC, clientMAC).ARPReply(frontMAC, "10.0.0.100", clientMAC, "10.0.0.1").Bytes())
		got, frame = l.RunBytes("veth1", pkt.Eth(clientMAC, pkt.Broadcast).ARPRequest(clientMAC, "10.0.0.1", "10.0.0.99").Bytes())
		mustBe(t, "ARP for another", got, frame, dropped("arp-not-for-us"), nil)
		got, frame = l.RunBytes("veth2", pkt.Eth(server1, pkt.Broadcast).ARPRequest(server1, "10.0.2.11", "10.0.2.1").Bytes())
		mustBe(t, "ARP for the port", got, frame, sent, pkt.Eth(backMAC, server1).ARPReply(backMAC, "10.0.2.1", server1, "10.0.2.11").Bytes())
		got, frame = l.RunBytes("veth2", pkt.Eth(server1, pkt.Broadcast).ARPRequest(server1, "10.0.2.11", "10.0.0.100").Bytes())
		mustBe(t, "ARP of a server for a service", got, frame, dropped("arp-not-for-us"), nil)

		echo := client().IPv4("10.9.0.1", "10.0.0.100").Echo(7, 8).Payload(32).Bytes()
		got, frame = l.RunBytes("veth1", echo)
		mustBe(t, "an echo request", got, frame, replied, echoReply(echo, "10.9.0.1", "10.0.0.100"))
		got, _ = l.RunBytes("veth1", client().IPv4("10.9.0.1", "10.0.0.102").Echo(7, 8).Payload(32).Bytes())
		mustBe(t, "an echo request to a service without a server", got, nil, dropped("no-server"), nil)
		got, _ = l.RunBytes("veth1", client().IPv4("10.9.0.1", "10.0.0.99").Echo(7, 8).Payload(32).Bytes())
		mustBe(t, "an echo request to no service", got, nil, dropped("no-service"), nil)

		message := pkt.ICMPv6Message("2001:db8:9::1", "2001:db8::100", 128, 0, 0x00070008, make([]byte, 40))
		got, frame = l.RunBytes("veth1", client().IPv6("2001:db8:9::1", "2001:db8::100").Protocol(pkt.ProtoICMPv6).Data(message).Bytes())
		message = pkt.ICMPv6Message("2001:db8::100", "2001:db8:9::1", 129, 0, 0x00070008, make([]byte, 40))
		mustBe(t, "an echo request of IPv6", got, frame, replied,
			pkt.Eth(frontMAC, clientMAC).IPv6("2001:db8::100", "2001:db8:9::1").Protocol(pkt.ProtoICMPv6).Data(message).Bytes())
	})
}

// echoReply is the answer of the load balancer to an echo request of IPv4.
func echoReply(request []byte, client, vip string) []byte {
	body := pkt.ICMPMessage(0, 0, 0x00070008, request[42:])
	return pkt.Eth(frontMAC, clientMAC).IPv4(vip, client).Protocol(pkt.ProtoICMP).Data(body).Bytes()
}

func TestPacketsFromServersLeaveByTheFrontendPort(t *testing.T) {
	bpftest.Each(t, bpftest.Options{Hosts: 3}, func(t *testing.T, l *bpftest.Lab) {
		l.Create("lbdsr", "lb", services)
		answer := pkt.Eth(server1, clientMAC).IPv4("10.0.0.100", "10.9.0.1").TCP(80, 1000, pkt.TCPFlags{SYN: true, ACK: true}).Bytes()
		got, frame := l.RunBytes("veth2", answer)
		mustBe(t, "an answer", got, frame, replied, answer)
		l.Set("POST", "lb ports g", `{"type":"FRONTEND","peer":"veth3"}`)
		got, _ = l.RunBytes("veth2", answer)
		mustBe(t, "two frontend ports", got, nil, dropped("no-frontend"), nil)
	})
}

// serverOf returns the MAC address that the packets of a flow of TCP are sent to.
func serverOf(l *bpftest.Lab, flow int, flags pkt.TCPFlags) string {
	frame := client().IPv4(fmt.Sprintf("10.9.%d.%d", flow>>8, flow&255), "10.0.0.100").TCP(1000, 80, flags).Bytes()
	_, got := l.RunBytes("veth1", frame)
	return strings.ReplaceAll(fmt.Sprintf("% x", got[:6]), " ", ":")
}

// serversOf returns where flows go.
func serversOf(l *bpftest.Lab, flows int, flags pkt.TCPFlags) []string {
	var out []string
	for flow := range flows {
		out = append(out, serverOf(l, flow, flags))
	}
	return out
}

var (
	syn = pkt.TCPFlags{SYN: true}
	ack = pkt.TCPFlags{ACK: true}
)

func TestFlowsStayWhenServersComeAndGo(t *testing.T) {
	const flows = 200
	bpftest.Each(t, bpftest.Options{Hosts: 2}, func(t *testing.T, l *bpftest.Lab) {
		l.Create("lbdsr", "lb", services)
		const web = "lb service 10.0.0.100 80 TCP server "
		l.Set("POST", web+server2, `{"weight":3}`)
		first := serversOf(l, flows, syn)
		if n := count(first, server2); n < flows*60/100 || n > flows*90/100 {
			t.Errorf("%d of %d flows went to a server with 3/4 of the weight", n, flows)
		}
		stay := func(what string, except string) {
			t.Helper()
			for flow, is := range serversOf(l, flows, ack) {
				if first[flow] != except && is != first[flow] || is == except {
					t.Fatalf("%s: flow %d of %s went to %s", what, flow, first[flow], is)
				}
			}
		}
		stay("at first", "")
		l.Set("POST", web+server3, `{"weight":5}`)
		stay("a server was added", "")
		if n := count(serversFrom(l, 1000, flows), server3); n < flows*35/100 {
			t.Errorf("%d of %d new flows went to a new server with 5/9 of the weight", n, flows)
		}
		l.Set("PATCH", web+server3+" admin-state", `"DRAINING"`)
		l.Set("PATCH", web+server1+" admin-state", `"DRAINING"`)
		stay("two servers are draining", "")
		if all := serversFrom(l, 2000, 50); count(all, server2) != 50 {
			t.Errorf("new flows went to %v while only %s is not draining", all, server2)
		}
		l.Restart(nil)
		stay("after a restart", "")
		l.Set("DELETE", strings.TrimSpace(web+server3), "")
		stay("a server without these flows was removed", "")
		l.Set("PATCH", web+server1+" admin-state", `"DISABLED"`)
		netns.Eventually(t, bpftest.Patience, func() error {
			if count(serversOf(l, flows, ack), server1) > 0 {
				return fmt.Errorf("flows still go to a disabled server")
			}
			return nil
		})
		stay("a server is disabled", server1)
	})
}

func TestADrainingServerLosesItsFlowsInTheEnd(t *testing.T) {
	l := bpftest.New(t, bpftest.Options{Hosts: 2})
	l.Create("lbdsr", "lb", services)
	const web = "lb service 10.0.0.100 80 TCP server "
	l.Set("POST", web+server2, `{}`)
	first := serversOf(l, 50, ack)
	l.Set("PATCH", strings.TrimSpace(web+server1), `{"admin-state":"DRAINING","drain-timeout":1}`)
	netns.Eventually(t, bpftest.Patience, func() error {
		if n := count(serversOf(l, 50, ack), server2); n != 50 {
			return fmt.Errorf("%d of 50 flows are at the other server", n)
		}
		if is := l.Read(web + server1 + " state"); is != `"DRAINED"` {
			return fmt.Errorf("its state is %s", is)
		}
		return nil
	})
	if n := count(first, server1); n == 0 || n == 50 {
		t.Errorf("%d of 50 flows were at the first server", n)
	}
	l.Set("PATCH", web+server1+" admin-state", `"ENABLED"`)
	if n := count(serversFrom(l, 5000, 50), server1); n == 0 {
		t.Error("a server that is enabled again gets no flows")
	}
	if is := l.Read(web + server1 + " state"); is != `"UP"` {
		t.Errorf("its state is %s", is)
	}
}

func TestWhenAllServersAreDown(t *testing.T) {
	l := bpftest.New(t, bpftest.Options{Hosts: 2})
	l.Create("lbdsr", "lb", `{`+ports+`,"service":[{"vip":"10.0.0.100","vport":80,"proto":"TCP","server":[{"address":"10.0.2.66"}]}]}`)
	becomes := func(want bpftest.Outcome, state string) {
		t.Helper()
		netns.Eventually(t, bpftest.Patience, func() error {
			got, _ := l.RunBytes("veth1", flow(1, syn))
			if is := l.Read("lb service 10.0.0.100 80 TCP server 10.0.2.66 state"); got != want || is != state {
				return fmt.Errorf("%+v, and the server is %s; want %+v", got, is, want)
			}
			return nil
		})
	}
	becomes(dropped("unresolved"), `"UNRESOLVED"`) // nobody answers, and it stays in use
	l.Set("PATCH", "lb all-down", `"DROP"`)
	becomes(dropped("no-server"), `"UNRESOLVED"`)
	answer(t, l.Wires()[1], "10.0.2.66", server1)
	becomes(sent, `"UP"`)
}

// serversFrom returns where new flows go, from a number on.
func serversFrom(l *bpftest.Lab, first, flows int) []string {
	var out []string
	for flow := range flows {
		out = append(out, serverOf(l, first+flow, syn))
	}
	return out
}

func count(all []string, one string) (n int) {
	for _, is := range all {
		if is == one {
			n++
		}
	}
	return n
}

func TestWhatAServiceShowsIsTrue(t *testing.T) {
	l := bpftest.New(t, bpftest.Options{Hosts: 2})
	l.Create("lbdsr", "lb", services)
	serversOf(l, 10, syn)
	serversOf(l, 5, ack)
	var is struct {
		Packets, Bytes uint64
		Live           int `json:"live-servers"`
		Server         []struct {
			State, MAC     string
			Packets, Bytes uint64
			Flows          int
		}
	}
	netns.Eventually(t, bpftest.Patience, func() error {
		if err := json.Unmarshal([]byte(l.Read("lb service 10.0.0.100 80 TCP")), &is); err != nil {
			return err
		}
		if is.Packets != 15 || is.Bytes != 15*54 || is.Live != 1 || len(is.Server) != 1 || is.Server[0].Packets != 15 || is.Server[0].Bytes != 15*54 ||
			is.Server[0].State != "UP" || is.Server[0].MAC != server1 || is.Server[0].Flows != 10 {
			return fmt.Errorf("15 packets of 10 flows: %+v", is)
		}
		if got := l.Read("lb flows"); got != `{"pinned":10,"established":5,"capacity":65536,"not-pinned":0}` {
			return fmt.Errorf("flows are %s", got)
		}
		return nil
	})
}
