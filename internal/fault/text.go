// SPDX-License-Identifier: Apache-2.0

package fault

import (
	"fmt"
	"unicode/utf8"
)

// maxText is how long a text in a path or a body may be, in bytes.
const maxText = 1 << 20

// Text accepts what RFC 7950 §9.4 allows in a string, up to maxText bytes; libyang relies on it.
func Text(s string) error {
	if len(s) > maxText {
		return fmt.Errorf("longer than %d bytes", maxText)
	}
	if !utf8.ValidString(s) {
		return fmt.Errorf("not valid UTF-8")
	}
	for _, r := range s {
		if (r < ' ' && r != '\t' && r != '\n' && r != '\r') || r&0xfffe == 0xfffe || (r >= 0xfdd0 && r <= 0xfdef) {
			return fmt.Errorf("contains the character %U, which is not allowed", r)
		}
	}
	return nil
}
