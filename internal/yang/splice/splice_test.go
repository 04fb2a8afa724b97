// SPDX-License-Identifier: Apache-2.0

package splice_test

import (
	"os"
	"testing"

	"github.com/polycube/polycube/internal/yang"
	"github.com/polycube/polycube/internal/yang/splice"
)

// What is joined is what the tree prints with its tables.
func TestAConfigurationIsJoinedWithItsTables(t *testing.T) {
	text, err := os.ReadFile("../testdata/bulk.yang")
	if err != nil {
		t.Fatal(err)
	}
	s, err := yang.Load(string(text))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	for _, body := range []string{
		`{}`,
		`{"side":[{"name":"LEFT"}]}`,
		`{"side":[{"name":"LEFT","rule":[{"id":0,"note":"a"},{"id":1,"note":"b"}]},{"name":"RIGHT"}]}`,
		`{"host":[{"name":"x","nr":1},{"name":"y","nr":2,"note":"n","disk":[{"id":"B","size":1,"part":[{"id":1,"kind":"k"}],"label":"l"},{"id":"A"}],"deep":{"on":true},"nic":[{"id":2}],"weight":1}]}`,
		`{"host":[{"name":"x","nr":1,"nic":[{"id":2},{"id":1}]}],"zone":[{"name":"x","in":{"site":[{"id":1}]}}]}`,
		`{"ports":[{"name":"p1"}],"flat":[{"name":"a","port":"p1"}],"side":[{"name":"RIGHT","rule":[{"id":3}]}]}`,
	} {
		tree := s.NewTree()
		t.Cleanup(tree.Close)
		if _, err := tree.Edit(t.Context(), yang.Create, nil, []byte(body)); err != nil {
			t.Fatalf("%s: %v", body, err)
		}
		for _, defaults := range []bool{false, true} {
			apart, err := tree.JSON(nil, yang.JSONOptions{Defaults: defaults, Apart: true})
			if err != nil {
				t.Fatal(err)
			}
			want, err := tree.JSON(nil, yang.JSONOptions{Defaults: defaults})
			if err != nil {
				t.Fatal(err)
			}
			if got, err := splice.Whole(s, apart, tree.Tables(), defaults); err != nil || string(got) != string(want) {
				t.Errorf("%s: %s, %v, want %s", body, got, err, want)
			}
		}
	}
}
