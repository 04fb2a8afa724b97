// SPDX-License-Identifier: Apache-2.0

package efw_test

// Rules that nft has made, in front of which the host must behave as without the cube, and what is said about them.

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/test/bpftest"
	"github.com/polycube/polycube/test/netns"
	"github.com/polycube/polycube/test/pkt"

	"github.com/vishvananda/netlink"
)

// nft has the host carry out commands of nft.
func (r *router) nft(text string) {
	r.t.Helper()
	cmd := r.Command("nft", "-f", "-")
	cmd.Stdin = strings.NewReader(text)
	if out, err := cmd.CombinedOutput(); err != nil {
		r.t.Fatalf("nft: %v: %s\n%s", err, out, text)
	}
}

// nftRules is a random rule set of nft.
type nftRules struct {
	rules
	states bool
}

func (r nftRules) conditions() (out []string, protocol string) {
	add := func(text ...string) { out = append(out, pick(r.Rand, text...)) }
	if r.IntN(3) == 0 {
		if r.v6 {
			add("ip6 saddr fd00:1::/126", "ip6 saddr != fd00:1::2", "ip6 daddr { fd00:2::2, fd00:1::1 }", "ip6 saddr @six", "ip6 daddr fd00:2::1-fd00:2::6")
		} else {
			add("ip saddr 10.0.1.0/30", "ip saddr != 10.0.1.2", "ip daddr { 10.0.2.2, 10.0.2.9 }", "ip saddr 10.0.1.2-10.0.1.9",
				"ip saddr @hosts", "ip saddr != { 10.0.1.3, 10.0.1.9 }", "ip daddr != 10.0.2.0-10.0.2.2", "ip saddr 10.0.1.0/29 ip saddr != 10.0.1.2")
		}
	}
	if r.IntN(6) == 0 {
		add(`iifname "veth1"`, `iifname != "veth1"`, `iif "veth1"`, `iifname "veth*"`, `iifname { "veth1", "none" }`, `oifname "veth2"`, `oif != "veth2"`)
	}
	protocol = pick(r.Rand, "", "", "tcp", "udp", "other")
	switch protocol { // nft refuses rules for two of them
	case "tcp":
		add("meta l4proto tcp", "tcp dport 80", "tcp dport != 80-81", "tcp dport { 80, 82, 84-85 }", "tcp flags syn / syn,ack",
			"tcp flags & (syn|rst) == syn", "tcp flags syn", "tcp dport @ports", "tcp flags == syn", "tcp flags & (syn|ack) != syn")
	case "udp":
		add("udp sport 82", "udp dport != { 80, 82 }", "udp dport < 82", "meta l4proto udp", "udp dport 81-83 udp sport { 80, 81 }")
	case "other":
		add("meta l4proto { tcp, udp } th dport 81", "meta l4proto != udp", "meta mark 1", "meta l4proto != tcp")
		if !r.v6 {
			add("icmp type echo-request", "ip dscp 10", "ip protocol udp", "ip dscp != { 10, 11 }")
			out = slices.Delete(out, len(out)-2, len(out)-1)
		}
	}
	if r.states && r.IntN(6) == 0 {
		add("ct state new", "ct state established,related", "ct state != invalid")
	}
	if r.IntN(6) == 0 {
		add("limit rate 1/day burst 3 packets", "numgen inc mod 2 0", "meta length 40-60", "quota over 200 bytes")
		if (protocol == "tcp" || protocol == "udp") && r.IntN(2) == 0 {
			add(protocol + " sport 80-83")
		}
	}
	return out, protocol
}

func (r nftRules) rule(users []string) string {
	out, protocol := r.conditions()
	if len(out) > 0 && r.IntN(12) == 0 {
		out = append([]string{"counter"}, out...)
	} else if r.IntN(3) > 0 {
		out = append(out, "counter")
	}
	switch r.IntN(9) {
	case 0, 1:
		out = append(out, "drop")
	case 2, 3:
		out = append(out, "accept")
	case 4:
		out = append(out, pick(r.Rand, "return", "reject", `log prefix "x"`, "counter", "continue"))
	case 5, 6:
		if len(users) > 0 {
			out = append(out, pick(r.Rand, "jump ", "goto ")+pick(r.Rand, users...))
		}
	case 7:
		to := "accept"
		if len(users) > 0 {
			to = "jump " + users[0]
		}
		switch protocol {
		case "":
			out = append(out, pick(r.Rand, "tcp dport vmap { 80 : drop, 81 : "+to+", 82-83 : accept }", "meta l4proto vmap { tcp : "+to+", udp : return }"))
		case "tcp", "udp":
			out = append(out, pick(r.Rand, protocol+" dport vmap @verdicts", protocol+" dport vmap { 80-82 : drop, 83 : "+to+" }"))
		}
	}
	if len(out) == 0 {
		return "counter"
	}
	return strings.Join(out, " ")
}

