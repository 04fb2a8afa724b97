// SPDX-License-Identifier: Apache-2.0

package yang

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
)

// zooCube is what most tests begin with.
const zooCube = `{
	"shadow": true,
	"ports": [{"name":"p1","peer":"veth1","mac":"02:00:00:00:00:01","tcubes":["a","b"]}, {"name":"p2"}, {"name":"p3"}],
	"rule": [{"from":"a","to":1,"tag":"t"}, {"from":"b","to":2,"match":[{"field":"x","value":"1"}]}, {"from":"c","to":3}],
	"limits": {"low":2,"few":[{"id":1}],"differing":[{"id":1,"port":80}],"tagged":true,"tag":5,"rate":100},
	"types": {"u32":7,"names":["n1","n2"]}
}`

// editCase is one edit of zooCube. On success view is what path show prints
// afterwards; otherwise tag and message are the error's.
type editCase struct {
	name    string
	op      Op
	path    string
	body    string
	show    string
	view    string
	tag     Tag
	message string
}

// check makes the edit, and sees that an error, or a revert, leaves no trace.
func (c *editCase) check(t *testing.T, s *Schema) {
	tree := cube(t, s, zooCube)
	before := state(t, tree)
	change, err := tree.Edit(t.Context(), c.op, at(t, s, c.path), []byte(c.body))
	checkError(t, err, c.tag, c.message)
	if err == nil {
		if got := show(t, tree, c.show); got != c.view {
			t.Errorf("%s is\n%s, want\n%s", c.show, got, c.view)
		}
		if err := change.Revert(); err != nil {
			t.Errorf("revert: %v", err)
		}
	}
	if after := state(t, tree); after != before {
		t.Errorf("the tree was\n%s\nand is\n%s", before, after)
	}
	// what was taken back can be done again
	_, again := tree.Edit(t.Context(), c.op, at(t, s, c.path), []byte(c.body))
	if fmt.Sprint(again) != fmt.Sprint(err) {
		t.Errorf("first: %v, again: %v", err, again)
	}
	if again == nil {
		if got := show(t, tree, c.show); got != c.view {
			t.Errorf("again, %s is\n%s, want\n%s", c.show, got, c.view)
		}
	}
}

func runEdits(t *testing.T, cases []editCase) {
	s := load(t, "zoo")
	for _, c := range cases {
		t.Run(c.op.String()+" "+c.name, func(t *testing.T) { c.check(t, s) })
	}
}

func TestCreate(t *testing.T) { runEdits(t, createCases) }

