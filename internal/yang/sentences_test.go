// SPDX-License-Identifier: Apache-2.0

package yang

import (
	"errors"
	"testing"
)

// TestSentences: each kind of fault has the path of its place, and a sentence that says what to do about it.
func TestSentences(t *testing.T) {
	s := load(t, "constructs")
	const chosen = `"choices":{"no":"x"},"shared":{"host":"h"}`
	cube := func(members string) string { return "{" + chosen + "," + members + "}" }
	for _, c := range []struct {
		name, body, path, message string
		tag                       Tag
	}{
		{"an integer beyond its range", cube(`"types":{"u8":101}`), "types/u8", "types u8: 101 is out of range 0..100", InvalidValue},
		{"an integer between two ranges", cube(`"types":{"i8":5}`), "types/i8", "types i8: 5 is out of range -128..-100 | 0 | 10..20", InvalidValue},
		{"a fraction for an integer", cube(`"types":{"i16":1.5}`), "types/i16", `types i16: "1.5" is not a whole number in -32768..32767`, InvalidValue},
		{"a word for an integer", cube(`"types":{"i16":"x"}`), "types/i16", `types i16: "x" is not a whole number in -32768..32767`, InvalidValue},
		{"a decimal beyond its range", cube(`"types":{"d2":1.01}`), "types/d2", "types d2: 1.01 is out of range -1.0..1.0 | 10.5", InvalidValue},
		{"a decimal with too many digits", cube(`"types":{"d2":0.001}`), "types/d2", `types d2: "0.001" is not a decimal number with at most 2 digits after the point`, InvalidValue},
		{"a word for a boolean", cube(`"types":{"flag":"maybe"}`), "types/flag", `types flag: "maybe" is not true or false`, InvalidValue},
		{"an unknown enum", cube(`"types":{"day":"wed"}`), "types/day", `types day: "wed" is not one of mon, tue, sun`, InvalidValue},
		{"an enum of a larger type", cube(`"types":{"free-day":"mon"}`), "types/free-day", `types free-day: "mon" is not "sun"`, InvalidValue},
		{"an unknown bit", cube(`"types":{"rights":"read fly"}`), "types/rights", `types rights: "read fly" is not one of read, write, run`, InvalidValue},
		{"an unknown identity", cube(`"types":{"over":"rail"}`), "types/over", `types over: "rail" is not one of stream, tcp, sctp, tls, udp`, InvalidValue},
		{"an identity of only one base", cube(`"types":{"safe-over":"tcp"}`), "types/safe-over", `types safe-over: "tcp" is not "tls"`, InvalidValue},
		{"a string too long", cube(`"types":{"name":"abcdefghijklm"}`), "types/name", `types name: "abcdefghijklm" has 13 characters, the allowed length is 2..12`, InvalidValue},
		{"a string that its pattern refuses", cube(`"types":{"name":"Ab"}`), "types/name", `types name: "Ab" is not a valid label, which matches [a-z][a-z0-9\-]*`, InvalidValue},
		{"a string without a name for its type", cube(`"types":{"money":"5"}`), "types/money", `types money: "5" does not match the pattern \$[0-9]+(\.[0-9]{2})?`, InvalidValue},
		{"an address that is none", cube(`"types":{"ip4":"10.0.0"}`), "types/ip4", `types ip4: "10.0.0" is not a valid ipv4-address-no-zone`, InvalidValue},
		{"bytes that are none", cube(`"types":{"blob":"?"}`), "types/blob", `types blob: "?" is not a binary`, InvalidValue},
		{"a union of which no type fits", cube(`"types":{"mixed":"~"}`), "types/mixed", `types mixed: "~" is not a number in 1..9 or one of mon, tue, sun or a string or a number in -1.0..1.0 | 10.5 or a string of 20..22 characters`, InvalidValue},
		{"an object for a value", cube(`"types":{"flag":{}}`), "types/flag", "types flag: an object is given, but must be true or false", InvalidValue},
		{"a number for a string", cube(`"types":{"any":7}`), "types/any", "types any: 7 is a number, but must be a string", InvalidValue},
		{"a value for an empty leaf", cube(`"types":{"on":5}`), "types/on", "types on: the leaf has no value: set it to true, or delete it", InvalidValue},
		{"an unknown member", cube(`"shared2":{}`), "shared2", `unknown member "shared2", valid members are type, service-name, loglevel, shadow, span, ports, types, rules, lists, references, choices, shared, tags`, InvalidValue},
		{"state", cube(`"uuid":"x"`), "uuid", "uuid is read-only", InvalidValue},
		{"a mandatory leaf is missing", `{"choices":{"no":"x"}}`, "shared/host", "shared: host is mandatory but missing", MissingAttribute},
		{"a mandatory leaf of an entry is missing", cube(`"rules":{"part":[{"name":"ab"}]}`), "rules/part/ab/size", "rules part ab: size is mandatory but missing", MissingAttribute},
		{"a mandatory choice is missing", `{"shared":{"host":"h"}}`, "choices", "choices: one of yes, no, several must be given", MissingAttribute},
		{"two alternatives", `{"choices":{"no":"x","yes":true},"shared":{"host":"h"}}`, "choices/yes", "choices: no and yes are mutually exclusive", InvalidValue},
		{"a key is missing", cube(`"rules":{"part":[{"size":1}]}`), "rules/part/name", "rules part: element 0 has no name, which is a key", MissingAttribute},
		{"an entry twice", cube(`"rules":{"part":[{"name":"ab","size":1},{"name":"ab","size":2}]}`), "rules/part/ab", "rules part ab: is given twice", InvalidValue},
		{"too many entries", cube(`"lists":{"chosen":[{"id":1},{"id":2},{"id":"all"}]}`), "lists/chosen", "lists chosen: too many entries, at most 2 are allowed", InvalidValue},
		{"too few entries", cube(`"lists":{"ordered":[{"n":1}]}`), "lists/ordered/1/sub", "lists ordered 1 sub: too few entries, at least 1 are required", MissingElement},
		{"two of what is unique", cube(`"lists":{"pair":[{"left":"mon","right":1,"rank":1,"tag":"a"},{"left":"tue","right":2,"rank":1,"tag":"a"}]}`),
			"lists/pair/tue/2", "lists pair tue 2: another entry has the same rank tag", InvalidValue},
		{"a reference to nothing", cube(`"references":{"port":"p9"}`), "references/port", `references port: refers to "p9", which is not in /ports/name`, InvalidValue},
		{"must with a sentence", cube(`"rules":{"low":9,"high":2}`), "rules/high", "rules high: high is below low", InvalidValue},
		{"must without a sentence", cube(`"rules":{"code":"x"}`), "rules/code", "rules code: does not satisfy the condition re-match(., '[0-9]{3}')", InvalidValue},
		{"must of a container", cube(`"rules":{"limits":{}}`), "rules/limits", "rules limits: limits need rate or burst", InvalidValue},
		{"when is false", cube(`"rules":{"retries":3}`), "rules/retries", "rules retries: is allowed only when derived-from-or-self(../over, 'c:stream')", InvalidValue},
		{"a key with a space", cube(`"ports":[{"name":"a","peer":7}]`), "ports/a/peer", "ports a peer: 7 is a number, but must be a string", InvalidValue},
	} {
		t.Run(c.name, func(t *testing.T) {
			tree := s.NewTree()
			defer tree.Close()
			_, err := tree.Edit(t.Context(), Create, nil, []byte(c.body))
			var e *Error
			if !errors.As(err, &e) {
				t.Fatalf("%v is no fault of the request", err)
			}
			if e.Path != c.path || e.Message != c.message || e.Tag != c.tag {
				t.Errorf("%s at %s: %s\nwant %s at %s: %s", e.Tag, e.Path, e.Message, c.tag, c.path, c.message)
			}
		})
	}
}
