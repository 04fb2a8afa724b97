// SPDX-License-Identifier: Apache-2.0

package fault

import (
	"fmt"
	"unicode/utf8"
)

// MaxText is how long a text in a path or in the configuration may be, in bytes.
const MaxText = 1 << 20

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
