// SPDX-License-Identifier: Apache-2.0

package yang

import (
	"encoding/json"
	"strings"
	"testing"
)

// valueCases are values of leaves of types: what is printed, or the end of the
// error.
var valueCases = []struct{ leaf, in, out, message string }{
	{leaf: "i8", in: `-128`, out: `-128`},
	{leaf: "i8", in: `"-007"`, out: `-7`},
	{leaf: "i8", in: `-129`, message: `-129 is out of range -128..127`},
	{leaf: "i8", in: `-0`, out: `0`},
	{leaf: "i16", in: `true`, message: `true is a boolean, but must be a number in -32768..32767`},
	{leaf: "i32", in: `100`, out: `100`},
	{leaf: "i32", in: `6`, message: `6 is out of range -5..5 | 100`},
	{leaf: "i64", in: `-9223372036854775808`, out: `-9223372036854775808`},
	{leaf: "i64", in: `"9223372036854775807"`, out: `9223372036854775807`},
	{leaf: "u8", in: `"010"`, out: `10`},
	{leaf: "u8", in: `"0x10"`, message: `"0x10" is not a whole number in 0..255`},
	{leaf: "u8", in: `1.5`, message: `"1.5" is not a whole number in 0..255`},
	{leaf: "u8", in: `"-"`, message: `"-" is not a whole number in 0..255`},
	{leaf: "u8", in: `{}`, message: `the body is empty, but must be a number in 0..255`},
	{leaf: "u8", in: `[1]`, message: `an array is given, but must be a number in 0..255`},
	{leaf: "u16", in: `65535`, out: `65535`},
	{leaf: "u16", in: `-1`, message: `-1 is out of range 0..65535`},
	{leaf: "u32", in: `99999999999`, message: `99999999999 is out of range 0..4294967295`},
	{leaf: "u64", in: `18446744073709551615`, out: `18446744073709551615`},
	{leaf: "u64", in: `18446744073709551616`, message: `18446744073709551616 is out of range 0..18446744073709551615`},
	{leaf: "u64", in: `1e3`, message: `"1e3" is not a whole number in 0..18446744073709551615`},
	{leaf: "dec", in: `2.50`, out: `2.5`},
	{leaf: "dec", in: `"-1.5"`, out: `-1.5`},
	{leaf: "dec", in: `5e1`, out: `50.0`},
	{leaf: "dec", in: `1.2345`, message: `"1.2345" is not a decimal number with at most 3 digits after the point`},
	{leaf: "dec", in: `1e999`, message: `"1e999" is not a decimal number with at most 3 digits after the point`},
	{leaf: "dec", in: `"1/3"`, message: `"1/3" is not a decimal number with at most 3 digits after the point`},
	{leaf: "dec", in: `99.251`, message: `99.251 is out of range -1.5..99.25`},
	{leaf: "flag", in: `true`, out: `true`},
	{leaf: "flag", in: `"false"`, out: `false`},
	{leaf: "flag", in: `1`, message: `"1" is not true or false`},
	{leaf: "mode", in: `"access"`, out: `"ACCESS"`},
	{leaf: "mode", in: `"TRUNK"`, out: `"trunk"`},
	{leaf: "mode", in: `"bridge"`, message: `"bridge" is not one of ACCESS, trunk, Any`},
	{leaf: "mode", in: `3`, message: `3 is a number, but must be a string`},
	{leaf: "word", in: `"abcd"`, out: `"abcd"`},
	{leaf: "word", in: `"abcde"`, message: `"abcde" has 5 characters, the allowed length is 1..4`},
	{leaf: "word", in: `"äöü"`, message: `"äöü" does not match the pattern [a-z]*`},
	{leaf: "code", in: `"abc"`, message: `"abc" is refused: capitals only`},
	{leaf: "free", in: `"<a href=\"x\">&'\t\\"`, out: `"<a href=\"x\">&'\t\\"`},
	{leaf: "free", in: `5`, message: `5 is a number, but must be a string`},
	{leaf: "blob", in: `"AQI="`, out: `"AQI="`},
	{leaf: "blob", in: `"???"`, message: `"???" is not a binary`},
	{leaf: "opts", in: `"safe fast"`, out: `"fast safe"`},
	{leaf: "opts", in: `"slow"`, message: `"slow" is not one of fast, safe`},
	{leaf: "on", in: `true`, out: `true`},
	{leaf: "on", in: `[null]`, out: `true`},
	{leaf: "on", in: `false`, message: `the leaf has no value: set it to true, or delete it`},
	{leaf: "pet", in: `"cat"`, out: `"cat"`},
	{leaf: "pet", in: `"zoo:dog"`, out: `"dog"`},
	{leaf: "pet", in: `"cow"`, message: `"cow" is not one of cat, dog`},
	{leaf: "either", in: `80`, out: `80`},
	{leaf: "either", in: `"ANY"`, out: `"any"`},
	{leaf: "either", in: `"10.0.0.1"`, out: `"10.0.0.1"`},
	{leaf: "either", in: `"none"`, message: `"none" is not a number in 0..65535 or "any" or a string`},
	{leaf: "address", in: `"10.0.0.256"`, message: `"10.0.0.256" is not a valid ipv4-address (for example 10.0.0.1)`},
	{leaf: "prefix", in: `"10.0.0.0/33"`, message: `"10.0.0.0/33" is not a valid ipv4-prefix`},
	{leaf: "prefix", in: `"10.1.2.3/8"`, out: `"10.0.0.0/8"`},
	{leaf: "subnet", in: `"10.1.2.3/8"`, out: `"10.1.2.3/8"`},
	{leaf: "subnet", in: `"2001:db8::1/64"`, out: `"2001:db8::1/64"`},
	{leaf: "subnet", in: `"1:2:3:4:5:6:7:8/128"`, out: `"1:2:3:4:5:6:7:8/128"`},
	{leaf: "subnet", in: `"2001:db8::1"`, message: `"2001:db8::1" is not a valid ip-address-and-prefix`},
	{leaf: "subnet", in: `"10.1.2.300/8"`, message: `"10.1.2.300/8" is not a valid ip-address-and-prefix`},
	{leaf: "mac", in: `"02:00:00:00:00:0A"`, out: `"02:00:00:00:00:0a"`},
	{leaf: "numbers", in: `[1,"2",3]`, out: `[1,2,3]`},
	{leaf: "numbers", in: `[1,300]`, message: `300 is out of range 0..255`},
	{leaf: "numbers", in: `[1,"01"]`, message: `"1" is given twice`},
	{leaf: "numbers", in: `1`, message: `a number is given, but an array is required`},
}

