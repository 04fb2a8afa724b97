// SPDX-License-Identifier: Apache-2.0

package cube

import "fmt"

// Enum parses a value of a model's enum: it returns the position of text among names. A program's C enum has the same
// order. what names the leaf in the error.
func Enum[E ~uint32](what string, text []byte, names ...string) (E, error) {
	for value, name := range names {
		if name == string(text) {
			return E(value), nil
		}
	}
	return 0, fmt.Errorf("%s %q: %w", what, text, ErrInvalid)
}