var createCases = []editCase{
	{name: "an entry", path: "ports p4", body: `{"peer":"x"}`, show: "ports p4", view: `{"name":"p4","peer":"x"}`},
	{name: "an entry without body", path: "ports p4", show: "ports p4", view: `{"name":"p4"}`},
	{name: "an entry whose key is repeated", path: "rule z 9", body: `{"to":"9","from":"z"}`, show: "rule z 9",
		view: `{"from":"z","to":9}`},
	{name: "an entry with another key", path: "ports p4", body: `{"name":"p5"}`, tag: InvalidValue,
		message: `ports p4: name is "p5" in the body but "p4" in the path`},
	{name: "an entry that exists", path: "ports p1", tag: DataExists, message: "ports p1: exists already"},
	{name: "the cube again", body: `{}`, tag: DataExists, message: "the cube already exists"},
	{name: "an entry with what is fixed at creation", path: "ports p4", body: `{"mac":"02:00:00:00:00:09"}`,
		show: "ports p4 mac", view: `"02:00:00:00:00:09"`},
	{name: "below an entry that is missing", path: "rule z 9 match f", tag: DataMissing,
		message: "rule z 9: does not exist"},
	{name: "an entry without a mandatory leaf", path: "limits complete 1", tag: MissingAttribute,
		message: "limits complete 1: needed is mandatory but missing"},
	{name: "entries of a whole list", path: "ports", body: `[{"name":"p4"},{"name":"p5"}]`, show: "ports p5",
		view: `{"name":"p5"}`},
	{name: "entries of which one exists", path: "ports", body: `[{"name":"p4"},{"name":"p2"}]`, tag: DataExists,
		message: "ports p2: exists already"},
	{name: "entries given twice", path: "ports", body: `[{"name":"p4"},{"name":"p4"}]`, tag: InvalidValue,
		message: "ports p4: is given twice"},
	{name: "entries without key", path: "rule", body: `[{"from":"x"}]`, tag: MissingAttribute,
		message: "rule: element 0 has no to, which is a key"},
	{name: "a container is merged", path: "limits", body: `{"low":3}`, show: "limits",
		view: `{"few":[{"id":1}],"differing":[{"id":1,"port":80}],"low":3,"tagged":true,"tag":5,"rate":100}`},
	{name: "a container with presence", path: "limits marked", body: `{}`, show: "limits marked", view: `{}`},
	{name: "a leaf", path: "types u8", body: `3`, show: "types", view: `{"u8":3,"u32":7,"names":["n1","n2"]}`},
	{name: "a leaf that is set", path: "types u32", body: `3`, tag: DataExists, message: "types u32: is already set to 7"},
	{name: "a leaf that has its default", path: "loglevel", body: `"err"`, show: "loglevel", view: `"ERR"`},
	{name: "an entry of a leaf-list", path: "types names n3", show: "types names", view: `["n1","n2","n3"]`},
	{name: "an entry of a leaf-list that exists", path: "types names n2", tag: DataExists,
		message: "types names n2: exists already"},
	{name: "a leaf-list that is set", path: "types names", body: `["x"]`, tag: DataExists,
		message: "types names: is already set"},
	{name: "state", path: "ports p1 status", body: `"UP"`, tag: InvalidValue, message: "ports p1: status is read-only"},
	{name: "with state in the body", path: "ports p4", body: `{"status":"UP"}`, tag: InvalidValue,
		message: "ports p4: status is read-only"},
	{name: "with an unknown member", path: "ports p4", body: `{"colour":"red"}`, tag: InvalidValue,
		message: `ports p4: unknown member "colour", valid members are peer, tcubes, mac, speed`},
	{name: "an action", path: "rule a 1 reset", tag: OperationNotSupported,
		message: "rule a 1 reset: is an action, not configuration"},
	{name: "an action in a body", path: "rule", body: `[{"from":"x","to":1,"reset":{}}]`, tag: InvalidValue,
		message: `rule x 1: unknown member "reset", valid members are verdict, tag, match`},
	{name: "a key", path: "ports p1 name", body: `"p9"`, tag: OperationNotSupported,
		message: "ports p1 name: is a key and cannot be changed"},
}

func TestReplace(t *testing.T) { runEdits(t, replaceCases) }

var replaceCases = []editCase{
	{op: Replace, name: "an entry keeps what is fixed", path: "ports p1", body: `{"peer":"veth9"}`, show: "ports p1",
		view: `{"name":"p1","peer":"veth9","tcubes":["a","b"],"mac":"02:00:00:00:00:01"}`},
	{op: Replace, name: "an entry, what is fixed given again", path: "ports p1", body: `{"mac":"02:00:00:00:00:01"}`,
		show: "ports p1", view: `{"name":"p1","tcubes":["a","b"],"mac":"02:00:00:00:00:01"}`},
	{op: Replace, name: "an entry, changing what is fixed", path: "ports p1", body: `{"mac":"02:00:00:00:00:02"}`,
		tag: InvalidValue, message: "ports p1 mac: is fixed at creation and stays 02:00:00:00:00:01"},
	{op: Replace, name: "an entry that is missing", path: "ports p4", body: `{"mac":"02:00:00:00:00:02"}`,
		show: "ports p4", view: `{"name":"p4","mac":"02:00:00:00:00:02"}`},
	{op: Replace, name: "a container", path: "limits", body: `{"high":8,"few":[{"id":2}]}`, show: "limits",
		view: `{"few":[{"id":2}],"high":8}`},
	{op: Replace, name: "a whole list", path: "limits few", body: `[{"id":3},{"id":1}]`, show: "limits few",
		view: `[{"id":1},{"id":3}]`},
	{op: Replace, name: "a whole list with nothing", path: "ports", body: `[]`, show: "ports", view: `[]`},
	{op: Replace, name: "an ordered list in another order", path: "rule",
		body: `[{"from":"c","to":3},{"from":"d","to":4},{"from":"a","to":1}]`, show: "rule",
		view: `[{"from":"c","to":3},{"from":"d","to":4},{"from":"a","to":1,"tag":"t"}]`},
	{op: Replace, name: "a leaf", path: "types u32", body: `"8"`, show: "types u32", view: `8`},
	{op: Replace, name: "a leaf-list", path: "types names", body: `["n2","n1"]`, show: "types names", view: `["n2","n1"]`},
	{op: Replace, name: "the cube", body: `{"loglevel":"trace","ports":[{"name":"p2","peer":"x"}]}`,
		view: `{"service-name":"zoo","loglevel":"TRACE","shadow":true,"ports":[{"name":"p2","peer":"x"}]}`},
	{op: Replace, name: "a mandatory leaf is left out", path: "limits complete", body: `[{"id":1,"needed":"x"},{"id":2}]`,
		tag: MissingAttribute, message: "limits complete 2: needed is mandatory but missing"},
	{op: Replace, name: "what a leafref needs is left out", path: "limits", body: `{"to-port":"p9"}`, tag: InvalidValue,
		message: `limits to-port: refers to "p9", which is not in /ports/name`},
}

