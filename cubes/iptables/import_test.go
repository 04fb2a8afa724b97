// SPDX-License-Identifier: Apache-2.0

package iptables_test

// Random rules of nftables, as a Linux router prints them, imported: the cube must judge each packet as the router does.

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"os"
	"strings"
	"testing"

	"github.com/polycube/polycube/test/repeat"
	"github.com/polycube/polycube/test/rulesets"
)

func TestAnImportJudgesAsNftablesDoes(t *testing.T) {
	seed := repeat.Seed(t)
	theirs, o := newLinux(t), newOurs(t)
	rounds, passed, dropped := uint64(30), 0, 0
	if os.Getenv("POLYCUBE_SOAK") != "" {
		rounds = 500
	}
	for round := range rounds {
		g := &nftGenerator{Rand: rand.New(rand.NewPCG(seed+round, 6))}
		rules := g.ruleset()
		var printed string
		all, _ := theirs.compared(t, func() {
			if err := theirs.Forget(); err != nil {
				t.Fatal(err)
			}
			if err := theirs.Load("table inet imported; delete table inet imported; " + rules); err != nil {
				t.Fatalf("seed %d: %v\n%s", seed+round, err, rules)
			}
			printed = theirs.run(t, "", "nft", "-j", "list", "table", "inet", "imported")
		}, g.headers, seed+round, 250)
		o.Set("DELETE", "ipt session-table", "")
		report := o.imported(t, printed)
		if len(report.LeftOut) > 0 {
			t.Fatalf("seed %d: left out: %+v", seed+round, report.LeftOut)
		}
		p, d := o.judges(t, all, seed+round, func() string { return rules + o.do(t, "", "iptables-save") + o.do(t, "", "ip6tables-save") })
		passed, dropped = passed+p, dropped+d
	}
	t.Logf("%d packets pass, %d are dropped", passed, dropped)
	if passed < 1000 || dropped < 1000 {
		t.Error("these are too few")
	}
}

// importReport is what an import reports.
type importReport struct {
	Rules, Imported int
	LeftOut         []struct {
		Line, Handle int
		Where        string
		Rule, Reason string
		WithoutIt    string `json:"without-it"`
	} `json:"left-out"`
}

// imported imports rules.
func (o *ours) imported(t *testing.T, input string) (report importReport) {
	t.Helper()
	if err := json.Unmarshal([]byte(o.do(t, input, "iptables-import", "--json")), &report); err != nil {
		t.Fatal(err)
	}
	return report
}

// nftGenerator makes random rules of nftables that iptables can express.
type nftGenerator struct {
	*rand.Rand
	headers []rulesets.Rule
}

// ruleset is a table. What comes from the first host passes side0, which the cube has at its input, and what comes from the
// other side1, which it has at its output.
func (g *nftGenerator) ruleset() string {
	var b strings.Builder
	policy := g.pick("accept", "accept", "drop")
	b.WriteString("table inet imported {\n\tset nets { type ipv4_addr; flags interval; elements = { 1.0.0.0/8, 10.0.0.0-100.0.0.0, 192.0.2.1 }; }\n" +
		"\tset services { type inet_service; flags interval; elements = { 22, 80, 1000-30000 }; }\n")
	chains := []string{"side0", "side1", "u0", "u1"}
	for i := len(chains) - 1; i >= 0; i-- {
		fmt.Fprintf(&b, "\tchain %s {\n", chains[i])
		for range 1 + g.IntN(10) {
			fmt.Fprintf(&b, "\t\t%s\n", g.rule(chains[max(2, i+1):]))
		}
		b.WriteString("\t}\n")
	}
	for hook, body := range map[string]string{"forward": "iifname veth0 jump side0; iifname veth1 jump side1", "input": "jump side0", "output": "jump side1"} {
		fmt.Fprintf(&b, "\tchain %s { type filter hook %s priority 0; policy %s; %s; }\n", hook, hook, policy, body)
	}
	b.WriteString("}\n")
	return b.String()
}

func (g *nftGenerator) pick(all ...string) string { return all[g.IntN(len(all))] }

