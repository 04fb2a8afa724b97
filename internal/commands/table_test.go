// SPDX-License-Identifier: Apache-2.0

package commands

import (
	"slices"
	"strings"
	"testing"
)

// TestTheTableIsWhole: names are unique, texts are there, and paths begin with the name of their command.
func TestTheTableIsWhole(t *testing.T) {
	seen := map[string]bool{}
	for _, c := range All() {
		if seen[c.Name] || c.Name == "" {
			t.Errorf("%q is in the table twice, or has no name", c.Name)
		}
		seen[c.Name] = true
		if c.Typed == nil && c.Resource == nil {
			t.Errorf("%s is neither typed nor served", c.Name)
		}
		if typed := c.Typed; typed != nil && (typed.Description == "" || !strings.HasPrefix(typed.Usage, c.Name)) {
			t.Errorf("%s: description %q, usage %q", c.Name, typed.Description, typed.Usage)
		}
		if c.Resource != nil {
			checkResource(t, c.Name, c.Resource)
		}
	}
	for i, name := range Entries() {
		if got := Served(name).Entry; got != i+1 {
			t.Errorf("%s is link %d of the entry point, want %d", name, got, i+1)
		}
	}
}

func checkResource(t *testing.T, name string, r *Resource) {
	if len(r.Operations) == 0 {
		t.Errorf("%s is served and has no operation", name)
	}
	for _, o := range r.Operations {
		words := strings.Split(strings.TrimPrefix(o.Path, "/"), "/")
		if words[0] != name || len(words)-1 > r.Segments {
			t.Errorf("%s %s: the path is no path of %s with at most %d segments more", o.Method, o.Path, name, r.Segments)
		}
		if found := Of(o.Method, o.Path); found.Summary != o.Summary || o.Summary == "" {
			t.Errorf("%s %s is in the table twice, or has no summary", o.Method, o.Path)
		}
	}
}

// TestReservedWordsStay: a word that is taken off this list may be the name of a cube, and one that is added may be the
// name of a cube that exists.
func TestReservedWordsStay(t *testing.T) {
	want := strings.Fields("add apply attach capture config confirm connect cubes daemon del detach disconnect drops events export framework " +
		"history masquerade metrics netdevs openapi.json rollback services set show status topology trace version")
	got := Reserved()
	slices.Sort(got)
	if !slices.Equal(got, want) {
		t.Errorf("reserved are\n%v\nwant\n%v", got, want)
	}
}
