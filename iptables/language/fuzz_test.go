// SPDX-License-Identifier: Apache-2.0

package language

import (
	"net/netip"
	"os"
	"reflect"
	"strings"
	"testing"
)

func addr(t *testing.T, text string) netip.Addr {
	t.Helper()
	a, err := netip.ParseAddr(text)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func written(t *testing.T, tables []Table, counters bool) string {
	t.Helper()
	var out strings.Builder
	if err := WriteSave(&out, tables, counters); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

// FuzzReadCommand checks that a command that was read and printed is read as the same command.
func FuzzReadCommand(f *testing.F) {
	for _, name := range []string{"iptables", "ip6tables"} {
		data, err := os.ReadFile("testdata/" + name + ".txt")
		if err != nil {
			f.Fatal(err)
		}
		for line := range strings.Lines(string(data)) {
			if !strings.HasPrefix(line, " ") && !strings.HasPrefix(line, "#") {
				f.Add("-A C "+strings.TrimSpace(line), name == "ip6tables")
			}
		}
	}
	f.Add("-nvxL INPUT 3 --line-numbers", false)
	f.Add("-t nat -I POSTROUTING 2 -s 10.0.0.1,10.0.0.2 -c 1 2", false)
	f.Fuzz(func(t *testing.T, line string, six bool) {
		family := IPv4
		if six {
			family = IPv6
		}
		args, err := SplitLine(line)
		if err != nil {
			return
		}
		c, err := ReadCommand(family, args)
		if err != nil {
			return
		}
		for i, printed := range c.Lines() {
			want := c
			if len(c.Rules) > 0 {
				want.Rules = c.Rules[i : i+1]
			}
			args, err := SplitLine(printed)
			if err != nil {
				t.Fatalf("%q is printed as %q: %v", line, printed, err)
			}
			if again, err := ReadCommand(family, args); err != nil || !reflect.DeepEqual(again, want) {
				t.Fatalf("%q is printed as %q, which is read as\n%#v (%v), not\n%#v", line, printed, again, err, want)
			}
		}
	})
}

// FuzzReadSave checks that a file that was read and written is read as the same tables.
func FuzzReadSave(f *testing.F) {
	f.Add(saved, false)
	f.Add("*mangle\n:PREROUTING - [0:0]\n-A PREROUTING -6 -j MARK --set-mark 1\n-Z\n-E a b\nCOMMIT\n", true)
	f.Fuzz(func(t *testing.T, file string, six bool) {
		family := IPv4
		if six {
			family = IPv6
		}
		tables, err := ReadSave(family, strings.NewReader(file))
		if err != nil {
			return
		}
		text := written(t, tables, true)
		again, err := ReadSave(family, strings.NewReader(text))
		if err != nil {
			t.Fatalf("%q is written as %q: %v", file, text, err)
		}
		if second := written(t, again, true); second != text {
			t.Fatalf("%q is written as %q and then as %q", file, text, second)
		}
	})
}