func TestMerge(t *testing.T) { runEdits(t, mergeCases) }

var mergeCases = []editCase{
	{op: Merge, name: "a leaf", path: "loglevel", body: `"Debug"`, show: "loglevel", view: `"DEBUG"`},
	{op: Merge, name: "a leaf to the empty string", path: "ports p1 peer", body: `""`, show: "ports p1 peer", view: `""`},
	{op: Merge, name: "a leaf without value", path: "ports p1 peer", body: ``, tag: MissingElement,
		message: "ports p1 peer: the body is empty, but must be a string"},
	{op: Merge, name: "an entry", path: "ports p1", body: `{"speed":10}`, show: "ports p1",
		view: `{"name":"p1","peer":"veth1","tcubes":["a","b"],"mac":"02:00:00:00:00:01","speed":10}`},
	{op: Merge, name: "an entry that is missing", path: "ports p4", body: `{"speed":10}`, tag: DataMissing,
		message: "ports p4: does not exist"},
	{op: Merge, name: "a leaf of an entry that is missing", path: "ports p4 speed", body: `10`, tag: DataMissing,
		message: "ports p4: does not exist"},
	{op: Merge, name: "entries of a whole list", path: "ports", body: `[{"name":"p3","speed":1},{"name":"p2","peer":"q"}]`,
		show: "ports", view: `[{"name":"p1","peer":"veth1","tcubes":["a","b"],"mac":"02:00:00:00:00:01"},` +
			`{"name":"p2","peer":"q"},{"name":"p3","speed":1}]`},
	{op: Merge, name: "entries of which one is missing", path: "ports", body: `[{"name":"p3","speed":1},{"name":"p4"}]`,
		tag: DataMissing, message: "ports p4: does not exist"},
	{op: Merge, name: "a container with new entries", path: "limits", body: `{"few":[{"id":2}]}`, show: "limits few",
		view: `[{"id":1},{"id":2}]`},
	{op: Merge, name: "what is fixed, unchanged", body: `{"shadow":true,"type":"tc"}`, show: "shadow", view: `true`},
	{op: Merge, name: "what is fixed", body: `{"shadow":false}`, tag: InvalidValue,
		message: "shadow: is fixed at creation and stays true"},
	{op: Merge, name: "what is fixed and has its default", path: "type", body: `"XDP_DRV"`, tag: InvalidValue,
		message: "type: is fixed at creation and stays TC"},
	{op: Merge, name: "what is fixed and was not set", path: "ports p2 mac", body: `"02:00:00:00:00:02"`,
		tag: InvalidValue, message: "ports p2 mac: was not set at creation and cannot be set later"},
	{op: Merge, name: "a fixed leaf-list", path: "ports p1", body: `{"tcubes":["b","a"]}`, tag: InvalidValue,
		message: "ports p1 tcubes: is fixed at creation"},
	{op: Merge, name: "a leaf-list is one value", path: "types", body: `{"names":["z"]}`, show: "types names",
		view: `["z"]`},
	{op: Merge, name: "the service's name", body: `{"service-name":"zoo"}`, show: "service-name", view: `"zoo"`},
	{op: Merge, name: "another service's name", body: `{"service-name":"bridge"}`, tag: InvalidValue,
		message: `service-name: "bridge" is not the service of this cube, which is zoo`},
	{op: Merge, name: "must with a message", path: "limits", body: `{"low":10}`, tag: InvalidValue,
		message: "limits high: high is below low"},
	{op: Merge, name: "must without a message", path: "limits odd", body: `4`, tag: InvalidValue,
		message: "limits odd: does not satisfy the condition . mod 2 = 1"},
	{op: Merge, name: "max-elements", path: "limits", body: `{"few":[{"id":2},{"id":3}]}`, tag: InvalidValue,
		message: "limits few: too many entries, at most 2 are allowed"},
	{op: Merge, name: "unique", path: "limits", body: `{"differing":[{"id":2,"port":80}]}`, tag: InvalidValue,
		message: "limits differing 2: another entry has the same port"},
	{op: Merge, name: "leafref", path: "limits to-port", body: `"p2"`, show: "limits to-port", view: `"p2"`},
	{op: Merge, name: "leafref to nothing", path: "limits to-port", body: `"p9"`, tag: InvalidValue,
		message: `limits to-port: refers to "p9", which is not in /ports/name`},
	{op: Merge, name: "when is false", path: "limits", body: `{"tagged":false,"tag":6}`, tag: InvalidValue,
		message: "limits tag: is allowed only when ../tagged = 'true'"},
	{op: Merge, name: "when becomes false", path: "limits tagged", body: `false`, show: "limits",
		view: `{"few":[{"id":1}],"differing":[{"id":1,"port":80}],"low":2,"tagged":false,"rate":100}`},
	{op: Merge, name: "the other case of a choice", path: "limits allow", body: `true`, show: "limits",
		view: `{"few":[{"id":1}],"differing":[{"id":1,"port":80}],"low":2,"tagged":true,"tag":5,"allow":true}`},
	{op: Merge, name: "both cases of a choice", path: "limits", body: `{"rate":100,"allow":true}`, tag: InvalidValue,
		message: "limits: rate and allow are mutually exclusive"},
	{op: Merge, name: "a container with presence that is missing", path: "limits marked", body: `{"by":"x"}`,
		tag: DataMissing, message: "limits marked: does not exist"},
	{op: Merge, name: "an object for a list", path: "ports", body: `{"name":"p1"}`, tag: InvalidValue,
		message: "ports: an object is given, but an array of objects is required"},
	{op: Merge, name: "an array for a container", path: "limits", body: `[]`, tag: InvalidValue,
		message: "limits: an array is given, but an object is required"},
	{op: Merge, name: "no JSON", path: "limits", body: `{"low":`, tag: InvalidValue,
		message: "the body is not JSON: unexpected EOF"},
	{op: Merge, name: "two JSON values", path: "limits", body: `{} {}`, tag: InvalidValue},
	{op: Merge, name: "a member twice", path: "limits", body: `{"low":1,"low":2}`, tag: InvalidValue,
		message: `the body has "low" twice in the same object`},
	{op: Merge, name: "a body nested too deep", path: "limits", body: strings.Repeat("[", 65) + strings.Repeat("]", 65),
		tag: InvalidValue, message: "the body is nested deeper than 64 levels"},
	{op: Merge, name: "a body that is not UTF-8", path: "ports p1 peer", body: "\"\xff\"", tag: InvalidValue,
		message: "the body is not valid UTF-8"},
	{op: Merge, name: "a NUL", path: "ports p1 peer", body: `"a\u0000b"`, tag: InvalidValue,
		message: "ports p1 peer: the value contains the character U+0000, which is not allowed"},
}

