// SPDX-License-Identifier: Apache-2.0

package firewall_test

// Random rules, for the cube and for nftables. They leave out what the kernel does differently on purpose (README.md)
// and what a router does not see: VLAN tags and EtherTypes other than those of IP.

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"strings"

	"github.com/polycube/polycube/conntrack"
	"github.com/polycube/polycube/test/rulesets"
)

// ruling is a rule of a chain.
type ruling struct {
	rulesets.Rule
	sports, dports []rulesets.Ports // lists of ports
	// The names of sets of addresses; not are those that the packet must not be in.
	srcSet, dstSet, notSrcSet, notDstSet string
	states                               []conntrack.Class
	action                               string
}

// firewallNames are the members that have other names than in a pbforwarder.
var firewallNames = map[string]string{
	"src_ip": "src", "dst_ip": "dst", "l4_proto": "l4proto", "src_port": "sport", "dst_port": "dport", "tcp_flags": "tcpflags",
}

// text is a list of ports as the API writes it.
func portList(list []rulesets.Ports) string {
	var out []string
	for _, p := range list {
		if p.First == p.Last {
			out = append(out, fmt.Sprint(p.First))
		} else {
			out = append(out, fmt.Sprintf("%d-%d", p.First, p.Last))
		}
	}
	return strings.Join(out, ",")
}

func stateNames(states []conntrack.Class) string {
	var out []string
	for _, s := range states {
		out = append(out, s.String())
	}
	return strings.Join(out, ",")
}

// api is the rule in the form of the API.
func (r *ruling) api() string {
	m := r.Members(firewallNames)
	for name, list := range map[string][]rulesets.Ports{"sport": r.sports, "dport": r.dports} {
		if list != nil {
			m[name] = portList(list)
		}
	}
	for name, set := range map[string]string{"src_set": r.srcSet, "dst_set": r.dstSet} {
		if set != "" {
			m[name] = set
		}
	}
	for name, set := range map[string]string{"src_set": r.notSrcSet, "dst_set": r.notDstSet} {
		if set == "" {
			continue
		}
		not, _ := m["not"].(map[string]any)
		if not == nil {
			not = map[string]any{}
			m["not"] = not
		}
		not[name] = set
	}
	if r.states != nil {
		m["conntrack"] = stateNames(r.states)
	}
	m["action"] = r.action
	out, err := json.Marshal(m)
	if err != nil {
		panic(err)
	}
	return string(out)
}

// nft are the rule's lines, which count it. A set has a part of each IP version there.
func (r *ruling) nft(counter string) string {
	var more []string
	for name, list := range map[string][]rulesets.Ports{"sport": r.sports, "dport": r.dports} {
		if list != nil {
			more = append(more, fmt.Sprintf("meta l4proto { tcp, udp } th %s { %s }", name, portList(list)))
		}
	}
	if r.states != nil {
		more = append(more, "ct state { "+strings.ToLower(stateNames(r.states))+" }")
	}
	verdict := fmt.Sprintf("counter name %q ", counter)
	if r.action == "ACCEPT" {
		verdict += "accept\n"
	} else {
		verdict += "counter name \"dropped\" drop\n"
	}
	var b strings.Builder
	for _, conditions := range r.Nftables() {
		for _, set := range r.nftSets() {
			b.WriteString(strings.Join(append([]string{conditions, set}, more...), " ") + " " + verdict)
		}
	}
	return b.String()
}

// nftSets are the alternatives of the sets.
func (r *ruling) nftSets() []string {
	if r.srcSet+r.dstSet+r.notSrcSet+r.notDstSet == "" {
		return []string{""}
	}
	var out []string
	for version, family := range map[string]string{"4": "ip", "6": "ip6"} {
		if prefix := r.anyPrefix(); prefix.IsValid() && prefix.Addr().Is4() != (version == "4") {
			continue // nft refuses rules that match nothing
		}
		says := "meta nfproto " + map[string]string{"4": "ipv4", "6": "ipv6"}[version]
		for _, of := range []struct{ field, op, set string }{
			{"saddr", "==", r.srcSet}, {"daddr", "==", r.dstSet}, {"saddr", "!=", r.notSrcSet}, {"daddr", "!=", r.notDstSet},
		} {
			if of.set != "" {
				says += fmt.Sprintf(" %s %s %s @%s_%s", family, of.field, of.op, of.set, version)
			}
		}
		out = append(out, says)
	}
	return out
}

