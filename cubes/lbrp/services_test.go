// SPDX-License-Identifier: Apache-2.0

package lbrp

// Which server a session gets, and what changes of servers do to sessions.

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"github.com/polycube/polycube/test/bpftest"
	"github.com/polycube/polycube/test/netns"
	"github.com/polycube/polycube/test/pkt"
)

const three = `"backend":[{"ip":"10.0.2.11","port":80},{"ip":"10.0.2.12","port":80},{"ip":"10.0.2.13","port":80}]`

// request is a packet of a client's connection to 10.0.0.100.
func request(client string, port uint16, flags pkt.TCPFlags) []byte {
	return fromClient().IPv4(client, "10.0.0.100").TCP(port, 80, flags).Bytes()
}

// server returns the server that a packet from a client goes to; the fate of one that goes to none.
func server(l *bpftest.Lab, frame []byte) string {
	got, out := l.RunBytes("veth1", frame)
	if got != toBackend {
		return got.Fate
	}
	return netip.AddrFrom4([4]byte(out[30:34])).String()
}

// several returns how many of n new connections of a client go to each server.
func several(l *bpftest.Lab, client string, from uint16, n int) map[string]int {
	seen := map[string]int{}
	for i := range n {
		seen[server(l, request(client, from+uint16(i), syn))]++
	}
	return seen
}

func one80(leaves string) string {
	return `{"vip":"10.0.0.100","vport":80,"proto":"TCP",` + leaves + three + `}`
}

func TestServersGetSessionsByTheirWeights(t *testing.T) {
	each(t, one80(""), func(t *testing.T, l *bpftest.Lab) {
		l.Set("PATCH", "lb service 10.0.0.100 80 TCP backend 10.0.2.13 80 weight", "4")
		if seen := several(l, "10.0.1.2", 1000, 600); seen["10.0.2.11"] < 70 || seen["10.0.2.12"] < 70 || seen["10.0.2.13"] < 330 {
			t.Errorf("weights 1, 1 and 4: %v", seen)
		}
		l.Set("PATCH", "lb service 10.0.0.100 80 TCP backend 10.0.2.13 80 weight", "0")
		if seen := several(l, "10.0.1.3", 1000, 100); seen["10.0.2.13"] != 0 || len(seen) != 2 {
			t.Errorf("weights 1, 1 and 0: %v", seen)
		}
	})
}

func TestServersTakeTurns(t *testing.T) {
	each(t, one80(`"select":"ROUND_ROBIN",`), func(t *testing.T, l *bpftest.Lab) {
		var first []string
		for i := range uint16(9) {
			is := server(l, request("10.0.1.2", 1000+i, syn))
			if len(first) < 3 {
				first = append(first, is)
			} else if is != first[i%3] {
				t.Fatalf("session %d went to %s, after %v", i, is, first)
			}
		}
		if first[0] == first[1] || first[1] == first[2] || first[0] == first[2] {
			t.Errorf("three sessions went to %v", first)
		}
	})
}

func TestTheServerWithTheFewestSessionsIsNext(t *testing.T) {
	each(t, one80(`"select":"LEAST_CONNECTIONS",`), func(t *testing.T, l *bpftest.Lab) {
		if seen := several(l, "10.0.1.2", 1000, 30); seen["10.0.2.11"] != 10 || seen["10.0.2.12"] != 10 || seen["10.0.2.13"] != 10 {
			t.Fatalf("30 sessions: %v", seen)
		}
		// A fourth one gets all of them until it has as many.
		l.Set("POST", "lb service 10.0.0.100 80 TCP backend 10.0.2.14 80", "{}")
		if seen := several(l, "10.0.1.2", 2000, 10); seen["10.0.2.14"] != 10 {
			t.Errorf("a new server: %v", seen)
		}
		// Closing connections do not count: both sides of those of one server send a FIN.
		fin := pkt.TCPFlags{FIN: true, ACK: true}
		for port := uint16(1000); port < 1030; port++ {
			if server(l, request("10.0.1.2", port, ack)) != "10.0.2.11" {
				continue
			}
			l.RunBytes("veth2", fromServer().IPv4("10.0.2.11", "10.0.1.2").TCP(80, port, synAck).Bytes())
			l.RunBytes("veth2", fromServer().IPv4("10.0.2.11", "10.0.1.2").TCP(80, port, fin).Bytes())
			l.RunBytes("veth1", request("10.0.1.2", port, fin))
		}
		if seen := several(l, "10.0.1.2", 3000, 10); seen["10.0.2.11"] != 10 {
			t.Errorf("after its connections are closed: %v", seen)
		}
		// A weight of 3 is worth three times as many.
		l.Set("POST", "lb service 10.0.0.101 80 TCP", `{"select":"LEAST_CONNECTIONS","backend":[{"ip":"10.0.2.11","port":80,"weight":3},{"ip":"10.0.2.12","port":80}]}`)
		seen := map[string]int{}
		for port := range uint16(40) {
			seen[server(l, fromClient().IPv4("10.0.1.2", "10.0.0.101").TCP(4000+port, 80, syn).Bytes())]++
		}
		if seen["10.0.2.11"] != 30 || seen["10.0.2.12"] != 10 {
			t.Errorf("weights 3 and 1: %v", seen)
		}
	})
}

