// SPDX-License-Identifier: Apache-2.0

package reference

// The reference of the services, from their models: configuration, state and actions, in the order of the model.

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/polycube/polycube/internal/yang"
)

// ModelDocument is where the reference of a service is, from the top of the repository.
func ModelDocument(service string) string { return "docs/reference/" + service + ".md" }

// RenderModel writes the document of a service.
func RenderModel(s *yang.Schema) []byte {
	info := s.Service()
	var b strings.Builder
	kind := "a standard cube: it has ports"
	if info.Transparent {
		kind = "a transparent cube: it is attached to ports and netdevs"
	}
	fmt.Fprintf(&b, "# %s\n\n%s\n\n", info.Name, wrap(fmt.Sprintf(
		"%s. Version %s, %s. Linux %s or newer. Generated from the model by `make reference`. [Its README](../../cubes/%s/README.md) "+
			"has examples.", strings.TrimSuffix(info.Description, "."), info.Version, kind, info.MinKernel, info.Name)))
	fmt.Fprintf(&b, "%s\n\n", wrap("A path is the words that follow the cube's name on the command line, and the part of the URL below `/polycube/v1/"+
		info.Name+"/NAME/`. Keys are in capitals. *Fixed* values can be set only when the cube or the list entry is created."))
	d := &modelDocument{b: &b}
	d.section("Configuration", s.Root(), func(n *yang.Node) bool { return n.Config() && n.Kind() != yang.Action })
	d.section("State", s.Root(), func(n *yang.Node) bool { return !n.Config() && n.Kind() != yang.Action })
	d.actions(s.Root())
	d.metrics(s.Root())
	return []byte(strings.TrimRight(b.String(), "\n") + "\n")
}

type modelDocument struct{ b *strings.Builder }

// section is a table of the nodes that fit.
func (d *modelDocument) section(title string, root *yang.Node, fits func(*yang.Node) bool) {
	var rows strings.Builder
	var walk func(n *yang.Node, path string)
	walk = func(n *yang.Node, path string) {
		for _, c := range n.Children() {
			at := pathWords(path, c)
			if fits(c) && c.Kind() != yang.Container && !c.IsKey() {
				fmt.Fprintf(&rows, "| `%s` | %s | %s |\n", at, cell(valueText(c)), cell(aboutText(c)))
			}
			if c.Kind() != yang.Action {
				walk(c, at)
			}
		}
	}
	walk(root, "")
	if rows.Len() > 0 {
		fmt.Fprintf(d.b, "## %s\n\n| path | value | |\n|---|---|---|\n%s\n", title, rows.String())
	}
}

// pathWords is the path of a node as typed.
func pathWords(above string, n *yang.Node) string {
	words := strings.TrimSpace(above + " " + n.Name())
	for _, k := range n.Keys() {
		words += " " + strings.ToUpper(k.Name())
	}
	return words
}

// valueText describes the values of a node.
func valueText(n *yang.Node) string {
	switch n.Kind() {
	case yang.List:
		text := "list"
		if n.Bulk() {
			text = "list of any length"
		}
		var keys []string
		for _, k := range n.Keys() {
			keys = append(keys, "`"+strings.ToUpper(k.Name())+"` is "+typeText(k.Type()))
		}
		if len(keys) == 0 { // of the output of an action
			for _, c := range n.Children() {
				keys = append(keys, "`"+c.Name()+"` is "+valueText(c))
			}
			return text + " of entries: " + strings.Join(keys, ", ")
		}
		return text + "; " + strings.Join(keys, ", ")
	case yang.LeafList:
		return "list of " + typeText(n.Type())
	case yang.Leaf, yang.Container, yang.Action:
	}
	text := typeText(n.Type())
	if units := n.Units(); units != "" {
		text += ", in " + units
	}
	return text
}

