// SPDX-License-Identifier: Apache-2.0

// A difference for people: one line for each cube, and below it one for each node, with the words of a command.

package cli

import (
	"bufio"
	"fmt"
	"net/url"
	"strings"

	"github.com/polycube/polycube/internal/cli/output"
)

// Terminal colours.
const (
	plain  = "\x1b[0m"
	red    = "\x1b[31m"
	green  = "\x1b[32m"
	yellow = "\x1b[33m"
)

// differencePrinter prints differences and counts cubes by action.
type differencePrinter struct {
	w       *bufio.Writer
	colours bool
	counts  map[string]int
}

func (s *session) differencePrinter() *differencePrinter {
	colours := s.screen && s.getenv("NO_COLOR") == "" && s.getenv("TERM") != "dumb"
	return &differencePrinter{w: s.stdout, colours: colours, counts: map[string]int{}}
}

// marks are the signs at the start of a line, and their colours.
var marks = map[string][2]string{
	"add": {"+", green}, "delete": {"-", red}, "change": {"~", yellow}, "order": {"~", yellow}, "replace": {"-/+", red},
}

func (d *differencePrinter) line(indent, action, text string) {
	mark := marks[action]
	if mark[0] == "" {
		mark[0] = "?"
	}
	text = mark[0] + " " + output.Clean(text)
	if d.colours && mark[1] != "" {
		text = mark[1] + text + plain
	}
	_, _ = d.w.WriteString(indent + text + "\n") // the writer keeps its first error
}

// print prints the daemon's difference.
func (d *differencePrinter) print(v output.Value) {
	cubes, _ := v.Get("cubes")
	for _, c := range cubes.Items {
		action := c.TextOf("action")
		d.counts[action]++
		text := c.TextOf("name") + " (" + c.TextOf("service-name") + ")"
		if reason := c.TextOf("reason"); reason != "" {
			text += ": re-created, because " + reason + "; learned state is lost"
		}
		d.line("", action, text)
		changes, _ := c.Get("changes")
		for _, ch := range changes.Items {
			d.change(ch)
		}
	}
	netdevs, _ := v.Get("netdevs")
	for _, n := range netdevs.Items {
		d.counts["netdev"]++
		was, _ := n.Get("old")
		is, _ := n.Get("new")
		d.line("", "change", "netdev "+n.TextOf("name")+" tcubes: "+flow(was)+" -> "+flow(is))
	}
}

func (d *differencePrinter) change(c output.Value) {
	action, words := c.TextOf("action"), pathWords(c.TextOf("path"))
	was, _ := c.Get("old")
	is, _ := c.Get("new")
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

// pathWords converts a URL path to words of a command.
func pathWords(path string) string {
	words := strings.Split(path, "/")
	for i, w := range words {
		if plain, err := url.PathUnescape(w); err == nil {
			words[i] = plain
		}
	}
	return strings.Join(words, " ")
}

// flow is a value on one line, as in YAML.
func flow(v output.Value) string {
	switch v.Kind {
	case output.KindString:
		return output.YAMLText(v.Text)
	case output.KindArray:
		items := make([]string, len(v.Items))
		for i, item := range v.Items {
			items[i] = flow(item)
		}
		return "[" + strings.Join(items, ", ") + "]"
	case output.KindObject:
		if len(v.Members) == 0 {
			return ""
		}
		members := make([]string, len(v.Members))
		for i, m := range v.Members {
			members[i] = output.YAMLText(m.Key) + ": " + flow(m.Val)
		}
		return "{" + strings.Join(members, ", ") + "}"
	default:
		return v.Text
	}
}

// summary counts cubes by action, and netdevs as changed.
func (d *differencePrinter) summary(added, changed, recreated, deleted string) string {
	var parts []string
	for _, p := range []struct {
		n    int
		what string
	}{{d.counts["add"], added}, {d.counts["change"], changed}, {d.counts["replace"], recreated}, {d.counts["delete"], deleted}} {
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
