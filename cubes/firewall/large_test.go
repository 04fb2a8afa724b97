// SPDX-License-Identifier: Apache-2.0

package firewall_test

// Very many rules.

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/polycube/polycube/test/bpftest"
	"github.com/polycube/polycube/test/repeat"
	"github.com/polycube/polycube/test/rulesets"
)

// manyRules is the JSON of n rules of a shape.
func manyRules(shape string, n int) string {
	texts := make([]string, n)
	for i, r := range rulesets.Make(shape, n, 1) {
		one := ruling{Rule: r, action: "DROP"}
		texts[i] = fmt.Sprintf(`{"id":%d,%s`, i, one.api()[1:])
	}
	return "[" + strings.Join(texts, ",") + "]"
}

// TestTimedAnEditCostsLittleAmongManyRules prints the times; it asserts that an edit is much faster than a load.
func TestTimedAnEditCostsLittleAmongManyRules(t *testing.T) {
	g := guard(t, bpftest.New(t, hosts), "")
	const n, chain = 10000, "fw chain INGRESS"
	for _, shape := range []string{"fw", "acl"} {
		body := manyRules(shape, n)
		load, _ := repeat.Times(1, func(int) { g.Set("PUT", chain+" rule", body) })
		for what, edit := range map[string]func(i int){
			"insert at the front": func(i int) {
				g.Action(chain+" insert", fmt.Sprintf(`{"dst":"10.1.2.3","dport":%d,"action":"DROP"}`, 1+i))
			},
			"insert in the middle": func(i int) {
				g.Action(chain+" insert", fmt.Sprintf(`{"id":5000,"src":"10.0.0.0/9","sport":%d,"action":"DROP"}`, 1+i))
			},
			"append": func(i int) {
				g.Action(chain+" append", fmt.Sprintf(`{"dport":"1-%d","conntrack":"NEW","action":"DROP"}`, 60000+i))
			},
			"update": func(i int) {
				g.Set("PUT", fmt.Sprintf("%s rule %d", chain, 3000+i), fmt.Sprintf(`{"l4proto":"TCP","dport":%d,"action":"ACCEPT"}`, i))
			},
			"delete":                   func(i int) { g.Set("DELETE", fmt.Sprintf("%s rule %d", chain, 6000+i), "") },
			"delete the first of many": func(int) { g.Set("DELETE", chain+" rule 0", "") },
		} {
			took, longest := repeat.Times(9, edit)
			t.Logf("%s: %d rules are loaded in %v; %s: %v, at most %v", shape, n, load, what, took, longest)
			if took > load/4 {
				t.Errorf("%s: an edit (%s) takes %v, loading all rules %v", shape, what, took, load)
			}
		}
	}
}

// TestTimedManyRulesAreLoadedInProportion: ten times the rules take little more than ten times as long, and a batch of
// thousands of operations takes a few loads of the rules that it changes.
func TestTimedManyRulesAreLoadedInProportion(t *testing.T) {
	g := guard(t, bpftest.New(t, hosts), "")
	const chain = "fw chain EGRESS"
	took := map[int]time.Duration{}
	for _, n := range []int{10000, 100000} {
		body := manyRules("acl", n)
		took[n], _ = repeat.Times(1, func(int) { g.Set("PUT", chain+" rule", body) })
		t.Logf("%d rules are loaded in %v", n, took[n])
	}
	if took[100000] > 40*took[10000] {
		t.Errorf("100,000 rules take %v, and 10,000 %v", took[100000], took[10000])
	}
	g.Set("PUT", chain+" rule", manyRules("acl", 10000))
	operations := []string{`{"operation":"DELETE","id":77}`}
	for i := range 4000 {
		operations = append(operations, []string{
			fmt.Sprintf(`{"operation":"APPEND","src":"10.7.0.0/16","dport":%d,"l4proto":"TCP","action":"ACCEPT"}`, 1+i),
			fmt.Sprintf(`{"operation":"INSERT","id":%d,"dst":"10.8.0.0/16","sport":%d,"l4proto":"UDP","action":"DROP"}`, i, 1+i),
			fmt.Sprintf(`{"operation":"UPDATE","id":%d,"dst":"10.9.0.0/16","sport":%d,"l4proto":"UDP","action":"DROP"}`, 2*i, 1+i),
			fmt.Sprintf(`{"operation":"DELETE","id":%d}`, 2*i),
		}[i%4])
	}
	input := `{"rules":[` + strings.Join(operations, ",") + `]}`
	batch, _ := repeat.Times(1, func(int) { g.Action(chain+" batch", input) })
	t.Logf("a batch of %d operations among 10,000 rules takes %v", len(operations), batch)
	if batch > 6*took[10000] {
		t.Errorf("a batch of %d operations takes %v, loading 10,000 rules %v", len(operations), batch, took[10000])
	}
}

// TestTimedManyRulesAreDeletedByTheirMembers: a batch that deletes the last rules of a long chain takes less than a few
// loads of the chain. Comparing whole rules took ten.
func TestTimedManyRulesAreDeletedByTheirMembers(t *testing.T) {
	g := guard(t, bpftest.New(t, hosts), "")
	const n, chain = 10000, "fw chain EGRESS"
	rules, body := rulesets.Make("acl", n, 1), manyRules("acl", n)
	load, _ := repeat.Times(1, func(int) { g.Set("PUT", chain+" rule", body) })
	var operations []string
	for i := range 1000 {
		one := ruling{Rule: rules[n-1-i], action: "DROP"}
		operations = append(operations, `{"operation":"DELETE",`+one.api()[1:])
	}
	took, _ := repeat.Times(1, func(int) { g.Action(chain+" batch", `{"rules":[`+strings.Join(operations, ",")+`]}`) })
	t.Logf("1,000 of %d rules are deleted in %v, and all were loaded in %v", n, took, load)
	if got := len(g.counts(1)); got != n-1000+1 {
		t.Errorf("%d rules are left", got-1)
	}
	if took > 3*load {
		t.Errorf("1,000 rules are deleted in %v, loading %d takes %v", took, n, load)
	}
}