func TestClientsStayWithTheirServer(t *testing.T) {
	for _, how := range []string{"MAGLEV", "ROUND_ROBIN", "LEAST_CONNECTIONS"} {
		t.Run(how, func(t *testing.T) {
			each(t, one80(`"affinity":600,"select":"`+how+`",`), func(t *testing.T, l *bpftest.Lab) {
				all := map[string]string{}
				seen := map[string]bool{}
				for n := range 12 {
					client := fmt.Sprintf("10.0.1.%d", 2+n)
					all[client] = server(l, request(client, 1000, syn))
					seen[all[client]] = true
				}
				if len(seen) != 3 {
					t.Errorf("12 clients went to %v", seen)
				}
				l.Set("POST", "lb service 10.0.0.100 80 TCP backend 10.0.2.14 80", `{"weight":50}`)
				for client, was := range all {
					if is := several(l, client, 2000, 3); is[was] != 3 {
						t.Errorf("%s went to %s, then to %v", client, was, is)
					}
				}
				// Its server is removed: it gets another one, for all of its sessions.
				l.Set("DELETE", "lb service 10.0.0.100 80 TCP backend 10.0.2.11 80", "")
				for client, was := range all {
					if is := several(l, client, 3000, 3); was == "10.0.2.11" && (len(is) != 1 || is[was] > 0) || was != "10.0.2.11" && is[was] != 3 {
						t.Errorf("%s went to %s, then to %v", client, was, is)
					}
				}
			})
		})
	}
}

func TestPortsOfARange(t *testing.T) {
	each(t, `{"vip":"10.0.0.100","vport":1000,"last-port":2999,"proto":"UDP","backend":[{"ip":"10.0.2.11","port":11000}]},
		{"vip":"10.0.0.101","vport":7,"last-port":9,"proto":"UDP","backend":[{"ip":"10.0.2.11","port":0}]}`, func(t *testing.T, l *bpftest.Lab) {
		for _, port := range []uint16{1000, 1001, 1023, 1024, 2048, 2999} {
			sends(t, l, "veth1", fromClient().IPv4("10.0.1.2", "10.0.0.100").UDP(4000, port).Payload(3).Bytes(),
				toBackend, fromClient().IPv4("10.0.1.2", "10.0.2.11").UDP(4000, port+10000).Payload(3).Bytes())
			sends(t, l, "veth2", fromServer().IPv4("10.0.2.11", "10.0.1.2").UDP(port+10000, 4000).Payload(3).Bytes(),
				toFrontend, fromServer().IPv4("10.0.0.100", "10.0.1.2").UDP(port, 4000).Payload(3).Bytes())
		}
		for _, port := range []uint16{999, 3000, 65535} {
			frame := fromClient().IPv4("10.0.1.2", "10.0.0.100").UDP(4000, port).Payload(3).Bytes()
			sends(t, l, "veth1", frame, toBackend, frame)
		}
		sends(t, l, "veth1", fromClient().IPv4("10.0.1.2", "10.0.0.101").UDP(4000, 9).Payload(3).Bytes(),
			toBackend, fromClient().IPv4("10.0.1.2", "10.0.2.11").UDP(4000, 9).Payload(3).Bytes())
		l.Set("PATCH", "lb service 10.0.0.100 1000 UDP last-port", "1000")
		frame := fromClient().IPv4("10.0.1.2", "10.0.0.100").UDP(4001, 1001).Payload(3).Bytes()
		sends(t, l, "veth1", frame, toBackend, frame)
	})
}

