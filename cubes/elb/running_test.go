// SPDX-License-Identifier: Apache-2.0

package elb_test

import (
	"fmt"
	"io"
	"net"
	"strings"
	"testing"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/test/bpftest"
	"github.com/polycube/polycube/test/netns"
)

// tell sends a command to HAProxy's socket, as an administrator does.
func (s *site) tell(command string) {
	s.t.Helper()
	c, err := net.Dial("unix", s.socket())
	if err != nil {
		s.t.Fatal(err)
	}
	defer c.Close()
	if _, err := io.WriteString(c, command+"\n"); err != nil {
		s.t.Fatal(err)
	}
	if answer, err := io.ReadAll(c); err != nil || strings.TrimSpace(string(answer)) != "" {
		s.t.Fatalf("%s: %q, %v", command, answer, err)
	}
}

// shows waits until a server has a state, weight and reason.
func (s *site) shows(ip, state string, weight uint32, reason string) {
	s.t.Helper()
	netns.Eventually(s.t, bpftest.Patience, func() error {
		if is := s.server(ip); is.State != state || is.Weight != weight || is.Reason != reason {
			return fmt.Errorf("the server is %+v, want %s, weight %d, %q", is, state, weight, reason)
		}
		return nil
	})
}

// shares opens connections, and returns how many a server has got.
func (s *site) shares(ip string, all int) (n int) {
	s.t.Helper()
	for range all {
		c := s.dial("10.0.0.1:80")
		if !c.fast() {
			s.t.Errorf("source port %d: the connection is of HAProxy", c.port)
		}
		if c.server == ip {
			n++
		}
		c.Close()
	}
	return n
}

// TestWhatIsSetOverHAProxysSocketIsFollowed has a real HAProxy say how it uses its servers.
func TestWhatIsSetOverHAProxysSocketIsFollowed(t *testing.T) {
	s := newSite(t, cube.TypeTC)
	s.write("", v4.server, v4.other)
	s.run()
	s.Set("PUT", "e haproxy", fmt.Sprintf(`{"file":[%q],"stats-socket":%q}`, s.file(), s.socket()))
	s.takenOver("web", true)
	s.settled()
	open := s.dial("10.0.0.1:80")
	for open.server != v4.server {
		open = s.dial("10.0.0.1:80")
	}

	const maintenance = "in maintenance in HAProxy"
	s.tell("set server app/s1 state maint")
	s.shows(v4.server, "DISABLED", 1, maintenance)
	if n := s.shares(v4.server, 4); n != 0 {
		t.Errorf("a server in maintenance got %d sessions", n)
	}
	open.works("an open session of a server in maintenance")

	// Neither another daemon nor the end of HAProxy bring the server back.
	s.Restart(nil)
	if is := s.server(v4.server); is.State != "DISABLED" || is.Reason != maintenance {
		t.Errorf("after a restart of the daemon: %+v", is)
	}
	s.kill(s.master)
	netns.Eventually(t, bpftest.Patience, func() error {
		if is := s.Read("e haproxy"); !strings.Contains(is, "stats-error") {
			return fmt.Errorf("HAProxy was killed, and no error is shown: %s", is)
		}
		return nil
	})
	netns.Eventually(t, bpftest.Patience, func() error {
		if !strings.Contains(s.Logs(), "HAProxy does not answer") {
			return fmt.Errorf("the daemon has not asked")
		}
		return nil
	})
	s.shows(v4.server, "DISABLED", 1, maintenance)

	s.run() // HAProxy has forgotten it
	s.shows(v4.server, "UP", 1, "")
	s.tell("set server app/s1 state drain")
	s.shows(v4.server, "DRAINING", 1, "draining in HAProxy")
	if n := s.shares(v4.server, 4); n != 0 {
		t.Errorf("a server that drains got %d sessions", n)
	}
	s.tell("set server app/s1 state ready")
	s.tell("set server app/s1 weight 0")
	s.shows(v4.server, "UP", 0, "weight set to 0 in HAProxy")
	if n := s.shares(v4.server, 4); n != 0 {
		t.Errorf("a server with weight 0 got %d sessions", n)
	}
	s.tell("set server app/s1 weight 3")
	s.shows(v4.server, "UP", 3, "")
	if n := s.shares(v4.server, 8); n < 5 || n > 7 {
		t.Errorf("a server with weight 3 beside one with 1 got %d of 8 sessions, want 6", n)
	}

	// Without the socket, the configuration holds.
	s.Set("DELETE", "e haproxy stats-socket", "")
	s.shows(v4.server, "UP", 1, "")
	open.works("the open session")
}
