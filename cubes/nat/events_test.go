// SPDX-License-Identifier: Apache-2.0

package nat

// Events of sessions: those that are new, in another state, or gone.

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/polycube/polycube/test/bpftest"
	"github.com/polycube/polycube/test/netns"
	"github.com/polycube/polycube/test/pkt"
)

// wantEvents waits for exactly these events, in any order.
func wantEvents(t *testing.T, l *bpftest.Lab, want ...string) {
	t.Helper()
	slices.Sort(want)
	netns.Eventually(t, bpftest.Patience, func() error {
		if got := slices.Sorted(slices.Values(l.Events("session"))); !slices.Equal(got, want) {
			return fmt.Errorf("events\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
		return nil
	})
}

func TestSessionsAreEvents(t *testing.T) {
	t.Parallel()
	bpftest.Each(t, bpftest.Options{Hosts: 2}, func(t *testing.T, l *bpftest.Lab) {
		b := newBench(t, l, `{"rule":{"snat":{"entry":[{"id":1,"internal-net":"10.0.0.0/24","external-ip":"203.0.113.1"},{"id":2,"internal-net":"fd00::/64","external-ip":"2001:db8::1"}]},
			"port-forwarding":{"entry":[{"id":1,"external-ip":"203.0.113.2","external-port":80,"internal-ip":"10.0.0.7","internal-port":8080}]}},
			"behaviour":{"filtering":"address-dependent"}}`)
		pass := func(in bool, f framer) {
			t.Helper()
			if _, err := b.pass(in, f.Bytes()); err != nil {
				t.Error(err)
			}
		}
		pass(false, out4("10.0.0.9", other).UDP(9, 53))
		l.Set("PATCH", "n", `{"session-events":"ON"}`)
		pass(false, out4(host, other).UDP(4000, 53))
		pass(true, in4(other, ours).UDP(53, 4000))
		pass(true, in4(other, ours).UDP(53, 4000))
		pass(true, in4(other, ours).UDP(54, 4000)) // of the mapping
		pass(false, out6(host6, other6).TCP(4000, 80, syn))
		pass(true, in6(other6, ours6).TCP(80, 4000, synAck))
		pass(false, out6(host6, other6).TCP(4000, 80, ack))
		pass(false, out6(host6, other6).TCP(4000, 80, pkt.TCPFlags{RST: true}))
		pass(true, in4(other, "203.0.113.2").TCP(5000, 80, syn))
		pass(false, out4(host, other).TCP(8080, 5000, synAck))
		pass(true, in4(other, "203.0.113.2").TCP(5000, 80, ack))
		if got := l.Action("n delete-sessions", `{"internal-src":"10.0.0.7","internal-sport":4000}`); got != `{"deleted":2}` {
			t.Errorf("deleted: %s", got)
		}
		l.Set("DELETE", "n natting-table fd00::7 2001:db8:9::1 4000 80 tcp", "")
		const dns, more = "UDP 10.0.0.7:4000 > 198.51.100.1:53 as 203.0.113.1:4000 ", "UDP 10.0.0.7:4000 > 198.51.100.1:54 as 203.0.113.1:4000 "
		const web = "TCP [fd00::7]:4000 > [2001:db8:9::1]:80 as [2001:db8::1]:4000 "
		const forwarded = "TCP 10.0.0.7:8080 > 198.51.100.1:5000 as 203.0.113.2:80 "
		want := []string{"n: new " + dns + "opening", "n: updated " + dns + "established", "n: destroyed " + dns + "established",
			"n: new " + more + "opening", "n: destroyed " + more + "opening",
			"n: new " + web + "opening", "n: updated " + web + "established", "n: updated " + web + "closing", "n: destroyed " + web + "closing",
			"n: new " + forwarded + "opening", "n: updated " + forwarded + "established"}
		wantEvents(t, l, want...)
		l.Set("PATCH", "n", `{"session-events":"OFF"}`)
		pass(false, out4(host, other).UDP(4444, 53))
		l.Set("DELETE", "n natting-table", "")
		wantEvents(t, l, want...)
	})
}

// TestEachNATTellsOfSharedSessions: of what its packets have changed, and of each session's end.
func TestEachNATTellsOfSharedSessions(t *testing.T) {
	eachUplinks(t, func(t *testing.T, l *bpftest.Lab) {
		u := newUplinks(t, l, snatUp+`,"session-events":"ON"`, sharedUp+`,"session-events":"ON"`)
		u.open(4000)
		const web = "TCP 10.0.0.7:4000 > 198.51.100.1:80 as 203.0.113.1:4000 "
		want := []string{"n1: new " + web + "opening", "n1: updated " + web + "established"}
		wantEvents(t, l, want...)
		u.Set("DELETE", "n1", "")
		wantEvents(t, l, append(want, "n1: destroyed "+web+"established", "n2: destroyed "+web+"established")...)
	})
}

// TestEventsAreLimited: one says how many were lost.
func TestEventsAreLimited(t *testing.T) {
	atBothHooks(t, func(t *testing.T, l *bpftest.Lab) {
		newBench(t, l, strings.Replace(snat, `{"rule"`, `{"session-events":"ON","rule"`, 1))
		opened := 0
		open := func() {
			var burst [][]byte
			for range 300 {
				burst = append(burst, out4(host, other).UDP(uint16(2000+opened), 53).Bytes())
				opened++
			}
			l.RunAll("veth1", burst)
		}
		open()
		netns.Eventually(t, bpftest.Patience, func() error {
			lost, shown := 0, 0
			for _, e := range l.Events("session") {
				var n int
				if _, err := fmt.Sscanf(e, "n: lost %d events of sessions were lost", &n); err == nil {
					lost += n
				} else {
					shown++
				}
			}
			if lost == 0 && shown == opened {
				open() // the machine was too slow: so many events are allowed in that time
			}
			if lost == 0 || lost+shown != opened {
				return fmt.Errorf("%d events and %d lost, want %d in all", shown, lost, opened)
			}
			return nil
		})
	})
}
