// SPDX-License-Identifier: Apache-2.0

// Package reference generates docs/reference/helpers.md: the helpers in bpf/include/pcn for cube programs, from the
// comments above them, with their measured costs. A helper without a comment, or one that is outdated in the document,
// is a finding of package lint.
package reference

import (
	"path"
	"regexp"
	"sort"
	"strings"
)

// Headers is the folder whose headers are read.
const Headers = "bpf/include/pcn/"

// Header is one file and its helpers.
type Header struct {
	Name    string // "csum.h"
	About   string // its opening comment
	Helpers []Helper
}

// Helper is a function or macro that programs may use.
type Helper struct {
	Name      string
	Signature string // as C, without annotations for the compiler
	Doc       string // its comment, empty if there is none
	Hook      string // "TC" or "XDP" when it is for one hook only
	Line      int
}

var (
	define   = regexp.MustCompile(`^#\s*define\s+((?i:pcn)_\w+|[A-Z]\w+)(\([^)]*\))?`)
	function = regexp.MustCompile(`^(?:PCN_INLINE|PCN_NOINLINE|PCN_GLOBAL|PCN_STUB|static)\b`)
	constant = regexp.MustCompile(`^const volatile (\w+ (pcn_\w+))`)
	named    = regexp.MustCompile(`(\w+)\s*\(`)
	dropped  = regexp.MustCompile(`\b(?:PCN_INLINE|PCN_NOINLINE|PCN_GLOBAL|PCN_STUB|PCN_NONNULL|static|inline)\b\s*`)
	spaces   = regexp.MustCompile(`\s+`)
)

// Framework reports whether a name is the framework's side of a helper, which programs do not call.
func Framework(name string) bool { return strings.HasPrefix(name, "pcn_core_") }

// Parse reads the headers among some files, by name.
func Parse(files map[string][]byte) []Header {
	var out []Header
	for name, text := range files {
		if strings.HasPrefix(name, Headers) && path.Ext(name) == ".h" {
			out = append(out, parse(path.Base(name), string(text)))
		}
	}
	sort.Slice(out, func(i, j int) bool { return out[i].Name < out[j].Name })
	return out
}

// parser reads a header line by line.
type parser struct {
	lines []string
	at    int
	doc   string   // of the item directly below
	hooks []string // of the open #if, "" for other conditions
	out   Header
}

func parse(name, text string) Header {
	p := &parser{lines: strings.Split(text, "\n"), out: Header{Name: name}}
	for ; p.at < len(p.lines); p.at++ {
		line := p.lines[p.at]
		switch {
		case strings.HasPrefix(line, "/*"):
			p.doc = p.comment()
			if p.out.About == "" {
				p.out.About, p.doc = p.doc, ""
			}
		case strings.HasPrefix(line, "#"):
			p.directive(line)
		case function.MatchString(line):
			p.function()
		case constant.MatchString(line):
			m := constant.FindStringSubmatch(line)
			p.add(Helper{Name: m[2], Signature: m[1], Line: p.at + 1})
		case strings.TrimSpace(line) == "":
			p.doc = ""
		}
	}
	return p.out
}

// comment joins the lines of a comment and stops at its last one.
func (p *parser) comment() string {
	var words []string
	for ; p.at < len(p.lines); p.at++ {
		text, _, end := strings.Cut(p.lines[p.at], "*/")
		text = strings.TrimSpace(text)
		text = strings.TrimPrefix(strings.TrimPrefix(text, "/*"), "*")
		words = append(words, strings.TrimSpace(text))
		if end {
			break
		}
	}
	return strings.TrimSpace(spaces.ReplaceAllString(strings.Join(words, " "), " "))
}

func (p *parser) directive(line string) {
	word := strings.TrimSpace(strings.TrimPrefix(line, "#"))
	switch {
	case strings.HasPrefix(word, "if"):
		p.hooks = append(p.hooks, hookOf(word))
	case strings.HasPrefix(word, "elif"), strings.HasPrefix(word, "else"):
		if n := len(p.hooks); n > 0 {
			other := map[string]string{"TC": "XDP", "XDP": "TC"}[p.hooks[n-1]]
			p.hooks[n-1] = other
		}
	case strings.HasPrefix(word, "endif"):
		p.hooks = p.hooks[:max(0, len(p.hooks)-1)]
	}
	line1 := p.at + 1
	for strings.HasSuffix(p.lines[p.at], `\`) && p.at+1 < len(p.lines) {
		p.at++
	}
	m := define.FindStringSubmatch(line)
	if m == nil || strings.HasSuffix(m[1], "_H") {
		return
	}
	p.add(Helper{Name: m[1], Signature: m[1] + m[2], Line: line1})
}

func hookOf(condition string) string {
	switch {
	case strings.Contains(condition, "PCN_TC"):
		return "TC"
	case strings.Contains(condition, "PCN_XDP"):
		return "XDP"
	}
	return ""
}

// function reads a head and continues to the end of the body.
func (p *parser) function() {
	line := p.at + 1
	var head []string
	for ; p.at < len(p.lines); p.at++ {
		text := p.lines[p.at]
		if strings.HasPrefix(text, "{") || strings.HasSuffix(text, ";") {
			break
		}
		head = append(head, strings.TrimSpace(text))
	}
	if p.at < len(p.lines) && strings.HasPrefix(p.lines[p.at], "{") {
		for p.at < len(p.lines)-1 && !strings.HasPrefix(p.lines[p.at], "}") {
			p.at++
		}
	}
	signature := strings.TrimSpace(dropped.ReplaceAllString(spaces.ReplaceAllString(strings.Join(head, " "), " "), ""))
	signature = strings.NewReplacer(" )", ")", " ,", ",").Replace(signature)
	if m := named.FindStringSubmatch(signature); m != nil {
		p.add(Helper{Name: m[1], Signature: signature, Line: line})
	}
}

// add adds a helper. A comment that begins with "Internal" excludes it.
func (p *parser) add(h Helper) {
	if Framework(h.Name) || strings.HasPrefix(p.doc, "Internal") {
		return
	}
	h.Doc = p.doc
	for _, hook := range p.hooks {
		if hook != "" {
			h.Hook = hook
		}
	}
	for i, other := range p.out.Helpers {
		if other.Name == h.Name { // one for each hook
			p.out.Helpers[i].Hook = ""
			return
		}
	}
	p.out.Helpers = append(p.out.Helpers, h)
}
