// SPDX-License-Identifier: Apache-2.0

package elb_test

import (
	"bytes"
	"fmt"
	"net"
	"sync/atomic"
	"testing"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/test/bpftest"
	"github.com/polycube/polycube/test/netns"
	"github.com/polycube/polycube/test/pkt"
)

// agent answers polls of HAProxy's protocol on the loopback of the daemon.
type agent struct {
	port int
	says atomic.Value
}

func newAgent(t *testing.T, says string) *agent {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	a := &agent{port: l.Addr().(*net.TCPAddr).Port}
	a.says.Store(says)
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			fmt.Fprintln(c, a.says.Load())
			c.Close()
		}
	}()
	return a
}

// split opens sessions from a port on, and counts those of the first server.
func (r *rig) split(from uint16) (first int) {
	r.t.Helper()
	for i := range uint16(100) {
		if got := r.open(v4, from+i); bytes.Equal(got[:6], pkt.MAC(serverMAC)) {
			first++
		}
	}
	return first
}

func TestWeightsFollowWhatAgentsSay(t *testing.T) {
	a := newAgent(t, "100%")
	backend := func(ip, more string) string { return fmt.Sprintf(`{"ip":%q,"port":8080,"weight":2%s}`, ip, more) }
	r := newRig(t, cube.TypeTC, fmt.Sprintf(`{"service":[{"vip":%q,"vport":80,"select":"ROUND_ROBIN","feedback":{"method":"AGENT","port":%d,"interval":200,"threshold":0,"timeout":200,"misses":2},
		"backend":[%s,%s]}]}`, v4.vip, a.port, backend(v4.server, `,"agent-address":"127.0.0.1"`), backend(v4.other, `,"agent-address":"127.0.0.2"`)))
	weight := func(want string) {
		t.Helper()
		netns.Eventually(t, bpftest.Patience, func() error {
			if is := r.server(v4.server); is.Feedback.Weight != want {
				return fmt.Errorf("%+v, want the weight %s", is, want)
			}
			return nil
		})
	}
	weight("2.00")
	if n := r.split(5000); n != 50 {
		t.Errorf("%d of 100 sessions are of the first server, want 50", n)
	}
	stays := r.segment(v4, 5000, ack)
	_, before := r.judged(stays)
	a.says.Store("50%")
	weight("1.00")
	if n := r.split(6000); n < 31 || n > 35 {
		t.Errorf("with half the weight, %d of 100 sessions are of the first server, want a third", n)
	}
	a.says.Store("drain")
	weight("0.00")
	if n := r.split(7000); n != 0 {
		t.Errorf("a server that drains got %d sessions", n)
	}
	if _, after := r.judged(stays); !bytes.Equal(before, after) {
		t.Errorf("an open session has moved:\n %x\n %x", before, after)
	}
	if is := r.server(v4.other); is.Feedback.State != "UNREACHABLE" || is.Feedback.Weight != "2.00" {
		t.Errorf("the server without an agent is %+v, want UNREACHABLE with its configured weight", is)
	}
}

// TestAgentsOfHAProxyAreAsked takes over a frontend with agent-check.
func TestAgentsOfHAProxyAreAsked(t *testing.T) {
	a := newAgent(t, "up 25%")
	s := newSite(t, cube.TypeTC)
	s.write("", fmt.Sprintf("%s:8080 weight 100 agent-check agent-addr 127.0.0.1 agent-inter 200ms agent-port %d", v4.server, a.port))
	s.Set("PUT", "e haproxy", fmt.Sprintf(`{"file":[%q]}`, s.file()))
	s.takenOver("web", true)
	netns.Eventually(t, bpftest.Patience, func() error {
		if is := s.server(v4.server); is.State != "UP" || is.Feedback.Weight != "25.00" {
			return fmt.Errorf("%+v, want the weight 25.00", is)
		}
		return nil
	})
}
