// SPDX-License-Identifier: Apache-2.0

package language

import (
	"os"
	"strings"
	"testing"
)

// TestRulesAreReadAsIptablesReadsThem compares with what iptables itself printed: testdata has its options and answers.
func TestRulesAreReadAsIptablesReadsThem(t *testing.T) {
	for name, family := range map[string]Family{"iptables": IPv4, "ip6tables": IPv6} {
		t.Run(name, func(t *testing.T) {
			data, err := os.ReadFile("testdata/" + name + ".txt")
			if err != nil {
				t.Fatal(err)
			}
			var options string
			begun := false
			var want []string
			compare := func() {
				if !begun {
					return
				}
				if got := reread(t, family, options); got != strings.Join(want, "\n") {
					t.Errorf("%s\n got %s\nwant %s", options, got, strings.Join(want, "\n"))
				}
			}
			for line := range strings.Lines(string(data)) {
				line = strings.TrimRight(line, "\n")
				switch {
				case strings.HasPrefix(line, "#"):
				case strings.HasPrefix(line, "    refused"):
					want = append(want, "refused")
				case strings.HasPrefix(line, "    "):
					want = append(want, strings.TrimSpace(line))
				default:
					compare()
					options, want, begun = line, nil, true
				}
			}
			compare()
		})
	}
}

// reread returns what -A C with the options prints, after it was read again with the same result.
func reread(t *testing.T, family Family, options string) string {
	t.Helper()
	options, table := tableOf(options)
	args := append([]string{"-t", table, "-A", "C"}, shell(options)...)
	c, err := ReadCommand(family, args)
	if err != nil {
		t.Logf("%s: %v", options, err)
		return "refused"
	}
	for _, line := range c.Lines() {
		again, err := SplitLine(line)
		if err != nil {
			t.Fatal(err)
		}
		if second, err := ReadCommand(family, again); err != nil || second.String() != line {
			t.Errorf("%s is read as %s (%v)", line, second, err)
		}
	}
	c.Table = "filter" // which is not printed
	return strings.Join(c.Lines(), "\n")
}

// tableOf takes -t TABLE from the options.
func tableOf(options string) (rest, table string) {
	if after, ok := strings.CutPrefix(options, "-t "); ok {
		table, rest, _ = strings.Cut(after, " ")
		return rest, table
	}
	return options, "filter"
}

// shell splits a line as a shell does, which unlike iptables-restore knows single quotes.
func shell(line string) (args []string) {
	var arg strings.Builder
	begun, quote := false, byte(0)
	for i := 0; i < len(line); i++ {
		c := line[i]
		switch {
		case quote != 0 && c == quote:
			quote = 0
		case quote == 0 && (c == '"' || c == '\''):
			quote, begun = c, true
		case c == '\\' && quote != '\'' && i+1 < len(line) && (quote == 0 || strings.IndexByte("\"\\", line[i+1]) >= 0):
			i++
			arg.WriteByte(line[i])
		case quote == 0 && c == ' ':
			if begun {
				args = append(args, arg.String())
			}
			begun = false
			arg.Reset()
		default:
			begun = true
			arg.WriteByte(c)
		}
	}
	if begun {
		args = append(args, arg.String())
	}
	return args
}
