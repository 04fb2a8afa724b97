// SPDX-License-Identifier: Apache-2.0

package iptables_test

// The same random rules and traffic through the cube and through a Linux router with iptables: each packet must pass or be
// dropped in both, and each rule must count the same packets and bytes.

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/polycube/polycube/conntrack"
	"github.com/polycube/polycube/test/bpftest"
	_ "github.com/polycube/polycube/test/bpftest/cubes" // a cube to attach to
	"github.com/polycube/polycube/test/netfilter"
	"github.com/polycube/polycube/test/netns"
	"github.com/polycube/polycube/test/pace"
	"github.com/polycube/polycube/test/pkt"
	"github.com/polycube/polycube/test/repeat"
	"github.com/polycube/polycube/test/rulesets"
	"github.com/polycube/polycube/test/traffic"
)

func TestMain(m *testing.M) { os.Exit(netns.CheckLeaks(m)) }

// versions are the prefixes of the programs for both families.
var versions = []string{"iptables", "ip6tables"}

// linux is the router.
type linux struct {
	*netfilter.Router
	counters map[string]uint64
}

func newLinux(t *testing.T) *linux {
	for _, program := range versions {
		if _, err := exec.LookPath(program + "-nft"); err != nil {
			t.Skipf("%s-nft is not installed: there is nothing to compare with", program)
		}
	}
	l := &linux{Router: netfilter.NewRouter(t, conntrack.Options{PickUp: true, MaxRetrans: 3}, conntrack.DefaultTimeouts)}
	if err := l.Load(`table inet f {
		counter seen {}; counter passed {}; counter marker {}
		counter s_new {}; counter s_established {}; counter s_related {}; counter s_invalid {}; counter s_untracked {}
		chain first { type filter hook prerouting priority -400; policy accept; ether type 0x88b5 drop; udp dport 40000 udp length 9 counter name "marker" drop; }
		chain before { type filter hook forward priority -10; policy accept; counter name "seen"
			ct state new counter name "s_new"
			ct state established counter name "s_established"
			ct state related counter name "s_related"
			ct state invalid counter name "s_invalid"
			ct state untracked counter name "s_untracked"
		}
		chain after { type filter hook forward priority 10; policy accept; counter name "passed"; }
	}`); err != nil {
		t.Fatal(err)
	}
	return l
}

// run runs a program of iptables in the router.
func (l *linux) run(t *testing.T, stdin string, args ...string) string {
	t.Helper()
	cmd := l.Command(args[0], args[1:]...)
	cmd.Stdin = strings.NewReader(stdin)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v: %s\n%s", strings.Join(args, " "), err, out, stdin)
	}
	return string(out)
}

// classes are the counters of states.
var classes = map[string]conntrack.Class{
	"s_new": conntrack.New, "s_established": conntrack.Established, "s_related": conntrack.Related, "s_invalid": conntrack.Invalid,
	"s_untracked": conntrack.Untracked,
}

// judge sends a packet and another one, and waits for the latter: then the router has dealt with both.
func (l *linux) judge(p traffic.Packet) (traffic.Judged, error) {
	h := l.Hosts[p.From]
	frame := func(ip []byte) []byte { return pkt.Eth(h.MAC.String(), h.OuterMAC.String()).IP(ip).Bytes() }
	j := traffic.Judged{Packet: p, Frame: frame(p.IP)}
	if err := l.Send(p.From, j.Frame); err != nil {
		return j, err
	}
	marker := pkt.IPv4Header{From: "198.51.100.7", To: "198.51.100.8", Protocol: pkt.ProtoUDP, TTL: 64}
	if err := l.Send(p.From, frame(marker.Packet(pkt.UDPDatagram("198.51.100.7", "198.51.100.8", 1, 40000, make([]byte, 1))))); err != nil {
		return j, err
	}
	var now map[string]uint64
	for deadline := time.Now().Add(pace.Stretch(10 * time.Second)); ; {
		var err error
		if now, err = l.Counters("f"); err != nil {
			return j, err
		}
		if now["marker"] > l.counters["marker"] {
			break
		}
		if time.Now().After(deadline) {
			return j, fmt.Errorf("the router does not answer")
		}
	}
	if now["seen"] == l.counters["seen"] {
		return j, fmt.Errorf("the router does not forward %s %x", p.What, j.Frame)
	}
	for name, class := range classes {
		if now[name] > l.counters[name] {
			j.Class = class
		}
	}
	j.Passed = now["passed"] > l.counters["passed"]
	l.counters = now
	return j, nil
}

