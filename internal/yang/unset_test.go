// SPDX-License-Identifier: Apache-2.0

package yang

import "testing"

// TestLeavesAreUnset: by null and by an empty value where something is merged, by DELETE, and by absence where all of a node is
// given.
func TestLeavesAreUnset(t *testing.T) {
	s := load(t, "zoo")
	const (
		types  = `"types":{"free":"x","address":"10.0.0.1","mac":"02:00:00:00:00:01","numbers":[1,2]}`
		limits = `"limits":{"low":3,"odd":5}`
		rule   = `"rule":[{"from":"a","to":1,"verdict":"PASS","tag":"t","match":[{"field":"f","value":"v"}]}]`
		before = types + `,` + limits + `,` + rule
	)
	for _, c := range []struct {
		name    string
		op      Op
		at      string
		body    string
		want    string // the members behind service-name; "" for those of before
		tag     Tag
		message string
	}{
		{name: "null for a leaf", op: Merge, at: "types address", body: `null`, want: `"types":{"free":"x","mac":"02:00:00:00:00:01","numbers":[1,2]},` + limits + `,` + rule},
		{name: "null for a leaf that is not set", op: Merge, at: "types prefix", body: `null`},
		{name: "nothing for a leaf", op: Merge, at: "types address", body: `""`, want: `"types":{"free":"x","mac":"02:00:00:00:00:01","numbers":[1,2]},` + limits + `,` + rule},
		{name: "nothing for a text", op: Merge, at: "types free", body: `""`, want: `"types":{"free":"","address":"10.0.0.1","mac":"02:00:00:00:00:01","numbers":[1,2]},` + limits + `,` + rule},
		{name: "null for members", op: Merge, at: "types", body: `{"address":null,"mac":"","numbers":null,"free":"y"}`, want: `"types":{"free":"y"},` + limits + `,` + rule},
		{name: "null in an entry", op: Merge, at: "rule a 1", body: `{"verdict":null,"match":null}`, want: types + `,` + limits + `,"rule":[{"from":"a","to":1,"tag":"t"}]`},
		{name: "null for a container", op: Merge, at: "", body: `{"types":null,"limits":{"low":null}}`, want: `"limits":{"odd":5},` + rule},
		{name: "delete a leaf", op: Delete, at: "limits low", want: types + `,"limits":{"odd":5},` + rule},
		{name: "delete a leaf that is not set", op: Delete, at: "types prefix", tag: DataMissing, message: "types prefix: is not set"},
		{name: "null for what is fixed", op: Merge, at: "rule a 1", body: `{"tag":null}`, tag: InvalidValue,
			message: "rule a 1 tag: is fixed at creation and cannot be deleted"},
		{name: "all of a node", op: Replace, at: "types", body: `{"free":"z"}`, want: `"types":{"free":"z"},` + limits + `,` + rule},
		{name: "nothing where something is created", op: Create, at: "rule b 2", body: `{"verdict":""}`, tag: InvalidValue,
			message: `rule b 2 verdict: "" is not one of DROP, PASS`},
		{name: "null where something is created", op: Create, at: "rule b 2", body: `{"verdict":null}`, tag: InvalidValue,
			message: "rule b 2 verdict: null is given, but must be one of DROP, PASS"},
	} {
		t.Run(c.name, func(t *testing.T) {
			tree := cube(t, s, `{`+before+`}`)
			_, err := tree.Edit(t.Context(), c.op, at(t, s, c.at), []byte(c.body))
			checkError(t, err, c.tag, c.message)
			if c.want == "" {
				c.want = before
			}
			if got, want := show(t, tree, ""), `{"service-name":"zoo",`+c.want+`}`; got != want {
				t.Errorf("got %s\nwant %s", got, want)
			}
		})
	}
}