func TestADrainingServerKeepsItsSessions(t *testing.T) {
	each(t, one80(""), func(t *testing.T, l *bpftest.Lab) {
		all := map[uint16]string{}
		for port := range uint16(60) {
			all[port] = server(l, request("10.0.1.2", 1000+port, syn))
		}
		l.Set("PATCH", "lb service 10.0.0.100 80 TCP backend 10.0.2.11 80", `{"admin-state":"DRAINING","drain-timeout":1}`)
		for port, was := range all {
			if is := server(l, request("10.0.1.2", 1000+port, ack)); is != was {
				t.Fatalf("port %d went from %s to %s", port, was, is)
			}
		}
		if seen := several(l, "10.0.1.3", 1000, 60); seen["10.0.2.11"] != 0 {
			t.Errorf("new sessions: %v", seen)
		}
		netns.Eventually(t, bpftest.Patience, func() error {
			if is := l.Read("lb service 10.0.0.100 80 TCP backend 10.0.2.11 80 state"); is != `"DRAINED"` {
				return fmt.Errorf("the server is %s", is)
			}
			return nil
		})
		for port, was := range all {
			if is := server(l, request("10.0.1.2", 1000+port, ack)); (is == was) == (was == "10.0.2.11") {
				t.Fatalf("after its time is over, port %d went from %s to %s", port, was, is)
			}
		}
		l.Set("PATCH", "lb service 10.0.0.100 80 TCP backend 10.0.2.11 80 admin-state", `"ENABLED"`)
		if seen := several(l, "10.0.1.4", 1000, 60); seen["10.0.2.11"] == 0 {
			t.Errorf("after it is enabled again: %v", seen)
		}
	})
}

func TestSessionsOfAServerThatIsGoneEnd(t *testing.T) {
	for _, edit := range []struct{ method, words, body string }{
		{"DELETE", "lb service 10.0.0.100 80 TCP backend 10.0.2.11 80", ""},
		{"PATCH", "lb service 10.0.0.100 80 TCP backend 10.0.2.11 80 admin-state", `"DISABLED"`},
	} {
		t.Run(edit.method, func(t *testing.T) {
			each(t, one80(""), func(t *testing.T, l *bpftest.Lab) {
				all := map[uint16]string{}
				for port := range uint16(60) {
					all[port] = server(l, request("10.0.1.2", 1000+port, syn))
				}
				l.Set(edit.method, edit.words, edit.body)
				for port, was := range all {
					if is := server(l, request("10.0.1.2", 1000+port, ack)); (is == was) == (was == "10.0.2.11") {
						t.Fatalf("port %d went from %s to %s", port, was, is)
					}
				}
				for port, was := range all {
					if was == "10.0.2.11" {
						frame := fromServer().IPv4("10.0.2.11", "10.0.1.2").TCP(80, 1000+port, ack).Bytes()
						sends(t, l, "veth2", frame, toFrontend, frame)
					}
				}
				netns.Eventually(t, bpftest.Patience, func() error {
					if n := l.Read("lb sessions active"); n != "60" {
						return fmt.Errorf("%s sessions, want 60", n)
					}
					return nil
				})
			})
		})
	}
}

func TestARemovedServiceIsGone(t *testing.T) {
	each(t, one80(""), func(t *testing.T, l *bpftest.Lab) {
		several(l, "10.0.1.2", 1000, 20)
		l.Set("DELETE", "lb service 10.0.0.100 80 TCP", "")
		frame := request("10.0.1.2", 1000, ack)
		sends(t, l, "veth1", frame, toBackend, frame)
		netns.Eventually(t, bpftest.Patience, func() error {
			if n := l.Read("lb sessions active"); n != "0" {
				return fmt.Errorf("%s sessions", n)
			}
			return nil
		})
	})
}

func TestEchoRequestsHaveOneService(t *testing.T) {
	each(t, `{"vip":"10.0.0.100","vport":443,"proto":"ALL","backend":[{"ip":"10.0.2.12","port":443}]},
		{"vip":"10.0.0.100","vport":80,"proto":"ALL","backend":[{"ip":"10.0.2.11","port":80}]}`, func(t *testing.T, l *bpftest.Lab) {
		id := uint16(0)
		echo := func(want string) {
			t.Helper()
			id++
			if is := server(l, fromClient().IPv4("10.0.1.2", "10.0.0.100").Echo(id, 1).Bytes()); is != want {
				t.Errorf("an echo request went to %s, want %s", is, want)
			}
		}
		echo("10.0.2.11") // the first one for all protocols
		l.Set("DELETE", "lb service 10.0.0.100 80 ALL", "")
		echo("10.0.2.12")
		l.Set("POST", "lb service 10.0.0.100 0 ICMP", `{"backend":[{"ip":"10.0.2.13","port":0}]}`)
		echo("10.0.2.13")
		l.Set("DELETE", "lb service 10.0.0.100 0 ICMP", "")
		echo("10.0.2.12")
		l.Set("DELETE", "lb service 10.0.0.100 443 ALL", "")
		echo("10.0.0.100")
	})
}

