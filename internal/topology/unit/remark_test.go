// SPDX-License-Identifier: Apache-2.0

package unit

import (
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/polycube/polycube/internal/store"
	"github.com/polycube/polycube/internal/topology/service"
	"github.com/polycube/polycube/internal/topology/world"
	"github.com/polycube/polycube/internal/yang"
)

// marked returns a unit of a service whose model marks some lists as large.
func marked(t *testing.T, lists string) *Unit {
	t.Helper()
	raw, err := os.ReadFile("../../yang/testdata/bulk.yang")
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for line := range strings.Lines(string(raw)) {
		is := strings.TrimSpace(line)
		if name, ok := strings.CutPrefix(is, "list "); ok {
			out = append(out, line)
			if name = strings.TrimSuffix(name, " {"); slices.Contains(strings.Fields(lists), name) {
				out = append(out, "polycube-base:bulk;\n")
			}
		} else if is != "polycube-base:bulk;" {
			out = append(out, line)
		}
	}
	s, err := yang.Load(strings.Join(out, ""))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	u := &Unit{Service: &service.Service{Schema: s}, Tree: s.NewTree()}
	t.Cleanup(u.Tree.Close)
	return u
}

// stored is what a store has of a unit's configuration.
func stored(t *testing.T, u *Unit) (*world.Stored, map[string]string) {
	t.Helper()
	config, err := u.Tree.JSON(nil, yang.JSONOptions{Apart: true})
	if err != nil {
		t.Fatal(err)
	}
	rec := &world.Cube{UUID: "uuid", Tables: u.Tree.Tables()}
	recs := world.EntryRecords(rec, rec)
	entries := map[string]string{}
	for _, r := range recs {
		entries[r.Key] = string(r.Value)
	}
	return &world.Stored{Config: config, Entries: world.ReadEntries(&store.State{Records: recs})["uuid"]}, entries
}

// What one version of a model has stored, another one restores that has other lists apart, and then the store has what it would
// have stored itself.
func TestModelsThatMarkOtherListsRestoreTheSame(t *testing.T) {
	// in the order of the keys, which lists that are apart have
	const body = `{"ports":[{"name":"p1"}],"flat":[{"name":"f","port":"p1"}],"zone":[{"name":"z","in":{"site":[{"id":1},{"id":2}]}}],
		"host":[{"name":"x","nr":1,"disk":[{"id":"A","part":[{"id":1,"kind":"k","port":"p1"}]},{"id":"B","size":3}],"weight":3},{"name":"x","nr":2},
		{"name":"y","nr":1,"note":"n","nic":[{"id":1,"port":"p1"}]}]}`
	marks := []string{"", "host", "disk", "part site", "host disk", "host disk part nic site flat", "disk part", "nic", "host nic flat"}
	units := map[string]*Unit{}
	for _, m := range marks {
		units[m] = marked(t, m)
		if _, err := units[m].Tree.Edit(t.Context(), yang.Create, nil, []byte(body)); err != nil {
			t.Fatalf("%q: %v", m, err)
		}
	}
	for _, from := range marks {
		was, records := stored(t, units[from])
		for _, to := range marks {
			u := &Unit{Service: units[to].Service, Tree: units[to].Service.Schema.NewTree()}
			if err := RestoreTree(was, u); err != nil {
				t.Fatalf("%q restores what %q has stored: %v", to, from, err)
			}
			is, want := image(t, u), image(t, units[to])
			if is != want {
				t.Errorf("%q restores from %q\n%s, want\n%s", to, from, is, want)
			}
			if was.Entries != nil {
				after := maps.Clone(records)
				for _, r := range was.Entries.Moved(u.Service.Schema, &world.Cube{UUID: "uuid", Tables: u.Tree.Tables()}) {
					if after[r.Key] = string(r.Value); r.Value == nil {
						delete(after, r.Key)
					}
				}
				if _, wanted := stored(t, u); !maps.Equal(after, wanted) {
					t.Errorf("%q has in its store, from %q,\n%v, want\n%v", to, from, after, wanted)
				}
			}
			u.Tree.Close()
		}
		whole, err := was.Whole(units[from].Service.Schema.Root(), func(string) bool { return true })
		if err != nil {
			t.Fatal(err)
		}
		again := units[""].Service.Schema.NewTree()
		if _, err := again.Edit(t.Context(), yang.Create, nil, whole); err != nil {
			t.Fatalf("%s: %v", whole, err)
		}
		if is, want := image(t, &Unit{Tree: again}), image(t, units[""]); is != want {
			t.Errorf("%q has stored\n%s, want\n%s", from, is, want)
		}
		again.Close()
	}
}

// image is the configuration of a unit.
func image(t *testing.T, u *Unit) string {
	t.Helper()
	out, err := u.Tree.JSON(nil, yang.JSONOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}
