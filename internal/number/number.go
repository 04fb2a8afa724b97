// SPDX-License-Identifier: Apache-2.0

// Package number reads numbers as people and JSON write them, and returns them as libyang does.
package number

import (
	"math/big"
	"strings"
)

// Integer reads plain decimal digits, with or without a minus, and removes leading zeros. It returns false for anything
// else, and "" for a number with more digits than 64 bits can have.
func Integer(text string) (string, bool) {
	sign := ""
	if strings.HasPrefix(text, "-") {
		text, sign = text[1:], "-"
	}
	digits := strings.TrimLeft(text, "0")
	switch {
	case text == "" || strings.Trim(digits, "0123456789") != "":
		return "", false
	case digits == "":
		return "0", true
	case len(digits) > 20:
		return "", true
	}
	return sign + digits, true
}

// Decimal reads a number with at most some digits after the point, and writes it without exponent. It returns false for
// anything else.
func Decimal(text string, digits int) (string, bool) {
	mantissa, exponent, _ := strings.Cut(strings.ToLower(text), "e")
	if len(text) > 40 || len(strings.TrimLeft(exponent, "+-")) > 2 ||
		mantissa == "" || strings.Trim(mantissa, "-0123456789.") != "" {
		return "", false
	}
	number, ok := new(big.Rat).SetString(text)
	if !ok {
		return "", false
	}
	out := number.FloatString(digits)
	exact, ok := new(big.Rat).SetString(out)
	return out, ok && exact.Cmp(number) == 0
}
