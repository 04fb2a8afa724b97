// SPDX-License-Identifier: Apache-2.0

package commands

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/polycube/polycube/iptables/language"
)

// empty are views of chains with a rule each that an import must replace.
func empty(family language.Family, table string) (*View, error) {
	old := language.Rule{Family: family, Target: language.Verdict("DROP")}
	return NewView(family, table, []*Chain{
		NewChain("INPUT", "ACCEPT", Counts{}, []language.Rule{old}), NewChain("FORWARD", "ACCEPT", Counts{}, nil),
		NewChain("OUTPUT", "ACCEPT", Counts{}, nil),
	}), nil
}

// noLimit is a cube that cannot carry out -m limit.
func noLimit(r *language.Rule) error {
	for _, m := range r.Matches {
		if m.Name() == "limit" {
			return errors.New("no limits here")
		}
	}
	return nil
}

// inserted are the rules that an import inserts into a family.
func inserted(i Imported, family language.Family) (out []string) {
	for _, e := range i.Edits[family] {
		if e.Op == InsertRule {
			out = append(out, fmt.Sprintf("%s[%d:%d] %s", e.Chain, e.Counts.Packets, e.Counts.Bytes, e.Rule))
		}
		if e.Op == SetPolicy {
			out = append(out, e.Chain+" "+e.Name)
		}
	}
	return out
}

const partly = `*filter
:INPUT DROP [9:99]
:web - [0:0]
[3:30] -A INPUT -p tcp -j web
[1:10] -A INPUT -m limit --limit 1/sec -j ACCEPT
-A INPUT -j nowhere
-A web -j ACCEPT
COMMIT
`

func TestAnImportReportsWhatItLeavesOut(t *testing.T) {
	got, err := Views(empty).Import(noLimit, nil, partly)
	if err != nil {
		t.Fatal(err)
	}
	const report = `LINE  RULE                                              REASON                         WITHOUT IT
5     [1:10] -A INPUT -m limit --limit 1/sec -j ACCEPT  no limits here                 packets may be dropped
6     -A INPUT -j nowhere                               chain nowhere is not imported  packets may pass or be dropped
imported 2 of 4 rules; 2 left out
`
	if got.Output != report || got.Code != LeftOut {
		t.Errorf("status %d:\n%s\nwant\n%s", got.Code, got.Output, report)
	}
	if rules := strings.Join(inserted(got, language.IPv4), "; "); rules != "INPUT DROP; INPUT[0:0] -p tcp -j web; web[0:0] -j ACCEPT" {
		t.Errorf("got %s", rules)
	}
	if got.Edits[language.IPv6] != nil {
		t.Errorf("the chains of IPv6, of which the input says nothing, are changed: %v", got.Edits)
	}
}

func TestOptionsOfAnImport(t *testing.T) {
	all := func(*language.Rule) error { return nil }
	dry, err := Views(empty).Import(all, []string{"--dry-run", "--json"}, partly)
	if err != nil || len(dry.Edits) != 0 || dry.Code != LeftOut || !strings.Contains(dry.Output, `"dry-run": true`) ||
		!strings.Contains(dry.Output, `"line": 6`) {
		t.Errorf("--dry-run --json: %+v (%v)", dry, err)
	}
	counted, err := Views(empty).Import(all, []string{"-c"}, partly)
	if rules := strings.Join(inserted(counted, language.IPv4), "; "); err != nil || !strings.Contains(rules, "INPUT[0:0] -p tcp -j web") {
		t.Errorf("-c: %s (%v)", rules, err)
	}
	counters := map[int]Counts{}
	for _, e := range counted.Edits[language.IPv4] {
		if e.Op == SetCounts && e.Chain == "INPUT" {
			counters[e.At] = e.Counts
		}
	}
	if counters[0] != (Counts{3, 30}) || counters[1] != (Counts{1, 10}) || counters[-1] != (Counts{9, 99}) {
		t.Errorf("-c: counters %v", counters)
	}
	if six, err := Views(empty).Import(all, []string{"-6"}, partly); err != nil || six.Edits[language.IPv4] != nil || six.Edits[language.IPv6] == nil {
		t.Errorf("-6: %+v (%v)", six, err)
	}
	for _, bad := range [][]string{{"-4", "-6"}, {"--other"}, {"file"}} {
		if _, err := Views(empty).Import(all, bad, partly); !hasCode(err, badParameter) {
			t.Errorf("%v: %v", bad, err)
		}
	}
	if _, err := Views(empty).Import(all, []string{"-6"}, `{"nftables":[]}`); !hasCode(err, badParameter) {
		t.Errorf("-6 with JSON: %v", err)
	}
}

func hasCode(err error, code int) bool {
	var own *Error
	return errors.As(err, &own) && own.Code == code
}

// TestAMalformedImportChangesNothing: neither format is applied in part. A chain that leads to itself is refused, too.
func TestAMalformedImportChangesNothing(t *testing.T) {
	for _, input := range []string{
		"", "*filter\n:INPUT ACCEPT\n", partly + "*nat\n", `{"nftables":[{"rule":{}}]}`, `{"nftables":`,
		"*filter\n:a - [0:0]\n:b - [0:0]\n-A a -j b\n-A b -j a\nCOMMIT\n",
	} {
		got, err := Views(empty).Import(func(*language.Rule) error { return nil }, nil, input)
		var own *Error
		if !errors.As(err, &own) || got.Edits != nil || got.Output != "" {
			t.Errorf("%q: %+v (%v)", input, got, err)
		}
	}
}

// TestAReportNamesTheSetsThatRulesNeed: until there are cubes of their names, they match nothing.
func TestAReportNamesTheSetsThatRulesNeed(t *testing.T) {
	got, err := Views(empty).Import(noLimit, nil, "*filter\n:INPUT ACCEPT\n-A INPUT -m set --match-set bad src -j DROP\n"+
		"-A INPUT -m set ! --match-set bad dst -j DROP\nCOMMIT\n")
	const want = "rules match by these sets, which must be cubes ipset, with their addresses: bad\nimported 2 of 2 rules; 0 left out\n"
	if err != nil || got.Output != want || got.Code != 0 {
		t.Errorf("%d %q (%v), want %q", got.Code, got.Output, err, want)
	}
}

func TestAReportShowsNoControlCharacters(t *testing.T) {
	got, err := Views(empty).Import(noLimit, nil, "*filter\n:INPUT ACCEPT\n-A INPUT -m x\x1b]0;t\x07 -j \xc2\x9bDROP\nCOMMIT\n")
	if err != nil || strings.ContainsAny(got.Output, "\x1b\x07\u009b") || !strings.Contains(got.Output, "?]0;t?") {
		t.Errorf("%q (%v)", got.Output, err)
	}
}
