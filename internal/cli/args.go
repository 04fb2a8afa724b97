// SPDX-License-Identifier: Apache-2.0

// The grammar knows verbs, path words, key=value pairs and show flags, but no model: this is how one client serves
// every cube, present or future.

package cli

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/polycube/polycube/internal/cli/output"
	"github.com/polycube/polycube/internal/commands"
	"github.com/polycube/polycube/internal/suggest"
)

// verb is the word that selects the HTTP method; none means a YANG action.
type verb string

const (
	verbNone verb = ""
	verbAdd  verb = "add"
	verbDel  verb = "del"
	verbShow verb = "show"
	verbSet  verb = "set"
)

// verbWords are the verbs as typed.
var verbWords = commands.Verbs()

func isVerb(w string) bool {
	switch verb(w) {
	case verbAdd, verbDel, verbShow, verbSet:
		return true
	default:
		return false
	}
}

func (v verb) method() string {
	switch v {
	case verbShow:
		return http.MethodGet
	case verbSet:
		return http.MethodPatch
	case verbDel:
		return http.MethodDelete
	default:
		return http.MethodPost
	}
}

// helpName is the value of the help query parameter for this verb.
func (v verb) helpName() string {
	if v == verbNone {
		return "NONE"
	}
	return strings.ToUpper(string(v))
}

type pair struct{ key, value string }

// command is a parsed command line.
type command struct {
	path  []string
	verb  verb
	pairs []pair
	show  output.Options
	typed []string // path and verb in their order
	help  bool     // the last word was "?"
	stdin bool     // a lone "-" asked for the body on standard input
	all   bool     // the whole list is to be deleted
}

func (c command) first() string {
	if len(c.path) == 0 {
		return ""
	}
	return c.path[0]
}

// usageError is a mistake in the command line; usage, if set, is the correct form of the command.
type usageError struct {
	message string
	usage   string
}

func (e *usageError) Error() string { return e.message }

func usagef(format string, args ...any) error {
	return &usageError{message: fmt.Sprintf(format, args...)}
}

// unknownf is a usage error about an unknown word.
func unknownf(known []string, word, format string, args ...any) error {
	return usagef("%s%s", fmt.Sprintf(format, args...), suggest.Question(suggest.Near(word, known)))
}

// parse turns the words of a command line into a command, or returns a *usageError.
func parse(words []string) (command, error) {
	var c command
	for i, w := range words {
		if err := c.word(w, i == len(words)-1); err != nil {
			return command{}, err
		}
	}
	return c, c.check()
}

func (c *command) word(w string, last bool) error {
	switch {
	case w == "":
		return usagef("an empty word cannot be part of a path")
	case !utf8.ValidString(w):
		return usagef("%q is not valid UTF-8", w)
	case w == "?":
		if !last {
			return usagef(`"?" must be the last word`)
		}
		c.help = true
		return nil
	case w == "-":
		c.stdin = true
		return nil
	case strings.HasPrefix(w, "-"):
		return c.flag(w)
	case strings.Contains(w, "="):
		if key, isHelp := strings.CutSuffix(w, "=?"); isHelp && last {
			c.help, w = true, key+"="
		}
		return c.pair(w)
	case len(c.pairs) > 0:
		return usagef("%q comes after %q: words of the path and verbs come before key=value", w, c.pairs[0].key+"=")
	case isVerb(w):
		if c.verb != verbNone {
			return usagef("two verbs are given, %q and %q: only one is allowed", c.verb, w)
		}
		c.verb = verb(w)
		c.typed = append(c.typed, w)
		return nil
	case w == "." || w == "..":
		return usagef("%q cannot be a name", w)
	default:
		c.path = append(c.path, w)
		c.typed = append(c.typed, w)
		return nil
	}
}

func (c *command) flag(w string) error {
	name, value, hasValue := strings.Cut(w, "=")
	isHide, isPage := hasValue && name == "-hide", hasValue && slices.Contains(pageFlags, name)
	known := isHide || isPage
	for _, f := range output.Forms {
		known = known || w == "-"+string(f)
	}
	switch {
	case w == "-h" || w == "--help":
		return usagef("%s is accepted only alone or as the last word", w)
	case w == "--instance" || name == "--instance":
		return usagef("--instance NAME comes before everything else")
	case w == flagAll && c.verb != verbDel:
		return usagef("%q is accepted only after the verb del", w)
	case w == flagAll:
		c.all = true
		return nil
	case !known:
		return unknownf(flagWords(), w, "unknown flag %q", w)
	case c.verb != verbShow:
		return usagef("%q is accepted only after the verb show", w)
	case isHide:
		return c.hideKeys(w, value)
	case isPage:
		return c.pageOf(name[1:], value)
	case c.show.Form != "":
		return usagef("two output formats are given, -%s and %s: only one is allowed", c.show.Form, w)
	}
	c.show.Form = output.Form(w[1:])
	return nil
}

// flagWords are the flags as typed, without the value of -hide.
func flagWords() []string {
	words := append([]string{"-hide", "-h", "--help", flagAll}, pageFlags...)
	for _, f := range output.Forms {
		words = append(words, "-"+string(f))
	}
	return words
}

// pageFlags say which entries of a list are shown; the daemon chooses them.
var pageFlags = []string{"-limit", "-after", "-filter"}

func (c *command) pageOf(name, value string) error {
	switch {
	case value == "":
		return usagef("-%s needs a value: -limit=100, -after=KEY, -filter=LEAF=VALUE", name)
	case name != "filter" && c.show.Page.Has(name):
		return usagef("%q is given twice", "-"+name+"=")
	case c.show.Page == nil:
		c.show.Page = url.Values{}
	}
	c.show.Page.Add(name, value)
	return nil
}

func (c *command) hideKeys(w, list string) error {
	for key := range strings.SplitSeq(list, ",") {
		if key == "" {
			return usagef("%q: an empty key; write -hide=key1,key2.inner", w)
		}
		c.show.Hide = append(c.show.Hide, key)
	}
	return nil
}

func (c *command) pair(w string) error {
	key, val, _ := strings.Cut(w, "=")
	if strings.Contains(val, "=") {
		return usagef("%q is not a valid format: key=value has exactly one \"=\" (a value with \"=\" can be given in YAML or JSON on standard input)", w)
	}
	for part := range strings.SplitSeq(key, ".") {
		if part == "" && key != "" {
			return usagef("%q is not a valid format: a part of the key is empty", w)
		}
		if part == "" {
			return usagef("%q is not a valid format: the key is missing; write key=value, without spaces around \"=\"", w)
		}
	}
	for _, p := range c.pairs {
		if p.key == key {
			return usagef("%q is given twice", key+"=")
		}
	}
	c.pairs = append(c.pairs, pair{key, val})
	return nil
}

// check finds mistakes that no single word shows.
func (c *command) check() error {
	reads := c.verb == verbShow || c.verb == verbDel
	switch {
	case reads && len(c.pairs) > 0:
		return usagef("%s takes no key=value, but %q is given", c.verb, c.pairs[0].key+"=")
	case reads && c.stdin:
		return usagef("%s takes no body, but \"-\" asks for one", c.verb)
	case len(c.path) == 0 && c.verb != verbShow && !c.help:
		return usagef("specify a service, a cube or a command")
	}
	return nil
}