// table is a table with chains at priorities, which differ.
func (r nftRules) table(family, name string, priorities ...int) string {
	var out strings.Builder
	fmt.Fprintf(&out, "table %s %s {\n", family, name)
	out.WriteString("set ports {\ntype inet_service\nelements = { 80, 83 }\n}\nset hosts {\ntype ipv4_addr\nflags interval\nelements = { 10.0.1.2, 10.0.1.8-10.0.1.11 }\n}\n" +
		"set six {\ntype ipv6_addr\nelements = { fd00:1::2, fd00:1::9 }\n}\nmap verdicts {\ntype inet_service : verdict\nelements = { 80 : drop, 81 : accept }\n}\n")
	users := []string{"a", "b", "c"}
	for i := range users {
		fmt.Fprintf(&out, "chain %s {\n}\n", users[len(users)-1-i])
	}
	for i, name := range users {
		fmt.Fprintf(&out, "chain %s {\n", name)
		for range r.IntN(4) {
			out.WriteString(r.rule(users[i+1:]) + "\n")
		}
		out.WriteString("}\n")
	}
	for _, hook := range []string{"input", "forward"} {
		for _, at := range priorities {
			fmt.Fprintf(&out, "chain %s%d {\ntype filter hook %s priority %d; policy %s;\n", hook, at+100, hook, at, pick(r.Rand, "accept", "accept", "drop"))
			if hook == "input" { // what the host tells itself, and hears from its neighbours, depends on the time
				out.WriteString("iifname lo accept\nmeta l4proto ipv6-icmp accept\n")
			}
			for range r.IntN(6) {
				out.WriteString(r.rule(users) + "\n")
			}
			out.WriteString("}\n")
		}
	}
	return out.String() + "}\n"
}

// text is a rule set: most have one table, some several of them, or other hooks.
func (r nftRules) text() string {
	own := map[bool]string{false: "ip", true: "ip6"}[r.v6]
	out := "flush ruleset\n"
	switch r.IntN(4) {
	case 0:
		out += r.table("inet", "x", -10, 7) + r.table(own, "y", 3)
	case 1:
		out += r.table(own, "y", 3)
	case 2:
		out += r.table("inet", "x", -10) + r.table(own, "y", 5)
	default:
		out += r.table("inet", "x", 0)
	}
	if r.IntN(6) == 0 {
		out += pick(r.Rand, "table ip z {\nchain p {\ntype filter hook postrouting priority 0\nudp dport 80 ip dscp set 4\n}\n}\n",
			"table ip z {\nchain p {\ntype nat hook postrouting priority 100\noifname veth9 masquerade\n}\n}\n",
			"table inet z {\nchain o {\ntype filter hook output priority 0\nct state established accept\n}\n}\n")
	}
	return out
}

func TestTheHostBehavesAsWithoutTheCubeWithNft(t *testing.T) {
	onRandomRules(t, 12, func(r *router, random *rand.Rand, frames int) {
		g := nftRules{rules: rules{Rand: random, v6: random.IntN(4) == 0}, states: random.IntN(4) == 0}
		legacy := ""
		if random.IntN(4) == 0 && !g.v6 { // of the priority 0
			legacy = g.rules.text()
			if at := strings.Index(legacy, "*filter"); at >= 0 {
				legacy = legacy[at:]
			}
		}
		text := g.text()
		if legacy != "" && strings.Contains(text, "priority 0; policy") {
			legacy = ""
		}
		r.same(g.rules, frames, text+legacy, func() {
			if legacy != "" {
				r.restore("iptables-legacy", legacy)
			} else if r.tables["iptables-legacy"] != "" {
				r.restore("iptables-legacy", "*filter\n:INPUT ACCEPT [0:0]\n:FORWARD ACCEPT [0:0]\n-A INPUT -i lo -j ACCEPT\nCOMMIT\n")
			}
			r.tables["iptables-legacy"] += legacy
			r.nft(text)
			r.Must(func() error { return netlink.ConntrackTableFlush(netlink.ConntrackTable) })
		})
	}, func(l line) bool {
		return strings.Contains(l.Text, "policy") || strings.Contains(l.Text, "drop") || strings.Contains(l.Text, "accept")
	})
}

