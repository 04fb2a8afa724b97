// SPDX-License-Identifier: Apache-2.0

package yang

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/polycube/polycube/internal/fault"
)

// longModel has a leaf of the configuration, and an action with inputs of several lengths.
const longModel = `module long {
  yang-version 1.1; namespace "urn:long"; prefix long;

  import polycube-standard-base { prefix polycube-standard-base; }
  uses polycube-standard-base:standard-base-yang-module;
  leaf kept { type string { length "0..8388608"; } }
  rpc run {
    input {
      leaf text { type string { length "0..2097152"; } }
      leaf plain { type string; }
      leaf few { type string { length "1..8"; } }
    }
    output { leaf said { type string; } }
  }
}`

// TestTheLengthOfAnInputDecides: a text of an action's input may be as long as its model says, one of the configuration
// and one without a length only MaxText bytes.
func TestTheLengthOfAnInputDecides(t *testing.T) {
	s := loadText(t, longModel)
	tree := cube(t, s, `{}`)
	run := at(t, s, "run")
	text := func(name string, n int, of string) []byte {
		return []byte(`{"` + name + `":"` + strings.Repeat(of, n) + `"}`)
	}
	for _, c := range []struct {
		name, want string
		body       []byte
		output     bool
	}{
		{"as long as the model says", "", text("text", 2<<20, "a"), false},
		{"as long, in characters of three bytes", "", text("text", 2<<20, "€"), false},
		{"longer", `has 2097153 characters, the allowed length is 0..2097152`, text("text", 2<<20+1, "a"), false},
		{"without a length", "plain: the value is longer than 1048576 bytes", text("plain", fault.MaxText+1, "a"), false},
		{"a short one", "the allowed length is 1..8", text("few", 9, "a"), false},
		{"longer than any body", "the body is longer than 33554432 bytes", text("text", MaxBody, "a"), false},
		{"an output", "", text("said", 3*fault.MaxText, "a"), true},
	} {
		t.Run(c.name, func(t *testing.T) {
			call := tree.ParseInput
			if c.output {
				call = tree.CheckOutput
			}
			got, err := call(run, c.body)
			if c.want == "" && (err != nil || !json.Valid(got) || len(got) != len(c.body)) {
				t.Errorf("%d bytes of %d, %v", len(got), len(c.body), err)
			}
			if c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
				t.Errorf("%v, want %s", err, c.want)
			}
		})
	}
	if err := s.Root().Child("kept").Accepts(strings.Repeat("a", fault.MaxText+1)); err == nil || !strings.Contains(err.Error(), "is longer than 1048576 bytes") {
		t.Errorf("a long text of the configuration: %v", err)
	}
}
