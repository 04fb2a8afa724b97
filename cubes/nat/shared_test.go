// SPDX-License-Identifier: Apache-2.0

package nat

// NATs of two uplinks that share their sessions: packets of a session may pass either.

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/test/bpftest"
	"github.com/polycube/polycube/test/netns"
)

// uplinks are two forwarders, f between veth1 and veth2 with the NAT n1, g between veth3 and veth4 with n2. The higher veth is
// outside.
type uplinks struct {
	*bpftest.Lab
	t *testing.T
}

// newUplinks sets them up. members are those of each NAT, in JSON.
func newUplinks(t *testing.T, l *bpftest.Lab, members ...string) *uplinks {
	t.Helper()
	for i, name := range []string{"f", "g"} {
		l.Create("simpleforwarder", name, fmt.Sprintf(`{"ports":[{"name":"p1","peer":"veth%d"},{"name":"p2","peer":"veth%d"}],
			"actions":[{"inport":"p1","action":"FORWARD","outport":"p2"},{"inport":"p2","action":"FORWARD","outport":"p1"}]}`, 2*i+1, 2*i+2))
		nat := fmt.Sprintf("n%d", i+1)
		l.Create("nat", nat, "{"+members[i]+"}")
		l.Attach(nat, name+":p2")
	}
	return &uplinks{l, t}
}

// expect sends a frame; want is what passes, or nil with the NAT and the reason that drop it.
func (u *uplinks) expect(name, dev string, send, want framer, why string) {
	u.t.Helper()
	out, got := u.RunBytes(dev, send.Bytes())
	switch {
	case want == nil && (out.Verdict != "drop" || out.Fate != why):
		u.t.Errorf("%s: %+v, want a drop as %s", name, out, why)
	case want != nil && (out.Verdict != "send" || !bytes.Equal(got, want.Bytes())):
		u.t.Errorf("%s: %+v\n got %x\nwant %x", name, out, got, want.Bytes())
	}
}

// counts expects the numbers of sessions in the lists of the NATs.
func (u *uplinks) counts(want ...int) {
	u.t.Helper()
	for i, n := range want {
		if got := len(slices.Collect(u.Entries(fmt.Sprintf("n%d natting-table", i+1)))); got != n {
			u.t.Errorf("n%d lists %d sessions, want %d", i+1, got, n)
		}
	}
}

// list is the list of a NAT's sessions.
func (u *uplinks) list(name string) string {
	var all []string
	for raw := range u.Entries(name + " natting-table") {
		all = append(all, string(raw))
	}
	return strings.Join(all, "\n")
}

const (
	sharedUp = `"session-zone":"shared:up"`
	snatUp   = sharedUp + `,"rule":{"snat":{"entry":[{"id":1,"internal-net":"10.0.0.0/24","external-ip":"203.0.113.1"}]}}`
)

// eachUplinks runs a test at both hooks, with four hosts.
func eachUplinks(t *testing.T, test func(t *testing.T, l *bpftest.Lab)) {
	t.Parallel()
	bpftest.Each(t, bpftest.Options{Hosts: 4}, test)
}

// open opens a TCP connection out by n1, whose answers come in by n2.
func (u *uplinks) open(sport uint16) {
	u.t.Helper()
	u.expect("a SYN out by n1", "veth1", out4(host, other).TCP(sport, 80, syn), out4(ours, other).TCP(sport, 80, syn), "")
	u.expect("its answer in by n2", "veth4", in4(other, ours).TCP(80, sport, synAck), in4(other, host).TCP(80, sport, synAck), "")
	u.expect("the third out by n1", "veth1", out4(host, other).TCP(sport, 80, ack), out4(ours, other).TCP(sport, 80, ack), "")
}

