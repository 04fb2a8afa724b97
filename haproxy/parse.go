// SPDX-License-Identifier: Apache-2.0

package haproxy

// The sections of a configuration, and what they inherit.

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

const (
	// maxFile is how long a file may be.
	maxFile = 8 << 20
	// maxDepth is how many defaults may inherit from each other.
	maxDepth = 16
)

// File is a file of a configuration: HAProxy reads several one after the other.
type File struct {
	Name string
	Text []byte
}

// Position is a line of a file.
type Position struct {
	File string
	Line int
}

// String returns the position as compilers do.
func (p Position) String() string { return fmt.Sprintf("%s:%d", p.File, p.Line) }

// kind is what a section is.
type kind uint8

const (
	other kind = iota // no proxy, such as global
	defaults
	frontend
	backend
	listen
)

// kinds are the sections that HAProxy 2.6 has.
var kinds = map[string]kind{
	"global": other, "defaults": defaults, "frontend": frontend, "backend": backend, "listen": listen, "userlist": other, "peers": other,
	"mailers": other, "resolvers": other, "cache": other, "program": other, "http-errors": other, "ring": other, "fcgi-app": other,
	"log-forward": other,
}

// line is a line of a section.
type line struct {
	at    Position
	words []word
}

// depends reports whether a line has an environment variable.
func (l *line) depends() bool {
	for _, w := range l.words {
		if w.variable {
			return true
		}
	}
	return false
}

// arg returns a word, or "" after the end.
func (l *line) arg(n int) string {
	if n < len(l.words) {
		return l.words[n].text
	}
	return ""
}

// section is a section.
type section struct {
	kind  kind
	name  string
	at    Position
	lines []line
	from  *section // the defaults that it inherits; nil: none
	// named and implied say that a proxy inherits from this one by its name, or because it is the last one.
	named, implied bool
	// count is the number of lines that hold for it.
	count int
}

// limit is a line of section global, and its keyword.
type limit struct {
	at      Position
	keyword string
}

// Config is a configuration.
type Config struct {
	sections []*section
	// conditions are lines that decide which other lines count.
	conditions []Position
	// limits are lines of section global that limit the connections of the process.
	limits []limit
	// backends are the sections with the side of servers, by name.
	backends map[string]*section
}

// parser reads files.
type parser struct {
	conf    *Config
	now     *section
	last    *section // the defaults that a proxy without `from` inherits
	named   map[string]*section
	proxies map[string]bool
}

// Parse reads the files of a configuration. The error names the line.
func Parse(files ...File) (*Config, error) {
	p := parser{conf: &Config{backends: map[string]*section{}}, named: map[string]*section{}, proxies: map[string]bool{}}
	for _, f := range files {
		if len(f.Text) > maxFile {
			return nil, fmt.Errorf("%s: longer than %d bytes", f.Name, maxFile)
		}
		n := 0
		for text := range strings.Lines(string(f.Text)) {
			n++
			at := Position{f.Name, n}
			if err := p.line(at, strings.TrimSuffix(text, "\n")); err != nil {
				return nil, fmt.Errorf("%s: %w", at, err)
			}
		}
		p.now = nil // a file begins with a section
	}
	return p.conf, nil
}

// line takes a line.
func (p *parser) line(at Position, text string) error {
	words, err := split(text)
	if err != nil || len(words) == 0 {
		return err
	}
	first := words[0].text
	if strings.HasPrefix(first, ".") {
		return p.directive(at, first)
	}
	if is, ok := kinds[first]; ok {
		return p.open(at, is, words)
	}
	if p.now == nil {
		return fmt.Errorf("%q is not in any section", printable(first))
	}
	if first == "no" || first == "default" {
		if len(words) < 2 {
			return fmt.Errorf("%s needs a keyword", first)
		}
	}
	if p.now.kind == defaults && (first == "bind" || first == "server" || first == "use_backend") {
		return fmt.Errorf("%s is not allowed in defaults", first)
	}
	if p.now.kind == other && p.now.name == "global" && slices.Contains(processLimits, first) {
		p.conf.limits = append(p.conf.limits, limit{at, first})
	}
	p.now.lines = append(p.now.lines, line{at, words})
	p.now.count++
	return nil
}

