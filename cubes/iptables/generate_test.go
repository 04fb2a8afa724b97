// SPDX-License-Identifier: Apache-2.0

package iptables_test

// Random rules in the format of iptables-save.

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"strings"

	"github.com/polycube/polycube/iptables/language"
	"github.com/polycube/polycube/test/rulesets"
)

// generator makes random rules.
type generator struct{ *rand.Rand }

// ruleset are the chains of a table in both families; headers are what their rules are about.
type ruleset struct {
	table   string
	chains  [2]map[string][]string
	names   []string
	headers []rulesets.Rule
}

// text is the set in the format of iptables-save, with rules that lead to it, if it has any.
func (r *ruleset) text(family int, to ...string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "*%s\n", r.table)
	for _, name := range language.BuiltIn(r.table) {
		fmt.Fprintf(&b, ":%s ACCEPT [0:0]\n", name)
	}
	if len(r.names) == 0 {
		to = nil
	}
	for _, name := range r.names {
		fmt.Fprintf(&b, ":%s - [0:0]\n", name)
	}
	for _, rule := range to {
		fmt.Fprintf(&b, "-A %s\n", rule)
	}
	for _, name := range r.names {
		for _, rule := range r.chains[family][name] {
			fmt.Fprintf(&b, "-A %s %s\n", name, rule)
		}
	}
	b.WriteString("COMMIT\n")
	return b.String()
}

func (g *generator) ruleset(table string) *ruleset {
	r := &ruleset{table: table, names: []string{"side0", "side1", "u0", "u1", "u2", "u3"}}
	for family := range r.chains {
		r.chains[family] = map[string][]string{}
		for i, name := range r.names {
			for range 1 + g.IntN(12) {
				rule, about := g.rule(table, family == 1, r.names[max(2, i+1):])
				r.chains[family][name] = append(r.chains[family][name], rule)
				r.headers = append(r.headers, about)
			}
		}
	}
	return r
}

// rule is a rule of a table, and what headers it is about. It may jump to some chains.
func (g *generator) rule(table string, six bool, chains []string) (string, rulesets.Rule) {
	shapes := []string{"fw", "ipc", "wildcards", "negated"}
	if six {
		shapes = []string{"acl6", "fw", "wildcards", "negated"}
	}
	var is rulesets.Rule
	for {
		is = rulesets.Make(shapes[g.IntN(len(shapes))], 1, g.Uint64())[0]
		if ofFamily(&is, six) && (is.Not == nil || ofFamily(is.Not, six)) && len(g.conditions(&is, six)) > 0 {
			break
		}
	}
	about := is
	g.widen(&is)
	words := g.conditions(&is, six)
	if g.IntN(2) == 0 {
		extension := g.extension(six)
		if strings.HasPrefix(extension, "-p") {
			words = nil
		}
		words = append(words, extension)
	}
	return strings.Join(append(words, g.target(table, chains)), " "), about
}

// widen leaves out conditions, so that more packets match.
func (g *generator) widen(r *rulesets.Rule) {
	if g.IntN(3) > 0 {
		r.Dst = netip.Prefix{}
	}
	if g.IntN(3) > 0 {
		r.Src = netip.Prefix{}
	}
	if g.IntN(3) == 0 {
		r.DstPort = nil
	}
	if g.IntN(2) == 0 {
		r.SrcPort = nil
	}
}

// ofFamily reports whether a rule is about IP, and about no other version.
func ofFamily(r *rulesets.Rule, six bool) bool {
	if r.SrcMAC != nil || r.DstMAC != nil || r.VLAN != nil || r.InPort != nil || r.EtherType != nil {
		return false
	}
	if r.Protocol != nil && (*r.Protocol == 1 || *r.Protocol == 58) || r.ICMP != nil && (r.ICMP.V6 != six || six && r.ICMP.Type >= 133 && r.ICMP.Type <= 137) {
		return false
	}
	return (!r.Src.IsValid() || r.Src.Addr().Is6() == six) && (!r.Dst.IsValid() || r.Dst.Addr().Is6() == six)
}

// conditions are the options of a rule's headers.
func (g *generator) conditions(r *rulesets.Rule, six bool) (out []string) {
	not := r.Not
	if not == nil {
		not = &rulesets.Rule{}
	}
	add := func(is, isNot bool, option string, value, valueNot any) {
		switch {
		case is:
			out = append(out, fmt.Sprintf(option, "", value))
		case isNot:
			out = append(out, fmt.Sprintf(option, "! ", valueNot))
		}
	}
	add(r.Src.IsValid(), not.Src.IsValid(), "%s-s %v", r.Src, not.Src)
	add(r.Dst.IsValid(), not.Dst.IsValid(), "%s-d %v", r.Dst, not.Dst)
	ports := r.SrcPort != nil || r.DstPort != nil || not.SrcPort != nil || not.DstPort != nil
	switch {
	case r.ICMP != nil && six:
		return append(out, "-p ipv6-icmp -m icmp6 --icmpv6-type "+icmpType(r.ICMP))
	case r.ICMP != nil:
		return append(out, "-p icmp -m icmp --icmp-type "+icmpType(r.ICMP))
	case ports && (r.Protocol == nil || *r.Protocol != 17):
		out = append(out, "-p tcp -m tcp")
	case ports:
		out = append(out, "-p udp -m udp")
	case r.Flags != nil:
		return append(out, "-p tcp -m tcp --syn")
	case r.Protocol != nil && *r.Protocol != 0:
		out = append(out, fmt.Sprintf("-p %d", *r.Protocol))
	}
	add(r.SrcPort != nil, not.SrcPort != nil, "%s--sport %v", portText(r.SrcPort), portText(not.SrcPort))
	add(r.DstPort != nil, not.DstPort != nil, "%s--dport %v", portText(r.DstPort), portText(not.DstPort))
	if r.DSCP != nil {
		out = append(out, fmt.Sprintf("-m dscp --dscp %d", *r.DSCP))
	}
	return out
}