func TestRepliesComeInByAnotherNAT(t *testing.T) {
	eachUplinks(t, func(t *testing.T, l *bpftest.Lab) {
		u := newUplinks(t, l, snatUp, sharedUp) // the second has no rules
		u.open(4000)
		u.expect("out by n2, too", "veth3", out4(host, other).TCP(4000, 80, ack), out4(ours, other).TCP(4000, 80, ack), "")
		u.expect("an echo out by n1", "veth1", out4(host, other).Echo(77, 1).Payload(56), out4(ours, other).Echo(77, 1).Payload(56), "")
		u.expect("another session out by n2, without a rule", "veth3", out4(host, other).UDP(4001, 53), out4(host, other).UDP(4001, 53), "")
		u.expect("from a stranger in by n2", "veth4", in4("198.51.100.9", ours).UDP(53, 4000), in4("198.51.100.9", ours).UDP(53, 4000), "")
		u.counts(2, 2)
		for _, name := range []string{"n1", "n2"} {
			const at = " natting-table 10.0.0.7 198.51.100.1 4000 80 tcp "
			if state, active := u.Read(name+at+"state"), u.Read(name+" sessions active"); state != `"established"` || active != "2" {
				t.Errorf("%s shows %s and counts %s sessions", name, state, active)
			}
			if in := u.Read(name + at + "packets-in"); in != `"1"` && in != "1" {
				t.Errorf("%s has counted %s packets from outside", name, in)
			}
		}
		if got := u.Action("n2 delete-sessions", `{"proto":"tcp"}`); got != `{"deleted":1}` {
			t.Errorf("deleted: %s", got)
		}
		if _, got := u.RunBytes("veth2", in4(other, ours).TCP(80, 4000, ack).Bytes()); bytes.Equal(got, in4(other, host).TCP(80, 4000, ack).Bytes()) {
			t.Error("the session is still there in n1")
		}
		u.counts(1, 1)
	})
}

func TestForwardedPortsAnswerByAnotherNAT(t *testing.T) {
	eachUplinks(t, func(t *testing.T, l *bpftest.Lab) {
		u := newUplinks(t, l, sharedUp+`,"rule":{"port-forwarding":{"entry":[{"id":1,"external-ip":"203.0.113.1","external-port":80,"internal-ip":"10.0.0.7","internal-port":8080}]}}`, snatUp)
		u.expect("in by n1", "veth2", in4(other, ours).TCP(4000, 80, syn), in4(other, host).TCP(4000, 8080, syn), "")
		u.expect("its answer out by n2", "veth3", out4(host, other).TCP(8080, 4000, synAck), out4(ours, other).TCP(80, 4000, synAck), "")
		u.expect("the third in by n2", "veth4", in4(other, ours).TCP(4000, 80, ack), in4(other, host).TCP(4000, 8080, ack), "")
	})
}

// TestNATsWithoutTheNameDoNotTranslateThem, and their sessions are apart.
func TestNATsWithoutTheNameDoNotTranslateThem(t *testing.T) {
	eachUplinks(t, func(t *testing.T, l *bpftest.Lab) {
		for _, zone := range []string{`"session-zone":"own"`, `"session-zone":"shared:u-p"`, `"session-zone":"shared:u.p"`, `"session-zone":"shared:u_p"`} {
			u := newUplinks(t, l, strings.Replace(snatUp, "shared:up", "shared:u_hp", 1), zone)
			u.expect("UDP out by n1", "veth1", out4(host, other).UDP(4000, 53), out4(ours, other).UDP(4000, 53), "")
			u.expect("its reply in by n2", "veth4", in4(other, ours).UDP(53, 4000), in4(other, ours).UDP(53, 4000), "")
			u.expect("its reply in by n1", "veth2", in4(other, ours).UDP(53, 4000), in4(other, host).UDP(53, 4000), "")
			u.counts(1, 0)
			for _, name := range []string{"n1", "n2", "f", "g"} {
				l.Set("DELETE", name, "")
			}
		}
	})
}

// TestNATsThatShareGiveOutEachPortOnce: two hosts with the same port, by an NAT each, and a range that is exhausted for both.
func TestNATsThatShareGiveOutEachPortOnce(t *testing.T) {
	eachUplinks(t, func(t *testing.T, l *bpftest.Lab) {
		two := strings.Replace(snatUp, `"203.0.113.1"`, `"203.0.113.1","port-first":4000,"port-last":4001`, 1)
		u := newUplinks(t, l, two, two)
		u.expect("a host out by n1", "veth1", out4(host, other).TCP(4000, 80, syn), out4(ours, other).TCP(4000, 80, syn), "")
		u.expect("another with the port out by n2", "veth3", out4("10.0.0.8", other).TCP(4000, 80, syn), out4(ours, other).TCP(4001, 80, syn), "")
		u.expect("a third by n1", "veth1", out4("10.0.0.9", other).TCP(4000, 80, syn), nil, "n1 ports-exhausted")
		u.expect("and by n2", "veth3", out4("10.0.0.9", other).TCP(4000, 80, syn), nil, "n2 ports-exhausted")
		u.expect("the first by n2 keeps its port", "veth3", out4(host, other).TCP(4000, 81, syn), out4(ours, other).TCP(4000, 81, syn), "")
		u.expect("the answer to the other in by n1", "veth2", in4(other, ours).TCP(80, 4001, synAck), in4(other, "10.0.0.8").TCP(80, 4000, synAck), "")
		u.counts(3, 3)
	})
}

