// SPDX-License-Identifier: Apache-2.0

// What the API's description says of a model, against what the model accepts: a configuration that is accepted fits the
// schema of what creates a cube, and what is read of it fits the schema of what is read.

package yang_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/polycube/polycube/internal/openapi"
	"github.com/polycube/polycube/internal/yang"
)

// compiled makes validators of a model's schemas for reading and creating a cube.
func compiled(t *testing.T, s *yang.Schema) map[openapi.Use]*jsonschema.Schema {
	t.Helper()
	schemas := openapi.NewSchemas(openapi.V31, func(*yang.Node) string { return "" })
	schemas.Define("link", openapi.Of("type", "object"))
	uses := []openapi.Use{openapi.Read, openapi.New, openapi.Change}
	refs := map[openapi.Use]openapi.Object{}
	for _, use := range uses {
		refs[use] = schemas.Node("it", s.Root(), use, true)
	}
	out := map[openapi.Use]*jsonschema.Schema{}
	for _, use := range uses {
		raw, err := json.Marshal(append(refs[use], openapi.Of("components", openapi.Of("schemas", schemas.Components()))...))
		if err != nil {
			t.Fatal(err)
		}
		document, err := jsonschema.UnmarshalJSON(strings.NewReader(string(raw)))
		if err != nil {
			t.Fatal(err)
		}
		c := jsonschema.NewCompiler()
		c.DefaultDraft(jsonschema.Draft2020)
		if err := c.AddResource("mem:///it.json", document); err != nil {
			t.Fatal(err)
		}
		if out[use], err = c.Compile("mem:///it.json"); err != nil {
			t.Fatal(err)
		}
	}
	return out
}

// TestAcceptedDocumentsFitTheDescription does that for every model.
func TestAcceptedDocumentsFitTheDescription(t *testing.T) {
	seeds := uint64(40)
	if os.Getenv("POLYCUBE_SOAK") != "" {
		seeds = 5000
	}
	for _, model := range models(t) {
		t.Run(strings.TrimSuffix(filepath.Base(model), ".yang"), func(t *testing.T) {
			t.Parallel()
			source, err := os.ReadFile(model)
			if err != nil {
				t.Fatal(err)
			}
			s, err := yang.Load(string(source))
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			uses := compiled(t, s)
			c, accepted := &comparison{t: t, s: s}, 0
			for seed := range seeds {
				tr := c.trial(seed)
				d := tr.base
				if seed%2 == 0 {
					d = tr.doc
				}
				tree := s.NewTree()
				if _, err := tree.Edit(t.Context(), yang.Create, nil, []byte(d.json(""))); err == nil {
					accepted++
					fits(t, uses[openapi.New], tree, yang.JSONOptions{})
					fits(t, uses[openapi.Change], tree, yang.JSONOptions{})
					fits(t, uses[openapi.Read], tree, yang.JSONOptions{Defaults: true})
				}
				tree.Close()
			}
			if accepted < 5 {
				t.Errorf("only %d documents of %d were accepted", accepted, seeds)
			}
		})
	}
}

// fits validates what is printed of a tree. The name of the cube and of its service are not the model's; what is fixed at
// creation is not part of a change.
func fits(t *testing.T, schema *jsonschema.Schema, tree *yang.Tree, o yang.JSONOptions) {
	t.Helper()
	raw, err := tree.JSON(nil, o)
	if err != nil {
		t.Fatal(err)
	}
	value, err := jsonschema.UnmarshalJSON(strings.NewReader(string(raw)))
	if err != nil {
		t.Fatal(err)
	}
	cube := value.(map[string]any)
	cube["name"] = "it1"
	delete(cube, "service-name")
	if strings.HasSuffix(schema.Ref.Location, "change.it") {
		withoutFixed(tree.Schema().Root(), cube)
	}
	if err := schema.Validate(value); err != nil {
		t.Errorf("%s\n%v", raw, err)
	}
}

// withoutFixed takes off leaves that are only settable at creation, but for those of entries, which a change may create.
func withoutFixed(n *yang.Node, object map[string]any) {
	for _, c := range n.Children() {
		switch value, _ := object[c.Name()].(map[string]any); {
		case c.Kind() == yang.Leaf && c.InitOnly():
			delete(object, c.Name())
		case c.Kind() == yang.Container && value != nil:
			withoutFixed(c, value)
		}
	}
}
