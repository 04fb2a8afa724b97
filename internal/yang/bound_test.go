// SPDX-License-Identifier: Apache-2.0

package yang

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
)

// many writes the entries of a list, and behind them what is not JSON: who reads that far says so.
func many(n int, entry string) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, entry+",", i)
	}
	return "[" + b.String() + "!"
}

func TestABodyIsReadNoFurtherThanItsListsGo(t *testing.T) {
	zoo, bulk := load(t, "zoo"), load(t, "bulk")
	zoo.Bound("ports", 10)
	for _, c := range []struct {
		name string
		s    *Schema
		op   Op
		path string
		body string
		want string
	}{
		{"ports of a cube", zoo, Create, "", `{"ports":` + many(11, `{"name":"p%d"}`), "ports: more than 10 entries"},
		{"the list of ports", zoo, Replace, "ports", many(11, `{"name":"p%d"}`), "ports: more than 10 entries"},
		{"exactly as many ports as allowed", zoo, Replace, "ports", strings.Replace(many(10, `{"name":"p%d"}`), ",!", "]!", 1), "unexpected text after"},
		{"a list whose model says how many", zoo, Merge, "limits", `{"few":` + many(maxEntries+1, `{"id":%d}`), fmt.Sprintf("few: more than %d entries", maxEntries)},
		{"a leaf-list in an entry", zoo, Merge, "ports p1", `{"tcubes":` + many(maxEntries+1, `"c%d"`), fmt.Sprintf("tcubes: more than %d entries", maxEntries)},
		{"a bulk list", bulk, Replace, "flat", many(2*maxEntries, `{"name":"%d","port":"p"}`), "not JSON"},
	} {
		tree := c.s.NewTree()
		_, err := tree.Edit(t.Context(), c.op, at(t, c.s, c.path), []byte(c.body))
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %.200v, want %q", c.name, err, c.want)
		}
		tree.Close()
	}
}

// TestWhatWasStoredHasNoBound: a list that an earlier daemon stored is restored, however long it is.
func TestWhatWasStoredHasNoBound(t *testing.T) {
	s := load(t, "zoo")
	s.Bound("ports", 10)
	tree := s.NewTree()
	defer tree.Close()
	body := `{"ports":` + strings.TrimSuffix(many(20, `{"name":"p%d"}`), ",!") + `]}`
	if _, err := tree.Amend(t.Context(), Create, nil, []byte(body)); err != nil {
		t.Error(err)
	}
}

// failing is a context that ends when it has been asked so many times.
type failing struct {
	context.Context
	left int
}

func (f *failing) Err() error {
	if f.left--; f.left < 0 {
		return context.Canceled
	}
	return nil
}

func TestAnEditEndsWithItsContext(t *testing.T) {
	list := func(n int, entry string) string { return strings.TrimSuffix(many(n, entry), ",!") + "]" }
	for _, c := range []struct{ name, model, path, body string }{
		{"ports", "zoo", "ports", list(5000, `{"name":"p%d"}`)},
		{"a bulk list", "bulk", "flat", list(5000, `{"name":"%d","port":"p"}`)},
	} {
		s := load(t, c.model)
		for _, after := range []int{0, 3, 100, 3000} {
			tree := s.NewTree()
			before := len(tree.live)
			_, err := tree.Edit(&failing{t.Context(), after}, Replace, at(t, s, c.path), []byte(c.body))
			if !errors.Is(err, context.Canceled) {
				t.Errorf("%s, stopped after %d: %.200v", c.name, after, err)
			}
			if len(tree.live) != before {
				t.Errorf("%s, stopped after %d: a change was made", c.name, after)
			}
			tree.Close()
		}
	}
}
