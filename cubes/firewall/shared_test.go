// SPDX-License-Identifier: Apache-2.0

package firewall_test

// Firewalls that share their sessions: replies come in by another one.

import (
	"encoding/json"
	"fmt"
	"hash/fnv"
	"slices"
	"strings"
	"testing"

	"github.com/polycube/polycube/test/bpftest"
	"github.com/polycube/polycube/test/netns"
	"github.com/polycube/polycube/test/pkt"
)

// paths are two forwarders, f with a firewall fw1 and g with fw2, each on the port p1.
type paths struct {
	*bpftest.Lab
	t *testing.T
}

// newPaths sets them up; both firewalls drop what comes in and belongs to no session.
func newPaths(t *testing.T, l *bpftest.Lab, zones ...string) *paths {
	t.Helper()
	for i, name := range []string{"f", "g"} {
		l.Create("simpleforwarder", name, fmt.Sprintf(`{"ports":[{"name":"p1","peer":"veth%d"},{"name":"p2","peer":"veth%d"}],
			"actions":[{"inport":"p1","action":"FORWARD","outport":"p2"},{"inport":"p2","action":"FORWARD","outport":"p1"}]}`, 2*i+1, 2*i+2))
		fw := fmt.Sprintf("fw%d", i+1)
		l.Create("firewall", fw, fmt.Sprintf(`{"session-zone":%q,"chain":[{"name":"INGRESS","default":"DROP"}]}`, zones[i]))
		l.Attach(fw, name+":p1")
	}
	return &paths{l, t}
}

// expect sends a frame; drop is the firewall and the reason that drop it, "" if it passes.
func (p *paths) expect(name, dev string, frame []byte, drop string) {
	p.t.Helper()
	to := map[string]string{"veth1": "f:p2", "veth2": "f:p1", "veth3": "g:p2", "veth4": "g:p1"}
	want := bpftest.Outcome{Verdict: "send", Sent: to[dev]}
	if drop != "" {
		want = bpftest.Outcome{Verdict: "drop", Fate: drop}
	}
	if got := p.Run(dev, frame); got != want {
		p.t.Errorf("%s: %+v, want %+v", name, got, want)
	}
}

// counts expects the numbers of sessions that cubes show, which are as many in their lists.
func (p *paths) counts(want ...int) {
	p.t.Helper()
	for i, n := range want {
		fw := fmt.Sprintf("fw%d", i+1)
		if got := len(slices.Collect(p.Entries(fw + " session-table"))); got != n {
			p.t.Errorf("%s lists %d sessions, want %d", fw, got, n)
		}
	}
}

var fourHosts = bpftest.Options{Hosts: 4}

// open opens a TCP connection out by f, whose answers come in by g.
func (p *paths) open(sport uint16) {
	p.t.Helper()
	p.expect("a SYN out by fw1", "veth2", tcp(inside, outside, sport, 80, pkt.TCPFlags{SYN: true, Seq: 1000}), "")
	p.expect("its answer in by fw2", "veth3", tcp(outside, inside, 80, sport, pkt.TCPFlags{SYN: true, ACK: true, Seq: 1, Ack: 1001}), "")
	p.expect("the third out by fw1", "veth2", tcp(inside, outside, sport, 80, pkt.TCPFlags{ACK: true, Seq: 1001, Ack: 2}), "")
}

func TestRepliesComeInByAnotherFirewall(t *testing.T) {
	bpftest.Each(t, fourHosts, func(t *testing.T, l *bpftest.Lab) {
		p := newPaths(t, l, "shared:up", "shared:up")
		p.open(1000)
		p.expect("UDP out by fw2", "veth4", udp(inside, outside, 5, 53), "")
		p.expect("its reply in by fw1", "veth1", udp(outside, inside, 53, 5), "")
		p.counts(2, 2)
		for _, fw := range []string{"fw1", "fw2"} {
			if got := l.Read(fw + " session-table 10.0.0.1 192.0.2.1 TCP 1000 80 state"); got != `"ESTABLISHED"` {
				t.Errorf("%s shows %s", fw, got)
			}
			if got := l.Read(fw + " sessions active"); got != "2" {
				t.Errorf("%s counts %s sessions", fw, got)
			}
		}
		p.expect("of no session", "veth3", udp(outside, inside, 53, 6), "fw2 default")
		if got := l.Action("fw2 delete-sessions", `{"sport":5}`); got != `{"deleted":1}` {
			t.Errorf("deleted: %s", got)
		}
		p.expect("the session is gone in fw1, too", "veth1", udp(outside, inside, 53, 5), "fw1 default")
		p.counts(1, 1)
	})
}