func TestSharedTranslationsOutliveTheDaemon(t *testing.T) {
	eachUplinks(t, func(t *testing.T, l *bpftest.Lab) {
		u := newUplinks(t, l, snatUp, snatUp)
		u.open(4000)
		u.expect("a session of n2", "veth3", out4("10.0.0.8", other).TCP(5000, 80, syn), out4(ours, other).TCP(5000, 80, syn), "")
		l.Restart(nil)
		u.expect("in by n2", "veth4", in4(other, ours).TCP(80, 4000, ack), in4(other, host).TCP(80, 4000, ack), "")
		u.expect("the session of n2 in by n1", "veth2", in4(other, ours).TCP(80, 5000, synAck), in4(other, "10.0.0.8").TCP(80, 5000, synAck), "")
		u.open(4001)
		u.counts(3, 3)
	})
}

// TestSessionsEndWithTheRuleOfTheirNAT: sweeps of the other one leave them, and a NAT that is deleted takes its own along.
func TestSessionsEndWithTheRuleOfTheirNAT(t *testing.T) {
	eachUplinks(t, func(t *testing.T, l *bpftest.Lab) {
		u := newUplinks(t, l, snatUp, strings.Replace(snatUp, `"id":1`, `"id":2`, 1))
		u.open(4000)
		u.expect("a session of n2", "veth3", out4("10.0.0.8", other).TCP(5000, 80, syn), out4(ours, other).TCP(5000, 80, syn), "")
		wait := func(name string, n int) {
			t.Helper()
			netns.Eventually(t, bpftest.Patience, func() error {
				if got := len(slices.Collect(u.Entries(name + " natting-table"))); got != n {
					return fmt.Errorf("%s lists %d sessions, want %d", name, got, n)
				}
				return nil
			})
		}
		u.Set("DELETE", "n2 rule snat entry 2", "")
		wait("n1", 1)
		if got := u.list("n2"); !strings.Contains(got, `"rule-id":1,`) || !strings.Contains(got, `"originating-rule":"snat"`) {
			t.Errorf("n2 shows %s, want the session of rule 1 of n1", got)
		}
		u.Set("POST", "n2 rule snat entry 2", `{"internal-net":"10.0.0.8/32","external-ip":"203.0.113.1"}`)
		u.expect("another session of n2", "veth3", out4("10.0.0.8", other).TCP(5000, 80, syn), out4(ours, other).TCP(5000, 80, syn), "")
		u.Set("DELETE", "n1", "")
		wait("n2", 1)
		u.expect("its reply", "veth4", in4(other, ours).TCP(80, 5000, synAck), in4(other, "10.0.0.8").TCP(80, 5000, synAck), "")
		u.expect("the session of n1 is gone", "veth4", in4(other, ours).TCP(80, 4000, ack), in4(other, ours).TCP(80, 4000, ack), "")
		l.Create("nat", "n1", "{"+snatUp+"}")
		l.Attach("n1", "f:p2")
		u.open(4000)
		u.counts(2, 2)
		u.Set("DELETE", "n1", "")
		u.Set("DELETE", "n2", "")
		l.Create("nat", "n2", "{"+sharedUp+"}")
		if got := u.list("n2"); got != "" {
			t.Errorf("the sessions have outlived the last NAT: %s", got)
		}
	})
}

