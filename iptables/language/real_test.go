// SPDX-License-Identifier: Apache-2.0

package language

// The comparison with iptables itself, on random rules.

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"testing"

	"github.com/polycube/polycube/test/netns"
	"github.com/polycube/polycube/test/repeat"
)

func TestMain(m *testing.M) { os.Exit(netns.CheckLeaks(m)) }

// randomRules is the number of rules that are compared in each table.
const randomRules = 150

// programs are the two implementations of iptables. The first translates some matches into those of nftables.
var programs = map[Family][]string{
	IPv4: {"iptables-nft", "iptables-legacy"},
	IPv6: {"ip6tables-nft", "ip6tables-legacy"},
}

// TestRulesPrintAsIptablesPrintsThem restores random rules with iptables and compares what it lists with what the
// package prints. It then restores what the package printed.
func TestRulesPrintAsIptablesPrintsThem(t *testing.T) {
	seed := repeat.Seed(t)
	for family, names := range programs {
		for _, program := range names {
			t.Run(program, func(t *testing.T) {
				ns := netns.New(t)
				ns.Run("ipset", "create", "one", "hash:ip", "timeout", "0", "family", inetOf(family))
				ns.Run("ipset", "create", "two", "hash:ip,port", "timeout", "0", "family", inetOf(family))
				g := &generator{Rand: rand.New(rand.NewPCG(seed, uint64(family))), family: family}
				for _, table := range []string{"filter", "nat", "mangle", "raw"} {
					compareTable(t, ns, program, g, table)
				}
			})
		}
	}
}

func compareTable(t *testing.T, ns *netns.Namespace, program string, g *generator, table string) {
	t.Helper()
	file := "*" + table + "\n:user - [0:0]\n:other - [0:0]\n"
	for range randomRules {
		file += "-A user " + g.rule(table) + "\n"
	}
	file += "COMMIT\n"
	tables, err := ReadSave(g.family, strings.NewReader(file))
	if err != nil {
		t.Fatalf("%v\n%s", err, numbered(file))
	}
	want := restored(t, ns, program, table, file)
	printed := written(t, tables, false)
	compareLines(t, file, printed, want)
	compareLines(t, file, printed, restored(t, ns, program, table, printed))
	compareSaved(t, ns, program, g.family, table)
	ns.Run(program, "-t", table, "-F")
}

// compareSaved reads and writes what iptables-save printed.
func compareSaved(t *testing.T, ns *netns.Namespace, program string, family Family, table string) {
	t.Helper()
	var want strings.Builder
	for line := range strings.Lines(ns.Run(program+"-save", "-c", "-t", table)) {
		if line[0] != '#' {
			want.WriteString(line)
		}
	}
	tables, err := ReadSave(family, strings.NewReader(want.String()))
	if err != nil {
		t.Fatalf("%v\n%s", err, numbered(want.String()))
	}
	if got := written(t, tables, true); got != want.String() {
		t.Errorf("%s-save printed\n%swhich is written as\n%s", program, want.String(), got)
	}
}

// restored loads a file and returns what the program then saves of the chain.
func restored(t *testing.T, ns *netns.Namespace, program, table, file string) string {
	t.Helper()
	cmd := ns.Command(program+"-restore", "-T", table)
	cmd.Stdin = strings.NewReader(file)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%s-restore: %v: %s\n%s", program, err, out, numbered(file))
	}
	return ns.Run(program, "-t", table, "-S", "user")
}

// compareLines compares the rules in order.
func compareLines(t *testing.T, file, got, want string) {
	t.Helper()
	rules := func(text string) (out []string) {
		for line := range strings.Lines(text) {
			if strings.HasPrefix(line, "-A ") {
				out = append(out, strings.TrimSpace(line))
			}
		}
		return out
	}
	given, ours, theirs := rules(file), rules(got), rules(want)
	if len(ours) != len(theirs) {
		t.Fatalf("%d rules, iptables has %d\n%s", len(ours), len(theirs), want)
	}
	for i, line := range ours {
		if line != theirs[i] {
			t.Errorf("%s\n is printed as %s\nby iptables as %s", given[min(i, len(given)-1)], line, theirs[i])
		}
	}
}

func numbered(text string) string {
	var out bytes.Buffer
	for i, line := range strings.Split(text, "\n") {
		fmt.Fprintf(&out, "%d %s\n", i+1, line)
	}
	return out.String()
}

func inetOf(family Family) string {
	if family == IPv6 {
		return "inet6"
	}
	return "inet"
}
