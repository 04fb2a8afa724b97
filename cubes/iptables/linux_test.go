// SPDX-License-Identifier: Apache-2.0

package iptables_test

// The same random rules and traffic through the cube and through a Linux router with iptables: each packet must pass or be
// dropped in both, and each rule must count the same packets and bytes.

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/polycube/polycube/conntrack"
	"github.com/polycube/polycube/cube"
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
		counter seen {}; counter passed {}; counter marker {}; counter raw {}
		counter s_new {}; counter s_established {}; counter s_related {}; counter s_invalid {}; counter s_untracked {}
		chain first { type filter hook prerouting priority -400; policy accept; ether type 0x88b5 drop; udp dport 40000 udp length 9 counter name "marker" drop; }
		chain behind { type filter hook prerouting priority -290; policy accept; counter name "raw"; }
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

// judged is a packet; unseen if the table raw has dropped it.
type judged struct {
	traffic.Judged
	unseen bool
}

// judge sends a packet and another one, and waits for the latter: then the router has dealt with both.
func (l *linux) judge(p traffic.Packet) (judged, error) {
	h := l.Hosts[p.From]
	frame := func(ip []byte) []byte { return pkt.Eth(h.MAC.String(), h.OuterMAC.String()).IP(ip).Bytes() }
	j := judged{Judged: traffic.Judged{Packet: p, Frame: frame(p.IP)}}
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
	j.unseen = now["raw"] == l.counters["raw"]
	if now["seen"] == l.counters["seen"] && !j.unseen {
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

func newOurs(t *testing.T) *ours { return newOursOf(t, cube.TypeTC) }

func newOursOf(t *testing.T, typ cube.Type) *ours {
	l := bpftest.New(t, bpftest.Options{Hosts: 2, Type: typ})
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
	theirs, hooks := newLinux(t), []*ours{newOurs(t), newOursOf(t, cube.TypeXDPDRV)}
	rounds, packets := uint64(25), 400
	if os.Getenv("POLYCUBE_SOAK") != "" {
		rounds = 500
	}
	passed, dropped, known, ruled := 0, 0, 0, 0
	for round := range rounds {
		o := hooks[round%2]
		g := &generator{rand.New(rand.NewPCG(seed+round, 5))}
		rules := []*ruleset{g.ruleset("filter"), g.ruleset("raw")}
		if (seed+round)%2 == 0 {
			rules[1] = &ruleset{table: "raw"}
		}
		headers := slices.Concat(rules[0].headers, rules[1].headers)
		all, left := theirs.compared(t, func() { theirs.load(t, rules) }, headers, seed+round, packets)
		known += left
		o.Set("DELETE", "ipt session-table", "")
		for i, program := range versions {
			text := rules[0].text(i, "INPUT -j side0", "OUTPUT -j side1") + rules[1].text(i, "PREROUTING -j side0", "OUTPUT -j side1")
			o.do(t, text, program+"-restore")
		}
		p, d := o.judges(t, all, seed+round, func() string {
			return rules[0].text(0) + rules[1].text(0) + rules[0].text(1) + rules[1].text(1)
		})
		passed, dropped = passed+p, dropped+d
		for _, program := range versions {
			for _, table := range []string{"filter", "raw"} {
				want := shared(theirs.run(t, "", program+"-nft-save", "-c", "-t", table))
				ruled += differ(t, seed+round, want, shared(o.do(t, "", program+"-save", "-c", "-t", table)))
			}
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
func (l *linux) load(t *testing.T, rules []*ruleset) {
	t.Helper()
	if err := l.Forget(); err != nil {
		t.Fatal(err)
	}
	for i, program := range versions {
		for _, r := range rules {
			l.run(t, "", program+"-nft", "-t", r.table, "-F") // else a hashlimit finds the groups of the one before with its name
		}
		text := rules[0].text(i, "FORWARD -i veth0 -j side0", "FORWARD -i veth1 -j side1") +
			rules[1].text(i, "PREROUTING -i veth0 -j side0", "PREROUTING -i veth1 -j side1")
		l.run(t, text, program+"-nft-restore")
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
	if j.unseen || j.Class == conntrack.Untracked {
		if j.Conn != nil {
			j.Conn.Ended = true // later segments would be about one that was not seen
		}
		return j.Judged, true
	}
	why, err := j.Apply(l.Router, conntrack.Options{PickUp: true, MaxRetrans: 3})
	if err != nil {
		t.Fatalf("seed %d: %v", seed, err)
	}
	return j.Judged, why == ""
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