func TestFirewallsWithoutTheNameDropThem(t *testing.T) {
	bpftest.Each(t, fourHosts, func(t *testing.T, l *bpftest.Lab) {
		for _, zones := range [][]string{{"own", "own"}, {"shared:up", "own"}, {"shared:up", "shared:other"}} {
			p := newPaths(t, l, zones...)
			p.expect("UDP out by fw1", "veth2", udp(inside, outside, 5, 53), "")
			p.expect("its reply in by fw2", "veth3", udp(outside, inside, 53, 5), "fw2 default")
			p.counts(1, 0)
			for _, name := range []string{"fw1", "fw2", "f", "g"} {
				l.Set("DELETE", name, "")
			}
		}
	})
}

func TestSharedSessionsOutliveTheDaemon(t *testing.T) {
	bpftest.Each(t, fourHosts, func(t *testing.T, l *bpftest.Lab) {
		p := newPaths(t, l, "shared:up", "shared:up")
		p.open(1000)
		l.Restart(nil)
		p.expect("in by fw2", "veth3", tcp(outside, inside, 80, 1000, pkt.TCPFlags{ACK: true, Seq: 2, Ack: 1001}), "")
		p.open(1001)
		p.counts(2, 2)
	})
}

func TestSharedSessionsStayWhileACubeHasThem(t *testing.T) {
	bpftest.Each(t, fourHosts, func(t *testing.T, l *bpftest.Lab) {
		p := newPaths(t, l, "shared:up", "shared:up")
		p.open(1000)
		l.Set("PATCH", "fw1", `{"session-zone":"own"}`)
		p.counts(0, 1)
		l.Set("PATCH", "fw1", `{"session-zone":"shared:up"}`)
		p.counts(1, 1)
		l.Set("DELETE", "fw1", "")
		p.expect("in by fw2", "veth3", tcp(outside, inside, 80, 1000, pkt.TCPFlags{ACK: true, Seq: 2, Ack: 1001}), "")
		l.Set("DELETE", "fw2", "")
		l.Create("firewall", "fw1", `{"session-zone":"shared:up"}`)
		p.counts(0)
	})
}

func TestTheLongestTimeoutOfThoseThatShareApplies(t *testing.T) {
	bpftest.Each(t, fourHosts, func(t *testing.T, l *bpftest.Lab) {
		p := newPaths(t, l, "shared:up", "shared:up")
		l.Set("PATCH", "fw1", `{"timeout":{"udp-stream":1},"max-sessions":1024}`)
		netns.Eventually(t, bpftest.Patience, func() error {
			if logs := l.Logs(); !strings.Contains(logs, "different settings") {
				return fmt.Errorf("nothing says that the settings differ:\n%s", logs)
			}
			return nil
		})
		p.expect("UDP out by fw1", "veth2", udp(inside, outside, 5, 53), "")
		p.expect("its reply in by fw2", "veth3", udp(outside, inside, 53, 5), "")
		var eta int
		if err := json.Unmarshal([]byte(l.Read("fw1 session-table 10.0.0.1 192.0.2.1 UDP 5 53 eta")), &eta); err != nil || eta < 60 {
			t.Errorf("it is removed in %d seconds, %v, want the 180 of fw2", eta, err)
		}
		l.Restart(nil)
		p.counts(1, 1)
		l.Set("PATCH", "fw2", `{"timeout":{"udp-stream":1}}`)
		netns.Eventually(t, bpftest.Patience, func() error {
			if n := len(slices.Collect(l.Entries("fw2 session-table"))); n != 0 {
				return fmt.Errorf("%d sessions have not expired", n)
			}
			return nil
		})
	})
}

func TestEachFirewallTellsOfSharedSessions(t *testing.T) {
	bpftest.Each(t, fourHosts, func(t *testing.T, l *bpftest.Lab) {
		p := newPaths(t, l, "shared:up", "shared:up")
		l.Set("PATCH", "fw1", `{"session-events":"ON","accounting":"ON"}`)
		l.Set("PATCH", "fw2", `{"session-events":"ON","accounting":"ON"}`)
		p.expect("UDP out by fw1", "veth2", udp(inside, outside, 5, 53), "")
		p.expect("its reply in by fw2", "veth3", udp(outside, inside, 53, 5), "")
		l.Set("PATCH", "fw1", `{"accounting":"OFF"}`)
		p.expect("fw2 counts this", "veth3", udp(outside, inside, 53, 5), "")
		if got := l.Read("fw2 session-table 10.0.0.1 192.0.2.1 UDP 5 53"); !strings.Contains(got, `"packets-original":1,`) || !strings.Contains(got, `"packets-reply":2,`) {
			t.Errorf("counts: %s", got)
		}
		l.Action("fw1 delete-sessions", "")
		const dns = "UDP 10.0.0.1:5 > 192.0.2.1:53 "
		want := []string{"fw1: destroyed " + dns + "ESTABLISHED", "fw1: new " + dns + "NEW", "fw2: destroyed " + dns + "ESTABLISHED", "fw2: updated " + dns + "ESTABLISHED"}
		netns.Eventually(t, bpftest.Patience, func() error {
			if got := slices.Sorted(slices.Values(l.Events("session"))); !slices.Equal(got, want) {
				return fmt.Errorf("events %q, want %q", got, want)
			}
			return nil
		})
	})
}

