// SPDX-License-Identifier: Apache-2.0

// A difference as people read it: a line for each cube, and below it one for
// each node, with the words that a command would use.

package cli

import (
	"bufio"
	"fmt"
	"net/url"
	"strings"
)

// Colours of a terminal.
const (
	plain  = "\x1b[0m"
	red    = "\x1b[31m"
	green  = "\x1b[32m"
	yellow = "\x1b[33m"
)

// differencePrinter prints differences and counts cubes by what becomes of them.
type differencePrinter struct {
	w       *bufio.Writer
	colours bool
	counts  map[string]int
}

func (s *session) differencePrinter() *differencePrinter {
	colours := s.screen && s.getenv("NO_COLOR") == "" && s.getenv("TERM") != "dumb"
	return &differencePrinter{w: s.stdout, colours: colours, counts: map[string]int{}}
}

// marks are the signs before a line, and their colours.
var marks = map[string][2]string{
	"add": {"+", green}, "delete": {"-", red}, "change": {"~", yellow}, "order": {"~", yellow}, "replace": {"-/+", red},
}

func (d *differencePrinter) line(indent, action, text string) {
	mark := marks[action]
	if mark[0] == "" {
		mark[0] = "?"
	}
	text = mark[0] + " " + clean(text)
	if d.colours && mark[1] != "" {
		text = mark[1] + text + plain
	}
	_, _ = d.w.WriteString(indent + text + "\n") // the writer keeps its first error
}

// print prints what the daemon calls a difference.
func (d *differencePrinter) print(v value) {
	cubes, _ := v.get("cubes")
	for _, c := range cubes.items {
		action := c.string("action")
		d.counts[action]++
		text := c.string("name") + " (" + c.string("service-name") + ")"
		if reason := c.string("reason"); reason != "" {
			text += ": made anew, because " + reason + "; what it learned is lost"
		}
		d.line("", action, text)
		changes, _ := c.get("changes")
		for _, ch := range changes.items {
			d.change(ch)
		}
	}
	netdevs, _ := v.get("netdevs")
	for _, n := range netdevs.items {
		d.counts["netdev"]++
		was, _ := n.get("old")
		is, _ := n.get("new")
		d.line("", "change", "netdev "+n.string("name")+" tcubes: "+flow(was)+" -> "+flow(is))
	}
}

func (d *differencePrinter) change(c value) {
	action, words := c.string("action"), pathWords(c.string("path"))
	was, _ := c.get("old")
	is, _ := c.get("new")
	switch action {
	case "add":
		d.line("    ", action, strings.TrimSpace(words+" "+flow(is)))
	case "delete":
		d.line("    ", action, strings.TrimSpace(words+" "+flow(was)))
	case "order":
		d.line("    ", action, words+", in another order: "+flow(was)+" -> "+flow(is))
	default:
		d.line("    ", action, words+" "+flow(was)+" -> "+flow(is))
	}
}

// pathWords is a URL path as words of a command.
func pathWords(path string) string {
	words := strings.Split(path, "/")
	for i, w := range words {
		if plain, err := url.PathUnescape(w); err == nil {
			words[i] = plain
		}
	}
	return strings.Join(words, " ")
}

// flow is a value on one line, as YAML has it.
func flow(v value) string {
	switch v.kind {
	case kindString:
		return yamlText(v.text)
	case kindArray:
		items := make([]string, len(v.items))
		for i, item := range v.items {
			items[i] = flow(item)
		}
		return "[" + strings.Join(items, ", ") + "]"
	case kindObject:
		if len(v.members) == 0 {
			return ""
		}
		members := make([]string, len(v.members))
		for i, m := range v.members {
			members[i] = yamlText(m.key) + ": " + flow(m.val)
		}
		return "{" + strings.Join(members, ", ") + "}"
	default:
		return v.text
	}
}

// summary counts cubes, and netdevs as changed.
func (d *differencePrinter) summary(added, changed, anew, deleted string) string {
	var parts []string
	for _, p := range []struct {
		n    int
		what string
	}{{d.counts["add"], added}, {d.counts["change"], changed}, {d.counts["replace"], anew}, {d.counts["delete"], deleted}} {
		if p.n > 0 {
			parts = append(parts, fmt.Sprintf("%s %s", count(p.n, "cube"), p.what))
		}
	}
	if n := d.counts["netdev"]; n > 0 {
		parts = append(parts, fmt.Sprintf("%s %s", count(n, "netdev"), changed))
	}
	return strings.Join(parts, ", ")
}

func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}
