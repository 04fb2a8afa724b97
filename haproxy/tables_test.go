// SPDX-License-Identifier: Apache-2.0

package haproxy

// The tables of keywords against those of HAProxy itself.

import (
	"os/exec"
	"strconv"
	"strings"
	"testing"
)

// dump returns the keywords that HAProxy has, by line.
func dump(t *testing.T) []string {
	t.Helper()
	program, err := exec.LookPath("haproxy")
	if err != nil {
		t.Skip("haproxy is not installed: scripts/deps.sh build")
	}
	out, err := exec.CommandContext(t.Context(), program, "-dKcfg", "-q", "-f", "/dev/null").Output() // it fails, as nothing is configured
	if !strings.Contains(string(out), "\toption ") {
		t.Skipf("this HAProxy does not list its keywords, as 2.6 does: %v", err)
	}
	return strings.Split(string(out), "\n")
}

// TestOptionsCountWhereHAProxySays: every option of HAProxy that can be negated is known, with its sides, and only those of HTTP are
// ignored.
func TestOptionsCountWhereHAProxySays(t *testing.T) {
	seen := 0
	for _, line := range dump(t) {
		words := strings.Fields(line)
		if len(words) < 3 || words[0] != "option" {
			continue
		}
		seen++
		name := words[1]
		var where sides
		http := false
		for _, word := range words[3:] {
			switch word {
			case "FE":
				where |= front
			case "BE":
				where |= back
			case "HTTP":
				http = true
			}
		}
		is, ok := options[name]
		switch {
		case !ok:
			t.Errorf("option %s is not known", name)
		case is.where != where:
			t.Errorf("option %s counts in %d, HAProxy says %d", name, is.where, where)
		case http != (is.verdict == onlyHTTP) && !strings.HasPrefix(name, "h1-") && name != "persist": // which are of HTTP without saying so
			t.Errorf("option %s: for HTTP alone is %v, HAProxy says %v", name, is.verdict == onlyHTTP, http)
		}
	}
	if seen < 20 {
		t.Errorf("only %d options were compared", seen)
	}
}

// TestParametersTakeTheirValues: a wrong number of values would take the next parameter for a value.
func TestParametersTakeTheirValues(t *testing.T) {
	readValues := map[string]int{
		"weight": 1, "inter": 1, "rise": 1, "fall": 1, "port": 1, "addr": 1, "agent-port": 1, "agent-inter": 1, "agent-addr": 1,
		"check": 0, "agent-check": 0, "disabled": 0, "enabled": 0,
	}
	seen, read := 0, 0
	for _, line := range dump(t) {
		table, prefix := serverParams, "\tserver <name> <addr> "
		if strings.HasPrefix(line, "\tbind <addr> ") {
			table, prefix = bindParams, "\tbind <addr> "
		}
		rest, ok := strings.CutPrefix(line, prefix)
		words := strings.Fields(rest)
		if !ok || len(words) == 0 || len(words) > 1 && !strings.HasPrefix(words[1], "+") {
			continue // of another kind, or a parameter of TLS, which `ssl` has refused already
		}
		values := 0
		if len(words) > 1 {
			n, err := strconv.Atoi(words[1][1:])
			if err != nil || n < 0 {
				continue // any number of them: source
			}
			values = n
		}
		if n, ok := readValues[words[0]]; ok && prefix[1] == 's' {
			read++
			if n != values {
				t.Errorf("%s is read with %d values, HAProxy says %d", words[0], n, values)
			}
			continue
		}
		p, ok := table[words[0]]
		if !ok || words[0] == "usesrc" { // a parameter of source
			continue
		}
		seen++
		if p.values != values {
			t.Errorf("%s%s takes %d values, HAProxy says %d", prefix, words[0], p.values, values)
		}
	}
	if seen < 40 || read != len(readValues) {
		t.Errorf("only %d and %d parameters were compared", seen, read)
	}
}
