// SPDX-License-Identifier: Apache-2.0

package lbrp

// Weights that follow what agents on loopback answer.

import (
	"encoding/json"
	"fmt"
	"net"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/polycube/polycube/feedback"
	"github.com/polycube/polycube/test/bpftest"
	"github.com/polycube/polycube/test/netns"
)

// agents are two agents at the same port of two addresses of loopback.
type agents struct {
	port  int
	lines [2]atomic.Value
	l     [2]net.Listener
}

func newAgents(t *testing.T) *agents {
	t.Helper()
	a := &agents{}
	for range 100 { // the port of the first one may be taken at the other's address
		for i := range a.l {
			l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.%d:%d", 2+i, a.port))
			if err != nil {
				break
			}
			a.l[i], a.port = l, l.Addr().(*net.TCPAddr).Port
		}
		if a.l[1] != nil {
			break
		}
		a.l[0].Close()
		a.port = 0
	}
	if a.l[1] == nil {
		t.Fatal("no port is free at two addresses")
	}
	for i, l := range a.l {
		a.lines[i].Store("100%")
		go a.serve(i, l)
		t.Cleanup(func() { l.Close() })
	}
	return a
}

func (a *agents) serve(i int, l net.Listener) {
	for {
		c, err := l.Accept()
		if err != nil {
			return
		}
		_, _ = c.Write([]byte(a.lines[i].Load().(string) + "\n"))
		c.Close()
	}
}

// service is a service of two servers with these agents.
func (a *agents) service(leaves, feedback string) string {
	return fmt.Sprintf(`{"vip":"10.0.0.100","vport":80,"proto":"TCP",%s"feedback":{"method":"AGENT","port":%d,"interval":200,"timeout":200,%s"misses":3},"backend":[
 {"ip":"10.0.2.11","port":80,"weight":4,"agent-address":"127.0.0.2"},{"ip":"10.0.2.12","port":80,"weight":4,"agent-address":"127.0.0.3"}]}`, leaves, a.port, feedback)
}

// follows waits until a server has a weight and a state of its agent.
func follows(t *testing.T, l *bpftest.Lab, server, weight string, state feedback.State, why string) {
	t.Helper()
	netns.Eventually(t, bpftest.Patience, func() error {
		var v feedback.View
		if err := json.Unmarshal([]byte(l.Read("lb service 10.0.0.100 80 TCP backend "+server+" 80 feedback")), &v); err != nil {
			return err
		}
		if v.Weight != weight || v.State != state || !strings.Contains(v.LastError, why) || why == "" && v.LastError != "" {
			return fmt.Errorf("server %s has %+v, want weight %s, %s, %q", server, v, weight, state, why)
		}
		return nil
	})
}

// TestAChangedWeightMovesItsShareOfNewSessions and no session that exists.
func TestAChangedWeightMovesItsShareOfNewSessions(t *testing.T) {
	bpftest.Each(t, bpftest.Options{Hosts: 2}, func(t *testing.T, l *bpftest.Lab) {
		a := newAgents(t)
		create(l, a.service("", ""))
		follows(t, l, "10.0.2.11", "4.00", feedback.Following, "")
		follows(t, l, "10.0.2.12", "4.00", feedback.Following, "")
		const open, again = 600, 400
		was := map[uint16]string{}
		for port := range uint16(open) {
			was[port] = server(l, request("10.0.1.2", 1000+port, syn))
		}
		a.lines[1].Store("25%") // of 1:1 becomes 4:1, so 0.3 of all flows move
		follows(t, l, "10.0.2.12", "1.00", feedback.Following, "")
		for port := range uint16(open) {
			if is := server(l, request("10.0.1.2", 1000+port, ack)); is != was[port] {
				t.Fatalf("the session of port %d went from %s to %s", port, was[port], is)
			}
		}
		moved := 0
		for port := range uint16(again) {
			l.Set("DELETE", fmt.Sprintf("lb session 10.0.1.2 %d 10.0.0.100 80 TCP", 1000+port), "")
			is := server(l, request("10.0.1.2", 1000+port, syn))
			if is == was[port] {
				continue
			}
			if moved++; is != "10.0.2.11" {
				t.Fatalf("port %d moved to %s, whose weight is lower", port, is)
			}
		}
		if moved < again*22/100 || moved > again*38/100 {
			t.Errorf("%d of %d new sessions moved, want about 0.3", moved, again)
		}
	})
}

// TestEachSelectionFollows: round robin, and least connections.
func TestEachSelectionFollows(t *testing.T) {
	for _, how := range []string{"ROUND_ROBIN", "LEAST_CONNECTIONS"} {
		l := bpftest.New(t, bpftest.Options{Hosts: 2})
		a := newAgents(t)
		a.lines[1].Store("25%")
		create(l, a.service(`"select":"`+how+`",`, ""))
		follows(t, l, "10.0.2.11", "4.00", feedback.Following, "")
		follows(t, l, "10.0.2.12", "1.00", feedback.Following, "")
		if seen := several(l, "10.0.1.2", 1000, 500); seen["10.0.2.11"] < 395 || seen["10.0.2.11"] > 405 || seen["10.0.2.12"] != 500-seen["10.0.2.11"] {
			t.Errorf("%s with weights 4 and 1: %v", how, seen)
		}
	}
}

