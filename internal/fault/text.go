// SPDX-License-Identifier: Apache-2.0

package fault

import (
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"
)

// MaxText is how long a text in a path or in the configuration may be, in bytes.
const MaxText = 1 << 20

// MaxBody is the size limit of a body, in bytes.
const MaxBody = 32 << 20

// Longest returns how long a text may be, in bytes. The model decides for an action's input, where nothing is stored: by
// its length, or else as for configuration. What an action returns is the cube's, and only the whole is limited.
func Longest(length string, input, output bool) int {
	last, err := strconv.Atoi(length[strings.LastIndexByte(length, '.')+1:])
	if output || input && err == nil && last > MaxText {
		return MaxBody // libyang counts the characters
	}
	return MaxText
}

// Text accepts what RFC 7950 §9.4 allows in a string, up to MaxText bytes; libyang relies on it.
func Text(s string) error { return TextUpTo(s, MaxText) }

// TextUpTo is Text with another limit.
func TextUpTo(s string, limit int) error {
	if len(s) > limit {
		return fmt.Errorf("is longer than %d bytes", limit)
	}
	if !utf8.ValidString(s) {
		return fmt.Errorf("is not valid UTF-8")
	}
	for _, r := range s {
		if (r < ' ' && r != '\t' && r != '\n' && r != '\r') || r&0xfffe == 0xfffe || (r >= 0xfdd0 && r <= 0xfdef) {
			return fmt.Errorf("contains the character %U, which is not allowed", r)
		}
	}
	return nil
}
