// SPDX-License-Identifier: Apache-2.0

package commands

import (
	"fmt"
	"strings"
	"testing"

	"github.com/polycube/polycube/iptables/language"
)

// elsewhere are the tables of a cube that has all but nat.
func elsewhere(family language.Family, table string) (*View, error) {
	if table == NAT {
		return nil, &ElsewhereError{table}
	}
	return Parse(family, table, "", true)
}

// TestATableOfAnotherCube: the answer says of which table, whether it would change, and what there is to say if it has no rules.
func TestATableOfAnotherCube(t *testing.T) {
	for _, tt := range []struct {
		program, args string
		want          Answer
	}{
		{"iptables", "-t nat -A POSTROUTING -j MASQUERADE", Answer{Table: NAT, Changes: true}},
		{"ip6tables", "-t nat -N x", Answer{Table: NAT, Changes: true}},
		{"iptables", "-t nat -F", Answer{Table: NAT}},
		{"iptables", "-t nat -S POSTROUTING", Answer{Table: NAT, Output: "-P POSTROUTING ACCEPT\n"}},
		{"iptables", "-t nat -D POSTROUTING 1", Answer{Table: NAT, Code: otherProblem, Error: "Index of deletion too big."}},
		{"iptables", "-S FORWARD", Answer{Output: "-P FORWARD ACCEPT\n"}},
	} {
		r, _, err := Views(elsewhere).Run(tt.program, strings.Fields(tt.args), "")
		if got := r.Answer(); err != nil || got != tt.want {
			t.Errorf("%s %s: %+v, %v; want %+v", tt.program, tt.args, got, err, tt.want)
		}
	}
	save := func(args ...string) string {
		t.Helper()
		r, _, err := Views(elsewhere).Run("iptables-save", args, "")
		if err != nil {
			t.Fatal(err)
		}
		return fmt.Sprint(r.Answer())
	}
	if got := save(); strings.Contains(got, "*nat") || !strings.Contains(got, "*filter") {
		t.Errorf("iptables-save prints %s", got)
	}
	if got := save("-t", "nat"); !strings.Contains(got, "*nat") || !strings.Contains(got, " nat ") {
		t.Errorf("iptables-save -t nat prints %s", got)
	}
	r, _, err := Views(elsewhere).Run("iptables-restore", nil, "*nat\n-A POSTROUTING -j MASQUERADE\nCOMMIT\n*filter\n-A INPUT -j DROP\nCOMMIT\n")
	if err != nil || fmt.Sprint(len(r.Edits), r.Tables) != "2 map[]" {
		t.Errorf("iptables-restore: %+v, %v", r, err)
	}
}

// TestTargetsOfTheTableNAT: as -L prints them.
func TestTargetsOfTheTableNAT(t *testing.T) {
	for rule, want := range map[string]string{
		"POSTROUTING -p tcp -j SNAT --to-source 192.0.2.1-192.0.2.9:10-20 --random --persistent": "to:192.0.2.1-192.0.2.9:10-20 random persistent",
		"POSTROUTING -j SNAT --to-source 192.0.2.1 --random-fully":                               "to:192.0.2.1 random-fully",
		"POSTROUTING -p tcp -j MASQUERADE --to-ports 1000-2000 --random":                         "masq ports: 1000-2000 random",
		"POSTROUTING -j MASQUERADE":                      "",
		"PREROUTING -p tcp -j DNAT --to-destination :80": "to::80",
		"PREROUTING -p tcp -j REDIRECT --to-ports 8080":  "redir ports 8080",
	} {
		c, err := language.ReadCommand(language.IPv4, strings.Fields("-t nat -A "+rule))
		if err != nil {
			t.Fatal(err)
		}
		if got := listedTarget(c.Rules[0].Target, true); got != want {
			t.Errorf("%s: %q instead of %q", rule, got, want)
		}
	}
}

// TestCountersAfterEdits: each is set for the rule that is at its place after all of them.
func TestCountersAfterEdits(t *testing.T) {
	at := func(op Op, chain string, at int, packets uint64) Edit {
		return Edit{Table: NAT, Op: op, Chain: chain, At: at, Counts: Counts{Packets: packets}}
	}
	got := CountedBy([]Edit{
		at(InsertRule, "a", 0, 5), at(InsertRule, "a", 0, 0), at(InsertRule, "b", 0, 7), at(SetCounts, "a", -1, 0), at(SetCounts, "a", 2, 9),
		at(DeleteRule, "a", 1, 0), at(ReplaceRule, "b", 0, 8),
	})
	want := []Counted{{NAT, "b", 0, Counts{Packets: 7}}, {NAT, "a", -1, Counts{}}, {NAT, "a", 1, Counts{Packets: 9}}, {NAT, "b", 0, Counts{Packets: 8}}}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("%v, want %v", got, want)
	}
}
