// SPDX-License-Identifier: Apache-2.0

// The look of responses: pretty for people (scripts compare single leaves), JSON and YAML for programs. A response may
// contain text that another user configured, so no control sequences in it reach the terminal.

package output

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

// linksKey has the hypermedia links of a response, which people do not need.
const linksKey = "_links"

// Print prints the body of a success response.
func Print(w io.Writer, body []byte, o Options, single bool) error {
	if len(bytes.TrimSpace(body)) == 0 {
		return nil
	}
	v, err := DecodeJSON(body)
	if err != nil {
		// Not every resource is JSON: /metrics is text.
		return WriteLine(w, CleanText(string(body)))
	}
	v.Prune("", o.Hide)
	b := bufio.NewWriter(w)
	switch {
	case o.Form == FormJSON:
		printJSON(b, v, "")
		_ = b.WriteByte('\n')
		return b.Flush()
	case o.Form == FormYAML && v.opens():
		printYAML(b, v, "")
		return b.Flush()
	case o.Form == FormYAML:
		yamlLeaf(b, v, "")
		return b.Flush()
	}
	if single && v.Kind == KindArray && len(v.Items) == 1 {
		v = v.Items[0]
	}
	return PrintPretty(w, v, o)
}

// WriteLine writes a line, and a line break if it has none.
func WriteLine(w io.Writer, s string) error {
	if !strings.HasSuffix(s, "\n") {
		s += "\n"
	}
	_, err := io.WriteString(w, s)
	return err
}

func depthOf(f Form) int {
	switch f {
	case formBrief:
		return 1
	case FormVerbose:
		return 3
	default:
		return 2
	}
}

// PrintPretty prints v for people, without links.
func PrintPretty(w io.Writer, v Value, o Options) error {
	b := bufio.NewWriter(w)
	p := Printer{b}
	v.unlink()
	switch v.Kind {
	case KindObject:
		p.object(v, depthOf(o.Form), "")
	case KindArray:
		p.Table(v, depthOf(o.Form), "")
	case KindString:
		p.Line(CleanText(v.Text))
	default:
		p.Line(leafText(v))
	}
	return b.Flush()
}

// Prune drops hidden keys; elements of arrays have the path of the array.
func (v *Value) Prune(path string, hide []string) {
	for i := range v.Items {
		v.Items[i].Prune(path, hide)
	}
	v.Members = slices.DeleteFunc(v.Members, func(m Member) bool {
		return slices.Contains(hide, path+m.Key)
	})
	for i := range v.Members {
		v.Members[i].Val.Prune(path+v.Members[i].Key+".", hide)
	}
}

// unlink drops links.
func (v *Value) unlink() {
	for i := range v.Items {
		v.Items[i].unlink()
	}
	v.Members = slices.DeleteFunc(v.Members, func(m Member) bool { return m.Key == linksKey })
	for i := range v.Members {
		v.Members[i].Val.unlink()
	}
}

// Printer relies on bufio.Writer to keep the first error until Flush.
type Printer struct{ W *bufio.Writer }

// Line writes a line.
func (p Printer) Line(s string) {
	_, _ = p.W.WriteString(s)
	_ = p.W.WriteByte('\n')
}

// object prints leaves, then objects, then arrays; depth counts the levels of containers that may still be opened,
// including this one.
func (p Printer) object(v Value, depth int, indent string) {
	for _, m := range v.Members {
		if m.Val.IsLeaf() {
			p.leaf(m, indent)
		}
	}
	for _, m := range v.Members {
		switch key := indent + Clean(m.Key) + ":"; {
		case m.Val.Kind != KindObject:
		case depth <= 1 || len(m.Val.Members) == 0:
			p.Line(key + " " + summary(m.Val))
		default:
			p.Line(key)
			p.object(m.Val, depth-1, indent+" ")
		}
	}
	for _, m := range v.Members {
		switch key := indent + Clean(m.Key) + ":"; {
		case m.Val.Kind != KindArray:
		case depth <= 1 || len(m.Val.Items) == 0:
			p.Line(key + " " + summary(m.Val))
		default:
			p.Line("")
			p.Line(key)
			p.Table(m.Val, depth-1, indent)
		}
	}
}

// isBlock reports whether the value is a text of several lines.
func (m Member) isBlock() bool { return m.Val.Kind == KindString && strings.Contains(m.Val.Text, "\n") }

// leaf prints "key: value"; a text of several lines (a program, a model) is an indented block below its key, so that
// it cannot be mistaken for other leaves.
func (p Printer) leaf(m Member, indent string) {
	if !m.isBlock() {
		p.Line(indent + Clean(m.Key) + ": " + leafText(m.Val))
		return
	}
	p.Line(indent + Clean(m.Key) + ":")
	for l := range strings.SplitSeq(strings.TrimSuffix(m.Val.Text, "\n"), "\n") {
		p.Line(indent + " " + CleanText(l))
	}
}

// summary stands for a container that is not opened.
func summary(v Value) string {
	if v.Kind == KindArray {
		return fmt.Sprintf("[%d items]", len(v.Items))
	}
	return fmt.Sprintf("{%d members}", len(v.Members))
}

// leafText is a leaf on one line.
func leafText(v Value) string {
	switch v.Kind {
	case KindNumber:
		return numberText(v.Text)
	case KindString:
		return Clean(v.Text)
	default:
		return v.Text
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

// Clean escapes every character that could move the cursor, break the line or
// reorder the text.
func Clean(s string) string { return escape(s, "") }

// CleanText is Clean for text of several lines.
func CleanText(s string) string { return escape(s, "\n\t") }

func escape(s, keep string) string {
	odd := func(r rune) bool { return Hazardous(r) && !strings.ContainsRune(keep, r) }
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

// Hazardous reports whether a terminal could act on a character: control characters, line separators and bidirectional
// overrides.
func Hazardous(r rune) bool {
	return unicode.IsControl(r) || r >= '\u2028' && r <= '\u202e' || r >= '\u2066' && r <= '\u2069'
}

// Form is the output format of a response.
type Form string

// The output formats.
const (
	formNormal  Form = "normal"
	formBrief   Form = "brief"
	FormVerbose Form = "verbose"
	FormJSON    Form = "json"
	FormYAML    Form = "yaml"
)

// Forms are all output formats, in the order of help.
var Forms = []Form{formNormal, formBrief, FormVerbose, FormJSON, FormYAML}

// Options configure the output of a response.
type Options struct {
	Form Form     // empty until a flag or a default sets it
	Hide []string // dotted paths from the root of the response
	Page url.Values
}