func TestSessionsHaveTheTimeoutsOfTheirNAT(t *testing.T) {
	eachUplinks(t, func(t *testing.T, l *bpftest.Lab) {
		u := newUplinks(t, l, snatUp+`,"timeout":{"udp":1}`, snatUp+`,"timeout":{"udp":1000}`)
		u.expect("UDP out by n2", "veth3", out4(host, other).UDP(4000, 53), out4(ours, other).UDP(4000, 53), "")
		u.expect("UDP out by n1", "veth1", out4("10.0.0.8", other).UDP(4001, 53), out4(ours, other).UDP(4001, 53), "")
		netns.Eventually(t, bpftest.Patience, func() error {
			if got := u.list("n1"); strings.Count(got, "\n") != 0 || !strings.Contains(got, `"internal-src":"10.0.0.7"`) || !strings.Contains(got, `"expires":9`) {
				return fmt.Errorf("n1 shows %s, want the session of n2 alone", got)
			}
			return nil
		})
		u.expect("its reply in by n1", "veth2", in4(other, ours).UDP(53, 4000), in4(other, host).UDP(53, 4000), "")
	})
}

func TestTheLargestMaxSessionsOfThoseThatShareApplies(t *testing.T) {
	atBothHooks(t, func(t *testing.T, l *bpftest.Lab) {
		l.Create("nat", "n", `{`+sharedUp+`,"max-sessions":1024}`)
		tables := tablesOf(t, l)
		is := func(when string, most uint32) {
			t.Helper()
			if got := tables.sessions.Size(); got != entriesFor(most) {
				t.Errorf("%s: room for %d entries, want %d", when, got, entriesFor(most))
			}
		}
		is("one", 1024)
		l.Create("nat", "n2", `{`+sharedUp+`,"max-sessions":4096}`)
		is("a larger one", 4096)
		l.Set("PATCH", "n", `{"max-sessions":2048}`)
		is("the first grows", 4096)
		l.Set("PATCH", "n2", `{"max-sessions":1024}`)
		is("the second shrinks", 2048)
	})
}

// TestTheZoneIsChosenAtCreation: it says where the maps of sessions are.
func TestTheZoneIsChosenAtCreation(t *testing.T) {
	l := bpftest.New(t, bpftest.Options{Hosts: 2})
	l.Create("nat", "n", `{`+sharedUp+`}`)
	if err := l.Try("PATCH", "n", `{"session-zone":"own"}`); err == nil {
		t.Error("the zone is changed")
	}
	if err := l.TryCreate("nat", "n2", `{"session-zone":"shared:a/b"}`); err == nil || !strings.Contains(err.Error(), "shared:NAME") {
		t.Errorf("a bad name: %v", err)
	}
}

// TestAbsentNATs: their sessions do not expire until the daemon has had time to restore them, and those of deleted ones end.
func TestAbsentNATs(t *testing.T) {
	const now = uint64(2 * absentAge)
	g := &group{users: map[uint8]*user{}}
	g.states[1].Store(present)
	g.states[2].Store(absent)
	g.since[2].Store(now - uint64(absentAge) + 1)
	g.states[3].Store(absent)
	for place, want := range []care{careAll, careNone, careNone, careAll, careEnd} {
		if got := g.careFor(uint8(place), 0, now); got != want {
			t.Errorf("place %d: %d, want %d", place, got, want)
		}
	}
	n := &nat{rules: newRuleSet(), group: g}
	is := session{Key: keyOf(endpoint{port: 1}, endpoint{}, unix.IPPROTO_UDP), Origin: originSnat.of(3)}
	if !n.fits(&is) {
		t.Error("the rule of an absent NAT counts as deleted")
	}
	if is.Origin = originSnat; n.fits(&is) {
		t.Error("a rule of its own that does not exist fits")
	}
}

// TestMembersHavePlaces: 64, and one that is deleted leaves its own to another.
func TestMembersHavePlaces(t *testing.T) {
	if got := originForwarding.of(places - 1); got.kind() != originForwarding || got.member() != places-1 || got.String() != "portforwarding" {
		t.Errorf("the last place: %d of %d", got.kind(), got.member())
	}
	l := bpftest.New(t, bpftest.Options{Type: cube.TypeTC})
	for i := range places {
		l.Create("nat", fmt.Sprintf("n%d", i), `{`+sharedUp+`,"max-sessions":1024}`)
	}
	if err := l.TryCreate("nat", "more", `{`+sharedUp+`}`); err == nil || !strings.Contains(err.Error(), "64 NATs share it") {
		t.Errorf("one more: %v", err)
	}
	l.Set("DELETE", "n7", "")
	l.Create("nat", "more", `{`+sharedUp+`}`)
}
