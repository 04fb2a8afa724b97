// SPDX-License-Identifier: Apache-2.0

// The table nat of pcn-iptables beside that of iptables.

package e2e

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/polycube/polycube/test/netns"
	"github.com/polycube/polycube/test/pace"
	"github.com/polycube/polycube/test/repeat"
)

// natHost is a machine between two networks, with the cubes or with the kernel's own table nat.
type natHost struct {
	*daemon
	nodes map[string]*netns.Node
	// run runs a script in the machine.
	run func(script string) string
}

// natHosts returns one of each kind, alike in everything else.
func natHosts(t *testing.T) (cubes, kernel *natHost) {
	needs(t, "python3")
	server, err := filepath.Abs("testdata/echo.py")
	if err != nil {
		t.Fatal(err)
	}
	host := func() *natHost {
		d := start(t)
		lan, wan := d.betweenNetworks()
		lan.Run("ip", "addr", "add", "10.0.0.3/24", "dev", netns.Inner)
		wan.Run("ip", "addr", "add", "203.0.113.3/24", "dev", netns.Inner)
		h := &natHost{daemon: d, nodes: map[string]*netns.Node{"lan": lan, "wan": wan, "host": {Namespace: d.lab.Namespace}}}
		for name, node := range h.nodes {
			node.Run("sysctl", "-qw", "net.ipv4.icmp_ratelimit=0") // errors are answers, too
			serves(t, node, "python3", server, name, "53", "80", "1000", "1001")
		}
		return h
	}
	cubes, kernel = host(), host()
	cubes.run = func(script string) string { return cubes.inPlaceOfIptables(script) }
	kernel.run = func(script string) string {
		out, err := kernel.shell("exec 2>&1\nset -e\n" + script).CombinedOutput()
		if err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		return string(out)
	}
	cubes.run("pcn-iptables-init")
	for _, h := range []*natHost{cubes, kernel} {
		for name, node := range h.nodes { // until the servers are there
			for deadline := time.Now().Add(patience); ; {
				got := h.probe(t, node, []string{"9:127.0.0.1:1001"}, time.Second)
				if strings.Contains(got, name+": 127.0.0.1:9 to 127.0.0.1:1001") {
					break
				}
				if time.Now().After(deadline) {
					t.Fatalf("the server of %s says:\n%s", name, got)
				}
			}
		}
	}
	return cubes, kernel
}

// counts are the rules of a table with what they have counted.
func (h *natHost) counts(table string) string {
	var out strings.Builder
	for line := range strings.Lines(h.run("iptables -t " + table + " -S -v")) {
		if strings.HasPrefix(line, "-A") {
			out.WriteString(line)
		}
	}
	return out.String()
}

// probe sends datagrams, and returns what was answered.
func (h *natHost) probe(t *testing.T, from *netns.Node, words []string, within time.Duration) string {
	t.Helper()
	script, err := filepath.Abs("testdata/probe.py")
	if err != nil {
		t.Fatal(err)
	}
	out, err := from.Command("python3", append([]string{script, fmt.Sprint(within.Seconds())}, words...)...).CombinedOutput()
	if err != nil {
		t.Errorf("%v\n%s", err, out)
	}
	return string(out)
}

// probeAll probes from all nodes of the machines at once.
func probeAll(t *testing.T, machines []*natHost, words map[string][]string, within time.Duration) []string {
	t.Helper()
	names := slices.Sorted(maps.Keys(words))
	out := make([][]string, len(machines))
	var all sync.WaitGroup
	for i, h := range machines {
		out[i] = make([]string, len(names))
		for j, name := range names {
			all.Go(func() { out[i][j] = name + "\n" + h.probe(t, h.nodes[name], words[name], within) })
		}
	}
	all.Wait()
	joined := make([]string, len(machines))
	for i := range out {
		joined[i] = strings.Join(out[i], "")
	}
	return joined
}

