// SPDX-License-Identifier: Apache-2.0

package nat

import (
	"fmt"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/polycube/polycube/conntrack"
	"github.com/polycube/polycube/test/bpftest"
	"github.com/polycube/polycube/test/netns"
)

// TestSessionsOfEarlierVersions: the flags that they had in the place of a progress, and what is shown of them.
func TestSessionsOfEarlierVersions(t *testing.T) {
	const outSYN, outACK, outFIN, outRST, inSYN, inACK, inFIN, inRST = 1, 2, 4, 8, 16, 32, 64, 128
	const both = outSYN | outACK | inSYN | inACK
	for _, tt := range []struct {
		proto, flags uint8
		seen         conntrack.Phase
		want         conntrack.Phase
		opener       uint8
		shown        string
	}{
		{unix.IPPROTO_TCP, 0, outSYN, conntrack.SynSent, 0, "opening"},
		{unix.IPPROTO_TCP, 0, outSYN | inSYN | inACK, conntrack.SynRecv, 0, "opening"},
		{unix.IPPROTO_TCP, 0, both, conntrack.Open, 0, "established"},
		{unix.IPPROTO_TCP, flagInbound, both, conntrack.Open, 1, "established"},
		{unix.IPPROTO_TCP, 0, outACK | inACK, conntrack.Open, 0, "established"},
		{unix.IPPROTO_TCP, flagInbound, both | inFIN, conntrack.CloseWait, 1, "established"},
		{unix.IPPROTO_TCP, 0, both | outFIN | inFIN, conntrack.LastAck, 0, "closing"},
		{unix.IPPROTO_TCP, 0, both | inRST, conntrack.Closed, 0, "closing"},
		{unix.IPPROTO_TCP, 0, outSYN | inACK | inRST, conntrack.Closed, 0, "closing"},
		{unix.IPPROTO_TCP, 0, both | outRST, conntrack.Closed, 0, "closing"},
		{unix.IPPROTO_UDP, 0, outACK, conntrack.Unreplied, 0, "opening"},
		{unix.IPPROTO_UDP, flagInbound, inACK, conntrack.Unreplied, 1, "opening"},
		{unix.IPPROTO_UDP, flagInbound, inACK | outACK, conntrack.Replied, 1, "established"},
		{unix.IPPROTO_ICMPV6, 0, outACK | inACK, conntrack.Replied, 0, "established"},
	} {
		s := session{Key: key{Proto: tt.proto}, Flags: tt.flags, Progress: conntrack.Progress{State: tt.seen}}
		s.adopt()
		if got := stateOf(&s.Progress); s.Progress.State != tt.want || s.Progress.Flags&1 != tt.opener || s.Progress.Timeout == 0 || got != tt.shown {
			t.Errorf("protocol %d, %#x: %+v, %s; want %v of side %d, %s", tt.proto, uint8(tt.seen), s.Progress, got, tt.want, tt.opener, tt.shown)
		}
		had := s.Progress
		if s.adopt(); s.Progress != had {
			t.Errorf("protocol %d, %#x: again: %+v, want %+v", tt.proto, uint8(tt.seen), s.Progress, had)
		}
	}
}

// TestASweepAdoptsSessionsOfEarlierVersions: also those that no packet reaches.
func TestASweepAdoptsSessionsOfEarlierVersions(t *testing.T) {
	t.Parallel()
	l := bpftest.New(t, bpftest.Options{Hosts: 1})
	l.Create("nat", "n", someRules)
	tables := tablesOf(t, l)
	plant(t, tables, planted{proto: unix.IPPROTO_TCP, rule: 1, talk: both, internal: "10.0.0.1:5", remote: "198.51.100.1:53", external: "203.0.113.1:1024",
		age: time.Hour, inAge: time.Hour})
	k := keyOf(point(t, "10.0.0.1:5"), point(t, "198.51.100.1:53"), unix.IPPROTO_TCP)
	tables.change(k, func(s *session) { s.Progress = conntrack.Progress{State: 0x33} })
	l.Set("PATCH", "n timeout udp", "301") // sweeps
	netns.Eventually(t, 4*bpftest.Patience, func() error {
		s, ok := tables.find(k)
		if !ok || s.Progress.State != conntrack.Phase(0x33) && s.Progress.State != conntrack.Open {
			t.Fatalf("the session is %+v, %v", s.Progress, ok)
		}
		if s.Progress.State != conntrack.Open {
			return fmt.Errorf("the session is still %+v", s.Progress)
		}
		return nil
	})
}
