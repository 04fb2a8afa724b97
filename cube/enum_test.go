// SPDX-License-Identifier: Apache-2.0

package cube

import (
	"errors"
	"testing"
)

func TestEnumIsThePositionOfTheName(t *testing.T) {
	type action uint32
	for want, name := range []string{"DROP", "PASS"} {
		got, err := Enum[action]("action", []byte(name), "DROP", "PASS")
		if err != nil || got != action(want) {
			t.Errorf("%s is %d (%v), want %d", name, got, err, want)
		}
	}
	for _, name := range []string{"", "pass", "PASS ", "OTHER"} {
		if _, err := Enum[action]("action", []byte(name), "DROP", "PASS"); !errors.Is(err, ErrInvalid) {
			t.Errorf("%q: %v, want ErrInvalid", name, err)
		}
	}
}