// probeAlike probes from all nodes of both machines, and reports whether the answers, and what the rules of a table have counted, are
// the same. A busy machine may be late with an answer, so it tries again: the same connections are translated alike.
func probeAlike(t *testing.T, cubes, kernel *natHost, words map[string][]string, table string) (got, want string, same bool) {
	t.Helper()
	for _, within := range []time.Duration{pace.Stretch(time.Second), patience} {
		answers := probeAll(t, []*natHost{cubes, kernel}, words, within)
		if got, want = answers[0]+cubes.counts(table), answers[1]+kernel.counts(table); got == want {
			return got, want, true
		}
	}
	return got, want, false
}

// natRules are random rules of the table nat, in the format of iptables-save.
type natRules struct {
	*rand.Rand
	out strings.Builder
}

func (r *natRules) one(of ...string) string { return of[r.IntN(len(of))] }

// conditions of a rule, for a chain that packets meet on their way in, out or both.
func (r *natRules) conditions(in, out bool) string {
	var all []string
	add := func(chance int, of ...string) {
		if r.IntN(chance) == 0 {
			all = append(all, r.one(of...))
		}
	}
	add(3, "-s 10.0.0.0/24", "-s 203.0.113.2/32", "! -s 10.0.0.2/32", "! -s 203.0.113.0/24")
	add(3, "-d 203.0.113.1/32", "-d 203.0.113.0/30", "! -d 10.0.0.0/24", "-d 10.0.0.1/32")
	if in {
		add(3, "-i lan0", "-i wan0", "! -i lan0", "-i wan+")
	}
	if out {
		add(3, "-o lan0", "-o wan0", "! -o wan0", "-o la+")
	}
	all = append(all, "-p udp")
	add(2, "-m udp --dport 53", "-m udp --dport 1000:1001", "-m udp ! --dport 80", "-m multiport --dports 53,1000:1001", "-m multiport ! --dports 80,1000")
	add(4, "-m addrtype --dst-type LOCAL", "-m addrtype ! --dst-type LOCAL", "-m addrtype --src-type UNICAST")
	add(8, "-m comment --comment \"a comment\"", "-m conntrack --ctstate NEW")
	return strings.Join(all, " ")
}

// rules adds rules to a chain.
func (r *natRules) rules(chain string, n int, in, out bool, targets ...string) {
	for range n {
		target := r.one(targets...)
		switch {
		case target != "":
			target = " " + target
		case r.IntN(3) == 0: // without a target, the order of packets does not matter
			target = " -m statistic --mode nth --every 3 --packet 1"
		}
		fmt.Fprintf(&r.out, "-A %s %s%s\n", chain, r.conditions(in, out), target)
	}
}

func (r *natRules) table() string {
	r.out.Reset()
	r.out.WriteString("*nat\n:PREROUTING ACCEPT\n:INPUT ACCEPT\n:OUTPUT ACCEPT\n:POSTROUTING ACCEPT\n:IN - [0:0]\n:OUT - [0:0]\n:MORE - [0:0]\n")
	onward := []string{"", "-j ACCEPT", "-j RETURN"}
	dnat := append(slices.Clone(onward), "-j DNAT --to-destination 10.0.0.2", "-j DNAT --to-destination 10.0.0.3:80", "-j DNAT --to-destination 203.0.113.3:1000",
		"-j REDIRECT", "-j REDIRECT --to-ports 1001", "-j DNAT --to-destination :53")
	snat := append(slices.Clone(onward), "-j MASQUERADE", "-j SNAT --to-source 203.0.113.1", "-j SNAT --to-source 10.0.0.1", "-j MASQUERADE")
	r.rules("PREROUTING", 1+r.IntN(4), true, false, append(dnat, "-j IN", "-j IN", "-g IN", "-j MORE")...)
	r.rules("IN", r.IntN(5), true, false, append(dnat, "-j MORE", "-g MORE")...)
	r.rules("MORE", r.IntN(4), false, false, onward...)
	r.rules("POSTROUTING", 1+r.IntN(4), false, true, append(snat, "-j OUT", "-j OUT", "-g OUT", "-j MORE")...)
	r.rules("OUTPUT", r.IntN(4), false, true, "", "-j ACCEPT", "-j DNAT --to-destination 10.0.0.2", "-j DNAT --to-destination 203.0.113.3:1000",
		"-j REDIRECT --to-ports 1001", "-j REDIRECT", "-j DNAT --to-destination 10.0.0.1:80", "-j MORE")
	r.rules("OUT", r.IntN(5), false, true, append(snat, "-j MORE")...)
	// The kernel has no connections without a rule that translates.
	r.out.WriteString("-A POSTROUTING -s 192.0.2.1/32 -p udp -j MASQUERADE\nCOMMIT\n")
	return r.out.String()
}

