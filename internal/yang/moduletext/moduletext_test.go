// SPDX-License-Identifier: Apache-2.0

package moduletext

import (
	"strings"
	"testing"
)

func TestCheck(t *testing.T) {
	for _, c := range []struct{ name, text, want string }{
		{"good", "module m { leaf x { description \"{{{\"; } }", ""},
		{"as deep as allowed", strings.Repeat("c {", maxDepth) + strings.Repeat("}", maxDepth), ""},
		{"too deep", strings.Repeat("c {", maxDepth+1), "nested deeper"},
		{"braces in strings and comments", "'" + strings.Repeat("{", 99) + `' "\"` + strings.Repeat("{", 99) + "\" // " + strings.Repeat("{", 99) +
			"\n/* " + strings.Repeat("{", 99) + " */", ""},
		{"braces after a comment", "/* */" + strings.Repeat("{", 99), "nested deeper"},
		{"open comment and string", "/* {", ""},
		{"NUL", "m \x00", "U+0000"},
		{"no UTF-8", "\xff", "UTF-8"},
		{"a character at the border of two parts", strings.Repeat(" ", most-1) + "é", ""},
		{"no character there", strings.Repeat(" ", most-1) + "\xc3\xc3", "UTF-8"},
		{"only continuations", strings.Repeat("\x80", most+1), "UTF-8"},
		{"too long", strings.Repeat(" ", Max+1), "longer than"},
	} {
		err := Check(c.text)
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: got %v, want %q", c.name, err, c.want)
		}
	}
}
