// SPDX-License-Identifier: Apache-2.0

// Regular expressions of XML Schema, which YANG uses, converted to the dialect that JSON Schema recommends: the subset
// of ECMA-262 that every engine interprets in the same way.

package openapi

import (
	"fmt"
	"regexp/syntax"
	"strings"
	"unicode"
	"unicode/utf8"
)

// otherText is every character beyond ASCII, as the inside of a class. Engines differ in the syntax of Unicode
// classes, so a class contains all of them or none.
const otherText = "\u0080-\U0010ffff"

// Pattern converts a pattern of a model. It is anchored, like patterns of YANG. A Unicode class becomes its ASCII part
// and all other text, so the result may accept more than the pattern does, never less; exact tells that it accepts the
// same. ok is false for the rare pattern that cannot be converted: with a Unicode block, or a class that subtracts
// another.
func Pattern(xsd string) (ecma string, exact, ok bool) {
	t := &translator{in: xsd, exact: true}
	t.out.WriteString("^(?:")
	for t.in != "" && !t.bad {
		t.atom()
	}
	t.out.WriteString(")$")
	ecma = t.out.String()
	if _, err := syntax.Parse(ecma, syntax.Perl); t.bad || err != nil {
		return "", false, false
	}
	return ecma, t.exact, true
}

type translator struct {
	in         string
	out        strings.Builder
	exact, bad bool
}

// next takes one character.
func (t *translator) next() rune {
	r, n := utf8.DecodeRuneInString(t.in)
	t.in = t.in[n:]
	return r
}

// Special characters outside of a class, and within one.
const (
	specialChars  = `\.?*+()|[]{}^$`
	specialInside = `\[]^-`
)

func quote(r rune, special string) string {
	if strings.ContainsRune(special, r) {
		return `\` + string(r)
	}
	return string(r)
}

// atom converts what is outside of a class.
func (t *translator) atom() {
	switch r := t.next(); r {
	case '\\':
		if class, char := t.escape(false); class != "" {
			t.out.WriteString("[" + class + "]")
		} else {
			t.out.WriteString(quote(char, specialChars))
		}
	case '[':
		t.class()
	case '.':
		t.out.WriteString(`[^\n\r]`)
	case '(':
		t.bad = t.bad || strings.HasPrefix(t.in, "?")
		t.out.WriteString("(?:")
	case '{':
		quantity, rest, _ := strings.Cut(t.in, "}")
		t.out.WriteString("{" + quantity + "}")
		t.in = rest
	case '^', '$', ']', '}':
		t.out.WriteString(`\` + string(r))
	default:
		t.out.WriteRune(r)
	}
}

// class converts a class in brackets.
func (t *translator) class() {
	negated := strings.HasPrefix(t.in, "^")
	t.in = strings.TrimPrefix(t.in, "^")
	var items strings.Builder
	for first := true; !strings.HasPrefix(t.in, "]"); first = false {
		if t.in == "" || strings.HasPrefix(t.in, "-[") {
			t.bad = true
			return
		}
		switch r := t.next(); {
		case r == '\\':
			// A negated class must contain less for the whole pattern to accept more.
			if class, char := t.escape(negated); class != "" {
				items.WriteString(class)
			} else {
				items.WriteString(quote(char, specialInside))
			}
		case r == '-' && !first && !strings.HasPrefix(t.in, "]"):
			items.WriteByte('-') // a range
		default:
			items.WriteString(quote(r, specialInside))
		}
	}
	t.next()
	t.bad = t.bad || items.Len() == 0
	if negated {
		t.out.WriteByte('[')
		t.out.WriteString("^" + items.String() + "]")
		return
	}
	t.out.WriteString("[" + items.String() + "]")
}

// escape converts what follows a backslash: the inside of a class, or one character if that is "". narrow requests
// only ASCII where a class cannot be exact.
func (t *translator) escape(narrow bool) (class string, char rune) {
	switch r := t.next(); r {
	case 'd':
		return "0-9", 0
	case 's':
		return ` \t\n\r`, 0
	case 'w':
		return "0-9A-Z_a-z", 0
	case 'D', 'S', 'W': // exact: what these exclude is in ASCII
		inside, _ := (&translator{in: string(unicode.ToLower(r))}).escape(false)
		return complement(inside) + otherText, 0
	case 'i', 'I':
		return t.widen("A-Z_a-z:", r == 'I', narrow), 0
	case 'c', 'C':
		return t.widen(`A-Z_a-z:0-9.\-`, r == 'C', narrow), 0
	case 'p', 'P':
		name, rest, found := strings.Cut(strings.TrimPrefix(t.in, "{"), "}")
		table := unicode.Categories[name]
		if t.bad = t.bad || !found || !strings.HasPrefix(t.in, "{") || table == nil; t.bad {
			return "", ' '
		}
		t.in = rest
		return t.widen(ascii(func(r rune) bool { return unicode.Is(table, r) }), r == 'P', narrow), 0
	case 'n':
		return "", '\n'
	case 'r':
		return "", '\r'
	case 't':
		return "", '\t'
	default:
		t.bad = t.bad || !strings.ContainsRune(specialChars+"-", r)
		return "", r
	}
}

// widen returns a class of which only the ASCII part is known.
func (t *translator) widen(part string, negated, narrow bool) string {
	t.exact = false
	if negated {
		part = complement(part)
	}
	if !narrow {
		part += otherText
	}
	return part
}

// complement is the rest of ASCII, as the inside of a class.
func complement(class string) string {
	set, err := syntax.Parse("["+class+"]", syntax.Perl)
	if err != nil || set.Op != syntax.OpCharClass {
		return ""
	}
	return ascii(func(r rune) bool {
		for i := 0; i < len(set.Rune); i += 2 {
			if r >= set.Rune[i] && r <= set.Rune[i+1] {
				return false
			}
		}
		return true
	})
}

// ascii writes the ASCII characters of a set as the inside of a class.
func ascii(in func(rune) bool) string {
	var b strings.Builder
	for r := rune(0); r < utf8.RuneSelf; r++ {
		if !in(r) {
			continue
		}
		from := r
		for r+1 < utf8.RuneSelf && in(r+1) {
			r++
		}
		fmt.Fprintf(&b, `\x%02x`, from)
		if r > from {
			fmt.Fprintf(&b, `-\x%02x`, r)
		}
	}
	return b.String()
}
