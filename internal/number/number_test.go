// SPDX-License-Identifier: Apache-2.0

package number

import "testing"

func TestNumbers(t *testing.T) {
	for _, c := range []struct {
		text   string
		digits int // -1 for an integer
		want   string
		ok     bool
	}{
		{"7", -1, "7", true}, {"-7", -1, "-7", true}, {"007", -1, "7", true}, {"-0", -1, "0", true},
		{"184467440737095516150", -1, "", true}, {"", -1, "", false}, {"-", -1, "", false}, {"+1", -1, "", false},
		{"0x7", -1, "", false}, {"1.0", -1, "", false}, {"1e3", -1, "", false},
		{"1.5", 2, "1.50", true}, {"-1.25", 2, "-1.25", true}, {"1e1", 1, "10.0", true}, {"15e-1", 1, "1.5", true},
		{"1.255", 2, "", false}, {"1e999", 2, "", false}, {"nan", 2, "", false}, {"1/3", 2, "", false}, {"", 2, "", false},
	} {
		read := func(text string) (string, bool) { return Decimal(text, c.digits) }
		if c.digits < 0 {
			read = Integer
		}
		if got, ok := read(c.text); ok != c.ok || ok && got != c.want {
			t.Errorf("%q with %d digits is %q, %v, want %q, %v", c.text, c.digits, got, ok, c.want, c.ok)
		}
	}
}