func portText(p *rulesets.Ports) string {
	if p == nil {
		return ""
	}
	return fmt.Sprintf("%d:%d", p.First, p.Last)
}

func icmpType(i *rulesets.ICMP) string {
	if i.First == i.Last {
		return fmt.Sprintf("%d/%d", i.Type, i.First)
	}
	return fmt.Sprint(i.Type)
}

// extension is another condition.
func (g *generator) extension(six bool) string {
	all := []string{
		"-m conntrack --ctstate NEW", "-m conntrack --ctstate RELATED,ESTABLISHED", "-m conntrack ! --ctstate NEW", "-m conntrack --ctstate INVALID",
		"-m state --state ESTABLISHED", "-m conntrack --ctdir REPLY", "-m conntrack --ctdir ORIGINAL", "-m conntrack --ctproto 6",
		"-m conntrack ! --ctproto 17", "-p tcp -m conntrack --ctorigdstport 1:1000", "-p udp -m conntrack ! --ctorigsrcport 1:30000",
		"-p tcp -m conntrack --ctstate INVALID,ESTABLISHED --ctreplsrcport 1:2000 --ctdir ORIGINAL", fmt.Sprintf("-m length --length %d:%d", 20+g.IntN(30), 50+g.IntN(60)), "-m length ! --length 40",
		fmt.Sprintf("-m statistic --mode nth --every %d --packet %d", 2+g.IntN(3), g.IntN(2)), fmt.Sprintf("-m limit --limit 1/day --limit-burst %d", 1+g.IntN(9)),
		fmt.Sprintf("-m hashlimit --hashlimit-upto 1/hour --hashlimit-burst %d --hashlimit-mode srcip --hashlimit-name h%d", 1+g.IntN(4), g.Uint32()),
		fmt.Sprintf("-m hashlimit --hashlimit-above 1/hour --hashlimit-burst %d --hashlimit-mode dstip,dstport --hashlimit-name h%d", 1+g.IntN(4), g.Uint32()),
		"-m comment --comment \"two words\"", "-m mark --mark 0x1", "-m mark ! --mark 0x1/0x3", "-m tos --tos 0x00/0xff", "-m pkttype --pkt-type unicast",
		"-m string --hex-string \"|000000|\" --algo bm --to 65535", "-m string ! --hex-string \"|0001|\" --algo kmp --from 20 --to 60",
		"-p tcp -m multiport --dports 1:1000,2000:30000", "-p tcp -m multiport ! --dports 1:1000", "-p tcp -m multiport --ports 1:500,1000:40000",
		"-p tcp -m tcp --tcp-option 3", "-p tcp -m tcp ! --tcp-option 3", "-p tcp -m tcp --tcp-option 1",
	}
	if six {
		all = append(all, "-m hl --hl-gt 10", "-m iprange --src-range 2001:db8::-2001:dbf::1",
			"-m conntrack --ctorigsrc 2001:db8::/33", "-m conntrack ! --ctrepldst 2001:db8:8000::/33 --ctstate NEW,ESTABLISHED")
	} else {
		all = append(all, "-m ttl --ttl-gt 10", "-m iprange --src-range 1.0.0.0-100.1.2.3", "-m iprange ! --dst-range 10.0.0.1-200.0.0.0", "! -f",
			"-m addrtype --dst-type UNICAST", "-m conntrack --ctorigsrc 0.0.0.0/1", "-m conntrack ! --ctorigdst 64.0.0.0/2",
			"-m conntrack --ctreplsrc 128.0.0.0/1 --ctstate NEW,RELATED,ESTABLISHED")
	}
	return all[g.IntN(len(all))]
}

// target is the end of a rule.
func (g *generator) target(table string, chains []string) string {
	all := []string{"", "", "-j ACCEPT", "-j ACCEPT", "-j DROP", "-j REJECT", "-j RETURN", "-j MARK --set-xmark 0x1/0xffffffff", "-j MARK --set-xmark 0x2/0x2"}
	if table == "raw" {
		all[5] = "-j CT --notrack"
	}
	for _, c := range chains {
		all = append(all, "-j "+c, "-j "+c, "-g "+c)
	}
	return all[g.IntN(len(all))]
}
