// SPDX-License-Identifier: Apache-2.0

package openapi

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/polycube/polycube/internal/yang"
)

const model = `module m {
  yang-version 1.1; namespace "urn:m"; prefix m;
  import polycube-base { prefix polycube-base; }
  import polycube-transparent-base { prefix polycube-transparent-base; }
  import ietf-yang-types { prefix yang; }
  polycube-base:service-description "A test";
  uses polycube-transparent-base:transparent-base-yang-module;
  identity base; identity one { base base; } identity two { base base; }
  container t {
    description "All
                 types.";
    leaf range { type int8 { range "1..4 | 9"; } units "seconds"; default 3; }
    leaf big { type uint64; }
    leaf dec { type decimal64 { fraction-digits 2; range "-1.5..2"; } default 0.5; }
    leaf text { type string { length "2..4"; pattern '[a-z]+'; } polycube-base:cli-example "abc"; }
    leaf both { type string { pattern '[a-z]+'; pattern 'x.*' { modifier invert-match; } } }
    leaf greek { type string { pattern '\p{IsGreek}+'; } }
    leaf day { type enumeration { enum MON; enum TUE; } polycube-base:cli-example "mon"; }
    leaf bits { type bits { bit a; bit b; } }
    leaf blob { type binary { length "1..3"; } }
    leaf on { type empty; }
    leaf id { type identityref { base base; } }
    leaf ref { type leafref { path "../text"; } }
    leaf mac { type yang:mac-address; polycube-base:cli-example "not a mac"; }
    leaf either { type union { type uint8; type enumeration { enum any; } } }
    leaf fixed { type boolean; default true; polycube-base:init-only-config; description "Fixed."; }
    leaf seen { type uint32; config false; description "Seen."; }
    leaf document { type string; config false; description "What was found."; polycube-base:json-value; }
    leaf-list words { type string; max-elements 3; }
  }
  container c {
    choice one { leaf a { type uint8; } case two { leaf b { type uint8; mandatory true; } leaf d { type uint8; } } }
    container inner { leaf needed { type uint16 { range "5..9"; } mandatory true; } }
    container there { presence "it is"; leaf needed { type string; mandatory true; } }
    list entry { key name; min-elements 1; leaf name { type string; } leaf fixed { type string; polycube-base:init-only-config; } }
    action run { input { leaf what { type string; mandatory true; } } output { leaf done { type boolean; mandatory true; } } }
  }
}`