func TestValues(t *testing.T) {
	s := load(t, "zoo")
	for _, c := range valueCases {
		t.Run(c.leaf+" "+c.in, func(t *testing.T) {
			tree := cube(t, s, `{}`)
			_, err := tree.Edit(t.Context(), Merge, at(t, s, "types "+c.leaf), []byte(c.in))
			if c.message != "" {
				tag := InvalidValue
				if strings.HasPrefix(c.message, "the body is empty") {
					tag = MissingElement
				}
				checkError(t, err, tag, "types "+c.leaf+": "+c.message)
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if got := show(t, tree, "types "+c.leaf); got != c.out || !json.Valid([]byte(got)) {
				t.Errorf("got %s, want %s", got, c.out)
			}
		})
	}
}

// Keys hold any byte that a string may, both kinds of quotes included.
func TestHostileKeys(t *testing.T) {
	s := load(t, "zoo")
	tree := cube(t, s, `{}`)
	before := state(t, tree)
	keys := []string{`a'b`, `a"b`, `'"`, `']|//*['`, `x[y="z"]`, "a/b", "a b", "tab\t", "", "ü€😀", `\`, `%2F`, ":", "&<>",
		`"]/limits/low["`, strings.Repeat("long", 500)}
	for _, k := range keys {
		p := Path{{Name: "rule", Keys: []string{k, "1"}}, {Name: "match", Keys: []string{k}}}
		if _, err := tree.Edit(t.Context(), Create, p[:1], nil); err != nil {
			t.Fatalf("key %q: %v", k, err)
		}
		c, err := tree.Edit(t.Context(), Create, p, []byte(`{"value":"v"}`))
		if err != nil {
			t.Fatalf("key %q: %v", k, err)
		}
		if err := c.Revert(); err != nil {
			t.Fatalf("key %q: %v", k, err)
		}
		if _, err := tree.Edit(t.Context(), Create, p, nil); err != nil {
			t.Fatalf("key %q: %v", k, err)
		}
		_, resolved, err := s.Resolve(p.Segments())
		if err != nil || resolved.ID() != p.ID() {
			t.Errorf("resolve %q: %v, %v", p.Segments(), resolved, err)
		}
		out, err := tree.JSON(p, JSONOptions{})
		var entry struct{ Field string }
		if err != nil || json.Unmarshal(out, &entry) != nil || entry.Field != k {
			t.Errorf("key %q: got %s, %v", k, out, err)
		}
	}
	entries, err := tree.Entries(Path{{Name: "rule"}})
	if err != nil || len(entries) != len(keys) {
		t.Fatalf("%d entries, %v", len(entries), err)
	}
	for i, e := range entries {
		if e[0] != keys[i] || e[1] != "1" {
			t.Errorf("entry %d is %q, want %q", i, e, keys[i])
		}
		if _, err := tree.Edit(t.Context(), Delete, Path{{Name: "rule", Keys: e}}, nil); err != nil {
			t.Errorf("delete %q: %v", e, err)
		}
	}
	if after := state(t, tree); after != before {
		t.Errorf("left over:\n%s", after)
	}
	_, _, err = s.Resolve([]string{"rule", "a\x00b", "1"})
	checkError(t, err, InvalidValue, "rule: key \"a\\x00b\": contains the character U+0000, which is not allowed")
	_, err = tree.Edit(t.Context(), Create, Path{{Name: "rule", Keys: []string{"\xff", "1"}}}, nil)
	checkError(t, err, InvalidValue, "rule: key \"\\xff\": is not valid UTF-8")
}