func TestAgentsThatAreUnreachableOrUnwilling(t *testing.T) {
	l := bpftest.New(t, bpftest.Options{Hosts: 2})
	a := newAgents(t)
	create(l, a.service("", ""))
	a.lines[1].Store("50%")
	follows(t, l, "10.0.2.12", "2.00", feedback.Following, "")
	a.lines[1].Store("sure")
	follows(t, l, "10.0.2.12", "4.00", feedback.Unreachable, `unknown word "sure"`)
	if seen := several(l, "10.0.1.2", 1000, 400); seen["10.0.2.12"] < 150 || seen["10.0.2.12"] > 250 {
		t.Errorf("with configured weights: %v", seen)
	}
	if got := l.Read("lb feedback unreachable"); got != "1" {
		t.Errorf("%s servers have an unreachable agent", got)
	}
	netns.Eventually(t, bpftest.Patience, func() error {
		const want = "the agent of server 10.0.2.12 80 (of 10.0.0.100 80 TCP) is unreachable; the server falls back to its configured weight: "
		if all := strings.Join(l.Events("cube"), "\n"); !strings.Contains(all, want) {
			return fmt.Errorf("events are %q", all)
		}
		return nil
	})
	session := server(l, request("10.0.1.7", 1000, syn))
	a.lines[0].Store("drain")
	a.lines[1].Store("100%")
	follows(t, l, "10.0.2.11", "0.00", feedback.Following, "the agent says drain")
	follows(t, l, "10.0.2.12", "4.00", feedback.Following, "")
	goTo(t, l, "10.0.2.12")
	if is := server(l, request("10.0.1.7", 1000, ack)); is != session {
		t.Errorf("a session went from %s to %s", session, is)
	}
	if got := l.Read("lb service 10.0.0.100 80 TCP live-servers"); got != "1" {
		t.Errorf("%s servers get sessions", got)
	}
	a.lines[1].Store("down # disk full")
	follows(t, l, "10.0.2.12", "0.00", feedback.Following, "the agent says down: disk full")
	goTo(t, l, "10.0.2.11", "10.0.2.12") // all-down KEEP: as if both were down
	l.Set("PATCH", "lb all-down", `"DROP"`)
	if got := l.Run("veth1", request("10.0.1.8", 1000, syn)); got.Verdict == "send" && got.Sent == "lb:b" {
		t.Errorf("with all-down DROP: %+v", got)
	}
	l.Set("PATCH", "lb service 10.0.0.100 80 TCP feedback method", `"NONE"`)
	goTo(t, l, "10.0.2.11", "10.0.2.12")
	if got := l.Read("lb feedback"); got != `{"following":0,"waiting":0,"unreachable":0,"polls":0,"failed":0,"changes":`+l.Read("lb feedback changes")+`}` {
		t.Errorf("after the end of feedback: %s", got)
	}
}

// TestWeightsSurviveARestart until agents answer, or miss their polls.
func TestWeightsSurviveARestart(t *testing.T) {
	l := bpftest.New(t, bpftest.Options{Hosts: 2})
	a := newAgents(t)
	create(l, a.service("", ""))
	l.Set("PATCH", "lb service 10.0.0.100 80 TCP feedback misses", "100")
	a.lines[1].Store("25%")
	follows(t, l, "10.0.2.12", "1.00", feedback.Following, "")
	l.Restart(func() {
		a.l[0].Close()
		a.l[1].Close()
	})
	follows(t, l, "10.0.2.12", "1.00", feedback.Waiting, "refused")
	if seen := several(l, "10.0.1.2", 1000, 200); seen["10.0.2.12"] < 15 || seen["10.0.2.12"] > 65 {
		t.Errorf("after a restart, with weights 4 and 1, new sessions go to %v", seen)
	}
	l.Set("PATCH", "lb service 10.0.0.100 80 TCP feedback misses", "3")
	follows(t, l, "10.0.2.12", "4.00", feedback.Unreachable, "refused")
	follows(t, l, "10.0.2.11", "4.00", feedback.Unreachable, "refused")
	l.Restart(nil) // a weight that is the configured one is not adopted as another one
	follows(t, l, "10.0.2.12", "4.00", feedback.Unreachable, "refused")
}

func TestFeedbackByLoad(t *testing.T) {
	l := bpftest.New(t, bpftest.Options{Hosts: 2})
	a := newAgents(t)
	for i, load := range []string{"0.9", "0.1"} {
		a.lines[i].Store(fmt.Sprintf("HTTP/1.0 200 OK\r\nContent-Length: 12\r\n\r\n{\"load\":%s}", load))
	}
	create(l, strings.Replace(a.service("", `"gain":100,"scale":4,"smoothing":0,"http":{"path":"/load"},`), "AGENT", "HTTP", 1))
	// The sum of weights stays 8; with a gain of 100 %, they are at their limits at once.
	follows(t, l, "10.0.2.11", "1.00", feedback.Following, "")
	netns.Eventually(t, bpftest.Patience, func() error {
		if seen := several(l, "10.0.1.2", 1000, 200); seen["10.0.2.11"] > 60 || seen["10.0.2.11"] == 0 {
			return fmt.Errorf("new sessions go to %v", seen)
		}
		return nil
	})
	for i := range a.lines {
		a.lines[i].Store("HTTP/1.0 500 Error\r\n\r\n")
	}
	follows(t, l, "10.0.2.11", "4.00", feedback.Unreachable, "status 500")
}

