// SPDX-License-Identifier: Apache-2.0

package efw

import (
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/polycube/polycube/iptables/language"
)

// TestTablesAreListedAndPrinted compares the list with what nft says, and prints some of the tables alone.
func TestTablesAreListedAndPrinted(t *testing.T) {
	n := legacyHost(t)
	if _, err := exec.LookPath("nft"); err != nil {
		t.Skip("nft is not installed: there are no tables to print")
	}
	var listed []nftTable
	list := func() {
		t.Helper()
		must(t, n.Do(func() (err error) { listed, err = nftTables(); return err }))
	}
	if list(); len(listed) != 0 {
		t.Errorf("a new namespace has the tables %v", listed)
	}
	var want []nftTable
	for _, of := range []nftTable{{"ip", "filter"}, {"ip6", "filter"}, {"inet", "x.1"}, {"netdev", "x"}, {"bridge", "x"}, {"arp", "x"}} {
		n.Run("nft", "add table "+of.family+" "+of.name)
		n.Run("nft", "add chain "+of.family+" "+of.name+" c")
		want = append(want, of)
	}
	if list(); len(listed) != len(want) || slices.ContainsFunc(want, func(of nftTable) bool { return !slices.Contains(listed, of) }) {
		t.Errorf("got %v, want %v", listed, want)
	}
	var texts []string
	must(t, n.Do(func() (err error) { texts, err = printTables(t.Context(), want[1:4]); return err }))
	h, err := readHost(texts...)
	must(t, err)
	var names []string
	for _, f := range families {
		tables, err := h.Tables(f, func(string, string) bool { return false })
		must(t, err)
		for _, one := range tables {
			names = append(names, map[language.Family]string{language.IPv4: "4", language.IPv6: "6"}[f]+" "+one.Family+" "+one.Name)
		}
	}
	if got, want := strings.Join(names, ", "), "4 inet x.1, 4 netdev x, 6 ip6 filter, 6 inet x.1, 6 netdev x"; got != want {
		t.Errorf("printed are %s, want %s", got, want)
	}
	must(t, n.Do(func() error {
		if _, err := printTables(t.Context(), []nftTable{{"ip", "gone"}}); err == nil {
			t.Error("a table that is gone is printed")
		}
		return nil
	}))
}
