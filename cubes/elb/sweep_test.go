// SPDX-License-Identifier: Apache-2.0

package elb_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/test/bpftest"
	"github.com/polycube/polycube/test/netns"
)

// TestASessionSurvivesAServiceThatComesAndGoes: a service is removed, comes back, and is removed again during one sweep, after that has passed
// the place of a session opened in between. The server keeps its number.
func TestASessionSurvivesAServiceThatComesAndGoes(t *testing.T) {
	r := newRig(t, cube.TypeTC, "")
	add := func(port int) {
		r.Set("POST", fmt.Sprintf("e service %s %d", v4.vip, port), fmt.Sprintf(`{"vip":%q,"vport":%d,"backend":[{"ip":%q,"port":8080}]}`, v4.vip, port, v4.server))
	}
	remove := func(port int) { r.Set("DELETE", fmt.Sprintf("e service %s %d", v4.vip, port), "") }
	segment := func(port int) []byte {
		return frame(clientMAC, r.mac, v4.client, v4.vip).TCP(5000, uint16(port), ack).Payload(6).Bytes()
	}
	const first, last = 8000, 8024
	for port := first; port <= last; port++ {
		for since := time.Now(); time.Since(since) < 110*time.Millisecond; { // a tick: a sweep begins
			add(port)
			remove(port)
		}
		add(port)
		netns.Eventually(t, bpftest.Patience, func() error {
			for _, s := range r.servers() {
				if s.VPort == uint16(port) && s.State != "UP" {
					return fmt.Errorf("the server is %s: %s", s.State, s.Reason)
				}
			}
			return nil
		})
		if out, _ := r.judged(frame(clientMAC, r.mac, v4.client, v4.vip).TCP(5000, uint16(port), syn).Bytes()); out != replies {
			t.Fatalf("SYN to port %d: %+v", port, out)
		}
		remove(port)
	}
	add(last + 1)
	remove(last + 1)
	netns.Eventually(t, bpftest.Patience, func() error { // until a whole sweep has found no session of this one
		if is := r.Read("e server"); strings.Contains(is, fmt.Sprint(last+1)) {
			return fmt.Errorf("servers are %s", is)
		}
		return nil
	})
	for port := first; port <= last; port++ {
		if out, _ := r.judged(segment(port)); out != replies {
			t.Errorf("a segment of the session to port %d: %+v, want %+v", port, out, replies)
		}
	}
}
