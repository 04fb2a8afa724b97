// SPDX-License-Identifier: Apache-2.0

package firewall_test

import (
	"strconv"
	"strings"
	"testing"

	"github.com/polycube/polycube/test/bpftest"
)

// descriptions are those of the rules of a chain, in order.
func (g *guarded) descriptions(chain string) string {
	g.t.Helper()
	var out []string
	for raw := range g.Entries("fw chain " + chain + " rule") {
		_, text, _ := strings.Cut(string(raw), `"description":"`)
		text, _, _ = strings.Cut(text, `"`)
		out = append(out, text)
	}
	return strings.Join(out, " ")
}

func (g *guarded) has(chain, want string) {
	g.t.Helper()
	if got := g.descriptions(chain); got != want {
		g.t.Errorf("chain %s has %q, want %q", chain, got, want)
	}
}

func port(n int, more string) string {
	return `"l4proto":"UDP","dport":` + strconv.Itoa(n) + `,"action":"ACCEPT"` + more
}

func TestActionsChangeRules(t *testing.T) {
	g := guard(t, bpftest.New(t, hosts), "")
	for _, c := range []struct{ action, input, output, after string }{
		{"append", `{` + port(1, `,"description":"a"`) + `}`, `{"id":0}`, "a"},
		{"append", `{` + port(2, `,"description":"b"`) + `}`, `{"id":1}`, "a b"},
		{"insert", `{` + port(3, `,"description":"c"`) + `}`, `{"id":0}`, "c a b"},
		{"insert", `{"id":2,` + port(4, `,"description":"d"`) + `}`, `{"id":2}`, "c a d b"},
		{"delete", `{` + port(1, "") + `}`, "", "c d b"},
		{"delete", `{` + port(4, `,"description":"d"`) + `}`, "", "c b"},
		{"batch", `{"rules":[{"operation":"APPEND",` + port(5, `,"description":"e"`) + `},{"operation":"DELETE","id":0},
			{"operation":"INSERT","id":1,` + port(6, `,"description":"f"`) + `},{"operation":"UPDATE","id":0,` + port(7, `,"description":"g"`) + `},
			{"operation":"DELETE",` + port(5, "") + `},{"operation":"INSERT",` + port(8, `,"description":"h"`) + `}]}`, "", "h g f"},
	} {
		if got := g.Action("fw chain EGRESS "+c.action, c.input); got != c.output {
			t.Errorf("%s %s: answer %s, want %s", c.action, c.input, got, c.output)
		}
		g.has("EGRESS", c.after)
	}
	for _, c := range []struct{ action, input, says string }{
		{"insert", `{"id":4,` + port(1, "") + `}`, "id 4: the chain has 3 rules"},
		{"delete", `{` + port(99, "") + `}`, "no rule with exactly these members"},
		{"delete", `{` + port(8, `,"src":"10.0.0.0/8"`) + `}`, "no rule with exactly these members"},
		{"append", `{"dport":7}`, "action"},
		{"append", `{"src":"10.0.0.1","dst":"::1","action":"DROP"}`, "another IP version"},
		{"append", `{"l4proto":"UDP","tcpflags":"SYN","action":"DROP"}`, "l4proto is UDP"},
		{"append", `{"limit":"5/second","action":"DROP"}`, "only ACCEPT has a limit"},
		{"append", `{"limit":"0/second","action":"ACCEPT"}`, "not 0"},
		{"append", `{"limit-burst":3,"action":"ACCEPT"}`, "need a limit"},
		{"append", `{"reject-with":"tcp-reset","action":"REJECT"}`, "needs l4proto TCP"},
		{"append", `{"conntrack":"NEW,OLD","action":"DROP"}`, "conntrack"},
		{"batch", `{"rules":[{"operation":"DELETE","id":0},{"operation":"DELETE","id":7},{"operation":"APPEND"},{"operation":"UPDATE",` + port(1, "") + `}]}`,
			"rules[1], rules[2], rules[3]"},
		{"batch", `{"rules":[{"operation":"DELETE","id":0},{"operation":"APPEND","src":"1.2.3.4","icmpv6_type":1,"action":"DROP"}]}`, "chain EGRESS: rule 2"},
	} {
		if _, err := g.TryAction("fw chain EGRESS "+c.action, c.input); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s %s: error %v, want one with %q", c.action, c.input, err, c.says)
		}
		g.has("EGRESS", "h g f")
	}
}

func TestCountersFollowTheirRules(t *testing.T) {
	g := guard(t, bpftest.New(t, hosts), "")
	send := func(n int, times int) {
		for i := range times {
			g.in("", udp(outside, inside, uint16(1000*n+i), uint16(n)), "")
		}
	}
	g.Action("fw chain INGRESS append", `{`+port(1, "")+`}`)
	g.Action("fw chain INGRESS append", `{`+port(2, "")+`}`)
	send(1, 1)
	send(2, 2)
	g.Action("fw chain INGRESS insert", `{`+port(3, "")+`}`)
	send(3, 3)
	g.counted("INGRESS", "3 216", "1 72", "2 144", "0 0")
	for range 50 { // at one place, until other rules must move
		g.Action("fw chain INGRESS insert", `{"id":1,`+port(4, "")+`}`)
	}
	got := g.stats("INGRESS")
	if got[0] != "3 216" || got[51] != "1 72" || got[52] != "2 144" {
		t.Errorf("after many insertions: %q", got)
	}
	g.Restart(nil)
	send(1, 1)
	got = g.stats("INGRESS")
	if got[0] != "3 216" || got[51] != "2 144" || got[52] != "2 144" {
		t.Errorf("after a restart: %q", got)
	}
	g.Set("DELETE", "fw chain INGRESS rule", "")
	g.counted("INGRESS", "0 0")
}
