// SPDX-License-Identifier: Apache-2.0

package lint

// Finding the functions of a C file needs no compiler: comments, strings and preprocessor lines are blanked, then
// braces are counted. Kernel style ends a function with a brace in the first column, which corrects the count if the
// two branches of an #ifdef open the same brace twice.

import (
	"regexp"
	"strings"
)

type cFunction struct {
	name  string
	line  int // of the first line of its head
	lines int // head to closing brace
}

var (
	cHead = regexp.MustCompile(`(?s)\)\s*$`)
	cCall = regexp.MustCompile(`(\w+)\s*\(`)
)

// cFunctionName returns the name in a function head, after any macros; "" if the text before a brace is no function
// head.
func cFunctionName(head string) string {
	if !cHead.MatchString(head) {
		return ""
	}
	for _, call := range cCall.FindAllStringSubmatch(head, -1) {
		if call[1] != "SEC" && call[1] != "__attribute__" {
			return call[1]
		}
	}
	return ""
}

func cFunctions(src []byte) []cFunction {
	text := blankC(string(src))
	var out []cFunction
	depth, open, start := 0, -1, 0
	for i := 0; i < len(text); i++ {
		switch text[i] {
		case ';':
			if depth == 0 {
				start = i + 1
			}
		case '{':
			if depth == 0 {
				open = i
			}
			depth++
		case '}':
			if depth > 0 {
				depth--
			}
			if i == 0 || text[i-1] == '\n' {
				depth = 0
			}
			if depth > 0 || open < start {
				continue
			}
			if name := cFunctionName(text[start:open]); name != "" {
				begin := start + len(text[start:open]) - len(strings.TrimLeft(text[start:open], " \t\n"))
				first := lineAt(src, begin)
				out = append(out, cFunction{name, first, lineAt(src, i) - first + 1})
			}
			start = i + 1
		}
	}
	return out
}

// blankC replaces everything that is not code by spaces and keeps every offset and newline.
func blankC(src string) string {
	out := []byte(src)
	blank := func(from, to int) {
		for i := from; i < to && i < len(out); i++ {
			if out[i] != '\n' {
				out[i] = ' '
			}
		}
	}
	lineStart := true
	for i := 0; i < len(src); {
		end := i + 1
		switch {
		case strings.HasPrefix(src[i:], "//"):
			end = i + indexOr(src[i:], "\n")
			blank(i, end)
		case strings.HasPrefix(src[i:], "/*"):
			end = i + 2 + indexOr(src[i+2:], "*/") + 2
			blank(i, end)
		case src[i] == '"' || src[i] == '\'':
			end = endOfQuoted(src, i)
			blank(i, end)
			lineStart = false
		case src[i] == '#' && lineStart:
			end = endOfDirective(src, i)
			blank(i, end)
		case src[i] == '\n':
			lineStart = true
		case src[i] != ' ' && src[i] != '\t':
			lineStart = false
		}
		i = end
	}
	return string(out)
}

func indexOr(s, sub string) int {
	if i := strings.Index(s, sub); i >= 0 {
		return i
	}
	return len(s)
}

func endOfQuoted(src string, i int) int {
	quote := src[i]
	for i++; i < len(src) && src[i] != quote && src[i] != '\n'; i++ {
		if src[i] == '\\' {
			i++
		}
	}
	return i + 1
}

func endOfDirective(src string, i int) int {
	for i < len(src) {
		end := i + indexOr(src[i:], "\n")
		if end == 0 || !strings.HasSuffix(strings.TrimRight(src[i:end], "\r"), "\\") {
			return end
		}
		i = end + 1
	}
	return i
}
