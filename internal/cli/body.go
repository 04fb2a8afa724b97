// SPDX-License-Identifier: Apache-2.0

// A body typed as words has no types, and only the daemon has the model with the types. So words are typed by their
// look (integer, number, boolean, string), and a value in JSON quotes is always a string: "007". A JSON array is an
// array, for list parameters.

package cli

import (
	"encoding/json"
	"math"
	"strconv"
	"strings"

	"github.com/polycube/polycube/internal/cli/output"
)

// typed gives a word its JSON type.
func typed(word string) output.Value {
	if s, ok := quoted(word); ok {
		return output.StringValue(s)
	}
	if list, ok := array(word); ok {
		return list
	}
	if n, ok := integer(word); ok {
		return output.Value{Kind: output.KindNumber, Text: n}
	}
	if n, ok := float(word); ok {
		return output.Value{Kind: output.KindNumber, Text: n}
	}
	if b, err := strconv.ParseBool(word); err == nil {
		return output.Value{Kind: output.KindBool, Text: strconv.FormatBool(b)}
	}
	return output.StringValue(word)
}

// array accepts JSON only: an address in brackets is text.
func array(word string) (output.Value, bool) {
	if len(word) < 2 || word[0] != '[' || word[len(word)-1] != ']' {
		return output.Value{}, false
	}
	v, err := output.DecodeJSON([]byte(word))
	return v, err == nil
}

func quoted(word string) (string, bool) {
	if len(word) < 2 || word[0] != '"' {
		return "", false
	}
	var s string
	if err := json.Unmarshal([]byte(word), &s); err != nil {
		return "", false
	}
	return s, true
}

// integer accepts an optional sign and any number of decimal digits, because uint64 counters and identifiers must
// arrive exactly.
func integer(word string) (string, bool) {
	digits := strings.TrimLeft(word, "+-")
	if digits == "" || len(word)-len(digits) > 1 || strings.Trim(digits, "0123456789") != "" {
		return "", false
	}
	digits = strings.TrimLeft(digits[:len(digits)-1], "0") + digits[len(digits)-1:]
	if word[0] == '-' && digits != "0" {
		return "-" + digits, true
	}
	return digits, true
}

// float accepts decimal notation only: NaN, Inf and hexadecimal floats have no JSON form and are words. A literal that
// is valid JSON is kept as typed.
func float(word string) (string, bool) {
	if strings.Trim(word, "+-.0123456789eE") != "" {
		return "", false
	}
	f, err := strconv.ParseFloat(word, 64)
	if err != nil || math.IsInf(f, 0) || math.IsNaN(f) {
		return "", false
	}
	if json.Valid([]byte(word)) {
		return word, true
	}
	return strconv.FormatFloat(f, 'g', -1, 64), true
}

// object builds the body from several pairs; a dotted key nests.
func object(pairs []pair) (output.Value, error) {
	root := output.ObjectValue()
	for _, p := range pairs {
		if !insert(&root, strings.Split(p.key, "."), typed(p.value)) {
			return output.Value{}, usagef("%q conflicts with another key: a name holds a value or members, not both", p.key+"=")
		}
	}
	return root, nil
}

func insert(at *output.Value, path []string, leaf output.Value) bool {
	if at.Kind != output.KindObject {
		return false
	}
	for i := range at.Members {
		if at.Members[i].Key == path[0] {
			return len(path) > 1 && insert(&at.Members[i].Val, path[1:], leaf)
		}
	}
	if len(path) == 1 {
		at.Members = append(at.Members, output.Member{Key: path[0], Val: leaf})
		return true
	}
	inner := output.ObjectValue()
	insert(&inner, path[1:], leaf)
	at.Members = append(at.Members, output.Member{Key: path[0], Val: inner})
	return true
}
