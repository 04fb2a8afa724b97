// SPDX-License-Identifier: Apache-2.0

package yang

import (
	"os"
	"strings"
	"testing"
)

// load compiles a model of testdata for the length of a test.
func load(t testing.TB, name string) *Schema {
	t.Helper()
	return loadText(t, modelText(t, name))
}

func modelText(t testing.TB, name string) string {
	t.Helper()
	text, err := os.ReadFile("testdata/" + name + ".yang")
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func loadText(t testing.TB, text string) *Schema {
	t.Helper()
	s, err := Load(text)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

// cube makes a tree with a body.
func cube(t testing.TB, s *Schema, body string) *Tree {
	t.Helper()
	tree := s.NewTree()
	t.Cleanup(tree.Close)
	if _, err := tree.Edit(t.Context(), Create, nil, []byte(body)); err != nil {
		t.Fatalf("create: %v", err)
	}
	return tree
}

// at resolves a path written with spaces between its words.
func at(t testing.TB, s *Schema, words string) Path {
	t.Helper()
	_, p, err := s.Resolve(strings.Fields(words))
	if err != nil {
		t.Fatalf("resolve %q: %v", words, err)
	}
	return p
}

// show prints a node with what was set explicitly.
func show(t testing.TB, tree *Tree, words string) string {
	t.Helper()
	out, err := tree.JSON(at(t, tree.Schema(), words), JSONOptions{})
	if err != nil {
		t.Fatalf("show %q: %v", words, err)
	}
	return string(out)
}

// state is all there is to see of a tree.
func state(t testing.TB, tree *Tree) string {
	t.Helper()
	printed := func(o JSONOptions) string {
		text, err := tree.JSON(nil, o)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	text, err := tree.Text()
	if err != nil {
		t.Fatal(err)
	}
	if full, saved := printed(JSONOptions{Defaults: true, Apart: true}), printed(JSONOptions{Apart: true}); string(text.Full) != full || string(text.Saved) != saved {
		t.Fatalf("the text is\n%s\n%s, want\n%s\n%s", text.Full, text.Saved, full, saved)
	}
	valid(t, tree)
	return printed(JSONOptions{}) + "\n" + printed(JSONOptions{Defaults: true})
}

// valid checks that validating the whole tree neither fails nor changes anything, whichever part of it edits validated.
func valid(t testing.TB, tree *Tree) {
	t.Helper()
	if !tree.created {
		return
	}
	root, err := cloneTree(tree.root)
	if err != nil {
		t.Fatal(err)
	}
	diff, err := tree.schema.validate(&root)
	defer freeAll(root)
	defer freeAll(diff)
	if err != nil || diff != nil {
		t.Fatalf("validation of the whole tree: %v, with changes: %t", err, diff != nil)
	}
}
