// SPDX-License-Identifier: Apache-2.0

package offload

import (
	"strings"
	"testing"
	"time"

	"github.com/polycube/polycube/classifier"
	"github.com/polycube/polycube/iptables/language"
)

// tablesOf reads tables.
func tablesOf(t *testing.T, text string) []Table {
	t.Helper()
	tables, err := Read(language.IPv4, strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	return tables
}

const filterOnly = "*filter\n:INPUT ACCEPT [0:0]\n:FORWARD DROP [0:0]\n-A FORWARD -p tcp -j ACCEPT\nCOMMIT\n"

func TestWhatElseOfTheHostActsOnPackets(t *testing.T) {
	table := func(name, chain, rule string) string {
		return "*" + name + "\n:" + chain + " ACCEPT [0:0]\n" + rule + "COMMIT\n" + filterOnly
	}
	for what, tt := range map[string]struct {
		change        func(*Host)
		drop, accept  bool // at FORWARD
		input, tracks bool
	}{
		"nothing":                               {func(*Host) {}, true, true, true, false},
		"no netdev":                             {func(h *Host) { h.Elsewhere = "x" }, false, false, false, false},
		"unread rules":                          {func(h *Host) { h.Unread = "x" }, false, false, false, false},
		"XDP, no output":                        {func(h *Host) { h.AtXDP = true }, true, false, true, false},
		"XDP, an output":                        {func(h *Host) { h.AtXDP, h.Outputs = true, true }, true, true, true, false},
		"XDP, past a qdisc":                     {func(h *Host) { h.AtXDP, h.Outputs, h.Skipped = true, true, []string{"x"} }, true, false, true, false},
		"rp_filter":                             {func(h *Host) { h.ReversePath = 2 }, true, false, true, false},
		"no forwarding":                         {func(h *Host) { h.Forwards = false }, true, false, true, false},
		"xfrm":                                  {func(h *Host) { h.Policies = 1 }, true, false, true, false},
		"a filter of others":                    {func(h *Host) { h.Filters = []string{"x"} }, false, false, false, false},
		"connections":                           {func(h *Host) { h.Connections = 1 }, true, false, true, true},
		"no lookup of them":                     {func(h *Host) { h.Connections, h.Lookup = 1, false }, false, false, false, true},
		"connections whose entries can be kept": {func(h *Host) { h.Connections, h.UDPTimeout = 1, time.Minute }, true, true, true, true},
		"connections that are counted":          {func(h *Host) { h.Connections, h.UDPTimeout, h.Accounting = 1, time.Minute, true }, true, false, true, true},
		"an empty table":                        {func(h *Host) { h.Legacy = tablesOf(t, table("mangle", "PREROUTING", "")) }, true, true, true, false},
		"raw": {func(h *Host) {
			h.Legacy = tablesOf(t, table("raw", "PREROUTING", "-A PREROUTING -s 1.1.1.1 -j DROP\n"))
		}, false, false, false, false},
		"mangle INPUT":          {func(h *Host) { h.Legacy = tablesOf(t, table("mangle", "INPUT", "-A INPUT -s 1.1.1.1\n")) }, true, true, false, false},
		"mangle POSTROUTING":    {func(h *Host) { h.Legacy = tablesOf(t, table("mangle", "POSTROUTING", "-A POSTROUTING -s 1.1.1.1\n")) }, true, false, true, false},
		"mangle FORWARD":        {func(h *Host) { h.Legacy = tablesOf(t, table("mangle", "FORWARD", "-A FORWARD -s 1.1.1.1\n")) }, false, false, true, false},
		"nat, empty":            {func(h *Host) { h.Legacy = tablesOf(t, table("nat", "PREROUTING", "")) }, true, false, true, true},
		"nat PREROUTING":        {func(h *Host) { h.Legacy = tablesOf(t, table("nat", "PREROUTING", "-A PREROUTING -p tcp\n")) }, false, false, false, true},
		"two firewalls":         {func(h *Host) { h.Compat = tablesOf(t, filterOnly) }, false, false, false, false},
		"nftables, prerouting":  {func(h *Host) { h.Others = []Hooked{{Hook: "prerouting", Kind: "filter", Effective: true}} }, false, false, false, false},
		"nftables, without":     {func(h *Host) { h.Others = []Hooked{{Hook: "prerouting", Kind: "filter"}} }, true, true, true, false},
		"nftables, forward":     {func(h *Host) { h.Others = []Hooked{{Hook: "forward", Kind: "filter", Effective: true}} }, false, false, true, false},
		"nftables, behind":      {func(h *Host) { h.Others = []Hooked{{Hook: "forward", Kind: "filter", Effective: true, Priority: 5}} }, true, false, true, false},
		"nftables, postrouting": {func(h *Host) { h.Others = []Hooked{{Hook: "postrouting", Kind: "filter", Effective: true}} }, true, false, true, false},
		"nftables, nat":         {func(h *Host) { h.Others = []Hooked{{Hook: "postrouting", Kind: "nat"}} }, true, false, true, true},
		"nftables, ct behind":   {func(h *Host) { h.Others = []Hooked{{Hook: "input", Priority: 5, Effective: true, Tracks: true}} }, true, false, true, true},
		"nftables, a helper": {func(h *Host) {
			h.Others = []Hooked{{Hook: "input", Priority: 5, Effective: true, Tracks: true, Alters: true}}
		}, false, false, false, true},
		"security behind":    {func(h *Host) { h.Legacy = tablesOf(t, table("security", "FORWARD", "-A FORWARD -s 1.1.1.1\n")) }, true, false, true, false},
		"an unreadable rule": {func(h *Host) { h.Legacy = tablesOf(t, strings.Replace(filterOnly, "-p tcp", "-m x --y", 1)) }, true, false, true, true},
		"a rule with a state": {func(h *Host) {
			h.Legacy = tablesOf(t, strings.Replace(filterOnly, "-p tcp", "-m state --state NEW", 1))
		}, true, false, true, true},
	} {
		h := &Host{Family: language.IPv4, Netdev: "eth0", Netdevs: netdevs, Legacy: tablesOf(t, filterOnly), Forwards: true, Lookup: true}
		tt.change(h)
		bases, s, tracks, checks := h.Judge()
		if len(bases[Forward]) != 1 || len(bases[Input]) != 1 {
			t.Fatalf("%s: the chains are %v", what, bases)
		}
		if drop, accept, input := s.NoDrop[Forward] == "", s.NoAccept[Forward] == "", s.NoDrop[Input] == ""; drop != tt.drop || accept != tt.accept || input != tt.input {
			t.Errorf("%s: FORWARD drops %t, accepts %t, INPUT drops %t; want %t, %t, %t: %v", what, drop, accept, input, tt.drop, tt.accept, tt.input, checks)
		}
		if tracks != tt.tracks {
			t.Errorf("%s: tracks connections: %t", what, tracks)
		}
		if only := tt.tracks && h.KeepsEntries(); s.OnlyEstablished != only {
			t.Errorf("%s: only packets of established connections are accepted: %t, want %t", what, s.OnlyEstablished, only)
		}
		if s.NoAccept[Input] == "" {
			t.Errorf("%s: packets for the host would be accepted without it", what)
		}
	}
}

func TestNoFirewallIsNothingToDo(t *testing.T) {
	h := &Host{Family: language.IPv4, Netdev: "eth0", Forwards: true}
	bases, s, _, _ := h.Judge()
	if p := Compile(s, Forward, bases[Forward]); p.First != 0 || len(p.Entries) != 0 || p.Policy != Miss {
		t.Errorf("got %+v", p)
	}
}

// TestABarrierHasNoConditionsBehindAStatefulOne: -m limit counts the packets to other ports, too.
func TestABarrierHasNoConditionsBehindAStatefulOne(t *testing.T) {
	for rule, want := range map[string]string{
		"-p tcp -m limit --limit 1/sec -m tcp --dport 22": "-p tcp",
		"-p tcp -m tcp --dport 22 -m limit --limit 1/sec": "-p tcp -m tcp --dport 22",
	} {
		entry := func(rule string) classifier.Match {
			t.Helper()
			tables := tablesOf(t, "*filter\n:FORWARD ACCEPT [0:0]\n-A FORWARD "+rule+" -j DROP\nCOMMIT\n")
			p := Compile(&Setting{In: "eth0", Netdevs: netdevs}, Forward, BasesOf(&tables[0], Forward))
			if len(p.Entries) != 1 {
				t.Fatalf("%s: %d entries", rule, len(p.Entries))
			}
			return p.Entries[0].Match
		}
		if entry(rule) != entry(want) {
			t.Errorf("%s is no barrier for %s", rule, want)
		}
	}
}

func TestTheReportSaysWhy(t *testing.T) {
	tables := tablesOf(t, `*filter
:INPUT ACCEPT [0:0]
:FORWARD ACCEPT [0:0]
:a - [0:0]
:b - [0:0]
-A FORWARD -p tcp -m tcp --dport 80 -j DROP
-A FORWARD -p tcp -m tcp --dport 80 -m tcp --dport 81 -j DROP
-A FORWARD -i eth1 -j ACCEPT
-A FORWARD -j a
-A FORWARD -j LOG
-A FORWARD -j b
-A a -s 10.0.0.1/32 -m recent --name x --rcheck -j RETURN
-A b -j DROP
COMMIT
`)
	p := Compile(&Setting{In: "eth0", Netdevs: netdevs, NoAccept: map[string]string{Forward: "why not"}}, Forward, BasesOf(&tables[0], Forward))
	var got []string
	for _, l := range p.Lines {
		got = append(got, strings.TrimSpace(strings.Join([]string{l.Chain, string(l.Offloaded), l.Reason}, " ")))
	}
	const want = `FORWARD YES
FORWARD NO the fast path cannot evaluate a second -m tcp
FORWARD YES no packet of this netdev and hook can match it
FORWARD PARTLY packets that rule 2 may match are left to the stack
FORWARD NO only the stack can apply target LOG
FORWARD NO rule 5 may match any packet, and only the stack can tell
FORWARD NO why not
a NO the match "recent" is not supported: consider -m set with -j SET --add-set
b NO no offloaded rule leads to the chain`
	if text := strings.Join(got, "\n"); text != want {
		t.Errorf("got\n%s\nwant\n%s", text, want)
	}
}

// TestRulesAboutTheStateOfConnections: what is said about them, and about others, if only packets of established ones are accepted.
func TestRulesAboutTheStateOfConnections(t *testing.T) {
	tables := tablesOf(t, `*filter
:FORWARD ACCEPT [0:0]
-A FORWARD -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT
-A FORWARD -p tcp -m tcp --dport 23 -j DROP
-A FORWARD -p udp -j ACCEPT
COMMIT
`)
	p := Compile(&Setting{In: "eth0", Netdevs: netdevs, OnlyEstablished: true}, Forward, BasesOf(&tables[0], Forward))
	var got []string
	for _, l := range p.Lines {
		got = append(got, strings.TrimSpace(strings.Join([]string{string(l.Offloaded), l.Reason}, " ")))
	}
	const want = `PARTLY only for packets whose state is known: those that open a connection, and those of established UDP connections
PARTLY packets that rule 1 may match are left to the stack
PARTLY packets that rule 1 may match are left to the stack
PARTLY packets that rule 1 may match are left to the stack`
	if text := strings.Join(got, "\n"); text != want {
		t.Errorf("got\n%s\nwant\n%s", text, want)
	}
	tables[0].Chains[0].Rules = tables[0].Chains[0].Rules[1:]
	p = Compile(&Setting{In: "eth0", Netdevs: netdevs, OnlyEstablished: true}, Forward, BasesOf(&tables[0], Forward))
	for i, want := range []Answer{Yes, Partly, Partly} {
		if l := p.Lines[i]; l.Offloaded != want || want == Partly && l.Reason != onlyEstablished {
			t.Errorf("%s: %s %s, want %s", l.Text, l.Offloaded, l.Reason, want)
		}
	}
}
