// SPDX-License-Identifier: Apache-2.0

package perf

// Forwarders by rules: ours, nftables and tc.

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os/exec"
	"strings"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/test/perf/lab"
	"github.com/polycube/polycube/test/rulesets"
)

// The forwarders by rules.
const (
	rulesXDP = "pbforwarder, XDP"
	rulesTC  = "pbforwarder, tcx"
	nftList  = "nftables, a list"
	nftSet   = "nftables, a set of intervals"
	nftMap   = "nftables, chains by destination"
	tcU32    = "tc u32, hashed"
)

// ruleForwarder forwards by rules between the netdevs of a wire.
type ruleForwarder struct {
	name  string
	setup func(*lab.Rig, *Run, *lab.Wire, *ruled) error
}

var ruleForwarders = []ruleForwarder{
	{nothing, func(rig *lab.Rig, _ *Run, w *lab.Wire, _ *ruled) error { return rig.DiscardFrames(w) }},
	{rulesXDP, ourRules(cube.TypeXDPDRV)},
	{rulesTC, ourRules(cube.TypeTC)},
	{nftSet, netdevRules(setOf)},
	{nftMap, netdevRules(chainsOf)},
	{nftList, netdevRules(listOf)},
	{tcU32, hashedRules},
}

// ourRule is a rule in the model of pbforwarder.
type ourRule struct {
	ID       int    `json:"id"`
	Src      string `json:"src_ip,omitempty"`
	Dst      string `json:"dst_ip"`
	Protocol uint8  `json:"l4_proto"`
	DstPort  string `json:"dst_port,omitempty"`
	Action   string `json:"action"`
	Out      string `json:"out_port"`
}

// ourRules creates the forwarder f1 in a daemon.
func ourRules(typ cube.Type) func(*lab.Rig, *Run, *lab.Wire, *ruled) error {
	return func(rig *lab.Rig, r *Run, w *lab.Wire, rs *ruled) error {
		d, err := startDaemon(rig, r.bin(), w)
		if err != nil {
			return err
		}
		list := make([]ourRule, len(rs.rules))
		for i, r := range rs.rules {
			list[i] = ourRule{ID: i, Dst: r.Dst.String(), Protocol: *r.Protocol, DstPort: portsOf(&r), Action: "FORWARD", Out: "right"}
			if r.Src.IsValid() {
				list[i].Src = r.Src.String()
			}
		}
		type port struct {
			Name string `json:"name"`
			Peer string `json:"peer"`
		}
		return errors.Join(send(d, "POST", "/pbforwarder/f1", map[string]any{
			"type": typ, "ports": []port{{"left", lab.In}, {"right", lab.Out}}, "rules": list,
		}), d.Inlined("f1"))
	}
}

// portsOf are a rule's ports, as nftables and the model write them; "" if any.
func portsOf(r *rulesets.Rule) string {
	switch p := r.DstPort; {
	case p == nil:
		return ""
	case p.First == p.Last:
		return fmt.Sprint(p.First)
	default:
		return fmt.Sprintf("%d-%d", p.First, p.Last)
	}
}

// netdevRules makes nftables forward on ingress, before the kernel's stack.
func netdevRules(rules func(*ruled) (sets, chain string)) func(*lab.Rig, *Run, *lab.Wire, *ruled) error {
	return func(_ *lab.Rig, _ *Run, w *lab.Wire, rs *ruled) error {
		sets, chain := rules(rs)
		return fed(w.Machine.Command("nft", "-f", "-"), fmt.Sprintf(
			"table netdev bench {\n%schain in {\ntype filter hook ingress device %q priority 0; policy drop;\n%s}\n}\n", sets, lab.In, chain))
	}
}

// fed runs a command with a text as its input.
func fed(cmd *exec.Cmd, text string) error {
	cmd.Stdin = strings.NewReader(text)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w\n%.1000s", cmd, err, out)
	}
	return nil
}

// nftRule is a rule as nftables writes it.
func nftRule(r *rulesets.Rule) string {
	var b strings.Builder
	if r.Src.IsValid() {
		fmt.Fprintf(&b, "ip saddr %s ", r.Src)
	}
	name := map[uint8]string{tcp: "tcp", udp: "udp"}[*r.Protocol]
	fmt.Fprintf(&b, "ip daddr %s ", r.Dst)
	if r.DstPort != nil {
		fmt.Fprintf(&b, "%s dport %s ", name, portsOf(r))
	} else {
		fmt.Fprintf(&b, "meta l4proto %s ", name)
	}
	fmt.Fprintf(&b, "fwd to %q\n", lab.Out)
	return b.String()
}