// typeText describes the values of a type.
func typeText(t yang.Type) string {
	switch {
	case t.LeafrefPath != "":
		return "one of `" + strings.TrimLeft(t.LeafrefPath, "./") + "`"
	case len(t.Enums) > 0:
		return "`" + strings.Join(t.Enums, "` `") + "`"
	case len(t.Union) > 0:
		var members []string
		for _, m := range t.Union {
			members = append(members, typeText(m))
		}
		return strings.Join(members, " or ")
	case t.Range != "":
		return t.Name + " " + t.Range
	case t.Length != "":
		return t.Name + " of " + t.Length + " characters"
	}
	return t.Name
}

// aboutText describes the purpose of a node.
func aboutText(n *yang.Node) string {
	text := strings.Join(strings.Fields(n.Description()), " ")
	var notes []string
	if value, ok := n.Default(); ok {
		notes = append(notes, "Default `"+value+"`.")
	}
	if n.Mandatory() && n.Config() {
		notes = append(notes, "Mandatory.")
	}
	if n.InitOnly() {
		notes = append(notes, "Fixed.")
	}
	if example := n.Example(); example != "" {
		notes = append(notes, "Example: `"+example+"`.")
	}
	return strings.TrimSpace(text + " " + strings.Join(notes, " "))
}

// cell is text within a table.
func cell(text string) string { return strings.ReplaceAll(text, "|", `\|`) }

// actions lists the actions.
func (d *modelDocument) actions(root *yang.Node) {
	var list strings.Builder
	var walk func(n *yang.Node, path string)
	walk = func(n *yang.Node, path string) {
		for _, c := range n.Children() {
			at := pathWords(path, c)
			if c.Kind() != yang.Action {
				walk(c, at)
				continue
			}
			fmt.Fprintf(&list, "### `%s`\n\n%s\n\n", at, wrap(c.Description()))
			for _, side := range []struct {
				name string
				node *yang.Node
			}{{"takes", c.Input()}, {"returns", c.Output()}} {
				for _, m := range side.node.Children() {
					fmt.Fprintf(&list, "- %s `%s`: %s. %s\n", side.name, m.Name(), valueText(m), aboutText(m))
				}
			}
			list.WriteString("\n")
		}
	}
	walk(root, "")
	if list.Len() > 0 {
		fmt.Fprintf(d.b, "## Actions\n\n%s", strings.TrimRight(list.String(), "\n")+"\n\n")
	}
}

// metrics lists the families that the model adds.
func (d *modelDocument) metrics(root *yang.Node) {
	var rows strings.Builder
	var walk func(n *yang.Node)
	walk = func(n *yang.Node) {
		if name, ok := n.Extension("name-metric"); ok {
			kind, _ := n.Extension("type-metric")
			help, _ := n.Extension("help-metric")
			fmt.Fprintf(&rows, "| `%s` | %s | %s |\n", name, strings.ToLower(kind), cell(help))
		}
		for _, c := range n.Children() {
			walk(c)
		}
	}
	walk(root)
	if rows.Len() > 0 {
		fmt.Fprintf(d.b, "## Metrics\n\n| family | | |\n|---|---|---|\n%s\n", rows.String())
	}
}

// Models renders the documents of all services of a repository, by where they are.
func Models(root string) (map[string][]byte, error) {
	paths, err := filepath.Glob(filepath.Join(root, "cubes/*/*.yang"))
	if err != nil {
		return nil, fmt.Errorf("finding the models: %w", err)
	}
	out := map[string][]byte{}
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			return nil, fmt.Errorf("reading a model: %w", err)
		}
		schema, err := yang.Load(string(text))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		out[ModelDocument(schema.Service().Name)] = RenderModel(schema)
		schema.Close()
	}
	return out, nil
}

// WriteModels writes the documents of all services.
func WriteModels(root string) error {
	documents, err := Models(root)
	if err != nil {
		return err
	}
	for path, text := range documents {
		if err := os.WriteFile(filepath.Join(root, path), text, 0o644); err != nil {
			return fmt.Errorf("writing the reference: %w", err)
		}
	}
	return nil
}