const someNft = `flush ruleset
table inet t {
	set blocked {
		type ipv4_addr
		flags interval
		elements = { 10.0.1.8-10.0.1.11 }
	}
	chain web {
		tcp dport vmap { 80 : accept, 81 : drop }
	}
	chain first {
		type filter hook forward priority -5; policy accept;
		ip saddr @blocked counter drop
		udp dport 2000-2999 counter accept
		udp dport 1000-1999 limit rate 1/second accept
	}
	chain forward {
		type filter hook forward priority 5; policy drop;
		oifname "veth2" tcp dport { 80, 81 } counter jump web
		udp dport 2082 accept
		ip6 daddr fd00:2::2 udp dport 7 counter accept
	}
}
`

func TestRulesOfNftAreCarriedOut(t *testing.T) {
	needIptables(t)
	r := newRouter(t, cube.TypeTC, `{}`)
	r.changed("vmap", func() { r.nft(someNft) })
	from, to := r.mac()
	ip := func(source string) *pkt.Frame { return pkt.Eth(from, to).IPv4(source, server) }
	syn := pkt.TCPFlags{SYN: true}
	for _, tt := range []struct {
		what  string
		frame *pkt.Frame
		want  string
	}{
		{"dropped by the first chain", ip("10.0.1.9").TCP(1, 80, syn), "rule"},
		{"accepted by both chains", ip(client).UDP(1, 2082), "redirected"},
		{"accepted by the first, dropped by the policy of the second", ip(client).UDP(1, 2083), "rule"},
		{"a rule that the fast path cannot evaluate may match", ip(client).UDP(1, 1082), "pass"},
		{"accepted by a map", ip(client).TCP(1, 80, syn), "redirected"},
		{"dropped by a map", ip(client).TCP(1, 81, syn), "rule"},
		{"IPv6", pkt.Eth(from, to).IPv6(client6, server6).TCP(1, 81, syn), "rule"},
		{"IPv6, by an address", pkt.Eth(from, to).IPv6(client6, server6).UDP(1, 7), "redirected"},
	} {
		if got, _ := r.judged(tt.frame.Bytes()); got.Fate != "f "+tt.want {
			t.Errorf("%s: got %+v, want %s", tt.what, got, tt.want)
		}
	}
	var got []string
	for _, l := range r.report() {
		if l.Family == "IPV4" {
			got = append(got, strings.TrimSpace(fmt.Sprintf("%s %d %d %s %s", strings.TrimPrefix(l.Chain, "inet t "), l.Number, l.Packets, l.Offloaded, l.Reason)))
		}
	}
	const want = `web 1 2 YES
first 1 1 YES
first 2 2 YES
first 3 0 NO the fast path cannot evaluate limit rate 1/second burst 5 packets
first 0 2 PARTLY packets that rule 3 may match are left to the stack
forward 1 2 YES
forward 2 1 YES
forward 3 0 YES no packet of this netdev and hook can match it
forward 0 1 YES`
	if text := strings.Join(got, "\n"); text != want {
		t.Errorf("the report is\n%s\nwant\n%s", text, want)
	}
	var chains []line
	if err := json.Unmarshal([]byte(r.Read("f chain")), &chains); err != nil {
		t.Fatal(err)
	}
	counted := map[string]uint64{}
	for _, l := range chains {
		if l.Family != "INET" {
			t.Errorf("a rule of the family inet is listed for %s", l.Family)
		}
		counted[fmt.Sprint(strings.TrimPrefix(l.Name, "inet t "), " ", l.Number)] = l.Packets
	}
	if want := map[string]uint64{"first 1": 1, "first 2": 2, "first 3": 0, "first 0": 0, "forward 1": 3, "forward 2": 0, "forward 3": 1, "forward 0": 0, "web 1": 0}; fmt.Sprint(counted) != fmt.Sprint(want) {
		t.Errorf("the chains have counted %v, want %v", counted, want)
	}
	// Elements of a set are rules, too.
	frame := ip("10.0.1.3").UDP(1, 2082).Bytes()
	if got, _ := r.judged(frame); got != leaves {
		t.Errorf("before it is blocked: %+v", got)
	}
	r.nft("add element inet t blocked { 10.0.1.3 }")
	r.settled()
	if got, _ := r.judged(frame); got != byRule {
		t.Errorf("after it is blocked: %+v", got)
	}
}

