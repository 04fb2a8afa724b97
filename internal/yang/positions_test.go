// SPDX-License-Identifier: Apache-2.0

package yang

import (
	"slices"
	"strings"
	"testing"

	"github.com/polycube/polycube/internal/bulk"
)

// loadChains loads a model with a list of positions below a list whose entries exist by themselves.
func loadChains(t *testing.T) *Schema {
	t.Helper()
	text := strings.Replace(modelText(t, "bulk"), `list rule {
      polycube-base:bulk;`, `list rule {
      polycube-base:bulk;
      polycube-base:positions;`, 1)
	return loadText(t, text)
}

// TestAListOfPositions: its keys are positions, so an entry can be inserted anywhere, and those after it move.
func TestAListOfPositions(t *testing.T) {
	s := loadChains(t)
	const three = `{"side":[{"name":"LEFT","rule":[{"id":0,"note":"a"},{"id":1,"note":"b"},{"id":2,"note":"c"}]}]}`
	for _, c := range []editCase{
		{op: Insert, name: "first", path: "side LEFT rule 0", body: `{"note":"x"}`, view: "xabc"},
		{op: Insert, name: "between", path: "side LEFT rule 2", body: `{"note":"x"}`, view: "abxc"},
		{op: Insert, name: "last", path: "side LEFT rule 3", body: `{"note":"x","id":3}`, view: "abcx"},
		{op: Insert, name: "too far", path: "side LEFT rule 4", body: `{"note":"x"}`, tag: InvalidValue,
			message: "side LEFT rule 4: there are 3 entries, so the next one is 3"},
		{op: Insert, name: "a wrong body", path: "side LEFT rule 0", body: `{"none":"x"}`, tag: InvalidValue},
		{op: Insert, name: "into a list of names", path: "zone x", body: `{}`, tag: OperationNotSupported},
		{op: Create, name: "the next one", path: "side LEFT rule 3", body: `{"note":"x"}`, view: "abcx"},
		{op: Create, name: "entries without positions", path: "side LEFT rule", body: `[{"note":"x"},{"note":"y"}]`, view: "abcxy"},
		{op: Create, name: "the same in another list", path: "side RIGHT rule", body: `[{"note":"x"},{"note":"y"}]`, view: "abc|xy"},
		{op: Create, name: "one without and one with a position", path: "side LEFT rule", body: `[{"note":"x"},{"id":4,"note":"y"}]`, view: "abcxy"},
		{op: Create, name: "two for one position", path: "side LEFT rule", body: `[{"note":"x"},{"id":3,"note":"y"}]`, tag: InvalidValue},
		{op: Create, name: "too far", path: "side LEFT rule 4", body: `{"note":"x"}`, tag: InvalidValue},
		{op: Create, name: "an existing one", path: "side LEFT rule 1", body: `{"note":"x"}`, tag: DataExists},
		{op: Create, name: "the first of another list", path: "side RIGHT rule 0", body: `{"note":"x"}`, view: "abc|x"},
		{op: Replace, name: "an existing one", path: "side LEFT rule 1", body: `{"note":"x"}`, view: "axc"},
		{op: Merge, name: "an existing one", path: "side LEFT rule 1", body: `{"weight":9}`, view: "abc"},
		{op: Merge, name: "a leaf", path: "side LEFT rule 2 note", body: `"x"`, view: "abx"},
		{op: Delete, name: "the first", path: "side LEFT rule 0", view: "bc"},
		{op: Delete, name: "a leaf", path: "side LEFT rule 1 note", view: "a-c"},
		{op: Delete, name: "all", path: "side LEFT rule", view: ""},
		{op: Delete, name: "the list entry above", path: "side LEFT", view: ""},
		{op: Replace, name: "the whole list", path: "side LEFT rule", body: `[{"id":1,"note":"y"},{"id":0,"note":"x"}]`, view: "xy"},
		{op: Replace, name: "the whole list without positions", path: "side LEFT rule", body: `[{"note":"x"},{"note":"y"}]`, view: "xy"},
		{op: Replace, name: "the whole list with a gap", path: "side LEFT rule", body: `[{"id":0},{"id":4}]`, tag: InvalidValue},
		{op: Merge, name: "the list entry above", path: "side LEFT", body: `{"rule":[{"id":3,"note":"x"},{"id":1,"note":"y"}]}`, view: "aycx"},
	} {
		t.Run(c.op.String()+" "+c.name, func(t *testing.T) {
			tree := cube(t, s, three)
			before := state(t, tree)
			for range 2 { // what was taken back can be done again
				change, err := tree.Edit(t.Context(), c.op, at(t, s, c.path), []byte(c.body))
				checkError(t, err, c.tag, c.message)
				if err != nil {
					break
				}
				if got := notes(tree); got != c.view {
					t.Errorf("the rules are %q, want %q", got, c.view)
				}
				if err := change.Revert(); err != nil {
					t.Errorf("revert: %v", err)
				}
			}
			if after := state(t, tree); after != before {
				t.Errorf("the tree was\n%s\nand is\n%s", before, after)
			}
		})
	}
}

// notes are the notes of the rules, those of different sides apart.
func notes(tree *Tree) string {
	var sides []string
	for _, table := range tree.Tables().Of("side/rule") {
		text := ""
		table.All(func(e *bulk.Entry) bool {
			note := "-"
			if _, after, ok := strings.Cut(e.Saved, `"note":"`); ok {
				note = after[:1]
			}
			text += note
			return true
		})
		sides = append(sides, text)
	}
	return strings.Join(sides, "|")
}

// What users see has positions, what is stored has orders, and both give the same list again.
func TestPositionsAreShownAndOrdersStored(t *testing.T) {
	s := loadChains(t)
	tree := cube(t, s, `{"side":[{"name":"LEFT","rule":[{"id":0,"note":"a"},{"id":1,"note":"b"}]}]}`)
	change, err := tree.Edit(t.Context(), Insert, at(t, s, "side LEFT rule 1"), []byte(`{"note":"x"}`))
	if err != nil {
		t.Fatal(err)
	}
	want := Delta{Op: Created, Path: at(t, s, "side LEFT rule 1"), Value: []byte(`{"id":1,"note":"x","weight":7}`)}
	if d, more := change.Diff(1); len(d) != 1 || more != 0 || d[0].Path.String() != want.Path.String() || string(d[0].Value) != string(want.Value) || d[0].Op != Created {
		t.Errorf("the difference is %+v, want %+v", d, want)
	}
	const view = `[{"name":"LEFT","rule":[{"id":0,"note":"a"},{"id":1,"note":"x"},{"id":2,"note":"b"}]}]`
	if got := show(t, tree, "side"); got != view {
		t.Errorf("it is\n%s, want\n%s", got, view)
	}
	var stored []string
	tree.Tables().At("side/rule", []string{"LEFT"}).Stored(func(e *bulk.Entry) bool {
		stored = append(stored, e.Saved)
		return true
	})
	if strings.Contains(stored[0], `"id":0`) {
		t.Errorf("%s is stored under its position", stored[0])
	}
	again := cube(t, s, `{"side":[{"name":"LEFT"}]}`)
	if err := again.Restore(s.BulkLists()[8], []string{"LEFT"}, slices.Values(stored)); err != nil {
		t.Fatal(err)
	}
	if got := show(t, again, "side"); got != view {
		t.Errorf("after a restart it is\n%s, want\n%s", got, view)
	}
}
