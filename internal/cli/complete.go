// SPDX-License-Identifier: Apache-2.0

// Completion asks the daemon at every TAB what may follow, so it is as complete
// as the models are. It runs inside somebody's prompt: it is quick or absent,
// silent about errors, and offers nothing that the shell would execute.

package cli

import (
	"context"
	_ "embed"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"
)

// completeCommand is the hidden command behind the completion script: its only
// argument is the command line up to the cursor.
const completeCommand = "__complete"

const completeTimeout = 2 * time.Second

//go:embed completion.bash
var completionScript string

var (
	placeholder = regexp.MustCompile(`^<[A-Za-z0-9 ._-]+>$`).MatchString
	shellSafe   = regexp.MustCompile(`^[A-Za-z0-9_./:=@%+,-]+$`).MatchString
)

func (s *session) complete(args []string, instance string) error {
	if len(args) != 1 {
		return usagef("%s takes the command line up to the cursor as one word", completeCommand)
	}
	words, current := splitLine(args[0])
	if len(words) > 0 {
		words = words[1:]
	}
	if rest, name, err := cutInstance(words); err == nil && name != "" {
		words, instance = rest, name
	}
	var err error
	if s.config, err = loadConfig(s.getenv, instance); err != nil {
		return err
	}
	for _, c := range s.candidates(words, current) {
		if strings.HasPrefix(c, current) && clean(c) == c && c != "" {
			fmt.Fprintln(s.stdout, shellWord(c))
		}
	}
	return nil
}

// candidates are all words that may follow words; current is what is typed of
// the next.
func (s *session) candidates(words []string, current string) []string {
	c := lenient(words)
	if strings.HasPrefix(current, "-") {
		return showFlags(c)
	}
	if words, ok := clientWords(c, current); ok {
		return words
	}
	if key, _, isPair := strings.Cut(current, "="); isPair {
		c.path = append(slices.Clone(c.path), strings.Split(key, ".")...)
		var out []string
		for _, v := range s.ask(c) {
			if !placeholder(v) {
				out = append(out, key+"="+v)
			}
		}
		return out
	}
	return slices.DeleteFunc(s.ask(c), func(w string) bool {
		key, _, isPair := strings.Cut(w, "=")
		return isPair && slices.ContainsFunc(c.pairs, func(p pair) bool { return p.key == key })
	})
}

// lenient reads an unfinished command line, ignoring what is wrong in it.
func lenient(words []string) command {
	var c command
	for _, w := range words {
		before := c
		if c.word(w, false) != nil {
			c = before
		}
	}
	return c
}

func showFlags(c command) []string {
	if c.verb != verbShow {
		return nil
	}
	flags := []string{"-hide="}
	if c.show.form == "" {
		for _, f := range forms {
			flags = append(flags, "-"+string(f))
		}
	}
	return flags
}

// clientWords is what the client knows better than the daemon, and whether this
// is such a place.
func clientWords(c command, current string) ([]string, bool) {
	switch name := c.first(); {
	case name == "completion" && len(c.path) == 1:
		return []string{"bash"}, true
	case name == "completion" || name == "version":
		return nil, true
	case name == "attach" && len(c.pairs) > 0:
		return nil, true
	case name == "attach" && strings.HasPrefix(current, "position="):
		return []string{"position=auto", "position=first", "position=last"}, true
	case name == "services" && strings.HasPrefix(current, "type="):
		return []string{"type=lib", "type=grpc"}, true
	}
	return nil, false
}

// ask returns the daemon's completion of a path, nothing on any error.
func (s *session) ask(c command) []string {
	end, err := s.config.endpoint()
	if err != nil {
		return nil
	}
	client := newClient(end, nil)
	defer client.close()
	ctx, cancel := context.WithTimeout(context.Background(), min(completeTimeout, s.config.timeout))
	defer cancel()
	a, err := client.do(ctx, request{method: "OPTIONS", path: c.path, query: "help=" + c.verb.helpName() + "&completion"})
	if err != nil || !a.ok() {
		return nil
	}
	v, err := decodeJSON(a.body)
	if err != nil {
		return nil
	}
	var out []string
	for _, item := range v.items {
		if item.isLeaf() {
			out = append(out, item.text)
		}
	}
	return out
}

// splitLine splits a command line as a shell would, quotes and backslashes
// included; current is its unfinished last word.
func splitLine(line string) (words []string, current string) {
	var b strings.Builder
	var quote rune
	escaped, open := false, false
	for _, r := range line {
		switch {
		case escaped:
			b.WriteRune(r)
			escaped = false
		case r == '\\' && quote != '\'':
			escaped, open = true, true
		case quote != 0 && r == quote:
			quote = 0
		case quote == 0 && (r == '\'' || r == '"'):
			quote, open = r, true
		case quote == 0 && (r == ' ' || r == '\t'):
			if open {
				words = append(words, b.String())
			}
			b.Reset()
			open = false
		default:
			b.WriteRune(r)
			open = true
		}
	}
	return words, b.String()
}

// shellWord escapes what a shell would interpret, except in placeholders, which
// are shown and never inserted.
func shellWord(w string) string {
	if shellSafe(w) || placeholder(w) {
		return w
	}
	var b strings.Builder
	for _, r := range w {
		if r < 0x80 && !shellSafe(string(r)) {
			b.WriteByte('\\')
		}
		b.WriteRune(r)
	}
	return b.String()
}
