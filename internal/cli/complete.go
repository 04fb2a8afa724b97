// SPDX-License-Identifier: Apache-2.0

// Completion queries the daemon at every TAB for what can follow, so it is as complete as the models. It runs at the
// user's prompt: it must be fast or silent, prints no errors, and offers nothing that the shell would execute.

package cli

import (
	"bufio"
	"cmp"
	"context"
	"embed"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/polycube/polycube/internal/cli/output"
)

// completeCommand is the hidden command that the completion script calls: its only argument is the command line up to
// the cursor.
const completeCommand = "__complete"

const completeTimeout = 2 * time.Second

// scripts are the completion scripts of shells.
//
//go:embed completion.bash completion.fish completion.zsh
var scripts embed.FS

// shells are the shells with a completion script.
func shells() []string { return []string{"bash", "fish", "zsh"} }

// planCompletion is reached only with wrong words: the script needs no daemon.
func planCompletion(c command) (plan, error) {
	if len(c.path) != 2 {
		return plan{}, usagef("completion takes the name of a shell: bash, zsh or fish")
	}
	return plan{}, unknownf(shells(), c.path[1], "there is no completion for %q, only for bash, zsh and fish", c.path[1])
}

var (
	placeholder = regexp.MustCompile(`^<[A-Za-z0-9 ._-]+>$`).MatchString
	shellSafe   = regexp.MustCompile(`^[A-Za-z0-9_./:=@%+,-]+$`).MatchString
)

// completer answers one TAB. The line to complete may name a daemon, so it determines the settings of the run.
type completer struct {
	getenv func(string) string
	stdout *bufio.Writer
	config *config
	demand func(request) (answer, error)
}

func (t *completer) complete(args []string, instance string) error {
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
	if rest, _, err := cutTry(words); err == nil {
		words = rest
	}
	var err error
	if *t.config, err = loadConfig(t.getenv, instance); err != nil {
		return err
	}
	for _, c := range t.candidates(words, current) {
		if strings.HasPrefix(c, current) && output.Clean(c) == c && c != "" {
			fmt.Fprintln(t.stdout, shellWord(c))
		}
	}
	return nil
}

// candidates are the words that can follow words; current is the typed part of the next.
func (t *completer) candidates(words []string, current string) []string {
	switch first, _, _ := strings.Cut(strings.Join(words, " "), " "); {
	case slices.Equal(words, []string{"--instance"}):
		return instanceNames("")
	case len(words) == 0 && strings.HasPrefix(current, "--instance="):
		return instanceNames("--instance=")
	case len(words) == 0 && strings.HasPrefix(current, "-"):
		return []string{"--instance", "--try", "--help", "-h"}
	case slices.Equal(words, []string{"--try"}):
		return nil // a number
	case ownFlags(first) != nil:
		return t.watchWords(first, words[1:], current)
	}
	c := parseLenient(words)
	switch dash := strings.HasPrefix(current, "-"); {
	case c.all:
		return nil // the path ends here
	case dash && c.verb == verbDel && aliases[c.first()].plan == nil:
		return t.ask(c, "word", current)
	case dash:
		return t.showFlags(c, current)
	}
	if words, ok := clientWords(c, current); ok {
		return words
	}
	if key, value, isPair := strings.Cut(current, "="); isPair {
		return t.valueWords(c, key, value)
	}
	if slices.Equal(c.path, []string{"services", "update"}) {
		c.path, c.verb = c.path[:1], verbShow // the same names
	}
	found := t.ask(c, "word", current)
	if len(c.path) == 0 && c.verb == verbNone && len(found) > 0 {
		found = append(found, slices.DeleteFunc(allAliases(), func(name string) bool { return slices.Contains(found, name) })...)
	}
	return slices.DeleteFunc(found, func(w string) bool {
		if needsVerb(c) && !isVerb(w) {
			return true
		}
		key, _, isPair := strings.Cut(w, "=")
		return isPair && slices.ContainsFunc(c.pairs, func(p pair) bool { return p.key == key })
	})
}

// needsVerb reports whether members of a collection come only after a verb.
func needsVerb(c command) bool {
	if len(c.path) != 1 || c.verb != verbNone {
		return false
	}
	return aliases[c.path[0]].NeedsVerb
}

// valueWords are key=value for the known values.
func (t *completer) valueWords(c command, key, value string) []string {
	c.path = append(slices.Clone(c.path), strings.Split(key, ".")...)
	var out []string
	for _, v := range t.ask(c, "value", value) {
		if !placeholder(v) {
			out = append(out, key+"="+v)
		}
	}
	return out
}

