// SPDX-License-Identifier: Apache-2.0

// JSON and YAML for programs, written while the tree is walked: a list of 200,000 rules takes no memory beyond the
// response. (The YAML library's encoder takes gigabytes for it.) A string is plain YAML only if no reader of YAML 1.1
// or 1.2 can take it for anything else.

package output

import (
	"bufio"
	"fmt"
	"net/netip"
	"regexp"
	"strings"
	"unicode"
)

// printJSON indents by two and keeps number literals.
func printJSON(w *bufio.Writer, v Value, indent string) {
	opening, closing, count := "[", "]", len(v.Items)
	if v.Kind == KindObject {
		opening, closing, count = "{", "}", len(v.Members)
	}
	switch {
	case v.IsLeaf():
		_, _ = w.WriteString(escapeJSONControls(string(v.AppendJSON(nil))))
		return
	case count == 0:
		_, _ = w.WriteString(opening + closing)
		return
	}
	inner := indent + "  "
	_, _ = w.WriteString(opening)
	for i := range count {
		if i > 0 {
			_ = w.WriteByte(',')
		}
		_, _ = w.WriteString("\n" + inner)
		if v.Kind == KindArray {
			printJSON(w, v.Items[i], inner)
			continue
		}
		_, _ = w.WriteString(escapeJSONControls(string(appendJSONString(nil, v.Members[i].Key))) + ": ")
		printJSON(w, v.Members[i].Val, inner)
	}
	_, _ = w.WriteString("\n" + indent + closing)
}

// escapeJSONControls escapes the control characters that JSON allows unescaped
// inside strings.
func escapeJSONControls(s string) string {
	if !strings.ContainsFunc(s, Hazardous) {
		return s
	}
	var b strings.Builder
	for _, r := range s {
		if Hazardous(r) {
			fmt.Fprintf(&b, `\u%04x`, r)
		} else {
			b.WriteRune(r)
		}
	}
	return b.String()
}

// printYAML writes block style. The cursor is where the value can start; indent is that of the parent's lines, and of
// the value's own after a line break.
func printYAML(w *bufio.Writer, v Value, indent string) {
	switch v.Kind {
	case KindArray:
		for i, item := range v.Items {
			if i > 0 {
				_, _ = w.WriteString(indent)
			}
			_, _ = w.WriteString("- ")
			if item.opens() {
				printYAML(w, item, indent+"  ")
			} else {
				yamlLeaf(w, item, indent+"  ")
			}
		}
	case KindObject:
		for i, m := range v.Members {
			if i > 0 {
				_, _ = w.WriteString(indent)
			}
			_, _ = w.WriteString(yamlKey(m.Key, indent))
			if m.Val.opens() {
				_, _ = w.WriteString("\n" + indent + "  ")
				printYAML(w, m.Val, indent+"  ")
			} else {
				_ = w.WriteByte(' ')
				yamlLeaf(w, m.Val, indent+"  ")
			}
		}
	default:
		yamlLeaf(w, v, indent)
	}
}

// yamlKey: YAML limits keys to 1024 characters, unless "?" announces them.
func yamlKey(key, indent string) string {
	text := YAMLText(key)
	if len(text) > 1000 {
		return "? " + text + "\n" + indent + ":"
	}
	return text + ":"
}

// opens reports whether a value takes separate lines.
func (v Value) opens() bool { return len(v.Items)+len(v.Members) > 0 }

// yamlLeaf writes what fits after a key or dash, or a block of text at indent.
func yamlLeaf(w *bufio.Writer, v Value, indent string) {
	switch {
	case v.Kind == KindArray:
		_, _ = w.WriteString("[]\n")
	case v.Kind == KindObject:
		_, _ = w.WriteString("{}\n")
	case v.Kind != KindString:
		_, _ = w.WriteString(v.Text + "\n")
	case indent != "" && isBlock(v.Text):
		body, trailing := strings.CutSuffix(v.Text, "\n")
		if trailing {
			_, _ = w.WriteString("|\n")
		} else {
			_, _ = w.WriteString("|-\n")
		}
		for line := range strings.SplitSeq(body, "\n") {
			if line != "" {
				_, _ = w.WriteString(indent + line)
			}
			_ = w.WriteByte('\n')
		}
	default:
		_, _ = w.WriteString(YAMLText(v.Text) + "\n")
	}
}

// isBlock: text of several lines whose literal form is unambiguous.
func isBlock(s string) bool {
	odd := func(r rune) bool { return r != '\n' && r != '\t' && !unicode.IsPrint(r) }
	return strings.Contains(strings.TrimSuffix(s, "\n"), "\n") &&
		!strings.ContainsAny(s[:1], " \t\n") && !strings.HasSuffix(s, "\n\n") &&
		!strings.Contains(s, " \n") && !strings.Contains(s, "\t\n") && !strings.ContainsAny(s[len(s)-1:], " \t") &&
		!strings.ContainsFunc(s, odd)
}

var plainWords = regexp.MustCompile(`^[A-Za-z_/][A-Za-z0-9_./@-]*(:[A-Za-z0-9_./@-]+)*$|^[A-Za-z][A-Za-z0-9_./@-]*( [A-Za-z0-9_./@-]+)+$|^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$`).MatchString

// YAMLText is a string on one line.
func YAMLText(s string) string {
	switch strings.ToLower(s) {
	case "null", "true", "false", "yes", "no", "on", "off", "y", "n":
		return quoteYAML(s)
	}
	if plainWords(s) {
		return s
	}
	// Three dots make it neither a number nor a date.
	if addr, _, _ := strings.Cut(s, "/"); strings.Count(addr, ".") == 3 {
		if _, err := netip.ParseAddr(addr); err == nil && !strings.ContainsFunc(s, notAddress) {
			return s
		}
	}
	return quoteYAML(s)
}

func notAddress(r rune) bool { return !strings.ContainsRune("0123456789./", r) }

func quoteYAML(s string) string {
	var b strings.Builder
	b.WriteByte('"')
	for _, r := range s {
		switch {
		case r == '"' || r == '\\':
			b.WriteByte('\\')
			b.WriteRune(r)
		case r == '\n':
			b.WriteString(`\n`)
		case r == '\t':
			b.WriteString(`\t`)
		case unicode.IsPrint(r):
			b.WriteRune(r)
		case r <= 0xffff:
			fmt.Fprintf(&b, `\u%04x`, r)
		default:
			fmt.Fprintf(&b, `\U%08x`, r)
		}
	}
	b.WriteByte('"')
	return b.String()
}