// listOf has one rule of nftables for each.
func listOf(rs *ruled) (sets, chain string) {
	var b strings.Builder
	for _, r := range rs.rules {
		b.WriteString(nftRule(&r))
	}
	return "", b.String()
}

// chainsOf has a chain for each /24 of destinations, and for each /16 of larger ones, found by hash.
func chainsOf(rs *ruled) (sets, chain string) {
	var b, in strings.Builder
	for _, bits := range []int{24, 16} {
		chains := map[netip.Prefix]string{}
		for _, r := range rs.rules {
			if (r.Dst.Bits() >= 24) == (bits == 24) {
				network := netip.PrefixFrom(r.Dst.Addr(), bits).Masked()
				chains[network] += nftRule(&r)
			}
		}
		var elements []string
		for network, rules := range chains {
			name := fmt.Sprintf("c%d_%x", bits, network.Addr().As4())
			fmt.Fprintf(&b, "chain %s {\n%s}\n", name, rules)
			elements = append(elements, fmt.Sprintf("%s : jump %s", network.Addr(), name))
		}
		if len(elements) > 0 {
			fmt.Fprintf(&b, "map by%d {\ntype ipv4_addr : verdict;\nelements = { %s }\n}\n", bits, strings.Join(elements, ",\n"))
			fmt.Fprintf(&in, "ip daddr & %s vmap @by%d\n", net.IP(net.CIDRMask(bits, 32)), bits)
		}
	}
	return b.String(), in.String()
}

// setOf has all rules in a set of concatenated intervals, which one rule looks up.
func setOf(rs *ruled) (sets, chain string) {
	var b strings.Builder
	b.WriteString("set rules {\ntypeof ip saddr . ip daddr . meta l4proto . th dport; flags interval;\nelements = {\n")
	for _, r := range rs.rules {
		src, ports := r.Src.String(), portsOf(&r)
		if !r.Src.IsValid() {
			src = "0.0.0.0/0"
		}
		if ports == "" {
			ports = "0-65535"
		}
		fmt.Fprintf(&b, "%s . %s . %d . %s,\n", src, r.Dst, *r.Protocol, ports)
	}
	b.WriteString("}\n}\n")
	return b.String(), fmt.Sprintf("ip saddr . ip daddr . meta l4proto . th dport @rules fwd to %q\n", lab.Out)
}

// hashedRules makes the u32 classifier forward: a hash table by the second byte of destinations, and for each of its
// buckets one by the third, except for rules that leave it open. It cannot drop; nftables drops the rest.
func hashedRules(_ *lab.Rig, _ *Run, w *lab.Wire, rs *ruled) error {
	var b strings.Builder
	fmt.Fprintf(&b, "qdisc add dev %s clsact\n", lab.In)
	filter := "filter add dev " + lab.In + " ingress protocol ip prio 1 "
	b.WriteString(filter + "handle 1: u32 divisor 256\n")
	b.WriteString(filter + "u32 ht 800:: match u32 0 0 hashkey mask 0x00ff0000 at 16 link 1:\n")
	tables := map[byte]int{}
	for _, r := range rs.rules {
		to := r.Dst.Addr().As4()
		table, place := 1, to[1]
		if r.Dst.Bits() >= 24 {
			if table = tables[to[1]]; table == 0 {
				table = len(tables) + 2
				tables[to[1]] = table
				fmt.Fprintf(&b, filter+"handle %x: u32 divisor 256\n", table)
				fmt.Fprintf(&b, filter+"u32 ht 1:%x: match u32 0 0 hashkey mask 0x0000ff00 at 16 link %x:\n", to[1], table)
			}
			place = to[2]
		}
		for _, ports := range r.DstPort.Blocks() {
			fmt.Fprintf(&b, filter+"u32 ht %x:%x: %saction mirred egress redirect dev %s\n", table, place, u32Match(&r, ports), lab.Out)
		}
	}
	return errors.Join(
		fed(w.Machine.Command("tc", "-batch", "-"), b.String()),
		netdevRules(func(*ruled) (sets, chain string) { return "", "" })(nil, nil, w, rs),
	)
}

// u32Match is a rule for some of its ports as u32 writes it.
func u32Match(r *rulesets.Rule, ports rulesets.Block) string {
	var b strings.Builder
	fmt.Fprintf(&b, "match ip dst %s match ip protocol %d 0xff ", r.Dst, *r.Protocol)
	if r.Src.IsValid() {
		fmt.Fprintf(&b, "match ip src %s ", r.Src)
	}
	if ports.Mask > 0 {
		fmt.Fprintf(&b, "match ip dport %d %#x ", ports.First, ports.Mask)
	}
	return b.String()
}
