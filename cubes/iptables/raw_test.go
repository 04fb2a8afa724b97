// SPDX-License-Identifier: Apache-2.0

package iptables_test

import (
	"strings"
	"testing"
)

// save returns the rules of a table with their counters.
func (o *ours) save(t *testing.T, table string) string {
	t.Helper()
	return o.do(t, "", "iptables-save", "-c", "-t", table)
}

// saved checks lines of a table, in their order.
func (o *ours) saved(t *testing.T, table string, lines ...string) {
	t.Helper()
	rest := o.save(t, table)
	for _, line := range lines {
		_, after, found := strings.Cut(rest, line+"\n")
		if !found {
			t.Errorf("the table %s lacks %s, or has it elsewhere:\n%s", table, line, o.save(t, table))
			return
		}
		rest = after
	}
}

func TestTheTableRawIsInFront(t *testing.T) {
	o := newOurs(t)
	ipt := func(args string) { o.do(t, "", "iptables", strings.Fields(args)...) }
	ipt("-t raw -N quiet")
	ipt("-t raw -A PREROUTING -p udp --dport 5 -j quiet")
	ipt("-t raw -A PREROUTING -p udp --dport 6 -j DROP")
	ipt("-t raw -A quiet -j CT --notrack")
	ipt("-A INPUT -m conntrack --ctstate UNTRACKED -j ACCEPT")
	ipt("-A INPUT -m conntrack --ctstate NEW -j ACCEPT")
	ipt("-P INPUT DROP")
	sessions := func(want string) {
		t.Helper()
		if got := o.Read("ipt sessions half-open"); got != want {
			t.Errorf("%s sessions, want %s", got, want)
		}
	}
	o.in(t, "untracked", udp(1, 5), "")
	o.in(t, "once more", udp(1, 5), "")
	sessions("0")
	o.in(t, "dropped", udp(1, 6), "rule")
	o.in(t, "new", udp(1, 7), "")
	sessions("1")
	o.saved(t, "filter", "[2:116] -A INPUT -m conntrack --ctstate UNTRACKED -j ACCEPT", "[1:58] -A INPUT -m conntrack --ctstate NEW -j ACCEPT")
	o.saved(t, "raw", ":PREROUTING ACCEPT [3:174]", "[2:116] -A PREROUTING -p udp -m udp --dport 5 -j quiet",
		"[1:58] -A PREROUTING -p udp -m udp --dport 6 -j DROP", "[2:116] -A quiet -j CT --notrack")

	ipt("-t raw -P PREROUTING DROP")
	o.in(t, "the policy", udp(1, 8), "policy")
	ipt("-t raw -P PREROUTING ACCEPT")
	ipt("-t raw -F")
	ipt("-t raw -X quiet")
	o.in(t, "without rules", udp(1, 5), "")
	sessions("2")
	if got := o.save(t, "raw"); strings.Contains(got, "-A") || strings.Contains(got, "quiet") {
		t.Errorf("the empty table is\n%s", got)
	}
}

func TestRulesOfTheTableRawKeepTheirCounters(t *testing.T) {
	o := newOurs(t)
	ipt := func(args string) { o.do(t, "", "iptables", strings.Fields(args)...) }
	ipt("-t raw -A PREROUTING -p udp --dport 5")
	ipt("-t raw -A PREROUTING -p udp --dport 6")
	ipt("-t raw -A PREROUTING -p udp --dport 7")
	for dport := range uint16(3) {
		for range dport + 1 {
			o.in(t, "counted", udp(1, 5+dport), "")
		}
	}
	five, six, seven := "[1:58] -A PREROUTING -p udp -m udp --dport 5", "[2:116] -A PREROUTING -p udp -m udp --dport 6",
		"[3:174] -A PREROUTING -p udp -m udp --dport 7"
	none := "[0:0] -A PREROUTING -p tcp"
	o.saved(t, "raw", five, six, seven)
	ipt("-t raw -I PREROUTING 2 -p tcp")
	o.saved(t, "raw", five, none, six, seven)
	o.Restart(func() {})
	o.saved(t, "raw", five, none, six, seven)
	ipt("-t raw -D PREROUTING 1")
	o.saved(t, "raw", none, six, seven)
	o.Restart(func() {})
	o.saved(t, "raw", none, six, seven)
	o.in(t, "after the restart", udp(1, 6), "")
	six = "[3:174] -A PREROUTING -p udp -m udp --dport 6"
	o.saved(t, "raw", none, six, seven)
	ipt("-t raw -Z PREROUTING 3")
	o.saved(t, "raw", none, six, "[0:0] -A PREROUTING -p udp -m udp --dport 7")
	o.do(t, "*raw\n:PREROUTING ACCEPT [5:6]\n[7:8] -A PREROUTING -p udp -m udp --dport 6\nCOMMIT\n", "iptables-restore", "-c")
	o.saved(t, "raw", ":PREROUTING ACCEPT [5:6]", "[7:8] -A PREROUTING -p udp -m udp --dport 6")
}