// directive takes a line that begins with a dot.
func (p *parser) directive(at Position, word string) error {
	switch word {
	case ".if", ".elif", ".else", ".endif":
		p.conf.conditions = append(p.conf.conditions, at)
	case ".diag", ".notice", ".warning":
	case ".alert":
		return errors.New(".alert: HAProxy refuses this configuration")
	default:
		return fmt.Errorf("unknown directive %q", printable(word))
	}
	return nil
}

// open begins a section.
func (p *parser) open(at Position, is kind, words []word) error {
	s := &section{kind: is, at: at}
	for _, w := range words {
		if w.variable && is != other {
			return errors.New("the name of a section depends on an environment variable")
		}
	}
	p.now = s
	p.conf.sections = append(p.conf.sections, s)
	if is == other {
		s.name = words[0].text
		return nil
	}
	if err := p.title(s, words); err != nil {
		return err
	}
	if is.sides()&back != 0 {
		p.conf.backends[s.name] = s
	}
	switch {
	case is == defaults:
		p.last = s
		if s.name != "" {
			if p.named[s.name] != nil {
				return fmt.Errorf("defaults %q is defined twice", printable(s.name))
			}
			p.named[s.name] = s
		}
	case s.from == nil && p.last != nil:
		s.from = p.last
		s.from.implied = true
	}
	depth := 0
	for f := s.from; f != nil; f = f.from {
		if depth++; depth > maxDepth {
			return fmt.Errorf("more than %d defaults inherit from each other", maxDepth)
		}
	}
	if s.from != nil {
		s.count = s.from.count
	}
	if f := s.from; f != nil && f.named && f.implied {
		return fmt.Errorf("defaults %q is used both by name and implicitly: HAProxy refuses that", printable(f.name))
	}
	return nil
}

// title takes the name of a section, and the defaults after `from`.
func (p *parser) title(s *section, words []word) error {
	rest := words[1:]
	if len(rest) > 0 && !(s.kind == defaults && rest[0].text == "from") {
		s.name, rest = rest[0].text, rest[1:]
	}
	if s.kind != defaults {
		if s.name == "" {
			return fmt.Errorf("%s needs a name", words[0].text)
		}
		for role := range s.kind.roles() {
			if p.proxies[role+s.name] {
				return fmt.Errorf("%s %q has the name of another proxy", words[0].text, printable(s.name))
			}
			p.proxies[role+s.name] = true
		}
	}
	if strings.ContainsFunc(s.name, func(r rune) bool { return !nameRune(r) }) {
		return fmt.Errorf("only letters, digits and -_.: are allowed in the name %q", printable(s.name))
	}
	if len(rest) == 0 {
		return nil
	}
	if rest[0].text != "from" || len(rest) != 2 {
		return fmt.Errorf("only `from` and the name of a defaults section may follow the name of a section, not %q", printable(rest[0].text))
	}
	if s.from = p.named[rest[1].text]; s.from == nil {
		return fmt.Errorf("no defaults section %q precedes this line", printable(rest[1].text))
	}
	s.from.named = s.from.named || s.kind != defaults
	return nil
}

func nameRune(r rune) bool {
	return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("-_.:", r)
}

// roles are what a proxy is found as: a listen section is a frontend and a backend.
func (k kind) roles() map[string]bool {
	switch k {
	case frontend:
		return map[string]bool{"frontend ": true}
	case backend:
		return map[string]bool{"backend ": true}
	case listen:
		return map[string]bool{"frontend ": true, "backend ": true}
	case other, defaults:
	}
	return nil
}

// effective returns the lines that hold for a section: those of its defaults, and then its own.
func (s *section) effective() (all []line) {
	if s.from != nil {
		all = s.from.effective()
	}
	return append(all, s.lines...)
}

// printable is a text from a file, for a terminal.
func printable(text string) string {
	const most = 80
	text = strings.Map(func(r rune) rune {
		if r < ' ' || r > '~' {
			return '?'
		}
		return r
	}, text)
	return text[:min(len(text), most)]
}

// IsConfig reports whether a file may be a configuration of HAProxy: its first line begins a section. Of other files, errors of Parse
// must not be shown to people who cannot read them.
func IsConfig(text []byte) bool {
	for l := range strings.Lines(string(text)) {
		words, err := split(strings.TrimSuffix(l, "\n"))
		if err != nil {
			return false
		}
		if len(words) > 0 {
			_, ok := kinds[words[0].text]
			return ok || strings.HasPrefix(words[0].text, ".")
		}
	}
	return true
}