func TestBadServicesAreRefused(t *testing.T) {
	l := bpftest.New(t, bpftest.Options{Hosts: 2})
	create(l, one80(""))
	before := l.Read("lb service")
	for _, c := range []struct{ words, body, says string }{
		{"lb service 10.0.0.101 80 ICMP", "{}", "vport 0"},
		{"lb service 10.0.0.101 0 TCP", "{}", "last-port"},
		{"lb service 10.0.0.101 0 ICMP", `{"last-port":9}`, "no ports"},
		{"lb service 10.0.0.101 80 TCP", `{"last-port":79}`, "less than vport"},
		{"lb service 10.0.0.100 70 TCP", `{"last-port":80}`, "overlap"},
		{"lb service 10.0.0.100 80 ALL", "{}", "overlap"},
		{"lb service 224.0.0.1 80 TCP", "{}", "virtual address"},
		{"lb service 10.0.0.100 80 TCP backend 2001:db8::1 80", "{}", "same address family"},
		{"lb service 10.0.0.100 80 TCP backend 10.0.0.100 80", "{}", "virtual address"},
		{"lb service 10.0.0.100 80 TCP backend 0.0.0.0 80", "{}", "not a valid server address"},
		{"lb service 10.0.0.101 80 TCP", `{"last-port":90,"backend":[{"ip":"10.0.2.11","port":65530}]}`, "65540"},
		{"lb ports c", `{"type":"BACKEND"}`, "already has this type"},
		{"lb ports c", `{"type":"FRONTEND"}`, "already has this type"},
	} {
		if err := l.Try("POST", c.words, c.body); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s %s: %v, want %q", c.words, c.body, err, c.says)
		}
	}
	for body, says := range map[string]string{
		`{"ip-range":"10.0.1.0/24"}`:                                "set both",
		`{"ip-range":"10.0.1.0/24","new_ip_range":"10.9.0.0/16"}`:   "length",
		`{"ip-range":"10.0.1.0/24","new_ip_range":"10.0.1.128/24"}`: "overlap",
	} {
		if err := l.Try("PATCH", "lb src-ip-rewrite", body); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("src-ip-rewrite %s: %v, want %q", body, err, says)
		}
	}
	if err := l.Try("PATCH", "lb ports f ip", `"10.0.1.2"`); err == nil || !strings.Contains(err.Error(), "MULTI") {
		t.Errorf("an ip with port_mode SINGLE: %v", err)
	}
	if after := l.Read("lb service"); after != before {
		t.Errorf("refused edits changed\n%s to\n%s", before, after)
	}
	l.Set("PATCH", "lb ports f peer", `""`)
	for body, says := range map[string]string{
		`{"port_mode":"MULTI","ports":[{"name":"f","type":"FRONTEND"}]}`:                                                                "requires ip",
		`{"port_mode":"MULTI","ports":[{"name":"f","type":"FRONTEND","ip":"10.0.1.2"},{"name":"g","type":"FRONTEND","ip":"10.0.1.2"}]}`: "same ip",
		`{"port_mode":"MULTI","ports":[{"name":"f","type":"BACKEND","ip":"10.0.1.2"}]}`:                                                 "only allowed on frontend ports",
	} {
		if err := l.TryCreate("lbrp", "lb2", body); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v, want %q", body, err, says)
		}
	}
}

func TestSessionsAreListedAndDeleted(t *testing.T) {
	each(t, one80(""), func(t *testing.T, l *bpftest.Lab) {
		several(l, "10.0.1.2", 1000, 50)
		seen := map[uint16]bool{}
		for raw := range l.Entries("lb session") {
			var is stateSession
			if err := json.Unmarshal(raw, &is); err != nil {
				t.Fatal(err)
			}
			seen[is.ClientPort] = true
			if is.VIP.String() != "10.0.0.100" || is.BackendPort != 80 || is.Source != is.Client || is.Packets != 1 || is.State != "SYN_SENT" || is.Expires > 240 {
				t.Errorf("%s", raw)
			}
		}
		if len(seen) != 50 {
			t.Errorf("%d sessions are listed, want 50", len(seen))
		}
		if err := l.Try("DELETE", "lb session 10.0.1.2 1000 10.0.0.100 80 UDP", ""); err == nil {
			t.Error("a session of another protocol was deleted")
		}
		l.Set("DELETE", "lb session 10.0.1.2 1000 10.0.0.100 80 TCP", "")
		if _, err := l.TryRead("lb session 10.0.1.2 1000 10.0.0.100 80 TCP"); err == nil {
			t.Error("the session is there after its deletion")
		}
		l.Set("DELETE", "lb session", "")
		for raw := range l.Entries("lb session") {
			t.Errorf("after all are deleted: %s", raw)
		}
	})
}
