// SPDX-License-Identifier: Apache-2.0

package nft

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/polycube/polycube/iptables/language"
)

// listed is what a host's tables are for a family, as text.
func listed(t testing.TB, h *Host, of language.Family) string {
	t.Helper()
	tables, err := h.Tables(of, func(string, string) bool { return false })
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	for _, one := range tables {
		fmt.Fprintf(&out, "%s %s %s tracks: %t alters: %t\n", of, one.Family, one.Name, one.Tracks, one.Alters)
		for _, c := range one.Chains {
			fmt.Fprintf(&out, "  %s %s %s %d %s\n", c.Name, c.Type, c.Hook, c.Priority, c.Policy)
			for _, r := range c.Rules {
				counted := ""
				if r.Counted {
					counted = fmt.Sprintf(" [%d:%d]", r.Packets, r.Bytes)
				}
				fmt.Fprintf(&out, "    %d %s%s\n", r.Handle, r.Text, counted)
				for _, is := range r.Is {
					fmt.Fprintln(&out, strings.TrimRight("      "+is.String(), " "))
				}
				if r.Why != "" {
					fmt.Fprintf(&out, "      ... %s\n", r.Why)
				}
			}
		}
	}
	return out.String()
}

// TestTheTablesOfAHost: the input is mostly what nft has printed.
func TestTheTablesOfAHost(t *testing.T) {
	h, err := ReadHost(read(t, "host.json"))
	if err != nil {
		t.Fatal(err)
	}
	got := listed(t, h, language.IPv4) + listed(t, h, language.IPv6)
	lines, want := strings.Split(got, "\n"), strings.Split(read(t, "host.txt"), "\n")
	for i := range max(len(lines), len(want)) {
		if i >= len(lines) || i >= len(want) || lines[i] != want[i] {
			t.Fatalf("line %d differs:\n%s", i+1, strings.Join(lines[min(i, len(lines)):min(i+3, len(lines))], "\n"))
		}
	}
}

// FuzzReadHost checks that what is read of any input can be printed and read again, and that jumps lead to chains of the table.
func FuzzReadHost(f *testing.F) {
	f.Add(read(f, "host.json"))
	f.Add(read(f, "ruleset.json"))
	f.Fuzz(func(t *testing.T, input string) {
		h, err := ReadHost(input)
		if err != nil {
			return
		}
		for _, of := range []language.Family{language.IPv4, language.IPv6} {
			tables, err := h.Tables(of, func(string, string) bool { return false })
			if err != nil {
				return
			}
			for _, table := range tables {
				for _, c := range table.Chains {
					for _, r := range c.Rules {
						for _, is := range r.Is {
							jump, ok := is.Target.(language.Jump)
							if ok && !slices.ContainsFunc(table.Chains, func(c HostChain) bool { return c.Name == jump.Chain }) {
								t.Fatalf("%s leads to the chain %q, which is not in the table", r.Text, jump.Chain)
							}
						}
					}
				}
			}
		}
	})
}