// anyPrefix is one of the prefixes in the rule.
func (r *ruling) anyPrefix() netip.Prefix {
	all := []netip.Prefix{r.Src, r.Dst}
	if r.Not != nil {
		all = append(all, r.Not.Src, r.Not.Dst)
	}
	for _, p := range all {
		if p.IsValid() {
			return p
		}
	}
	return netip.Prefix{}
}

// matcher makes random rules.
type matcher struct{ *rand.Rand }

// rule is one of a few shapes, with lists, sets and states.
func (g *matcher) rule(sets []string) ruling {
	shapes := []string{"acl", "fw", "fw", "ipc", "acl6", "wildcards", "headers", "negated", "negated"}
	var r ruling
	for {
		r = ruling{Rule: rulesets.Make(shapes[g.IntN(len(shapes))], 1, g.Uint64())[0]}
		if routed(&r.Rule) && (r.Not == nil || routed(r.Not)) {
			break
		}
	}
	g.widen(&r)
	if g.IntN(4) == 0 {
		g.list(&r)
	}
	if g.IntN(4) == 0 {
		g.sets(&r, sets)
	}
	if g.IntN(3) == 0 {
		all := []conntrack.Class{conntrack.New, conntrack.Established, conntrack.Related, conntrack.Invalid, conntrack.Untracked}
		g.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
		r.states = all[:1+g.IntN(3)]
	}
	r.action = []string{"ACCEPT", "ACCEPT", "DROP", "REJECT"}[g.IntN(4)]
	return r
}

// routed reports whether a rule is about fields that a router has, and not about neighbour discovery, which is another
// chain's matter for the cube.
func routed(r *rulesets.Rule) bool {
	return r.SrcMAC == nil && r.DstMAC == nil && r.VLAN == nil && r.InPort == nil && r.EtherType == nil &&
		(r.ICMP == nil || !r.ICMP.V6 || r.ICMP.Type < 133 || r.ICMP.Type > 137)
}

// widen leaves out conditions, so that more packets match, in both directions.
func (g *matcher) widen(r *ruling) {
	if g.IntN(2) == 0 && r.SrcPort == nil {
		r.Src = netip.Prefix{}
	}
	if g.IntN(3) == 0 {
		r.Dst = netip.Prefix{}
	}
	if g.IntN(4) == 0 {
		r.SrcPort, r.DstPort = r.DstPort, r.SrcPort
	}
	if g.IntN(6) == 0 {
		r.DSCP = nil
	}
}

// list replaces ports by a list of them.
func (g *matcher) list(r *ruling) {
	if r.ICMP != nil || r.Flags != nil || r.Protocol != nil && *r.Protocol != 6 && *r.Protocol != 17 || r.Not != nil {
		return
	}
	var list []rulesets.Ports
	for first := g.IntN(1000); len(list) < 2+g.IntN(6) && first < 65000; {
		last := first + []int{0, 0, 1, 500, 5000}[g.IntN(5)]
		list = append(list, rulesets.Ports{First: uint16(first), Last: uint16(min(last, 65535))})
		first = last + 2 + g.IntN(3000)
	}
	if g.IntN(2) == 0 {
		r.SrcPort, r.sports = nil, list
	} else {
		r.DstPort, r.dports = nil, list
	}
}

// sets adds sets to a rule, in place of its addresses.
func (g *matcher) sets(r *ruling, names []string) {
	if r.ICMP != nil || r.DSCP != nil || r.Not != nil && (r.Not.ICMP != nil || r.Not.DSCP != nil) {
		return // in nftables these are of one IP version, as sets are
	}
	name := names[g.IntN(len(names))]
	switch g.IntN(4) {
	case 0:
		r.Src, r.srcSet = netip.Prefix{}, name
	case 1:
		r.Dst, r.dstSet = netip.Prefix{}, name
	case 2:
		r.notSrcSet = name
	case 3:
		r.notDstSet = name
	}
}
