// SPDX-License-Identifier: Apache-2.0

package cubes

import (
	"strings"
	"testing"
)

// FuzzLike: a pattern of a text's parts with * between them fits the text.
func FuzzLike(f *testing.F) {
	f.Add("10.0.0.1", uint8(2), uint8(5))
	f.Add("", uint8(0), uint8(0))
	f.Fuzz(func(t *testing.T, text string, i, j uint8) {
		text = strings.ToLower(strings.ReplaceAll(text, "*", ""))
		a, b := min(int(i), len(text)), min(int(j), len(text))
		a, b = min(a, b), max(a, b)
		for _, pattern := range []string{text, "*", text[:a] + "*", "*" + text[a:], text[:a] + "*" + text[b:], text[:a] + "*" + text[a:b] + "*" + text[b:], "**" + text} {
			if !matchPattern(text, pattern) {
				t.Errorf("%q does not fit %q", pattern, text)
			}
		}
		if matchPattern(text, text+"x") || matchPattern(text, "*"+text+"x*") {
			t.Errorf("%q fits more than it has", text)
		}
	})
}
