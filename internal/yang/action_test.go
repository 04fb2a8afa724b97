// SPDX-License-Identifier: Apache-2.0

package yang

import (
	"errors"
	"testing"
)

func TestAction(t *testing.T) {
	s := load(t, "zoo")
	tree := cube(t, s, `{"ports":[{"name":"p1"}],"rule":[{"from":"a","to":1}]}`)
	before := state(t, tree)
	const reset = "rule a 1 reset"
	for _, c := range []struct {
		name, path, body string
		output           bool
		want             string
		tag              Tag
		message          string
	}{
		{name: "defaults are filled in", path: reset, body: `{"reason":"x"}`, want: `{"reason":"x","level":2}`},
		{name: "input is normalised", path: reset, body: `{"level":"3","reason":"x","port":"p1"}`,
			want: `{"reason":"x","level":3,"port":"p1"}`},
		{name: "a mandatory input is missing", path: reset, body: ``, tag: MissingAttribute,
			message: "rule a 1 reset: reason is mandatory but missing"},
		{name: "an input is out of range", path: reset, body: `{"reason":"x","level":4}`, tag: InvalidValue,
			message: "rule a 1 reset level: 4 is out of range 1..3"},
		{name: "an input is unknown", path: reset, body: `{"reason":"x","why":4}`, tag: InvalidValue,
			message: `rule a 1 reset: unknown member "why", valid members are reason, level, port`},
		{name: "an input refers to nothing", path: reset, body: `{"reason":"x","port":"p2"}`, tag: InvalidValue,
			message: `rule a 1 reset port: refers to "p2", which is not in /ports/name`},
		{name: "the entry is missing", path: "rule a 2 reset", body: `{"reason":"x"}`, tag: DataMissing,
			message: "rule a 2: does not exist"},
		{name: "no action", path: "rule a 1", body: `{}`, tag: OperationNotSupported, message: "rule a 1: is not an action"},
		{name: "an output", path: reset, output: true, body: `{"was":18446744073709551615,"seen":[{"at":"x"},{"at":"x"}]}`,
			want: `{"was":18446744073709551615,"seen":[{"at":"x"},{"at":"x"}]}`},
		{name: "an output is missing", path: reset, output: true, body: `{}`, tag: MissingAttribute,
			message: "rule a 1 reset: was is mandatory but missing"},
	} {
		t.Run(c.name, func(t *testing.T) {
			call := tree.ParseInput
			if c.output {
				call = tree.CheckOutput
			}
			got, err := call(at(t, s, c.path), []byte(c.body))
			if string(got) != c.want {
				t.Errorf("got %s, want %s", got, c.want)
			}
			checkError(t, err, c.tag, c.message)
			if after := state(t, tree); after != before {
				t.Errorf("the tree changed:\n%s\n%s", before, after)
			}
		})
	}
}

// checkError compares an error with a tag and a sentence; no tag means none.
func checkError(t *testing.T, err error, tag Tag, message string) {
	t.Helper()
	if tag == "" {
		if err != nil {
			t.Errorf("unexpected error: %v", err)
		}
		return
	}
	var e *Error
	if !errors.As(err, &e) {
		t.Fatalf("got error %v, want %s", err, tag)
	}
	if e.Tag != tag || (message != "" && e.Message != message) {
		t.Errorf("got  %s: %s\nwant %s: %s", e.Tag, e.Message, tag, message)
	}
}