// TestAFirewallOfNftWithStates: a flood of SYNs ends in front of the usual rules, and packets of connections are left to the stack.
func TestAFirewallOfNftWithStates(t *testing.T) {
	needIptables(t)
	r := newRouter(t, cube.TypeTC, `{}`)
	r.changed("dport 24", func() {
		r.nft(`flush ruleset
table inet filter {
	chain forward {
		type filter hook forward priority filter; policy drop;
		ct state vmap { established : accept, related : accept, invalid : drop }
		tcp dport 22 ct state new counter accept
		tcp dport 24 ct state new counter drop
	}
	chain output {
		type filter hook output priority filter; policy accept;
		ct state invalid drop
	}
}
table ip nat {
	chain postrouting {
		type nat hook postrouting priority srcnat;
		oifname "veth2" masquerade
	}
}
`)
	})
	from, to := r.mac()
	ip := func() *pkt.Frame { return pkt.Eth(from, to).IPv4(client, server) }
	syn := pkt.TCPFlags{SYN: true}
	for _, tt := range []struct {
		what  string
		frame *pkt.Frame
		want  bpftest.Outcome
	}{
		{"a new connection that is accepted", ip().TCP(1, 22, syn), passes},
		{"a new connection that a rule drops", ip().TCP(1, 24, syn), byRule},
		{"a new connection that the policy drops", ip().TCP(1, 25, syn), byEnd},
		{"no SYN", ip().TCP(1, 25, pkt.TCPFlags{ACK: true}), passes},
		{"UDP, whose state is not known", ip().UDP(1, 25), passes},
	} {
		if got, _ := r.judged(tt.frame.Bytes()); got != tt.want {
			t.Errorf("%s: got %+v, want %+v", tt.what, got, tt.want)
		}
	}
}

// TestWhatKeepsRulesOfNftInTheStack: chains whose order is not known, and those that give connections helpers.
func TestWhatKeepsRulesOfNftInTheStack(t *testing.T) {
	needIptables(t)
	r := newRouter(t, cube.TypeTC, `{}`)
	from, to := r.mac()
	frame := pkt.Eth(from, to).IPv4(client, server).UDP(1, 81).Bytes()
	for _, tt := range []struct {
		what, add, check string
	}{
		{"alone", "", ""},
		{"the same priority", "table ip y {\nchain f {\ntype filter hook forward priority 3\ncounter\n}\n}\n", "order-forward"},
		{"a helper", "table ip y {\nct helper h {\ntype \"ftp\" protocol tcp\n}\nchain f {\ntype filter hook output priority 3\ntcp dport 21 ct helper set \"h\"\n}\n}\n", "chains-before-forward"},
		{"a set that packets change", "table inet x {\nset s {\ntype ipv4_addr\nflags dynamic\nsize 9\n}\nchain f {\ntype filter hook forward priority -3\nudp dport 9 add @s { ip saddr }\nip saddr @s drop\n}\n}\n", "rule"},
	} {
		r.nft("flush ruleset\ntable inet x {\nchain g {\ntype filter hook forward priority 3\nudp dport 81 drop\n}\n}\n" + tt.add)
		want := passes
		if tt.check == "" {
			want = byRule
		}
		netns.Eventually(t, bpftest.Patience, func() error {
			got, _ := r.RunBytes("veth1", frame)
			if tt.check != "" && tt.check != "rule" && !strings.Contains(r.Read("f environment IPV4 "+tt.check+" ok"), "false") || r.status().Gate != "OPEN" || got != want {
				return fmt.Errorf("%s: got %+v, want %+v: %s", tt.what, got, want, r.Read("f environment"))
			}
			return nil
		})
	}
}

// TestTablesOfNftBesideThoseOfIptables: nft prints one by one those that iptables-nft-save does not.
func TestTablesOfNftBesideThoseOfIptables(t *testing.T) {
	needIptables(t)
	r := newRouter(t, cube.TypeTC, `{}`)
	from, to := r.mac()
	r.restore("iptables-nft", about82("ACCEPT"))
	for _, names := range [][]string{{"x"}, {"x", "y"}, {"x.1"}, {"filter"}, {"a", "b", "c", "d", "e"}} {
		var tables strings.Builder
		for n, name := range names {
			fmt.Fprintf(&tables, "add table inet %s\nadd chain inet %s f { type filter hook forward priority %d; }\nadd rule inet %s f udp dport %d drop\n", name, name, n+1, name, 83+n)
		}
		r.changed("udp dport 83", func() { r.nft(tables.String()) })
		for n, name := range names {
			if got, _ := r.judged(pkt.Eth(from, to).IPv4(client, server).UDP(1, uint16(83+n)).Bytes()); got != byRule {
				t.Errorf("tables %v: a packet that %q drops: got %+v, want %+v", names, name, got, byRule)
			}
		}
		for port, want := range map[uint16]bpftest.Outcome{81: byRule, 82: leaves} {
			if got, _ := r.judged(pkt.Eth(from, to).IPv4(client, server).UDP(1, port).Bytes()); got != want {
				t.Errorf("tables %v: port %d: got %+v, want %+v", names, port, got, want)
			}
		}
		for _, name := range names {
			r.nft(fmt.Sprintf("delete table inet %s\n", name))
		}
	}
}
