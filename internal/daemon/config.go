// SPDX-License-Identifier: Apache-2.0

package daemon

import (
	"fmt"
	"strings"
)

// The configuration file has the format of the first daemon: lines "option: value" with long names, and comments from
// #. "option" alone sets a switch.

// setting is one line of the configuration file.
type setting struct {
	name, value string
	line        int
}

// parseConfig reads the text of a configuration file.
func parseConfig(text string) ([]setting, error) {
	var out []setting
	seen := map[string]int{}
	for i, line := range strings.Split(text, "\n") {
		line = strings.TrimSpace(stripComment(line))
		if line == "" {
			continue
		}
		name, value, _ := strings.Cut(line, ":")
		s := setting{strings.TrimSpace(name), unquote(strings.TrimSpace(value)), i + 1}
		if s.name == "" || strings.ContainsAny(s.name, " \t=") || strings.HasPrefix(s.name, "-") {
			return nil, fmt.Errorf("line %d: %q is not of the form \"option: value\"", s.line, line)
		}
		if first, ok := seen[s.name]; ok {
			return nil, fmt.Errorf("line %d: option %s was already given in line %d", s.line, s.name, first)
		}
		seen[s.name] = s.line
		out = append(out, s)
	}
	return out, nil
}

// stripComment removes a # that starts the line or follows a space, outside quotes, because a value may contain one.
func stripComment(line string) string {
	quote := byte(0)
	for i := range len(line) {
		c := line[i]
		first := i == 0 || line[i-1] == ' ' || line[i-1] == '\t'
		switch {
		case quote != 0:
			if c == quote {
				quote = 0
			}
		case (c == '"' || c == '\'') && i > 0 && (first || line[i-1] == ':'):
			quote = c
		case c == '#' && first:
			return line[:i]
		}
	}
	return line
}

func unquote(s string) string {
	if len(s) >= 2 && (s[0] == '"' || s[0] == '\'') && s[len(s)-1] == s[0] {
		return s[1 : len(s)-1]
	}
	return s
}
