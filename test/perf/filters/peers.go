// SPDX-License-Identifier: Apache-2.0

package filters

// Filters by rules: ours, nftables and iptables.

import (
	"fmt"
	"net/netip"
	"strings"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/test/perf/contest"
	"github.com/polycube/polycube/test/perf/lab"
	"github.com/polycube/polycube/test/rulesets"
)

// Names of the filters.
const (
	fwXDP     = "firewall, XDP"
	fwTCX     = "firewall, tcx"
	nftList   = "nftables, a list"
	nftHash   = "nftables, a hash set"
	nftRanges = "nftables, an interval set"
	nftEarly  = "nftables, a hash set at ingress"
	nftTree   = "nftables, a verdict map and chains at ingress"
	iptables  = "iptables-legacy"
)

// ourRule is a rule in the model of the firewall.
type ourRule struct {
	ID        int    `json:"id"`
	Src       string `json:"src,omitempty"`
	Dst       string `json:"dst,omitempty"`
	Protocol  string `json:"l4proto,omitempty"`
	SrcPort   string `json:"sport,omitempty"`
	DstPort   string `json:"dport,omitempty"`
	Conntrack string `json:"conntrack,omitempty"`
	Action    string `json:"action"`
}

func ourRules(rules []rulesets.Rule) []ourRule {
	list := make([]ourRule, len(rules))
	for i, r := range rules {
		list[i] = ourRule{ID: i, SrcPort: portsOf(r.SrcPort), DstPort: portsOf(r.DstPort), Action: "ACCEPT"}
		if r.Src.IsValid() && r.Src.Bits() > 0 {
			list[i].Src = r.Src.String()
		}
		if r.Dst.IsValid() && r.Dst.Bits() > 0 {
			list[i].Dst = r.Dst.String()
		}
		if r.Protocol != nil {
			list[i].Protocol = fmt.Sprint(*r.Protocol)
		}
	}
	return list
}

// firewallConf is a firewall with some rules and default DROP.
func firewallConf(typ cube.Type, conntrack bool, rules []ourRule) map[string]any {
	conf := map[string]any{
		"type": typ, "chain": []map[string]any{{"name": "INGRESS", "default": "DROP", "rule": rules}},
		"conntrack": "OFF", "accept-established": "OFF",
	}
	if conntrack {
		conf["conntrack"], conf["accept-established"] = "ON", "ON"
	}
	return conf
}

func firewall(typ cube.Type, conntrack bool, rules []rulesets.Rule) func(*lab.Rig, *Bench, *lab.Filtered) error {
	return func(rig *lab.Rig, b *Bench, w *lab.Filtered) error {
		_, err := attached(rig, b, w, "firewall", firewallConf(typ, conntrack, ourRules(rules)))
		return err
	}
}

// nft loads a rule set for packets that the kernel forwards. before are rules in front of all others.
func nft(before string, form func([]rulesets.Rule) (sets, chain string), rules []rulesets.Rule) func(*lab.Rig, *Bench, *lab.Filtered) error {
	return func(_ *lab.Rig, _ *Bench, w *lab.Filtered) error {
		sets, chain := form(rules)
		return contest.Fed(w.Machine.Command("nft", "-f", "-"), fmt.Sprintf(
			"table ip bench {\n%schain in {\ntype filter hook forward priority 0; policy drop;\n%s%s}\n}\n", sets, before, chain))
	}
}

// nftIngress is the same in front of the kernel's stack, where it does not track connections.
func nftIngress(form func([]rulesets.Rule) (sets, chain string), rules []rulesets.Rule) func(*lab.Rig, *Bench, *lab.Filtered) error {
	return func(_ *lab.Rig, _ *Bench, w *lab.Filtered) error {
		sets, chain := form(rules)
		return contest.Fed(w.Machine.Command("nft", "-f", "-"), fmt.Sprintf(
			"table netdev bench {\n%schain in {\ntype filter hook ingress device %q priority 0; policy drop;\n%s}\n}\n", sets, lab.In, chain))
	}
}

// protocolName is the name of a protocol in nftables and iptables.
func protocolName(p uint8) string {
	return map[uint8]string{icmp: "icmp", tcp: "tcp", udp: "udp"}[p]
}

