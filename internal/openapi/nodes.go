// SPDX-License-Identifier: Apache-2.0

// Objects of the model: schemas for reading, creating and changing, and for the input and output of actions.

package openapi

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/polycube/polycube/internal/yang"
)

// Use is the purpose of a schema: the same node has other members when read than when created or changed.
type Use string

// The uses, which are prefixes of component names.
const (
	// Read is a response: configuration and state.
	Read Use = "read"
	// New is the body that creates a node or replaces it.
	New Use = "new"
	// Change is the body that updates a node.
	Change Use = "change"
)

// Schemas collects the components that schemas refer to. It is not safe for concurrent use.
type Schemas struct {
	version    Version
	components map[string]Object
	types      map[string]string
	suggest    func(*yang.Node) string
}

// NewSchemas creates an empty collection for a version of OpenAPI. suggest returns an example for a leaf whose model
// has none, "" if unknown.
func NewSchemas(v Version, suggest func(*yang.Node) string) *Schemas {
	return &Schemas{version: v, suggest: suggest, components: map[string]Object{}, types: map[string]string{}}
}

// Components returns all components by name.
func (s *Schemas) Components() Object {
	var out Object
	for _, name := range slices.Sorted(maps.Keys(s.components)) {
		out = out.With(name, s.components[name])
	}
	return out
}

// Has reports whether there is a component with a name.
func (s *Schemas) Has(name string) bool { return s.components[name] != nil }

// add stores a component.
func (s *Schemas) add(name string, schema Object) { s.components[name] = schema }

// Define stores a custom schema under a name and returns a reference to it.
func (s *Schemas) Define(name string, schema Object) Object {
	s.add(name, schema)
	return reference(name)
}

// Node returns the schema of a node of a service's model. A list is an array; with entry, it is one of its entries, or
// one value of a leaf-list.
func (s *Schemas) Node(service string, n *yang.Node, use Use, entry bool) Object {
	switch {
	case n.Kind() == yang.Leaf, n.Kind() == yang.LeafList && entry:
		return s.leaf(n, use)
	case n.Kind() == yang.LeafList, n.Kind() == yang.List && !entry:
		return s.array(service, n, use)
	}
	return s.object(service, n, use)
}

// Input returns the schema of an action's input, Output of its output; nil for none.
func (s *Schemas) Input(service string, action *yang.Node) Object {
	return s.inOut(service, action.Input(), New)
}

// Output returns the schema of an action's output, nil if it has none.
func (s *Schemas) Output(service string, action *yang.Node) Object {
	return s.inOut(service, action.Output(), Read)
}

func (s *Schemas) inOut(service string, n *yang.Node, use Use) Object {
	if n == nil || len(n.Children()) == 0 {
		return nil
	}
	return s.object(service, n, use)
}

// object returns a reference to the component of a container, list entry, cube, input or output.
func (s *Schemas) object(service string, n *yang.Node, use Use) Object {
	name := componentName(service, n, use)
	if !s.Has(name) {
		s.add(name, Object{}) // models have no recursion, but do not rely on it here
		s.add(name, s.members(service, n, use))
	}
	return reference(name)
}

// componentName is unique: the use comes first, and no name in a path has a slash.
func componentName(service string, n *yang.Node, use Use) string {
	name := string(use) + "." + service
	if n.Path() != "" {
		name += "." + strings.ReplaceAll(n.Path(), "/", ".")
	}
	return name
}

// members is the schema of a node with members. The name of a cube is not in its model.
func (s *Schemas) members(service string, n *yang.Node, use Use) Object {
	out := Object{{"type", "object"}}
	if d := sentence(n.Description()); d != "" {
		out = out.With("description", d)
	}
	properties := Object{}
	required := []string{}
	if n.Parent() == nil {
		properties = properties.With("name", Object{{"type", "string"}, {"description", "Name of the cube."},
			{"pattern", CubeName}}.with30(s.version, "example", "examples", service+"1"))
		if use == Read {
			required = append(required, "name")
		}
	}
	for _, c := range n.Children() {
		if !member(c, use) {
			continue
		}
		properties = properties.With(c.Name(), s.property(service, c, use))
		if (use == Read && c.IsKey()) || (use == New && !c.IsKey() && requiredChild(c)) {
			required = append(required, c.Name())
		}
	}
	if use == Read && !n.InOutput() {
		properties = properties.With("_links", Object{{"type", "array"}, {"items", reference("link")},
			{"description", "Related resources. Only in the response to a request for this object itself."}})
	}
	out = out.With("properties", properties)
	if len(required) > 0 {
		out = out.With("required", required)
	}
	if use == New {
		if exclusive := exclusions(n); len(exclusive) > 0 {
			out = out.With("allOf", exclusive)
		}
	}
	return out.With("additionalProperties", false)
}

// CubeName is the pattern of names of cubes and ports.
const CubeName = "^[A-Za-z0-9][A-Za-z0-9._+-]{0,63}$"

// member reports whether a child is part of a schema of that use.
func member(c *yang.Node, use Use) bool {
	switch {
	case c.Kind() == yang.Action:
		return false
	case use == Read:
		return true
	case use == Change && c.Kind() == yang.Leaf && c.InitOnly() && !inEntry(c):
		return false
	}
	return c.Config()
}

