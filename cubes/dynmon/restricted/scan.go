// SPDX-License-Identifier: Apache-2.0

package restricted

// A scanner of C, as far as it is of interest here: what is text and comment, and what are words. The texts of all tokens
// together are the code.

import "strings"

type kind uint8

const (
	other     kind = iota // a character of its own
	word                  // a name or a number
	blank                 // spaces and ends of lines
	comment               // either kind
	text                  // a string or a character
	directive             // a line of the preprocessor, with those that continue it
)

// token is a part of the code, and the line where it begins.
type token struct {
	kind kind
	text string
	line int
}

// scan divides code into tokens.
func scan(code string) []token {
	var out []token
	line, first := 1, true // first: nothing but blanks so far on this line
	for len(code) > 0 {
		k, n := next(code, first)
		out = append(out, token{k, code[:n], line})
		line += strings.Count(code[:n], "\n")
		first = (first || k == directive) && (k == blank || k == comment || k == directive) || k == blank && strings.Contains(code[:n], "\n")
		code = code[n:]
	}
	return out
}

// next returns the kind and the length of the first token.
func next(code string, first bool) (kind, int) {
	c := code[0]
	switch {
	case isSpace(c):
		return blank, prefix(code, isSpace)
	case strings.HasPrefix(code, "//"):
		return comment, lineEnd(code)
	case strings.HasPrefix(code, "/*"):
		if end := strings.Index(code[2:], "*/"); end >= 0 {
			return comment, end + 4
		}
		return comment, len(code)
	case c == '#' && first:
		return directive, lineEnd(code)
	case c == '"' || c == '\'':
		return text, quoted(code)
	case isWord(c):
		return word, prefix(code, isWord)
	}
	return other, 1
}

func prefix(code string, is func(byte) bool) int {
	n := 0
	for n < len(code) && is(code[n]) {
		n++
	}
	return n
}

func isSpace(c byte) bool { return c == ' ' || c >= '\t' && c <= '\r' }

func isWord(c byte) bool {
	return c == '_' || c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
}

// isName reports whether a text is one name.
func isName(s string) bool {
	return s != "" && prefix(s, isWord) == len(s) && (s[0] < '0' || s[0] > '9')
}

// lineEnd returns the length of a line, without its end, and with the lines that continue it.
func lineEnd(code string) int {
	for i := 0; i < len(code); i++ {
		if code[i] == '\n' && (i == 0 || code[i-1] != '\\') {
			return i
		}
	}
	return len(code)
}

// quoted returns the length of a string or a character, which ends with the line at the latest.
func quoted(code string) int {
	for i := 1; i < len(code); i++ {
		switch code[i] {
		case '\\':
			i++
		case code[0]:
			return i + 1
		case '\n':
			return i
		}
	}
	return len(code)
}