// TestRandomTablesNAT: with the same random rules, both machines translate the same connections in the same way, and their rules
// count the same.
func TestRandomTablesNAT(t *testing.T) {
	t.Parallel()
	cubes, kernel := natHosts(t)
	seed := repeat.Seed(t)
	rules := &natRules{Rand: rand.New(rand.NewPCG(seed, 1))}
	to := map[string][]string{
		"lan":  {"203.0.113.2", "203.0.113.3", "203.0.113.1", "10.0.0.1"},
		"wan":  {"203.0.113.1", "10.0.0.2", "10.0.0.3", "10.0.0.1"},
		"host": {"203.0.113.2", "10.0.0.2", "10.0.0.3", "10.0.0.1", "203.0.113.1"},
	}
	sport := 2000
	rounds := natRounds
	if soak {
		rounds *= 25 // 52 connections each, from ports that no other one had
	}
	for round := range rounds {
		table := rules.table()
		words := map[string][]string{}
		for name, addresses := range to {
			for _, a := range addresses {
				for _, port := range []int{53, 80, 1000, 1001} {
					words[name] = append(words[name], fmt.Sprintf("%d:%s:%d", sport, a, port))
					sport++
				}
			}
		}
		for _, h := range []*natHost{cubes, kernel} {
			h.run("iptables-restore <<-'RULES'\n" + table + "RULES")
		}
		if got, want, same := probeAlike(t, cubes, kernel, words, "nat"); !same {
			t.Fatalf("round %d: with\n%s%s", round, table, differences(got, want))
		}
	}
}

// TestRulesKnowWhatIsTranslated: rules of filter about SNAT and DNAT count the same on both machines, for connections that are
// translated on their way in, out, both or neither.
func TestRulesKnowWhatIsTranslated(t *testing.T) {
	t.Parallel()
	cubes, kernel := natHosts(t)
	var rules strings.Builder
	rules.WriteString("*filter\n:INPUT ACCEPT\n:FORWARD ACCEPT\n:OUTPUT ACCEPT\n")
	for _, chain := range []string{"INPUT", "FORWARD", "OUTPUT"} {
		for _, states := range []string{"SNAT", "DNAT", "SNAT,DNAT", "NEW,DNAT", "ESTABLISHED,SNAT", "INVALID,SNAT", "NEW", "ESTABLISHED"} {
			for _, not := range []string{"", "! "} {
				fmt.Fprintf(&rules, "-A %s -p udp -m conntrack %s--ctstate %s\n", chain, not, states)
			}
		}
	}
	rules.WriteString(`COMMIT
*nat
:PREROUTING ACCEPT
:OUTPUT ACCEPT
:POSTROUTING ACCEPT
-A PREROUTING -d 203.0.113.1 -p udp -m udp --dport 53 -j DNAT --to-destination 10.0.0.2:80
-A PREROUTING -d 10.0.0.1 -p udp -m udp --dport 1000 -j REDIRECT --to-ports 1001
-A POSTROUTING -s 10.0.0.0/24 -o wan0 -p udp -j MASQUERADE
-A POSTROUTING -d 10.0.0.2/32 -o lan0 -p udp -m udp --dport 80 -j SNAT --to-source 10.0.0.1
COMMIT
`)
	for _, h := range []*natHost{cubes, kernel} {
		h.run("iptables-restore <<-'RULES'\n" + rules.String() + "RULES")
	}
	words := map[string][]string{
		"lan":  {"2000:203.0.113.2:53", "2001:203.0.113.3:80", "2002:10.0.0.1:1000", "2003:10.0.0.1:1001"},
		"wan":  {"2004:203.0.113.1:53", "2005:10.0.0.2:80", "2006:10.0.0.2:1000", "2007:203.0.113.1:80"},
		"host": {"2008:203.0.113.2:80", "2009:10.0.0.2:1000"},
	}
	got, want, same := probeAlike(t, cubes, kernel, words, "filter")
	if !same {
		t.Fatal(differences(got, want))
	}
	if n := len(regexp.MustCompile(`SNAT.* -c [1-9]|DNAT.* -c [1-9]`).FindAllString(got, -1)); n < 20 {
		t.Errorf("%d rules have counted packets, which is too few to compare:\n%s", n, got)
	}
}

