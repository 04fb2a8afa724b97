// SPDX-License-Identifier: Apache-2.0

package elb_test

import (
	"fmt"
	"testing"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/test/bpftest"
	"github.com/polycube/polycube/test/netns"
	"github.com/polycube/polycube/test/pkt"
)

// TestSourcePortsAreUsedInTurn: a port that was given back is the last one that is used again.
func TestSourcePortsAreUsedInTurn(t *testing.T) {
	r := newRig(t, cube.TypeTC, fmt.Sprintf(`{"source-ports":"20000-20009","service":[%s]}`, v4.service("", v4.server)))
	first := source(r.open(v4, 5000)) - 20000
	for i := range uint16(35) {
		if i%3 == 0 {
			r.Set("DELETE", "e session", "")
		}
		if got, want := source(r.open(v4, 5001+i)), 20000+(first+1+i)%10; got != want {
			t.Fatalf("session %d has source port %d, want %d", i, got, want)
		}
	}
}

// TestAClosedSessionGivesItsPortBack: after its own timeout, which may be shorter than that of sessions that are opening or closing.
func TestAClosedSessionGivesItsPortBack(t *testing.T) {
	finAck := pkt.TCPFlags{FIN: true, ACK: true}
	for name, flags := range map[string]pkt.TCPFlags{"by both ends": finAck, "by a reset": {RST: true, ACK: true}} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, cube.TypeTC, fmt.Sprintf(`{"source-ports":"20000-20002","timeout":{"tcp-transitory":604800,"tcp-time-wait":604800},"service":[%s]}`,
				v4.service("", v4.server)))
			var ports []uint16
			for client := range uint16(3) {
				ports = append(ports, source(r.open(v4, 5000+client)))
			}
			for client, port := range ports[:2] { // the third session stays half-open
				r.judged(r.reply(v4, v4.server, serverMAC, port, synAck))
				r.judged(r.segment(v4, 5000+uint16(client), ack))
				r.judged(r.reply(v4, v4.server, serverMAC, port, finAck))
			}
			r.judged(r.segment(v4, 5000, flags)) // the second one half-closed
			r.judged(r.reply(v4, v4.server, serverMAC, ports[0], ack))
			if out, _ := r.judged(r.segment(v4, 6000, syn)); out != passes {
				t.Errorf("a SYN while closed sessions keep their ports: %+v, want %+v", out, passes)
			}
			r.Set("PUT", "e timeout", `{"tcp-established":604800,"tcp-transitory":604800,"tcp-time-wait":1}`)
			netns.Eventually(t, bpftest.Patience, func() error {
				if n := r.sessions("active"); n != 2 {
					return fmt.Errorf("%d sessions, want 2", n)
				}
				return nil
			})
			if is := source(r.open(v4, 6000)); is != ports[0] {
				t.Errorf("source port %d, want %d, which is free again", is, ports[0])
			}
			if out, _ := r.judged(r.segment(v4, 6001, syn)); out != passes {
				t.Errorf("a SYN without a free port: %+v, want %+v", out, passes)
			}
		})
	}
}