// nftRule is a rule as nftables writes it.
func nftRule(r *rulesets.Rule) string {
	var b strings.Builder
	if prefix(r.Src).Bits() > 0 {
		fmt.Fprintf(&b, "ip saddr %s ", r.Src)
	}
	if prefix(r.Dst).Bits() > 0 {
		fmt.Fprintf(&b, "ip daddr %s ", r.Dst)
	}
	if r.Protocol != nil {
		name := protocolName(*r.Protocol)
		if r.SrcPort == nil && r.DstPort == nil {
			fmt.Fprintf(&b, "ip protocol %s ", name)
		}
		if r.SrcPort != nil {
			fmt.Fprintf(&b, "%s sport %s ", name, portsOf(r.SrcPort))
		}
		if r.DstPort != nil {
			fmt.Fprintf(&b, "%s dport %s ", name, portsOf(r.DstPort))
		}
	}
	b.WriteString("accept\n")
	return b.String()
}

// listed has one rule for each.
func listed(rules []rulesets.Rule) (sets, chain string) {
	var b strings.Builder
	for _, r := range rules {
		b.WriteString(nftRule(&r))
	}
	return "", b.String()
}

// hashed has exact rules in a set of flows, which is a hash table.
func hashed(rules []rulesets.Rule) (sets, chain string) { return setOf(rules, "") }

// ranged has exact rules in a set that could have intervals, too.
func ranged(rules []rulesets.Rule) (sets, chain string) { return setOf(rules, "flags interval;\n") }

const flowOf = "ip saddr . ip daddr . meta l4proto . th sport . th dport"

func setOf(rules []rulesets.Rule, flags string) (sets, chain string) {
	var b strings.Builder
	fmt.Fprintf(&b, "set rules {\ntypeof %s;\n%ssize %d;\nelements = {\n", flowOf, flags, len(rules))
	for _, r := range rules {
		fmt.Fprintf(&b, "%s . %s . %d . %d . %d,\n", r.Src.Addr(), r.Dst.Addr(), *r.Protocol, r.SrcPort.First, r.DstPort.First)
	}
	b.WriteString("}\n}\n")
	return b.String(), flowOf + " @rules accept\n"
}

// treed has a chain for each destination, found in a verdict map.
func treed(rules []rulesets.Rule) (sets, chain string) {
	chains := map[netip.Addr]string{}
	for _, r := range rules {
		chains[r.Dst.Addr()] += nftRule(&r)
	}
	var b strings.Builder
	var elements []string
	for to, list := range chains {
		name := fmt.Sprintf("c%x", to.As4())
		fmt.Fprintf(&b, "chain %s {\n%s}\n", name, list)
		elements = append(elements, fmt.Sprintf("%s : goto %s", to, name))
	}
	fmt.Fprintf(&b, "map to {\ntype ipv4_addr : verdict;\nsize %d;\nelements = { %s }\n}\n", len(chains), strings.Join(elements, ",\n"))
	return b.String(), "ip daddr vmap @to\n"
}

// iptablesRules loads the rules into the chain FORWARD.
func iptablesRules(rules []rulesets.Rule) func(*lab.Rig, *Bench, *lab.Filtered) error {
	return func(_ *lab.Rig, _ *Bench, w *lab.Filtered) error {
		var b strings.Builder
		b.WriteString("*filter\n:INPUT ACCEPT\n:FORWARD DROP\n:OUTPUT ACCEPT\n")
		for _, r := range rules {
			b.WriteString("-A FORWARD ")
			if prefix(r.Src).Bits() > 0 {
				fmt.Fprintf(&b, "-s %s ", r.Src)
			}
			if prefix(r.Dst).Bits() > 0 {
				fmt.Fprintf(&b, "-d %s ", r.Dst)
			}
			if r.Protocol != nil {
				fmt.Fprintf(&b, "-p %s ", protocolName(*r.Protocol))
			}
			if r.SrcPort != nil {
				fmt.Fprintf(&b, "--sport %d:%d ", r.SrcPort.First, r.SrcPort.Last)
			}
			if r.DstPort != nil {
				fmt.Fprintf(&b, "--dport %d:%d ", r.DstPort.First, r.DstPort.Last)
			}
			b.WriteString("-j ACCEPT\n")
		}
		b.WriteString("COMMIT\n")
		return contest.Fed(w.Machine.Command("iptables-legacy-restore"), b.String())
	}
}