// instanceNames are the instances of the daemon that run here, or did.
func instanceNames(before string) []string {
	sockets, err := filepath.Glob("/run/polycube/*/polycubed.sock")
	if err != nil {
		return nil
	}
	var out []string
	for _, path := range sockets {
		out = append(out, before+filepath.Base(filepath.Dir(path)))
	}
	return out
}

// parseLenient parses an unfinished command line and ignores mistakes.
func parseLenient(words []string) command {
	var c command
	for _, w := range words {
		before := c
		if c.word(w, false) != nil {
			c = before
		}
	}
	return c
}

// showFlags are the flags of show. The values of -hide= are the members of what is shown.
func (t *completer) showFlags(c command, current string) []string {
	if c.verb != verbShow {
		return nil
	}
	if list, isHide := strings.CutPrefix(current, "-hide="); isHide {
		before := current[:len(current)-len(list)+strings.LastIndexByte(list, ',')+1]
		var out []string
		for _, name := range t.ask(c, "word", current[len(before):]) {
			if !placeholder(name) {
				out = append(out, before+name)
			}
		}
		return out
	}
	flags := []string{"-hide="}
	for _, f := range pageFlags {
		if _, isAlias := aliases[c.first()]; !isAlias && (f == "-filter" || !c.show.Page.Has(f[1:])) {
			flags = append(flags, f+"=")
		}
	}
	if c.show.Form == "" {
		for _, f := range output.Forms {
			flags = append(flags, "-"+string(f))
		}
	}
	return flags
}

// clientWords are the words that the client knows better than the daemon, and whether there are such words here.
func clientWords(c command, current string) ([]string, bool) {
	switch name := c.first(); {
	case name == "completion" && len(c.path) == 1:
		return shells(), true
	case name == "confirm" && len(c.path) == 1 && c.verb == verbNone:
		return []string{"no", "show"}, true
	case name == "completion" || name == "version" || name == "confirm":
		return nil, true
	case name == "attach" && len(c.pairs) > 0:
		return nil, true
	case name == "services" && strings.HasPrefix(current, "type="):
		return []string{"type=lib", "type=grpc"}, true
	case name == "services" && strings.HasPrefix(current, "uri=/"):
		return files("uri=", current[len("uri="):]), true
	}
	return nil, false
}

// files are the files that start as typed; a folder ends with a slash.
func files(before, typed string) []string {
	dir, name := filepath.Split(typed)
	entries, err := os.ReadDir(cmp.Or(dir, "."))
	if err != nil {
		return nil
	}
	var out []string
	for _, e := range entries {
		switch {
		case !strings.HasPrefix(e.Name(), name) || name == "" && strings.HasPrefix(e.Name(), "."):
		case isFolder(dir, e):
			out = append(out, before+dir+e.Name()+"/")
		default:
			out = append(out, before+dir+e.Name())
		}
	}
	return out
}

// isFolder follows links.
func isFolder(dir string, e os.DirEntry) bool {
	if e.Type()&os.ModeSymlink == 0 {
		return e.IsDir()
	}
	info, err := os.Stat(filepath.Join(dir, e.Name()))
	return err == nil && info.IsDir()
}

// ask returns the daemon's completion of a path, nothing on any error. kind is word, for what can follow the path, or
// value, for the values of a leaf; typed is the typed part.
func (t *completer) ask(c command, kind, typed string) []string {
	end, err := t.config.endpoint()
	if err != nil {
		return nil
	}
	client := newClient(end, nil)
	defer client.close()
	ctx, cancel := context.WithTimeout(context.Background(), min(completeTimeout, t.config.timeout))
	defer cancel()
	query := url.Values{"help": {c.verb.helpName()}, "completion": {kind}, "prefix": {typed}}
	a, err := client.do(ctx, request{method: "OPTIONS", path: c.path, query: query.Encode()})
	if err != nil || !a.ok() {
		return nil
	}
	v, err := output.DecodeJSON(a.body)
	if err != nil {
		return nil
	}
	var out []string
	for _, item := range v.Items {
		if item.IsLeaf() {
			out = append(out, item.Text)
		}
	}
	return out
}

// splitLine splits a command line like a shell, including quotes and backslashes; current is the unfinished last word.
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

// shellWord escapes what a shell would interpret, except in placeholders, which are shown but never inserted.
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
