// SPDX-License-Identifier: Apache-2.0

package conntrack_test

import (
	"math/rand/v2"
	"testing"

	"github.com/polycube/polycube/conntrack"
	"github.com/polycube/polycube/test/pkt"
	"github.com/polycube/polycube/test/repeat"
	"github.com/polycube/polycube/test/talk"
)

// TestFollowingIsAsTrackingWithWindows: the connections of two TCP implementations have the same classes and states as with
// windows, except that every acknowledgement counts for a FIN.
func TestFollowingIsAsTrackingWithWindows(t *testing.T) {
	r := rand.New(rand.NewPCG(repeat.Seed(t), 2))
	reached := map[conntrack.Phase]int{}
	right := map[string]bool{"handshake": true, "data": true, "acknowledgement": true, "keep-alive": true, "retransmission": true, "FIN": true, "RST": true}
	acked := map[conntrack.Phase]conntrack.Phase{conntrack.FinWait: conntrack.CloseWait, conntrack.LastAck: conntrack.TimeWait}
	for range 3000 {
		var p conntrack.Progress
		var s conntrack.State
		for hosts := talk.New(r); ; {
			from, segment := hosts.Next()
			if !right[hosts.Kind] || r.IntN(50) == 0 {
				break
			}
			want := s.TCP(from, segment, conntrack.Options{})
			got := p.Follow(from, pkt.ProtoTCP, segment.Flags)
			if got != want || p.State != s.State && p.State != acked[s.State] {
				t.Fatalf("%s, %+v of side %d: %v in %v, with windows %v in %v", hosts.Kind, segment, from, got, p.State, want, s.State)
			}
			if reached[p.State]++; p.State == conntrack.Closed {
				break // as the side that sent the RST continues here, the states differ from now on
			}
		}
	}
	for p := conntrack.SynSent; p <= conntrack.Closed; p++ {
		if reached[p] == 0 {
			t.Errorf("no packet led to %v", p)
		}
	}
}