// ours is a forwarder with the cube on its first port: what comes in is in INPUT, because the machine forwards nothing, and
// what goes out in OUTPUT, because a test run receives it from no netdev.
type ours struct{ *bpftest.Lab }

func newOurs(t *testing.T) *ours {
	l := bpftest.New(t, bpftest.Options{Hosts: 2})
	l.Create("simpleforwarder", "f", `{"ports":[{"name":"p1","peer":"veth1"},{"name":"p2","peer":"veth2"}],
		"actions":[{"inport":"p1","action":"FORWARD","outport":"p2"},{"inport":"p2","action":"FORWARD","outport":"p1"}]}`)
	l.Create("iptables", "ipt", `{"log-limit":1,"reject-limit":1}`)
	l.Attach("ipt", "f:p1")
	return &ours{l}
}

// do runs a program of iptables.
func (o *ours) do(t *testing.T, input, program string, args ...string) string {
	t.Helper()
	list := make([]map[string]string, len(args))
	for i, a := range args {
		list[i] = map[string]string{"text": a}
	}
	body, err := json.Marshal(map[string]any{"program": program, "argument": list, "input": input})
	if err != nil {
		t.Fatal(err)
	}
	var out struct {
		Output, Error string
		Code          int
	}
	if err := json.Unmarshal([]byte(o.Action("ipt run", string(body))), &out); err != nil {
		t.Fatal(err)
	}
	if out.Code != 0 {
		t.Fatalf("%s %v: %d %s\n%s\n%s", program, args, out.Code, out.Error, out.Output, input)
	}
	return out.Output
}

// judges sends packets, and fails if the cube judges one in another way. It returns how many pass, and how many do not.
func (o *ours) judges(t *testing.T, all []traffic.Judged, seed uint64, rules func() string) (passed, dropped int) {
	t.Helper()
	for i := range all {
		h := o.Hosts[all[i].From]
		frame := pkt.Eth(h.MAC.String(), h.OuterMAC.String()).IP(all[i].IP).Bytes()
		got := o.RunAll(h.Outer, [][]byte{frame})
		if (got[0] != nil) != all[i].Passed {
			t.Fatalf("seed %d: packet %d, %s of class %v from side %d, passes: %t, want %t: %x\n%s", seed, i, all[i].What, all[i].Class,
				all[i].From, got[0] != nil, all[i].Passed, all[i].IP, rules())
		}
		if all[i].Passed {
			passed++
		} else {
			dropped++
		}
	}
	return passed, dropped
}

// shared returns the lines of a save file about the chains that both have.
func shared(save string) (out []string) {
	for line := range strings.SplitSeq(save, "\n") {
		if strings.Contains(line, "-A side") || strings.Contains(line, "-A u") {
			out = append(out, line)
		}
	}
	return out
}