func TestDelete(t *testing.T) { runEdits(t, deleteCases) }

var deleteCases = []editCase{
	{op: Delete, name: "the first entry", path: "ports p1", show: "ports", view: `[{"name":"p2"},{"name":"p3"}]`},
	{op: Delete, name: "an entry in the middle", path: "rule b 2", show: "rule",
		view: `[{"from":"a","to":1,"tag":"t"},{"from":"c","to":3}]`},
	{op: Delete, name: "an entry that is missing", path: "ports p4", tag: DataMissing, message: "ports p4: does not exist"},
	{op: Delete, name: "an entry that is needed elsewhere", path: "limits complete 1", tag: DataMissing},
	{op: Delete, name: "a whole list", path: "rule", show: "rule", view: `[]`},
	{op: Delete, name: "a container", path: "limits", show: "limits", view: `{}`},
	{op: Delete, name: "a container with presence that is missing", path: "limits marked", tag: DataMissing,
		message: "limits marked: does not exist"},
	{op: Delete, name: "a leaf", path: "ports p1 peer", show: "ports p1",
		view: `{"name":"p1","tcubes":["a","b"],"mac":"02:00:00:00:00:01"}`},
	{op: Delete, name: "a leaf that has its default", path: "loglevel", tag: DataMissing, message: "loglevel: is not set"},
	{op: Delete, name: "what is fixed", path: "ports p1 mac", tag: InvalidValue,
		message: "ports p1 mac: is fixed at creation and cannot be deleted"},
	{op: Delete, name: "a fixed leaf-list", path: "ports p1 tcubes", tag: InvalidValue,
		message: "ports p1 tcubes: is fixed at creation and cannot be deleted"},
	{op: Delete, name: "a key", path: "ports p1 name", tag: OperationNotSupported,
		message: "ports p1 name: is a key and cannot be changed"},
	{op: Delete, name: "an entry of a leaf-list", path: "types names n1", show: "types names", view: `["n2"]`},
	{op: Delete, name: "an entry of a leaf-list that is missing", path: "types names n9", tag: DataMissing,
		message: "types names n9: does not exist"},
	{op: Delete, name: "the cube", tag: OperationNotSupported, message: "a cube cannot be emptied, only deleted as a whole"},
}