func load(t *testing.T) *yang.Schema {
	t.Helper()
	s, err := yang.Load(model)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

func none(*yang.Node) string { return "" }

func text(t *testing.T, v any) string {
	t.Helper()
	raw, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

// TestLeaves: what a type of a model becomes.
func TestLeaves(t *testing.T) {
	s := load(t)
	for _, c := range []struct {
		leaf string
		v    Version
		use  Use
		want string
	}{
		{"range", V31, Read, `{"type":"integer","format":"int8","anyOf":[{"minimum":1,"maximum":4},{"minimum":9,"maximum":9}],"description":"In seconds.","default":3,"examples":[3],"x-yang-units":"seconds"}`},
		{"range", V30, Read, `{"type":"integer","format":"int8","anyOf":[{"minimum":1,"maximum":4},{"minimum":9,"maximum":9}],"description":"In seconds.","default":3,"example":3,"x-yang-units":"seconds"}`},
		{"big", V31, New, `{"type":"integer","format":"uint64","minimum":0,"maximum":18446744073709551615,"description":"Also accepted as a string, which keeps all digits.","examples":[0]}`},
		{"dec", V31, Read, `{"type":"number","minimum":-1.5,"maximum":2.0,"x-yang-fraction-digits":2,"default":0.5,"examples":[0.5]}`},
		{"text", V31, Read, `{"type":"string","minLength":2,"maxLength":4,"pattern":"^(?:[a-z]+)$","x-yang-patterns":["[a-z]+"],"examples":["abc"]}`},
		{"both", V31, Read, `{"type":"string","allOf":[{"pattern":"^(?:[a-z]+)$"},{"not":{"pattern":"^(?:x[^\\n\\r]*)$"}}],"x-yang-patterns":["[a-z]+","!x.*"],"examples":["both"]}`},
		{"greek", V31, Read, `{"type":"string","x-yang-patterns":["\\p{IsGreek}+"],"examples":["greek"]}`},
		{"day", V31, Read, `{"type":"string","enum":["MON","TUE"],"examples":["MON"]}`},
		{"day", V31, Change, `{"type":"string","enum":["MON","TUE"],"description":"Case-insensitive.","examples":["MON"]}`},
		{"bits", V31, Read, `{"type":"string","pattern":"^(?:(?:a|b)(?: (?:a|b))*)?$","examples":["a"]}`},
		{"blob", V31, Read, `{"type":"string","contentEncoding":"base64","x-yang-length":"1..3"}`},
		{"blob", V30, Read, `{"type":"string","format":"byte","x-yang-length":"1..3"}`},
		{"on", V31, Read, `{"type":"boolean","enum":[true],"examples":[true]}`},
		{"id", V31, Read, `{"type":"string","enum":["one","two"],"examples":["one"]}`},
		{"ref", V31, Read, `{"type":"string","minLength":2,"maxLength":4,"pattern":"^(?:[a-z]+)$","x-yang-patterns":["[a-z]+"],"description":"Refers to ../text.","examples":["ref"],"x-yang-leafref":"../text"}`},
		{"mac", V31, Read, `{"$ref":"#/components/schemas/type.yang.mac-address"}`},
		{"mac", V30, Read, `{"allOf":[{"$ref":"#/components/schemas/type.yang.mac-address"}]}`},
		{"either", V31, Read, `{"anyOf":[{"type":"integer","format":"uint8","minimum":0,"maximum":255},{"type":"string","enum":["any"]}]}`},
		{"fixed", V31, New, `{"type":"boolean","description":"Fixed. Can only be set when the object is created.","default":true,"examples":[true],"x-yang-init-only":true}`},
		{"seen", V31, Read, `{"type":"integer","format":"uint32","minimum":0,"maximum":4294967295,"description":"Seen.","examples":[0],"readOnly":true}`},
		{"document", V31, Read, `{"description":"What was found.","examples":["document"],"readOnly":true}`},
		{"words", V31, Read, `{"type":"array","items":{"type":"string","examples":["words"]},"maxItems":3,"uniqueItems":true}`},
	} {
		t.Run(c.leaf+" "+string(c.v), func(t *testing.T) {
			n := s.Root().Child("t").Child(c.leaf)
			if got := text(t, NewSchemas(c.v, none).Node("m", n, c.use, false)); got != c.want {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
		})
	}
}

// TestUses: the same node has other members when it is read, created and changed.
func TestUses(t *testing.T) {
	s := load(t)
	schemas := NewSchemas(V31, none)
	names := func(o Object, member string) []string {
		var out []string
		switch list := o.Get(member).(type) {
		case Object:
			for _, m := range list {
				out = append(out, m.Name)
			}
		case []string:
			out = list
		}
		return out
	}
	for _, c := range []struct {
		name                 string
		use                  Use
		properties, required []string
	}{
		{"read.m.t", Read, []string{"range", "big", "dec", "text", "both", "greek", "day", "bits", "blob", "on", "id", "ref", "mac", "either", "fixed", "seen", "document", "words", "_links"}, nil},
		{"new.m.t", New, []string{"range", "big", "dec", "text", "both", "greek", "day", "bits", "blob", "on", "id", "ref", "mac", "either", "fixed", "words"}, nil},
		{"change.m.t", Change, []string{"range", "big", "dec", "text", "both", "greek", "day", "bits", "blob", "on", "id", "ref", "mac", "either", "words"}, nil},
		{"read.m.c.entry", Read, []string{"name", "fixed", "_links"}, []string{"name"}},
		{"change.m.c.entry", Change, []string{"name", "fixed"}, nil},
		{"new.m.c", New, []string{"a", "b", "d", "inner", "there", "entry"}, []string{"inner", "entry"}},
		{"new.m.c.there", New, []string{"needed"}, []string{"needed"}},
		{"new.m", New, []string{"name", "type", "service-name", "loglevel", "t", "c"}, []string{"c"}},
		{"read.m", Read, []string{"name", "uuid", "type", "service-name", "loglevel", "parent", "t", "c", "_links"}, []string{"name"}},
	} {
		schemas.Node("m", s.Root(), c.use, true)
		o, ok := schemas.Components().Get(c.name).(Object)
		if !ok {
			t.Fatalf("there is no %s", c.name)
		}
		if got := names(o, "properties"); !slices.Equal(got, c.properties) {
			t.Errorf("%s has %v, want %v", c.name, got, c.properties)
		}
		if got := names(o, "required"); !slices.Equal(got, c.required) {
			t.Errorf("%s requires %v, want %v", c.name, got, c.required)
		}
	}
	exclusive, _ := schemas.Components().Get("new.m.c").(Object)
	if got := text(t, exclusive.Get("allOf")); got != `[{"not":{"required":["a","b"]}},{"not":{"required":["a","d"]}}]` {
		t.Errorf("the choice is %s", got)
	}
	run := s.Root().Child("c").Child("run")
	if got := text(t, schemas.Input("m", run)) + text(t, schemas.Output("m", run)); got !=
		`{"$ref":"#/components/schemas/new.m.c.run.input"}{"$ref":"#/components/schemas/read.m.c.run.output"}` {
		t.Errorf("the action has %s", got)
	}
	if out := text(t, schemas.Components().Get("read.m.c.run.output")); strings.Contains(out, "_links") || strings.Contains(out, "readOnly") {
		t.Errorf("the output is %s", out)
	}
	if got := Required(s.Root().Child("c")); !slices.Equal(got, []string{"inner", "entry"}) {
		t.Errorf("required are %v", got)
	}
}

// TestBodyExamples: an example has what is mandatory, and is none where nobody can think of a value.
func TestBodyExamples(t *testing.T) {
	s := load(t)
	schemas := NewSchemas(V31, none)
	for path, want := range map[string]string{
		"t": `{"text":"abc","day":"MON"}`, "c": `{"inner":{"needed":5},"entry":[{"name":"name"}]}`,
	} {
		got, ok := schemas.BodyExample(s.Root().Child(path))
		if !ok || text(t, got) != want {
			t.Errorf("%s: %s, %t, want %s", path, text(t, got), ok, want)
		}
	}
	if got, ok := schemas.BodyExample(nil); ok {
		t.Errorf("nothing has the example %v", got)
	}
}

func TestFits(t *testing.T) {
	s := load(t)
	for _, c := range []struct {
		leaf    string
		yes, no []string
	}{
		{"range", []string{"1", "4", "9"}, []string{"0", "5", "x", "1.5", "1e0", ""}},
		{"dec", []string{"-1.5", "2", "0.25"}, []string{"2.1", "x", "1e0"}},
		{"text", []string{"ab", "abcd"}, []string{"a", "abcde", "AB"}},
		{"both", []string{"ab"}, []string{"xab", "AB"}},
		{"day", []string{"MON", "tue"}, []string{"WED"}},
		{"bits", []string{"a", "a b", ""}, []string{"a c"}},
		{"id", []string{"one", "m:two"}, []string{"three"}},
		{"fixed", []string{"true", "false"}, []string{"yes"}},
		{"either", []string{"7", "any"}, []string{"256", "none"}},
		{"mac", []string{"02:00:00:00:00:01"}, []string{"not a mac"}},
	} {
		typ := s.Root().Child("t").Child(c.leaf).Type()
		for _, v := range c.yes {
			if !Fits(typ, v) {
				t.Errorf("%s: %q does not fit", c.leaf, v)
			}
		}
		for _, v := range c.no {
			if Fits(typ, v) {
				t.Errorf("%s: %q fits", c.leaf, v)
			}
		}
	}
}

func TestGoTypes(t *testing.T) {
	type inner struct {
		At time.Time `json:"at"`
	}
	type all struct {
		inner
		Name   string            `json:"name"`
		Count  uint64            `json:"count,omitempty"`
		Ratio  float64           `json:"ratio"`
		On     *bool             `json:"on,omitempty"`
		Labels map[string]string `json:"labels"`
		List   []inner           `json:"list"`
		Any    json.RawMessage   `json:"any"`
		Hidden int               `json:"-"`
		secret int
	}
	_ = all{secret: 1}.secret
	const want = `{"type":"object","properties":{"at":{"type":"string","format":"date-time"},"name":{"type":"string"},` +
		`"count":{"type":"integer","minimum":0},"ratio":{"type":"number"},"on":{"type":"boolean"},` +
		`"labels":{"type":"object","additionalProperties":{"type":"string"}},"list":{"type":"array","items":{"type":"object",` +
		`"properties":{"at":{"type":"string","format":"date-time"}},"required":["at"],"additionalProperties":false}},"any":{}},` +
		`"required":["at","name","ratio","labels","list","any"],"additionalProperties":false}`
	if got := text(t, GoType(all{})); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}