// natRounds is how many tables are compared.
const natRounds = 20

// differences are the lines of two texts that are not the same.
func differences(got, want string) string {
	var out strings.Builder
	a, b := strings.Split(got, "\n"), strings.Split(want, "\n")
	for i := range min(len(a), len(b)) {
		if a[i] != b[i] {
			fmt.Fprintf(&out, "with the cubes: %s\nwith the kernel: %s\n", a[i], b[i])
		}
	}
	return out.String()
}

// TestPublishedPorts: the rules of a container engine publish a port of a host inside, to the network outside, to the host itself by
// one of its addresses, and to hosts inside by the address outside. Connections outlive the rules, and a daemon that is killed.
func TestPublishedPorts(t *testing.T) {
	t.Parallel()
	d := start(t)
	lan, wan := d.betweenNetworks()
	lan.AnswerLines("10.0.0.2:80", sender)
	wan.AnswerLines("203.0.113.2:7000", sender)
	host := &netns.Node{Namespace: d.lab.Namespace}
	d.inPlaceOfIptables(`
		pcn-iptables-init
		iptables -P FORWARD DROP
		iptables -t nat -N DOCKER
		iptables -t nat -A PREROUTING -m addrtype --dst-type LOCAL -j DOCKER
		iptables -t nat -A OUTPUT ! -d 127.0.0.0/8 -m addrtype --dst-type LOCAL -j DOCKER
		iptables -t nat -A POSTROUTING -s 10.0.0.0/24 ! -o lan0 -j MASQUERADE
		iptables -t nat -A POSTROUTING -s 10.0.0.0/24 -d 10.0.0.2/32 -p tcp -m tcp --dport 80 -j MASQUERADE
		iptables -t nat -A DOCKER -p tcp -m tcp --dport 8080 -j DNAT --to-destination 10.0.0.2:80
		iptables -N DOCKER
		iptables -A FORWARD -o lan0 -j DOCKER
		iptables -A FORWARD -o lan0 -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT
		iptables -A FORWARD -i lan0 ! -o lan0 -j ACCEPT
		iptables -A FORWARD -i lan0 -o lan0 -j ACCEPT
		iptables -A DOCKER -d 10.0.0.2/32 -p tcp -m tcp --dport 80 -j ACCEPT`)
	seen := func(from *netns.Node, to, as string) *asked {
		t.Helper()
		c := connectTo(t, from, to)
		if got := c.seenAs(); !strings.HasPrefix(got, as+":") {
			t.Errorf("a connection to %s is seen as one from %s instead of %s", to, got, as)
		}
		return c
	}
	outside := seen(wan, "203.0.113.1:8080", "203.0.113.2")
	inside := seen(lan, "203.0.113.2:7000", "203.0.113.1")
	seen(host, "203.0.113.1:8080", "203.0.113.1")
	seen(host, "10.0.0.1:8080", "10.0.0.1")
	seen(lan, "203.0.113.1:8080", "10.0.0.1")
	if err := dials(wan, "10.0.0.2", 81); err == nil {
		t.Error("the chain FORWARD lets another port through")
	}

	d.inPlaceOfIptables(`iptables -t nat -F`)
	outside.seenAs()
	d.Kill9()
	inside.seenAs()
	d = d.Start()
	outside.seenAs()
	inside.seenAs()
	if err := dials(wan, "203.0.113.1", 8080); err == nil {
		t.Error("without rules, the port is published")
	}
	if got := d.inPlaceOfIptables(`pcn-iptables-save; pcn-iptables-clean; polycubectl show cubes`); !strings.Contains(got, "*nat") || strings.Contains(got, "pcn-nat") {
		t.Errorf("the table, and what is left of the cubes:\n%s", got)
	}
}

