// SPDX-License-Identifier: Apache-2.0

package iptables_test

// What else is known of sessions: packets and bytes, and events.

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/polycube/polycube/test/bpftest"
	"github.com/polycube/polycube/test/netns"
	"github.com/polycube/polycube/test/pkt"
)

// out sends a frame in the other direction, which passes.
func (o *ours) out(t *testing.T, name string, ip []byte) {
	t.Helper()
	h := o.Hosts[1]
	want := bpftest.Outcome{Verdict: "send", Sent: "f:p1"}
	if got := o.Run(h.Outer, pkt.Eth(h.MAC.String(), h.OuterMAC.String()).IP(ip).Bytes()); got != want {
		t.Errorf("%s: %+v, want %+v", name, got, want)
	}
}

// reply is a packet of udp the other way.
func reply(sport, dport uint16) []byte {
	h := pkt.IPv4Header{From: inside, To: outside, Protocol: pkt.ProtoUDP, TTL: 64}
	return h.Packet(pkt.UDPDatagram(inside, outside, sport, dport, make([]byte, 10)))
}

// TestPacketsOfSessionsAreCounted: as in Linux also those that rules drop.
func TestPacketsOfSessionsAreCounted(t *testing.T) {
	o := newOurs(t)
	const session = "ipt session-table 192.0.2.1 10.0.0.1 UDP 1 53"
	want := func(when, what string) {
		t.Helper()
		if got := o.Read(session); !strings.Contains(got, what) {
			t.Errorf("%s: %s, want %s", when, got, what)
		}
	}
	o.in(t, "before", udp(1, 53), "")
	o.out(t, "its reply", reply(53, 1))
	if got := o.Read(session); strings.Contains(got, "packets") {
		t.Errorf("nothing is to be counted: %s", got)
	}
	o.Set("PATCH", "ipt", `{"accounting":"ON"}`)
	want("none since then", `"packets-original":0,"bytes-original":0,"packets-reply":0,"bytes-reply":0`)
	o.in(t, "the first", udp(1, 53), "")
	o.out(t, "its reply", reply(53, 1))
	o.in(t, "the second", udp(1, 53), "")
	counted := `"packets-original":2,"bytes-original":116,"packets-reply":1,"bytes-reply":38`
	want("counted", counted)
	o.in(t, "a session of its own", udp(2, 53), "")
	if list := fmt.Sprintf("%s", slices.Collect(o.Entries("ipt session-table"))); !strings.Contains(list, `"packets-original":1,"bytes-original":58,`) {
		t.Errorf("the list lacks a new session: %s", list)
	}
	o.restore(t, []string{"a"}, "INPUT -p udp -m udp --dport 53 -j DROP")
	o.in(t, "a packet of the session that is dropped", udp(1, 53), "rule")
	o.in(t, "a new one that is dropped", udp(3, 53), "rule")
	if list := fmt.Sprintf("%s", slices.Collect(o.Entries("ipt session-table"))); !strings.Contains(list, `"packets-original":3,`) || strings.Contains(list, `"sport":3,`) {
		t.Errorf("the list: %s", list)
	}
	o.Restart(func() {})
	o.out(t, "a reply after a restart", reply(53, 1))
	want("after a restart", `"packets-original":3,"bytes-original":174,"packets-reply":2,"bytes-reply":76`)
	o.Set("PATCH", "ipt", `{"accounting":"OFF"}`)
	if got := o.Read(session); strings.Contains(got, "packets") {
		t.Errorf("switched off: %s", got)
	}
}

func TestSessionsAreEvents(t *testing.T) {
	o := newOurs(t)
	o.in(t, "without events", udp(9, 53), "")
	o.Set("PATCH", "ipt", `{"session-events":"ON"}`)
	o.restore(t, []string{"a"}, "INPUT -p udp -m udp --dport 54 -j DROP", "INPUT -p udp -m udp --dport 53 -j LOG")
	o.in(t, "a new one", udp(1, 53), "")
	o.out(t, "its reply", reply(53, 1))
	o.in(t, "another packet", udp(1, 53), "")
	o.in(t, "one that is dropped", udp(1, 54), "rule")
	if got := o.Action("ipt delete-sessions", `{"sport":1}`); got != `{"deleted":1}` {
		t.Errorf("deleted: %s", got)
	}
	const dns = "UDP 192.0.2.1:1 > 10.0.0.1:53 "
	want := []string{"ipt: destroyed " + dns + "ESTABLISHED", "ipt: new " + dns + "NEW", "ipt: updated " + dns + "ESTABLISHED"}
	netns.Eventually(t, bpftest.Patience, func() error {
		if got := slices.Sorted(slices.Values(o.Events("session"))); !slices.Equal(got, want) {
			return fmt.Errorf("events %q, want %q", got, want)
		}
		return nil
	})
	if logs := o.Logs(); !strings.Contains(logs, "PROTO=UDP SPT=1 DPT=53") {
		t.Errorf("the reports of rules are lost:\n%s", logs)
	}
	o.Set("PATCH", "ipt", `{"session-events":"OFF"}`)
	o.in(t, "switched off", udp(5, 53), "")
	if got := o.Events("session"); len(got) != 3 {
		t.Errorf("events after they were switched off: %q", got)
	}
}