func TestTheCubeJudgesAsIptablesDoes(t *testing.T) {
	seed := repeat.Seed(t)
	theirs, o := newLinux(t), newOurs(t)
	rounds, packets := uint64(25), 400
	if os.Getenv("POLYCUBE_SOAK") != "" {
		rounds = 500
	}
	passed, dropped, known, ruled := 0, 0, 0, 0
	for round := range rounds {
		g := &generator{rand.New(rand.NewPCG(seed+round, 5))}
		rules := g.ruleset()
		all, left := theirs.compared(t, func() { theirs.load(t, rules) }, rules.headers, seed+round, packets)
		known += left
		o.Set("DELETE", "ipt session-table", "")
		for i, program := range versions {
			o.do(t, rules.text(i, "", "-j side0", "-j side1"), program+"-restore")
		}
		p, d := o.judges(t, all, seed+round, func() string { return rules.text(0, "", "", "") + rules.text(1, "", "", "") })
		passed, dropped = passed+p, dropped+d
		for _, program := range versions {
			want, got := shared(theirs.run(t, "", program+"-nft-save", "-c")), shared(o.do(t, "", program+"-save", "-c"))
			ruled += differ(t, seed+round, want, got)
		}
		if t.Failed() {
			return
		}
	}
	t.Logf("%d packets pass, %d are dropped, %d are not compared because of known differences, %d rules have counted packets", passed, dropped, known, ruled)
	if passed < 1000 || dropped < 400 || ruled < 300 {
		t.Error("these are too few")
	}
}

// load forgets connections and loads rules.
func (l *linux) load(t *testing.T, rules *ruleset) {
	t.Helper()
	if err := l.Forget(); err != nil {
		t.Fatal(err)
	}
	for i, program := range versions {
		l.run(t, "", program+"-nft", "-F") // else a hashlimit finds the groups of the one before with its name
		l.run(t, rules.text(i, "-i veth0 -j side0\n-A FORWARD -i veth1 -j side1", "", ""), program+"-nft-restore")
	}
}

// compared returns packets that Linux has judged by the rules, and how many it has left out because we judge them in another
// way on purpose. Since the rules must not have counted those, the others are sent again: then rules with a limit or a
// statistic may judge them in another way, and there may be others to leave out.
func (l *linux) compared(t *testing.T, load func(), headers []rulesets.Rule, seed uint64, packets int) (all []traffic.Judged, known int) {
	t.Helper()
	load()
	source := traffic.New(headers, seed)
	for range packets {
		j, ok := l.applied(t, source.Next(), seed)
		if !ok {
			known++
			continue
		}
		all = append(all, j)
	}
	for left := known; left > 0; known += left {
		load()
		for i := range all {
			all[i].Again()
		}
		again := all
		all, left = nil, 0
		for _, was := range again {
			// The source sends nothing more in a connection that has ended.
			if was.Conn == nil || !was.Conn.Ended {
				if j, ok := l.applied(t, was.Packet, seed); ok {
					all = append(all, j)
					continue
				}
			}
			left++
		}
	}
	return all, known
}

// applied has Linux judge a packet; false if we judge it in another way.
func (l *linux) applied(t *testing.T, p traffic.Packet, seed uint64) (traffic.Judged, bool) {
	t.Helper()
	j, err := l.judge(p)
	if err != nil {
		t.Fatalf("seed %d: %v", seed, err)
	}
	why, err := j.Apply(l.Router, conntrack.Options{PickUp: true, MaxRetrans: 3})
	if err != nil {
		t.Fatalf("seed %d: %v", seed, err)
	}
	return j, why == ""
}

// differ compares the rules of both with what they have counted, and returns how many have counted packets.
func differ(t *testing.T, seed uint64, want, got []string) (counted int) {
	if len(want) != len(got) {
		t.Fatalf("seed %d: %d rules, want %d", seed, len(got), len(want))
	}
	for i := range want {
		if !strings.HasPrefix(want[i], "[0:") {
			counted++
		}
		wanted, _, _ := strings.Cut(want[i], "]") // Linux writes some rules in another way
		if counts, _, _ := strings.Cut(got[i], "]"); counts != wanted {
			t.Errorf("seed %d: %s, want %s", seed, got[i], want[i])
		}
	}
	return counted
}

// generator makes random rules.
type generator struct{ *rand.Rand }

// ruleset are the chains of both families; headers are what their rules are about.
type ruleset struct {
	chains  [2]map[string][]string
	names   []string
	headers []rulesets.Rule
}