// polled returns how many servers have an agent.
func polled(t *testing.T, l *bpftest.Lab) int {
	t.Helper()
	var is feedbackTotals
	if err := json.Unmarshal([]byte(l.Read("lb feedback")), &is); err != nil {
		t.Fatal(err)
	}
	return int(is.Waiting + is.Following + is.Unreachable)
}

func TestServersThatAreNotPolled(t *testing.T) {
	l := bpftest.New(t, bpftest.Options{Hosts: 2})
	a := newAgents(t)
	create(l, a.service("", ""))
	follows(t, l, "10.0.2.12", "4.00", feedback.Following, "")
	l.Set("PATCH", "lb service 10.0.0.100 80 TCP backend 10.0.2.12 80 weight", "8")
	follows(t, l, "10.0.2.12", "8.00", feedback.Following, "")
	for _, tt := range []struct{ leaf, off, on, weight string }{{"admin-state", `"DISABLED"`, `"ENABLED"`, "8.00"}, {"weight", "0", "4", "4.00"}} {
		l.Set("PATCH", "lb service 10.0.0.100 80 TCP backend 10.0.2.12 80 "+tt.leaf, tt.off)
		if n := polled(t, l); n != 1 {
			t.Errorf("%s %s: %d servers are polled", tt.leaf, tt.off, n)
		}
		goTo(t, l, "10.0.2.11")
		l.Set("PATCH", "lb service 10.0.0.100 80 TCP backend 10.0.2.12 80 "+tt.leaf, tt.on)
		follows(t, l, "10.0.2.12", tt.weight, feedback.Following, "")
	}
	l.Set("DELETE", "lb service 10.0.0.100 80 TCP backend 10.0.2.12 80", "")
	if n := polled(t, l); n != 1 {
		t.Errorf("%d servers are polled", n)
	}
	for _, wrong := range []string{`"interval":200,"timeout":300`, `"method":"AGENT","port":null`, `"ratios":{"cpu":0,"load":0,"memory":0},"method":"SNMP"`,
		`"snmp":{"credentials":"../shadow"}`, `"target":0`, `"method":"SNMP","snmp":{"version":"V3"}`} {
		if err := l.Try("PATCH", "lb service 10.0.0.100 80 TCP feedback", `{`+wrong+`}`); err == nil {
			t.Errorf("%s was accepted", wrong)
		}
	}
	for _, address := range []string{"0.0.0.0", "224.0.0.1", "ff02::1", "::ffff:10.0.0.1"} {
		if err := l.Try("PATCH", "lb service 10.0.0.100 80 TCP backend 10.0.2.11 80 agent-address", `"`+address+`"`); err == nil {
			t.Errorf("an agent at %s was accepted", address)
		}
	}
	follows(t, l, "10.0.2.11", "4.00", feedback.Following, "")
}

// TestAThousandAgents: all are asked in each interval, and all get their weight.
func TestAThousandAgents(t *testing.T) {
	const servers = 1000
	l := bpftest.New(t, bpftest.Options{Hosts: 2})
	agent, err := net.Listen("tcp", "127.0.0.2:0") // of all servers
	if err != nil {
		t.Fatal(err)
	}
	defer agent.Close()
	var a agents
	a.lines[0].Store("50%")
	go a.serve(0, agent)
	var backends []string
	for n := range servers {
		backends = append(backends, fmt.Sprintf(`{"ip":"10.0.%d.%d","port":80,"weight":4,"agent-address":"127.0.0.2"}`, 3+n/250, 1+n%250))
	}
	l.Create("lbrp", "lb", fmt.Sprintf(`{%s,"max-backends":2048,"service":[{"vip":"10.0.0.100","vport":80,"proto":"TCP",
 "feedback":{"method":"AGENT","port":%d,"interval":2000,"timeout":2000},"backend":[%s]}]}`, twoPorts, agent.Addr().(*net.TCPAddr).Port, strings.Join(backends, ",")))
	netns.Eventually(t, bpftest.Patience, func() error {
		got := l.Read("lb service 10.0.0.100 80 TCP backend")
		if n := strings.Count(got, `"effective-weight":"2.00"`); n != servers {
			return fmt.Errorf("%d of %d servers have their weight", n, servers)
		}
		return nil
	})
	var is feedbackTotals
	if err := json.Unmarshal([]byte(l.Read("lb feedback")), &is); err != nil || is.Following != servers {
		t.Errorf("%+v, %v", is, err)
	}
	if is.Changes > 20 { // a table for each interval, not for each server
		t.Errorf("the table was filled %d times", is.Changes)
	}
	t.Logf("%+v", is)
}
