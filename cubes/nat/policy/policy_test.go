// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"fmt"
	"strings"
	"testing"

	"github.com/polycube/polycube/iptables/commands"
)

// compile compiles rules of IPv4.
func compile(t *testing.T, text string) (*Policy, error) {
	t.Helper()
	var tables [len(Families)]*commands.View
	for i, family := range Families {
		if i > 0 {
			text = ""
		}
		v, err := commands.Parse(family, commands.NAT, text, true)
		if err != nil {
			t.Fatal(err)
		}
		tables[i] = v
	}
	return Compile(tables)
}

// TestRowsOfChains: the rows that follow each, for a packet that matches and for one that does not.
func TestRowsOfChains(t *testing.T) {
	p, err := compile(t, `*nat
:A - [0:0]
:B - [0:0]
-A PREROUTING -p tcp -j A
-A PREROUTING -p udp -g A
-A PREROUTING -j ACCEPT
-A A -j RETURN
-A A -j B
-A B -p tcp
COMMIT
`)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for i, r := range p.Rows[8:19] {
		got = append(got, fmt.Sprintf("%d:%d/%d", 8+i, r.Hit, r.Miss))
	}
	want := "[8:9/12 9:12/10 10:11/12 11:12/12 12:13/17 13:16/14 14:15/16 15:16/16 16:18/0 17:18/18 18:0/0]"
	if fmt.Sprint(got) != want {
		t.Errorf("%v, want %s", got, want)
	}
	if p.Rows[0].Hit != 8 || p.Rows[18].Does != accept {
		t.Errorf("the first row is %d, and the policy %+v", p.Rows[0].Hit, p.Rows[18])
	}
}

// TestTooManyRows: copies of chains are refused before they take all memory, and so are chains that are nested too deeply.
func TestTooManyRows(t *testing.T) {
	var wide, deep strings.Builder
	wide.WriteString("*nat\n")
	deep.WriteString("*nat\n")
	for i := range 20 {
		fmt.Fprintf(&wide, ":C%d - [0:0]\n", i)
		fmt.Fprintf(&deep, ":C%d - [0:0]\n", i)
	}
	for i := range 19 {
		for range 10 {
			fmt.Fprintf(&wide, "-A C%d -j C%d\n", i, i+1)
		}
		fmt.Fprintf(&deep, "-A C%d -j C%d\n", i, i+1)
	}
	for text, want := range map[string]string{
		wide.String() + "-A POSTROUTING -j C10\nCOMMIT\n": "more than 32768 rules",
		deep.String() + "-A POSTROUTING -j C0\nCOMMIT\n":  "nested by more than 16 chains",
	} {
		if _, err := compile(t, text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

// TestPortsOfARow: those of sources come first, whatever comes first in the rule.
func TestPortsOfARow(t *testing.T) {
	p, err := compile(t, "*nat\n-A PREROUTING -p tcp -m multiport --dports 1:2,5 -m tcp --sport 9 -j ACCEPT\nCOMMIT\n")
	if err != nil {
		t.Fatal(err)
	}
	r := p.Rows[8]
	if r.SPorts != 1 || r.DPorts != 2 || fmt.Sprint(r.Port[:4]) != "[{9 9} {1 2} {5 5} {0 0}]" {
		t.Errorf("%d, %d, %v", r.SPorts, r.DPorts, r.Port)
	}
}