// text is the set in the format of iptables-save.
func (r *ruleset) text(family int, forward, input, output string) string {
	var b strings.Builder
	b.WriteString("*filter\n:INPUT ACCEPT [0:0]\n:FORWARD ACCEPT [0:0]\n:OUTPUT ACCEPT [0:0]\n")
	for _, name := range r.names {
		fmt.Fprintf(&b, ":%s - [0:0]\n", name)
	}
	for chain, rule := range map[string]string{"FORWARD": forward, "INPUT": input, "OUTPUT": output} {
		if rule != "" {
			fmt.Fprintf(&b, "-A %s %s\n", chain, rule)
		}
	}
	for _, name := range r.names {
		for _, rule := range r.chains[family][name] {
			fmt.Fprintf(&b, "-A %s %s\n", name, rule)
		}
	}
	b.WriteString("COMMIT\n")
	return b.String()
}

func (g *generator) ruleset() *ruleset {
	r := &ruleset{names: []string{"side0", "side1", "u0", "u1", "u2", "u3"}}
	for family := range r.chains {
		r.chains[family] = map[string][]string{}
		for i, name := range r.names {
			for range 1 + g.IntN(12) {
				rule, about := g.rule(family == 1, r.names[max(2, i+1):])
				r.chains[family][name] = append(r.chains[family][name], rule)
				r.headers = append(r.headers, about)
			}
		}
	}
	return r
}

// rule is a rule, and what headers it is about. It may jump to some chains.
func (g *generator) rule(six bool, chains []string) (string, rulesets.Rule) {
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
	return strings.Join(append(words, g.target(chains)), " "), about
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
		"-m state --state ESTABLISHED", fmt.Sprintf("-m length --length %d:%d", 20+g.IntN(30), 50+g.IntN(60)), "-m length ! --length 40",
		fmt.Sprintf("-m statistic --mode nth --every %d --packet %d", 2+g.IntN(3), g.IntN(2)), fmt.Sprintf("-m limit --limit 1/day --limit-burst %d", 1+g.IntN(9)),
		fmt.Sprintf("-m hashlimit --hashlimit-upto 1/hour --hashlimit-burst %d --hashlimit-mode srcip --hashlimit-name h%d", 1+g.IntN(4), g.Uint32()),
		fmt.Sprintf("-m hashlimit --hashlimit-above 1/hour --hashlimit-burst %d --hashlimit-mode dstip,dstport --hashlimit-name h%d", 1+g.IntN(4), g.Uint32()),
		"-m comment --comment \"two words\"", "-m mark --mark 0x1", "-m mark ! --mark 0x1/0x3", "-m tos --tos 0x00/0xff", "-m pkttype --pkt-type unicast",
		"-m string --hex-string \"|000000|\" --algo bm --to 65535", "-m string ! --hex-string \"|0001|\" --algo kmp --from 20 --to 60",
		"-p tcp -m multiport --dports 1:1000,2000:30000", "-p tcp -m multiport ! --dports 1:1000", "-p tcp -m multiport --ports 1:500,1000:40000",
		"-p tcp -m tcp --tcp-option 3", "-p tcp -m tcp ! --tcp-option 3", "-p tcp -m tcp --tcp-option 1",
	}
	if six {
		all = append(all, "-m hl --hl-gt 10", "-m iprange --src-range 2001:db8::-2001:dbf::1")
	} else {
		all = append(all, "-m ttl --ttl-gt 10", "-m iprange --src-range 1.0.0.0-100.1.2.3", "-m iprange ! --dst-range 10.0.0.1-200.0.0.0", "! -f",
			"-m addrtype --dst-type UNICAST")
	}
	return all[g.IntN(len(all))]
}

// target is the end of a rule.
func (g *generator) target(chains []string) string {
	all := []string{"", "", "-j ACCEPT", "-j ACCEPT", "-j DROP", "-j REJECT", "-j RETURN", "-j MARK --set-xmark 0x1/0xffffffff", "-j MARK --set-xmark 0x2/0x2"}
	for _, c := range chains {
		all = append(all, "-j "+c, "-j "+c, "-g "+c)
	}
	return all[g.IntN(len(all))]
}
