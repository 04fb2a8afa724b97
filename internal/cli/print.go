// SPDX-License-Identifier: Apache-2.0

// How answers look: pretty for people (scripts compare single leaves), JSON and
// YAML for programs. An answer may hold text that somebody else configured, so
// nothing in it reaches the terminal as a control sequence.

package cli

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// linksKey holds the hypermedia links of an answer, of no interest to people.
const linksKey = "_links"

// printAnswer prints the body of a successful answer.
func printAnswer(w io.Writer, body []byte, o showOptions, single bool) error {
	if len(bytes.TrimSpace(body)) == 0 {
		return nil
	}
	v, err := decodeJSON(body)
	if err != nil {
		// Not every resource is JSON: /metrics is text.
		return writeLine(w, cleanText(string(body)))
	}
	v.prune("", o.hide)
	b := bufio.NewWriter(w)
	switch {
	case o.form == formJSON:
		printJSON(b, v, "")
		_ = b.WriteByte('\n')
		return b.Flush()
	case o.form == formYAML && v.opens():
		printYAML(b, v, "")
		return b.Flush()
	case o.form == formYAML:
		yamlLeaf(b, v, "")
		return b.Flush()
	}
	if single && v.kind == kindArray && len(v.items) == 1 {
		v = v.items[0]
	}
	return printPretty(w, v, o)
}

func writeLine(w io.Writer, s string) error {
	if !strings.HasSuffix(s, "\n") {
		s += "\n"
	}
	_, err := io.WriteString(w, s)
	return err
}

func depthOf(f form) int {
	switch f {
	case formBrief:
		return 1
	case formVerbose:
		return 3
	default:
		return 2
	}
}

// printPretty prints v for people, without links.
func printPretty(w io.Writer, v value, o showOptions) error {
	b := bufio.NewWriter(w)
	p := printer{b}
	v.unlink()
	switch v.kind {
	case kindObject:
		p.object(v, depthOf(o.form), "")
	case kindArray:
		p.table(v, depthOf(o.form), "")
	case kindString:
		p.line(cleanText(v.text))
	default:
		p.line(leafText(v))
	}
	return b.Flush()
}

// prune drops hidden keys; elements of arrays have the path of the array.
func (v *value) prune(path string, hide []string) {
	for i := range v.items {
		v.items[i].prune(path, hide)
	}
	v.members = slices.DeleteFunc(v.members, func(m member) bool {
		return slices.Contains(hide, path+m.key)
	})
	for i := range v.members {
		v.members[i].val.prune(path+v.members[i].key+".", hide)
	}
}

// unlink drops links.
func (v *value) unlink() {
	for i := range v.items {
		v.items[i].unlink()
	}
	v.members = slices.DeleteFunc(v.members, func(m member) bool { return m.key == linksKey })
	for i := range v.members {
		v.members[i].val.unlink()
	}
}

// printer relies on bufio.Writer to keep the first error until Flush.
type printer struct{ w *bufio.Writer }

func (p printer) line(s string) {
	_, _ = p.w.WriteString(s)
	_ = p.w.WriteByte('\n')
}

// object prints leaves, then objects, then arrays; depth counts the levels of
// containers that may still be opened, this one included.
func (p printer) object(v value, depth int, indent string) {
	for _, m := range v.members {
		if m.val.isLeaf() {
			p.leaf(m, indent)
		}
	}
	for _, m := range v.members {
		switch key := indent + clean(m.key) + ":"; {
		case m.val.kind != kindObject:
		case depth <= 1 || len(m.val.members) == 0:
			p.line(key + " " + summary(m.val))
		default:
			p.line(key)
			p.object(m.val, depth-1, indent+" ")
		}
	}
	for _, m := range v.members {
		switch key := indent + clean(m.key) + ":"; {
		case m.val.kind != kindArray:
		case depth <= 1 || len(m.val.items) == 0:
			p.line(key + " " + summary(m.val))
		default:
			p.line("")
			p.line(key)
			p.table(m.val, depth-1, indent)
		}
	}
}

// leaf prints "key: value"; a text of several lines (a program, a model) is a
// block indented below its key, so that it cannot be mistaken for other leaves.
func (p printer) leaf(m member, indent string) {
	if m.val.kind != kindString || !strings.Contains(m.val.text, "\n") {
		p.line(indent + clean(m.key) + ": " + leafText(m.val))
		return
	}
	p.line(indent + clean(m.key) + ":")
	for l := range strings.SplitSeq(strings.TrimSuffix(m.val.text, "\n"), "\n") {
		p.line(indent + " " + cleanText(l))
	}
}

// summary stands for a container that is not opened.
func summary(v value) string {
	if v.kind == kindArray {
		return fmt.Sprintf("[%d items]", len(v.items))
	}
	return fmt.Sprintf("{%d members}", len(v.members))
}

// leafText is a leaf on one line.
func leafText(v value) string {
	switch v.kind {
	case kindNumber:
		return numberText(v.text)
	case kindString:
		return clean(v.text)
	default:
		return v.text
	}
}

// numberText prints integers of any size exactly, others with six decimals.
func numberText(literal string) string {
	if !strings.ContainsAny(literal, ".eE") {
		return literal
	}
	f, err := strconv.ParseFloat(literal, 64)
	if err != nil {
		return literal
	}
	return strconv.FormatFloat(f, 'f', 6, 64)
}

// clean escapes every character that could move the cursor, break the line or
// reorder the text.
func clean(s string) string { return escape(s, "") }

// cleanText is clean for text of several lines.
func cleanText(s string) string { return escape(s, "\n\t") }

func escape(s, keep string) string {
	odd := func(r rune) bool { return hazardous(r) && !strings.ContainsRune(keep, r) }
	if utf8.ValidString(s) && !strings.ContainsFunc(s, odd) {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); {
		r, size := utf8.DecodeRuneInString(s[i:])
		switch {
		case r == utf8.RuneError && size == 1:
			fmt.Fprintf(&b, `\x%02x`, s[i])
		case odd(r):
			quoted := strconv.QuoteRuneToASCII(r)
			b.WriteString(quoted[1 : len(quoted)-1])
		default:
			b.WriteRune(r)
		}
		i += size
	}
	return b.String()
}

// hazardous: control characters, line separators and bidirectional overrides.
func hazardous(r rune) bool {
	return unicode.IsControl(r) || r >= '\u2028' && r <= '\u202e' || r >= '\u2066' && r <= '\u2069'
}

// form is how an answer is printed.
type form string

const (
	formNormal  form = "normal"
	formBrief   form = "brief"
	formVerbose form = "verbose"
	formJSON    form = "json"
	formYAML    form = "yaml"
)

var forms = []form{formNormal, formBrief, formVerbose, formJSON, formYAML}

type showOptions struct {
	form form     // empty until a flag or a default sets it
	hide []string // dotted paths from the root of the answer
	page url.Values
}