// rule is a rule. It may lead to some chains.
func (g *nftGenerator) rule(chains []string) string {
	var is rulesets.Rule
	for {
		is = rulesets.Make(g.pick("fw", "ipc", "wildcards", "acl6", "acl"), 1, g.Uint64())[0]
		if ofFamily(&is, false) || ofFamily(&is, true) {
			break
		}
	}
	g.headers = append(g.headers, is)
	(&generator{g.Rand}).widen(&is)
	six := is.Src.IsValid() && is.Src.Addr().Is6() || is.Dst.IsValid() && is.Dst.Addr().Is6() || is.ICMP != nil && is.ICMP.V6
	words := []string{g.address("saddr", is.Src), g.address("daddr", is.Dst)}
	switch {
	case is.ICMP != nil && six:
		words = append(words, fmt.Sprintf("icmpv6 type { %d, 200 }", is.ICMP.Type))
	case is.ICMP != nil:
		words = append(words, g.pick("icmp type %d", "icmp type != %d", "icmp type { %d, 200 }", "icmp type %d icmp code 0"))
		words[2] = fmt.Sprintf(words[2], is.ICMP.Type)
	default:
		words = append(words, g.transport(&is))
	}
	if g.IntN(3) == 0 {
		words = append(words, g.pick("ct state new", "ct state established,related", "ct state != established", "ct state { new, invalid }",
			"ct state != { established, new }", "meta mark 0", "meta mark & 0x3 == 1", "meta mark != 1", "meta nfproto ipv4", "meta pkttype host",
			"ip ttl > 10", "ip6 hoplimit > 10", "ip length 20-60", "ip saddr @nets", "ip daddr != @nets", "meta protocol ip"))
	}
	if w := words[len(words)-1]; strings.HasPrefix(w, "ip ") && six || strings.Contains(w, "ip6") && !six || strings.Contains(w, "ipv4") && six || w == "meta protocol ip" && six {
		words = words[:len(words)-1]
	}
	if strings.Contains(words[len(words)-1], "@nets") && strings.Contains(strings.Join(words[:2], " "), "{") {
		words = words[:len(words)-1] // one product of sets is enough
	}
	return strings.Join(append(words, g.end(chains)), " ")
}

// end is what the rule does.
func (g *nftGenerator) end(chains []string) string {
	all := []string{
		"accept", "accept", "drop", "drop", "counter accept", "reject", "return", "counter", "meta mark set 1", "meta mark set 2",
		`log prefix "x" drop`, "ct state vmap { established : accept, invalid : drop, new : continue }",
		"meta l4proto vmap { tcp : accept, udp : drop }", `accept comment "two words"`,
	}
	for _, c := range chains {
		all = append(all, "jump "+c, "jump "+c, "goto "+c, "ct state vmap { new : jump "+c+", established : goto "+c+" }")
	}
	return g.pick(all...)
}

// address is a condition of an address.
func (g *nftGenerator) address(field string, p netip.Prefix) string {
	if !p.IsValid() || p.Bits() == 0 {
		return ""
	}
	family, other := "ip", netip.MustParsePrefix("203.0.113.0/24")
	if p.Addr().Is6() {
		family, other = "ip6", netip.MustParsePrefix("2001:db8:ffff::/48")
	}
	p = p.Masked()
	if p.Overlaps(other) {
		return fmt.Sprintf("%s %s %s", family, field, p)
	}
	format := g.pick("%s %s %s", "%s %s %s", "%s %s != %s", "%s %s { %s, OTHER }", "%s %s != { %s, OTHER }")
	return strings.ReplaceAll(fmt.Sprintf(format, family, field, p), "OTHER", other.String())
}

// transport is a condition of the protocol and of ports.
func (g *nftGenerator) transport(r *rulesets.Rule) string {
	protocol := "tcp"
	if r.Protocol != nil && *r.Protocol == 17 {
		protocol = "udp"
	}
	before := ""
	if g.IntN(4) == 0 {
		before, protocol = "meta l4proto { tcp, udp } ", "th"
	}
	var words []string
	for field, p := range map[string]*rulesets.Ports{"sport": r.SrcPort, "dport": r.DstPort} {
		if p == nil || protocol == "th" && len(words) > 0 { // nft prints two of them as bytes
			continue
		}
		ports := fmt.Sprintf("%d-%d", p.First, p.Last)
		if p.First == p.Last {
			ports = fmt.Sprint(p.First)
		}
		form := g.pick("P F X", "P F X", "P F != X", "P F { X }", "P F >= X", "P F @services")
		if p.First == 0 && p.Last == 65535 || strings.Contains(form, ">=") && p.First != p.Last {
			form = "P F > 100"
		}
		words = append(words, strings.NewReplacer("P", protocol, "F", field, "X", ports).Replace(form))
	}
	if words == nil {
		return g.pick("", "meta l4proto tcp", "meta l4proto != udp", "meta l4proto { tcp, 47 }", "tcp flags & (fin | syn | rst | ack) == syn",
			"tcp flags & (syn | ack) != syn", "tcp flags & (syn | ack) == (syn | ack)", "tcp flags syn,fin")
	}
	return before + strings.Join(words, " ")
}