func TestDefaultComesBack(t *testing.T) {
	s := load(t, "simplebridge")
	tree := cube(t, s, `{"fdb":{"aging-time":60,"entry":[{"address":"02:00:00:00:00:01","port":"p"}]}}`)
	change, err := tree.Edit(t.Context(), Delete, at(t, s, "fdb"), nil)
	if err != nil {
		t.Fatal(err)
	}
	out, err := tree.JSON(at(t, s, "fdb"), JSONOptions{Defaults: true})
	if err != nil || string(out) != `{"aging-time":300}` {
		t.Errorf("fdb is %s, %v", out, err)
	}
	want := []string{"replaced fdb/aging-time 300 60",
		`deleted fdb/entry/02:00:00:00:00:01  {"address":"02:00:00:00:00:01","port":"p"}`}
	if got := diff(change); !slices.Equal(got, want) {
		t.Errorf("diff is\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// diff prints the deltas of a change.
func diff(c *Change) []string {
	var out []string
	deltas, _ := c.Diff(math.MaxInt)
	for _, d := range deltas {
		out = append(out, fmt.Sprintf("%s %s %s %s", d.Op, d.Path, d.Value, d.Old))
	}
	return out
}

func TestDiff(t *testing.T) {
	s := load(t, "zoo")
	for _, c := range []struct {
		name, path, body string
		op               Op
		want             []string
	}{
		{name: "a leaf", op: Merge, path: "types", body: `{"u32":8}`, want: []string{"replaced types/u32 8 7"}},
		{name: "the same value", op: Merge, path: "types u32", body: `7`},
		{name: "the default made explicit", op: Merge, path: "loglevel", body: `"INFO"`},
		{name: "a leaf that was unset", op: Merge, path: "types u8", body: `8`, want: []string{"created types/u8 8 "}},
		{name: "an entry with defaults", op: Create, path: "ports p4", body: `{}`,
			want: []string{`created ports/p4 {"name":"p4","speed":1000} `}},
		{name: "a leaf in an entry", op: Merge, path: "ports p1", body: `{"peer":"x","speed":5}`,
			want: []string{`replaced ports/p1/peer "x" "veth1"`, "replaced ports/p1/speed 5 1000"}},
		{name: "an entry gone", op: Delete, path: "ports p3",
			want: []string{`deleted ports/p3  {"name":"p3","speed":1000}`}},
		{name: "a case of a choice replaced", op: Merge, path: "limits", body: `{"allow":true}`,
			want: []string{"created limits/allow true ", "deleted limits/rate  100", "deleted limits/burst  10"}},
		{name: "a when that became false", op: Merge, path: "limits tagged", body: `false`,
			want: []string{"replaced limits/tagged false true", "deleted limits/tag  5"}},
		{name: "a leaf-list", op: Merge, path: "types names", body: `["n2"]`,
			want: []string{`replaced types/names ["n2"] ["n1","n2"]`}},
		{name: "an entry of a leaf-list", op: Create, path: "types names n3",
			want: []string{`replaced types/names ["n1","n2","n3"] ["n1","n2"]`}},
		{name: "presence", op: Create, path: "limits marked", body: `{"by":"me"}`,
			want: []string{`created limits/marked {"by":"me"} `}},
		{name: "an order", op: Replace, path: "types names", body: `["n2","n1"]`,
			want: []string{`replaced types/names ["n2","n1"] ["n1","n2"]`}},
		{name: "the order of a list", op: Replace, path: "rule",
			body: `[{"from":"c","to":3},{"from":"a","to":1}]`, want: []string{
				`replaced rule [{"from":"c","to":3,"verdict":"DROP"},{"from":"a","to":1,"verdict":"DROP","tag":"t"}] ` +
					`[{"from":"a","to":1,"verdict":"DROP","tag":"t"},` +
					`{"from":"b","to":2,"verdict":"DROP","match":[{"field":"x","value":"1"}]},` +
					`{"from":"c","to":3,"verdict":"DROP"}]`}},
	} {
		t.Run(c.name, func(t *testing.T) {
			tree := cube(t, s, zooCube)
			change, err := tree.Edit(t.Context(), c.op, at(t, s, c.path), []byte(c.body))
			if err != nil {
				t.Fatal(err)
			}
			if got := diff(change); !slices.Equal(got, c.want) {
				t.Errorf("diff is\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(c.want, "\n"))
			}
			if change.Empty() != (len(c.want) == 0) {
				t.Errorf("empty is %v", change.Empty())
			}
		})
	}
}

func TestRevertOrder(t *testing.T) {
	s := load(t, "zoo")
	tree := cube(t, s, zooCube)
	before := state(t, tree)
	var changes []*Change
	for _, body := range []string{`{"types":{"u8":1}}`, `{"types":{"u8":2},"limits":{"allow":true}}`, `{"limits":{"rate":3}}`} {
		c, err := tree.Edit(t.Context(), Merge, nil, []byte(body))
		if err != nil {
			t.Fatal(err)
		}
		changes = append(changes, c)
	}
	if err := changes[0].Revert(); !errors.Is(err, ErrNotNewest) {
		t.Errorf("reverting the oldest first: %v", err)
	}
	for _, c := range slices.Backward(changes) {
		if err := c.Revert(); err != nil {
			t.Fatal(err)
		}
		if err := c.Revert(); !errors.Is(err, ErrNotNewest) {
			t.Errorf("reverting twice: %v", err)
		}
	}
	if after := state(t, tree); after != before {
		t.Errorf("the tree was\n%s\nand is\n%s", before, after)
	}
}

func TestRevertOfCreation(t *testing.T) {
	s := load(t, "zoo")
	tree := s.NewTree()
	defer tree.Close()
	c, err := tree.Edit(t.Context(), Create, nil, []byte(zooCube))
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Revert(); err != nil {
		t.Fatal(err)
	}
	if got := show(t, tree, ""); got != "{}" {
		t.Errorf("left over: %s", got)
	}
	if _, err := tree.Edit(t.Context(), Create, nil, []byte(zooCube)); err != nil {
		t.Errorf("create again: %v", err)
	}
}

func TestAmend(t *testing.T) {
	s := load(t, "zoo")
	tree := cube(t, s, zooCube)
	if _, err := tree.Amend(t.Context(), Replace, at(t, s, "ports p1 tcubes"), []byte(`["b","c"]`)); err != nil {
		t.Fatal(err)
	}
	if got := show(t, tree, "ports p1 tcubes"); got != `["b","c"]` {
		t.Errorf("tcubes are %s", got)
	}
	_, err := tree.Amend(t.Context(), Merge, at(t, s, "ports p1"), []byte(`{"status":"UP"}`))
	checkError(t, err, InvalidValue, "ports p1: status is read-only")
}

func TestClone(t *testing.T) {
	s := load(t, "zoo")
	tree := cube(t, s, zooCube)
	before := state(t, tree)
	copied := tree.Clone()
	defer copied.Close()
	if got := state(t, copied); got != before {
		t.Errorf("the copy is\n%s\nnot\n%s", got, before)
	}
	if _, err := copied.Edit(t.Context(), Merge, nil, []byte(`{"limits":{"allow":true},"types":{"u8":1}}`)); err != nil {
		t.Fatal(err)
	}
	if after := state(t, tree); after != before {
		t.Errorf("editing the copy changed the original:\n%s", after)
	}
}

func TestManyFaults(t *testing.T) {
	s := load(t, "zoo")
	tree := cube(t, s, zooCube)
	_, err := tree.Edit(t.Context(), Merge, at(t, s, "types"), []byte(`{"u8":256,"flag":3,"nix":1}`))
	var e *Error
	if !errors.As(err, &e) || len(e.Errs) != 3 || e.Errs[2].Path != "types/nix" {
		t.Fatalf("got %v", err)
	}
	if want := "types u8: 256 is out of range 0..255 (and 2 more)"; err.Error() != want {
		t.Errorf("got %q, want %q", err, want)
	}
}

// Entries that validation deletes come back in their order.
func TestConditionalLists(t *testing.T) {
	s := load(t, "conditional")
	const body = `{"on":true,"free":[{"id":3},{"id":1,"note":"x"},{"id":2}],"ordered":[{"id":3},{"id":1},{"id":2}],` +
		`"words":["c","a","b"],"many":[{"id":3},{"id":1},{"id":2}]}`
	for _, c := range []struct{ body, want string }{
		{`{"on":false}`, `{"service-name":"conditional","on":false,"many":[{"id":3},{"id":1},{"id":2}]}`},
		{`{"few":1}`, `{"service-name":"conditional",` + strings.Replace(body[1:], `"many":[{"id":3},{"id":1},{"id":2}]`, `"few":1`, 1)},
		{`{"on":false,"few":1}`, `{"service-name":"conditional","on":false,"few":1}`},
	} {
		tree := cube(t, s, body)
		before := state(t, tree)
		for range 3 {
			change, err := tree.Edit(t.Context(), Merge, nil, []byte(c.body))
			if err != nil {
				t.Fatal(err)
			}
			if got := show(t, tree, ""); got != c.want {
				t.Errorf("%s makes\n%s, want\n%s", c.body, got, c.want)
			}
			if len(diff(change)) < 3 && c.body != `{"few":1}` {
				t.Errorf("%s: diff is %q", c.body, diff(change))
			}
			if err := change.Revert(); err != nil {
				t.Fatal(err)
			}
			if after := state(t, tree); after != before {
				t.Errorf("%s: the tree was\n%s\nand is\n%s", c.body, before, after)
			}
		}
	}
}

// A cube that cannot be made leaves nothing behind.
func TestFailedCreation(t *testing.T) {
	s := load(t, "zoo")
	tree := s.NewTree()
	defer tree.Close()
	for _, body := range []string{`{"limits":{"low":10}}`, `{"span":true,"ports":[{"name":"p1"}]}`, `{"nix":1}`, `[]`,
		`{"limits":{"complete":[{"id":1}]}}`} {
		if _, err := tree.Edit(t.Context(), Create, nil, []byte(body)); err == nil {
			t.Errorf("%s was accepted", body)
		}
		if got := state(t, tree); got != "{}\n{}" {
			t.Errorf("%s leaves %s", body, got)
		}
	}
	if _, err := tree.Edit(t.Context(), Create, nil, []byte(zooCube)); err != nil {
		t.Error(err)
	}
}