// inEntry reports whether a node is part of a list's entry, which a change may create.
func inEntry(n *yang.Node) bool {
	for p := n.Parent(); p != nil; p = p.Parent() {
		if p.Kind() == yang.List {
			return true
		}
	}
	return false
}

// requiredChild reports whether a node is required by its parent.
func requiredChild(c *yang.Node) bool {
	if c.Conditional() || !c.Config() {
		return false
	}
	if c.Kind() == yang.Container && !c.Presence() {
		return slices.ContainsFunc(c.Children(), requiredChild)
	}
	return c.Mandatory()
}

// exclusions says which members are mutually exclusive, because they are in different cases of a choice.
func exclusions(n *yang.Node) []Object {
	var out []Object
	children := n.Children()
	for i, a := range children {
		for _, b := range children[i+1:] {
			if a.Excludes(b) && a.Config() && b.Config() {
				out = append(out, Object{{"not", Object{{"required", []string{a.Name(), b.Name()}}}}})
			}
		}
	}
	return out
}

// property is the schema of a member.
func (s *Schemas) property(service string, c *yang.Node, use Use) Object {
	if c.Parent().Parent() == nil && c.Name() == "service-name" {
		return Of("type", "string", "enum", []string{service}, "description", sentence(c.Description()))
	}
	return s.Node(service, c, use, false)
}

// array is the schema of a whole list or leaf-list.
func (s *Schemas) array(service string, n *yang.Node, use Use) Object {
	out := Object{{"type", "array"}}
	if d := sentence(n.Description()); d != "" {
		out = out.With("description", d)
	}
	items := s.Node(service, n, use, true)
	if n.Kind() == yang.List && use != Read && len(n.Keys()) > 0 {
		keys := make([]string, len(n.Keys()))
		for i, k := range n.Keys() {
			keys[i] = k.Name()
		}
		items = Object{{"allOf", []Object{items, {{"required", keys}}}}}
	}
	out = out.With("items", items)
	if use == New && n.MinElements() > 0 {
		out = out.With("minItems", n.MinElements())
	}
	if n.MaxElements() > 0 {
		out = out.With("maxItems", n.MaxElements())
	}
	if n.Kind() == yang.LeafList && n.Config() {
		out = out.With("uniqueItems", true)
	}
	if !n.Config() && use == Read && !n.InOutput() {
		out = out.With("readOnly", true)
	}
	return out
}

// leaf is the schema of a leaf, or of one value of a leaf-list.
func (s *Schemas) leaf(n *yang.Node, use Use) Object {
	t := n.Type()
	out := s.shared(t)
	if _, json := n.Extension("json-value"); json {
		out = nil // a value of any type
	}
	if ref, ok := out.Get("$ref").(string); ok && s.version == V30 {
		out = Object{{"allOf", []Object{{{"$ref", ref}}}}} // a reference has no siblings in 3.0
	}
	out = slices.Clone(out)
	if d := s.describe(n, use); d != "" {
		out = out.With("description", d)
	}
	if value, ok := n.Default(); ok && n.Kind() == yang.Leaf && Fits(t, value) {
		out = out.With("default", literal(t, value))
	}
	if value, ok := s.Example(n); ok {
		out = out.with30(s.version, "example", "examples", value)
	}
	if n.Units() != "" {
		out = out.With("x-yang-units", n.Units())
	}
	if t.LeafrefPath != "" {
		out = out.With("x-yang-leafref", t.LeafrefPath)
	}
	if n.InitOnly() {
		out = out.With("x-yang-init-only", true)
	}
	if !n.Config() && use == Read && !n.InOutput() {
		out = out.With("readOnly", true)
	}
	return out
}

// with30 adds an example under the name used by the version.
func (o Object) with30(v Version, one, several string, value any) Object {
	if v == V30 {
		return o.With(one, value)
	}
	return o.With(several, []any{value})
}

// describe is the description of a leaf for people.
func (s *Schemas) describe(n *yang.Node, use Use) string {
	t := n.Type()
	parts := []string{}
	add := func(format string, args ...any) { parts = append(parts, fmt.Sprintf(format, args...)) }
	if d := sentence(n.Description()); d != "" {
		add("%s", d)
	}
	if n.Units() != "" {
		add("In %s.", n.Units())
	}
	if t.LeafrefPath != "" {
		add("Refers to %s.", t.LeafrefPath)
	}
	if n.InitOnly() && n.Config() {
		add("Can only be set when the object is created.")
	}
	if use == Read {
		return strings.Join(parts, " ")
	}
	switch t.Base {
	case "enumeration":
		add("Case-insensitive.")
	case "int64", "uint64", "decimal64":
		add("Also accepted as a string, which keeps all digits.")
	}
	return strings.Join(parts, " ")
}

// sentence is the text of a description on one line.
func sentence(text string) string { return strings.Join(strings.Fields(text), " ") }

// Required returns the names of the members that are required to create a node, without keys, which are in the path.
func Required(n *yang.Node) []string {
	var out []string
	for _, c := range n.Children() {
		if !c.IsKey() && requiredChild(c) {
			out = append(out, c.Name())
		}
	}
	return out
}

// Key returns the schema of a key, or of a value of a leaf-list, as a path segment, which is never empty.
func (s *Schemas) Key(n *yang.Node) Object {
	t := n.Type()
	out := s.shared(t)
	if t.Base == "string" && t.Length == "" && len(t.Patterns) == 0 {
		out = slices.Clone(out).With("minLength", 1)
	}
	return out
}