// TestAPacketPassesTwoFirewallsOfAZone: the second one sees it as sent again, and by its own rules while it is new.
func TestAPacketPassesTwoFirewallsOfAZone(t *testing.T) {
	bpftest.Each(t, hosts, func(t *testing.T, l *bpftest.Lab) {
		g := guard(t, l, `{"session-zone":"shared:up","accounting":"ON","chain":[{"name":"INGRESS","default":"DROP"}]}`)
		l.Create("firewall", "fw2", `{"session-zone":"shared:up","accounting":"ON","chain":[{"name":"EGRESS","default":"DROP"}]}`)
		l.Attach("fw2", "f:p2")
		g.out("a SYN", tcp(inside, outside, 1000, 80, pkt.TCPFlags{SYN: true, Seq: 1000}), "")
		g.in("the answer", tcp(outside, inside, 80, 1000, pkt.TCPFlags{SYN: true, ACK: true, Seq: 1, Ack: 1001}), "")
		g.out("the third", tcp(inside, outside, 1000, 80, pkt.TCPFlags{ACK: true, Seq: 1001, Ack: 2}), "")
		g.in("data", tcp(outside, inside, 80, 1000, pkt.TCPFlags{ACK: true, PSH: true, Seq: 2, Ack: 1001}), "")
		if got := l.Read("fw2 session-table 10.0.0.1 192.0.2.1 TCP 1000 80"); !strings.Contains(got, `"ESTABLISHED"`) ||
			!strings.Contains(got, `"packets-original":4,`) || !strings.Contains(got, `"packets-reply":4,`) {
			t.Errorf("the session is %s, want four packets each", got)
		}
		g.Set("POST", "fw chain INGRESS rule 0", `{"l4proto":"UDP","action":"ACCEPT"}`)
		for range 2 {
			if got := l.Run("veth1", udp(outside, inside, 9, 9)); got.Fate != "fw2 default" {
				t.Errorf("a new one that the second drops: %+v", got)
			}
		}
	})
}

// TestNamesGetZonesOfTheirOwn: two names whose search for a number begins at the same one.
func TestNamesGetZonesOfTheirOwn(t *testing.T) {
	first := map[uint32]string{}
	var names [2]string
	for i := 0; names[0] == ""; i++ {
		name := fmt.Sprintf("n%d", i)
		h := fnv.New32a()
		_, _ = h.Write([]byte(name))
		if at := h.Sum32() % (1<<16 - 1024); first[at] != "" {
			names = [2]string{first[at], name}
		} else {
			first[at] = name
		}
	}
	bpftest.Each(t, fourHosts, func(t *testing.T, l *bpftest.Lab) {
		p := newPaths(t, l, "shared:"+names[0], "shared:"+names[1])
		p.session(t)
		l.Restart(nil)
		p.counts(1, 0)
		l.Set("PATCH", "fw2", fmt.Sprintf(`{"session-zone":"shared:%s"}`, names[0]))
		p.counts(1, 1)
		l.Set("PATCH", "fw1", fmt.Sprintf(`{"session-zone":"shared:%s"}`, names[1]))
		p.counts(0, 1)
	})
}

// session opens a UDP session of fw1.
func (p *paths) session(t *testing.T) {
	t.Helper()
	p.expect("UDP out by fw1", "veth2", udp(inside, outside, 5, 53), "")
	p.expect("its reply", "veth1", udp(outside, inside, 53, 5), "")
}

func TestZonesHaveNames(t *testing.T) {
	l := bpftest.New(t, hosts)
	for _, bad := range []string{"", "shared", "shared:", "shared:a/b", "other", "shared:" + strings.Repeat("x", 33)} {
		if err := l.TryCreate("firewall", "fw", fmt.Sprintf(`{"session-zone":%q}`, bad)); err == nil || !strings.Contains(err.Error(), "shared:NAME") {
			t.Errorf("%q: %v", bad, err)
		}
	}
}
