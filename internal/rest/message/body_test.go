// SPDX-License-Identifier: Apache-2.0

package message

import (
	"strings"
	"testing"
)

// TestCheckJSON: malformed bodies are refused with the position of the fault.
func TestCheckJSON(t *testing.T) {
	nest := func(n int) string { return strings.Repeat("[", n) + strings.Repeat("]", n) }
	tests := []struct{ name, body, message string }{
		{"an object", `{"a": [1, "x", true, null]}`, ""},
		{"a bare scalar", `"x"`, ""},
		{"the deepest allowed", nest(64), ""},
		{"one level too deep", nest(65), "nested deeper than 64"},
		{"very deep and never closed", strings.Repeat(`{"a":`, 1<<20), "nested deeper than 64"},
		{"brackets in strings do not nest", `"` + strings.Repeat("[", 1000) + `\"{{{"`, ""},
		{"a missing value", "{\n  \"a\":,\n}", "line 2 column 7"},
		{"a trailing comma", `{"a":1,}`, "line 1 column 8"},
		{"two values", `{} {}`, "line 1 column 4"},
		{"cut off", `{"a":1`, "unexpected end of JSON input"},
		{"YAML", "a: b", "line 1 column 1"},
		{"not UTF-8", "\"\xff\"", "not UTF-8"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			err := checkJSON([]byte(tt.body))
			switch {
			case tt.message == "" && err != nil:
				t.Errorf("refused: %v", err)
			case tt.message != "" && (err == nil || !strings.Contains(err.Error(), tt.message)):
				t.Errorf("error %v, want one with %q", err, tt.message)
			}
		})
	}
}
