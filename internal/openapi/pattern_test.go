// SPDX-License-Identifier: Apache-2.0

package openapi

import (
	"regexp"
	"testing"
)

func TestPatterns(t *testing.T) {
	tests := []struct {
		name, xsd string
		exact     bool
		yes, no   []string
	}{
		{"it is anchored", "[a-z]+", true, []string{"abc"}, []string{"abc1", "1abc", ""}},
		{"alternatives are anchored whole", "a|bc", true, []string{"a", "bc"}, []string{"ab", "xbc", "abc"}},
		{"caret and dollar are characters", "^a$", true, []string{"^a$"}, []string{"a"}},
		{"digits are ASCII", `\d+`, true, []string{"09"}, []string{"٣", "x"}},
		{"not digits", `\D`, true, []string{"x", "é"}, []string{"5"}},
		{"white space", `\s\S`, true, []string{" x", "\tx"}, []string{"xx"}},
		{"word characters", `\w+`, true, []string{"a_9"}, []string{"a-b"}},
		{"a dot is no line end", `.`, true, []string{"x", "é"}, []string{"\n", "\r", "xx"}},
		{"an escaped hyphen", `[\-a]\-`, true, []string{"--", "a-"}, []string{"b-"}},
		{"a hyphen at an end of a class", `[a-]`, true, []string{"a", "-"}, []string{"b"}},
		{"a bracket in a class", `[\[\]]`, true, []string{"[", "]"}, []string{"x"}},
		{"a class with all but one", `[^:/\s]+`, true, []string{"p1", "é"}, []string{"a b", "a:b"}},
		{"a caret in a class", `[a^]`, true, []string{"a", "^"}, []string{"b"}},
		{"groups and numbers", `(ab){2,3}`, true, []string{"abab", "ababab"}, []string{"ab", "abababab"}},
		{"letters of Unicode", `\p{L}+`, false, []string{"aZ", "é"}, []string{"1", "a1"}},
		{"what is no letter", `\P{L}`, false, []string{"1", "€"}, []string{"a"}},
		{"letters in a class", `[\p{N}_]+`, false, []string{"1_", "٣"}, []string{"a"}},
		{"a class without letters", `[^\p{L}]`, false, []string{"1", "é"}, []string{"a"}},
		{"names of XML", `\i\c*`, false, []string{"a-1", "é"}, []string{"-a", "1"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			ecma, exact, ok := Pattern(tt.xsd)
			if !ok || exact != tt.exact {
				t.Fatalf("Pattern(%q) = %q, exact %t, ok %t", tt.xsd, ecma, exact, ok)
			}
			re := regexp.MustCompile(ecma)
			for _, text := range tt.yes {
				if !re.MatchString(text) {
					t.Errorf("%s does not match %q", ecma, text)
				}
			}
			for _, text := range tt.no {
				if re.MatchString(text) {
					t.Errorf("%s matches %q", ecma, text)
				}
			}
		})
	}
}

func TestPatternsWithoutTranslation(t *testing.T) {
	for _, xsd := range []string{`[a-z-[aeiou]]`, `\p{IsGreek}`, `[a`, `(?:a)`, `\q`, `a{9999}`, `(a`} {
		if ecma, _, ok := Pattern(xsd); ok {
			t.Errorf("Pattern(%q) = %q", xsd, ecma)
		}
	}
}
