// SPDX-License-Identifier: Apache-2.0

package yang

import (
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"testing"
	"time"
)

// resident returns the memory of the process in bytes, C's included.
func resident(t *testing.T) int {
	t.Helper()
	debug.FreeOSMemory()
	text, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		t.Skipf("no /proc/self/statm: %v", err)
	}
	var size, pages int
	if _, err := fmt.Sscan(string(text), &size, &pages); err != nil {
		t.Fatal(err)
	}
	return pages * os.Getpagesize()
}

// TestLeaks repeats what a daemon does for months and looks at the memory of
// the process: the garbage collector sees nothing of libyang's.
func TestLeaks(t *testing.T) {
	text, err := os.ReadFile("testdata/zoo.yang")
	if err != nil {
		t.Fatal(err)
	}
	broken := strings.Replace(string(text), "uint64", "uint65", 1)
	s := load(t, "zoo")
	tree := cube(t, s, zooCube)
	edit := func(op Op, path, body string) *Change {
		c, err := tree.Edit(t.Context(), op, at(t, s, path), []byte(body))
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	for _, c := range []struct {
		name   string
		rounds int
		do     func(i int)
	}{
		{"load and close", 1000, func(int) {
			s, err := Load(string(text))
			if err != nil {
				t.Fatal(err)
			}
			s.Close()
		}},
		{"load with an error", 1000, func(int) {
			if _, err := Load(broken); err == nil {
				t.Fatal("loaded")
			}
		}},
		{"edit and revert", 10000, func(int) {
			if err := edit(Merge, "limits", `{"allow":true,"tagged":false,"few":[{"id":2}]}`).Revert(); err != nil {
				t.Fatal(err)
			}
		}},
		{"edit and forget", 10000, func(i int) {
			edit(Replace, "ports", fmt.Sprintf(`[{"name":"p%d"},{"name":"q%d"}]`, i, i))
			if i%500 == 0 {
				runtime.GC()
			}
		}},
		{"edit in vain", 10000, func(int) {
			if _, err := tree.Edit(t.Context(), Merge, at(t, s, "limits"), []byte(`{"low":200,"few":[{"id":3},{"id":4}]}`)); err == nil {
				t.Fatal("accepted")
			}
			if _, err := tree.Edit(t.Context(), Merge, at(t, s, "types"), []byte(`{"u8":1,"u16":"x"}`)); err == nil {
				t.Fatal("accepted")
			}
		}},
		{"read", 10000, func(int) { state(t, tree) }},
		{"clone", 5000, func(int) { tree.Clone().Close() }},
		{"call an action", 5000, func(int) {
			if _, err := tree.ParseInput(at(t, s, "rule a 1 reset"), []byte(`{"reason":"x"}`)); err != nil {
				t.Fatal(err)
			}
		}},
	} {
		t.Run(c.name, func(t *testing.T) { bounded(t, c.rounds, c.do) })
	}
}

// bounded sees that the process does not grow while something is repeated.
func bounded(t *testing.T, rounds int, do func(i int)) {
	t.Helper()
	for i := range rounds / 5 {
		do(i)
	}
	before := resident(t)
	for i := range rounds {
		do(i)
	}
	const allowed = 6 << 20
	grown := resident(t) - before
	t.Logf("%d rounds took %d KiB more", rounds, grown>>10)
	if grown > allowed {
		t.Errorf("grown by more than %d KiB", allowed>>10)
	}
}

// fullBridge makes a cube with many entries.
func fullBridge(t testing.TB, s *Schema, entries int) *Tree {
	t.Helper()
	var b strings.Builder
	for i := range entries {
		fmt.Fprintf(&b, `,{"address":"02:00:00:00:%02x:%02x","port":"p%d"}`, i>>8, i&0xff, i%8)
	}
	return cube(t, s, `{"fdb":{"entry":[`+b.String()[1:]+`]}}`)
}

func BenchmarkLeafIn1000(b *testing.B) {
	s := load(b, "simplebridge")
	tree := fullBridge(b, s, 1000)
	path := Path{{Name: "fdb"}, {Name: "entry", Keys: []string{"02:00:00:00:01:02"}}, {Name: "port"}}
	b.Run("edit", func(b *testing.B) {
		for i := range b.N {
			if _, err := tree.Edit(b.Context(), Merge, path, fmt.Appendf(nil, `"q%d"`, i%9)); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("libyang's validation alone", func(b *testing.B) {
		for range b.N {
			diff, err := s.validate(&tree.root)
			if err != nil {
				b.Fatal(err)
			}
			freeAll(diff)
		}
	})
	b.Run("read", func(b *testing.B) {
		for range b.N {
			if _, err := tree.JSON(nil, JSONOptions{}); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("replace all", func(b *testing.B) {
		body, err := tree.JSON(Path{{Name: "fdb"}}, JSONOptions{})
		if err != nil {
			b.Fatal(err)
		}
		for i := range b.N {
			change := strings.ReplaceAll(string(body), `"p1"`, fmt.Sprintf(`"r%d"`, i))
			if _, err := tree.Edit(b.Context(), Replace, Path{{Name: "fdb"}}, []byte(change)); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// BenchmarkThousandEntries makes and takes back a thousand entries, of a list in
// a container and of one at the top of the tree.
func BenchmarkThousandEntries(b *testing.B) {
	zoo, bridge := load(b, "zoo"), load(b, "simplebridge")
	var rules, macs strings.Builder
	for i := range 1000 {
		fmt.Fprintf(&rules, `,{"from":"r%d","to":1}`, i)
		fmt.Fprintf(&macs, `,{"address":"02:00:00:00:%02x:%02x","port":"p"}`, i>>8, i&0xff)
	}
	for _, c := range []struct {
		name string
		s    *Schema
		path Path
		body string
	}{
		{"top", zoo, Path{{Name: "rule"}}, rules.String()},
		{"container", bridge, Path{{Name: "fdb"}, {Name: "entry"}}, macs.String()},
	} {
		b.Run(c.name, func(b *testing.B) {
			tree := cube(b, c.s, `{}`)
			for range b.N {
				change, err := tree.Edit(b.Context(), Create, c.path, []byte("["+c.body[1:]+"]"))
				if err != nil {
					b.Fatal(err)
				}
				if err := change.Revert(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// TestEditCost sees that an edit of one leaf costs little more than libyang's
// validation of the tree.
func TestEditCost(t *testing.T) {
	s := load(t, "simplebridge")
	tree := fullBridge(t, s, 1000)
	path := Path{{Name: "fdb"}, {Name: "entry", Keys: []string{"02:00:00:00:01:02"}}, {Name: "port"}}
	edits, validations := make([]time.Duration, 61), make([]time.Duration, 61)
	for i := range edits { // in turns: the machine has other work, too
		start := time.Now()
		if _, err := tree.Edit(t.Context(), Merge, path, fmt.Appendf(nil, `"q%d"`, i+1)); err != nil {
			t.Fatal(err)
		}
		middle := time.Now()
		diff, err := s.validate(&tree.root)
		if err != nil {
			t.Fatal(err)
		}
		validations[i], edits[i] = time.Since(middle), middle.Sub(start)
		freeAll(diff)
	}
	slices.Sort(edits)
	slices.Sort(validations)
	edit, validation := edits[len(edits)/2], validations[len(validations)/2]
	t.Logf("edit %s, of which validation %s", edit, validation)
	if edit > 2*validation {
		t.Errorf("an edit takes %s, validation alone %s", edit, validation)
	}
}
