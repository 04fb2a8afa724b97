// SPDX-License-Identifier: Apache-2.0

package yang

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
)

// TestManyEntriesInOneBody: entries that differ only in their keys are made of one another, and those of many kinds not; all are
// the same as in a list that libyang keeps.
func TestManyEntriesInOneBody(t *testing.T) {
	text := modelText(t, "bulk")
	apart, whole := loadText(t, text), loadText(t, strings.ReplaceAll(text, "polycube-base:bulk;", ""))
	a, b := apart.NewTree(), whole.NewTree()
	defer a.Close()
	defer b.Close()
	var others, entries []string
	for i := range 5 * maxMoulds {
		name := fmt.Sprintf(`%d \"<é&>/ `, 1000-i)
		others = append(others, fmt.Sprintf(`{"note":"n%d","name":"%s"}`, i%(2*maxMoulds), name), fmt.Sprintf(`{"name":"plain%s"}`, name))
	}
	for id := -3; id <= 3; id++ {
		for i, kind := range []string{"red", "BLUE"} {
			members := []string{`"needed":1`, `"needed":"1","tag":["a","b"]`, `"tag":["a","b"],"needed":2`, `"needed":1,"port":"p1"`,
				`"needed":1,"port":"p2"`, `"needed":1,"deep":{"on":true},"sub":[{"n":1,"must-have":"x"}]`, `"needed":1,"here":{}`}[(id+3+3*i)%7]
			entries = append(entries, fmt.Sprintf(`{"kind":"%s",%s,"id":%d}`, kind, members, id))
		}
	}
	body := fmt.Sprintf(`{"ports":[{"name":"p1"},{"name":"p2"}],"table":{"other":[%s],"entry":[%s]}}`,
		strings.Join(others, ","), strings.Join(entries, ","))
	for _, tree := range []*Tree{a, b} {
		if _, err := tree.edit(t.Context(), Create, nil, []byte(body), editMode{}); err != nil {
			t.Fatal(err)
		}
	}
	sameTrees(t, "created", a, b)
	p := at(t, a.schema, "table other")
	body = "[" + strings.Join(slices.Concat(others[100:300], []string{`{"name":"new"}`, `{"name":"new too"}`}), ",") + "]"
	for _, tree := range []*Tree{a, b} {
		change, err := tree.edit(t.Context(), Replace, p, []byte(body), editMode{})
		if err != nil {
			t.Fatal(err)
		}
		if _, n := change.Diff(0); n != len(others)-200+2 {
			t.Errorf("%d differences, want %d", n, len(others)-200+2)
		}
	}
	sameTrees(t, "replaced", a, b)
}

// TestFirstFaultsOfABodyAreReported although its entries are checked in another order.
func TestFirstFaultsOfABodyAreReported(t *testing.T) {
	tree := loadText(t, modelText(t, "bulk")).NewTree()
	defer tree.Close()
	if _, err := tree.edit(t.Context(), Create, nil, []byte(`{"table":{"other":[{"name":"there"}]}}`), editMode{}); err != nil {
		t.Fatal(err)
	}
	var items []string
	for i := range 100 {
		items = append(items, fmt.Sprintf(`{"name":"n%d","nothing":1}`, 99-i))
	}
	items[1], items[3] = `{"name":"there"}`, `{"name":"good"}`
	items[5], items[7], items[9] = `{"name":"good"}`, `{"note":"x"}`, `7`
	_, err := tree.edit(t.Context(), Create, at(t, tree.schema, "table other"), []byte("["+strings.Join(items, ",")+"]"), editMode{})
	var y *Error
	if !errors.As(err, &y) || len(y.Errs) != maxFaults {
		t.Fatalf("%d faults of %v", len(y.Errs), err)
	}
	wanted := map[int]string{0: "nothing", 1: "exists already", 4: "given twice", 6: "element 7 has no name", 8: "element 9 is a number", 9: "nothing"}
	for i, part := range wanted {
		if !strings.Contains(y.Errs[i].Message, part) {
			t.Errorf("fault %d is %q, want %q", i, y.Errs[i].Message, part)
		}
	}
	for i := range items {
		items[i] = fmt.Sprintf(`{"name":"n%d"}`, 99-i)
	}
	body := []byte("[" + strings.Join(items, ",") + "]")
	if change, err := tree.edit(t.Context(), Create, at(t, tree.schema, "table other"), body, editMode{}); err != nil {
		t.Fatal(err)
	} else if _, err = tree.edit(t.Context(), Create, at(t, tree.schema, "table other"), body, editMode{}); !errors.As(err, &y) ||
		!strings.Contains(y.Errs[0].Message, "n99") || !strings.Contains(y.Errs[maxFaults-1].Message, "n84") {
		t.Errorf("a body whose entries exist: %v", err)
	} else if err := change.Revert(); err != nil {
		t.Fatal(err)
	}
	if n := tree.tables.At("table/other", nil).Len(); n != 1 {
		t.Errorf("%d entries after a body was refused", n)
	}
}