// TestRefusedTablesNAT: what cannot be done is refused by option and line, and changes nothing, not even of another table.
func TestRefusedTablesNAT(t *testing.T) {
	t.Parallel()
	d := start(t)
	out := d.inPlaceOfIptables(`
		iptables-restore <<-'RULES' || echo code $?
			*nat
			-A POSTROUTING -j MASQUERADE
			COMMIT
		RULES
		pcn-iptables-init
		iptables-restore --try 5 <<-'RULES' || echo code $?
			*nat
			-A POSTROUTING -j MASQUERADE
			COMMIT
		RULES
		iptables -t nat -S
		iptables -t nat -D POSTROUTING -j MASQUERADE || echo code $?
		iptables -t nat -A POSTROUTING -j LOG || echo code $?
		iptables -t nat -A INPUT -j SNAT --to-source 192.0.2.1 || echo code $?
		iptables-restore <<-'RULES' || echo code $?
			*filter
			-A INPUT -p tcp --dport 99 -j DROP
			COMMIT
			*nat
			-A POSTROUTING -m string --string x --algo bm -j MASQUERADE
			COMMIT
		RULES
		iptables-restore <<-'RULES' || echo code $?
			*nat
			-A POSTROUTING -j MASQUERADE --to-source 192.0.2.1
			COMMIT
		RULES
		polycubectl show cubes
		iptables-save`)
	contains(t, out, "there is no cube pcn-iptables: create it with pcn-iptables-init\ncode 1", "restore it alone (-T nat), and then them\ncode 2", "-P POSTROUTING ACCEPT", "Bad rule (does a matching rule exist in that chain?).\ncode 1", "-j LOG: not supported in the table nat",
		"cannot be translated in the chain INPUT", "-m string: not supported in the table nat", "line 2:")
	for _, unwanted := range []string{"pcn-nat", "*nat", "--dport 99"} {
		if strings.Contains(out, unwanted) {
			t.Errorf("%q is there after what was refused:\n%s", unwanted, out)
		}
	}
}

// TestMasqueradeFollowsTheAddress: when the host has another address, sessions with the old one end, and new ones get the new one.
func TestMasqueradeFollowsTheAddress(t *testing.T) {
	t.Parallel()
	d := start(t)
	lan, wan := d.betweenNetworks()
	wan.AnswerLines("203.0.113.2:7000", sender)
	d.inPlaceOfIptables(`
		pcn-iptables-init
		iptables -t nat -A POSTROUTING -o wan0 -j MASQUERADE`)
	// Between two addresses wan0 has none: until the second one is known, connections get the first address of the host, as in Linux.
	as := func(want string) {
		t.Helper()
		netns.Eventually(t, patience, func() error {
			if got := connectTo(t, lan, "203.0.113.2:7000").seenAs(); !strings.HasPrefix(got, want+":") {
				return fmt.Errorf("a connection is seen as one from %s instead of %s", got, want)
			}
			return nil
		})
	}
	as("203.0.113.1")
	d.lab.Run("ip", "addr", "add", "203.0.113.9/24", "dev", "wan0")
	d.lab.Run("ip", "addr", "del", "203.0.113.1/24", "dev", "wan0")
	d.lab.Run("ip", "addr", "replace", "203.0.113.9/24", "dev", "wan0") // the other one was secondary to it
	for deadline := time.Now().Add(patience); strings.Contains(d.Do("pcn-nat show natting-table"), "203.0.113.1 "); {
		if time.Now().After(deadline) {
			t.Fatal("the session with the address that is gone stays")
		}
	}
	as("203.0.113.9")
}
