// SPDX-License-Identifier: Apache-2.0

package leaftype

import (
	"strings"
	"testing"
)

func TestSpell(t *testing.T) {
	colour := Type{Base: "enumeration", Name: "enumeration", Enums: []string{"RED", "Blue"}}
	pet := Type{Base: "identityref", Name: "identityref", Enums: []string{"cat"}, Identities: map[string]string{"cat": "zoo:cat"}}
	port := Type{Base: "uint16", Name: "uint16", Range: "1..65535"}
	ratio := Type{Base: "decimal64", Name: "decimal64", FractionDigits: 2}
	flag := Type{Base: "boolean", Name: "boolean"}
	either := Type{Base: "union", Name: "union", Union: []Type{port, colour}}
	mac := Type{Base: "string", Name: "yang:mac-address", Patterns: []string{"[0-9a-fA-F]{2}(:[0-9a-fA-F]{2}){5}"}}
	for _, c := range []struct {
		of         Type
		kind       Kind
		text, want string
		refused    string
	}{
		{colour, String, "red", "RED", ""},
		{colour, String, "Blue", "Blue", ""},
		{colour, String, "green", "", "one of RED, Blue"},
		{colour, Number, "7", "", "must be a string"},
		{pet, String, "cat", "zoo:cat", ""},
		{pet, String, "zoo:cat", "zoo:cat", ""},
		{pet, String, "dog", "", `is not "cat"`},
		{port, Number, "80", "80", ""},
		{port, String, "80", "80", ""},
		{port, String, "010", "10", ""},
		{port, String, "0x10", "", "not a whole number"},
		{port, Bool, "true", "", "is a boolean"},
		{ratio, Number, "15e-1", "1.50", ""},
		{ratio, String, "1.234", "", "at most 2 digits"},
		{flag, Bool, "true", "true", ""},
		{flag, String, "FALSE", "false", ""},
		{flag, Number, "1", "", "not true or false"},
		{either, String, "blue", "Blue", ""},
		{either, Number, "80", "80", ""},
		{mac, String, "02:AB:00:00:00:01", "02:ab:00:00:00:01", ""},
	} {
		accepts := func(text string) bool { return text == "Blue" || text == "80" }
		got, err := c.of.Spell(Scalar{c.kind, c.text}, accepts)
		switch {
		case c.refused == "" && (err != nil || got != c.want):
			t.Errorf("%s %q: got %q, %v, want %q", c.of.Base, c.text, got, err, c.want)
		case c.refused != "" && (err == nil || !strings.Contains(err.Error(), c.refused)):
			t.Errorf("%s %q: got %q, %v, want an error with %q", c.of.Base, c.text, got, err, c.refused)
		}
	}
}

func TestRefused(t *testing.T) {
	for _, c := range []struct {
		of            Type
		message, want string
	}{
		{Type{Base: "uint8", Name: "uint8", Range: "1..9"}, "Unsatisfied pattern", "x is out of range 1..9"},
		{Type{Base: "string", Name: "string", Length: "2..3"}, "Unsatisfied length", `"x" has 1 characters, the allowed length is 2..3`},
		{Type{Base: "string", Name: "inet:host"}, "Unsatisfied pattern", `"x" is not a valid host (for example y)`},
		{Type{Base: "string", Name: "string", Patterns: []string{"a", "b"}}, "Unsatisfied pattern", `"x" does not match the pattern a and b (for example y)`},
		{Type{Base: "binary", Name: "binary"}, "Unsatisfied pattern", `"x" is not a binary (for example y)`},
	} {
		if got := c.of.Refused("x", c.message, " (for example y)"); got != c.want {
			t.Errorf("got %s, want %s", got, c.want)
		}
	}
}
