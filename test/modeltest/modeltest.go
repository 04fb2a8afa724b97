// SPDX-License-Identifier: Apache-2.0

// Package modeltest compares the Go configuration of a cube with its YANG model: a leaf that is in the model but not in
// the code, or the reverse, fails the test of the cube rather than being silently ignored.
package modeltest

import (
	"encoding"
	"encoding/json"
	"fmt"
	"io/fs"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/internal/yang"
)

// base names the members that the framework decodes itself: a configuration may have fields for them but needs none.
var base = []string{"type", "service-name", "loglevel", "shadow", "span", "ports/peer", "ports/tcubes"}

// Load compiles the text of a service's model for the length of a test.
func Load(t testing.TB, text string) *yang.Schema {
	t.Helper()
	s, err := yang.Load(text)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

// Service is the service with the model and the programs that a cube embeds.
func Service(t testing.TB, files fs.FS) cube.Service {
	t.Helper()
	s, err := cube.Service{Files: files}.Read()
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// Match fails the test unless every configuration node of the model has exactly one field in config, a struct or a
// pointer to one, and every field has a node. A field belongs to the node in its json tag; its type must be able to
// hold the node's values:
//
//	container     a struct, or a pointer to one
//	list          a slice of structs
//	leaf-list     a slice of what a leaf of the type takes
//	(u)intN       an integer of at least as many bits
//	boolean, empty  bool
//	decimal64     a float or json.Number
//	anything else a string, or a type with UnmarshalText; []byte for binary
//
// A pointer to any of these is fine, and so is a type with UnmarshalJSON. Base
// members are optional, and so is ports unless the service adds to it.
func Match(t testing.TB, schema *yang.Schema, config any) {
	t.Helper()
	for _, m := range mismatches(schema, config) {
		t.Error(m)
	}
}

// MatchEntry is Match for the entries of a large list, which are passed separately from the configuration; list is its
// path.
func MatchEntry(t testing.TB, schema *yang.Schema, list string, entry any) {
	t.Helper()
	node := schema.Root()
	for name := range strings.SplitSeq(list, "/") {
		if node = node.Child(name); node == nil {
			t.Fatalf("%s: no such list", list)
		}
	}
	if !node.Bulk() {
		t.Fatalf("%s: not a large list", list)
	}
	m := &matcher{}
	m.members(node, deref(reflect.TypeOf(entry)))
	for _, f := range m.faults {
		t.Error(f)
	}
}

// mismatches lists the problems, one sentence each.
func mismatches(schema *yang.Schema, config any) []string {
	typ := deref(reflect.TypeOf(config))
	if typ == nil || typ.Kind() != reflect.Struct {
		return []string{fmt.Sprintf("the configuration is %T, a struct is wanted", config)}
	}
	m := &matcher{}
	m.members(schema.Root(), typ)
	return m.faults
}

type matcher struct{ faults []string }

func (m *matcher) fault(format string, args ...any) {
	m.faults = append(m.faults, fmt.Sprintf(format, args...))
}

// deref returns the type that a pointer type points to.
func deref(t reflect.Type) reflect.Type {
	for t != nil && t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	return t
}

// members compares the members of a container, list entry or cube with the
// fields of a struct.
func (m *matcher) members(n *yang.Node, typ reflect.Type) {
	fields := make(map[string]reflect.StructField)
	m.fields(typ, fields)
	for _, c := range n.Children() {
		field, ok := fields[c.Name()]
		delete(fields, c.Name())
		switch {
		case c.Kind() == yang.Action:
			if ok {
				m.fault("%s: %s.%s is an action, not configuration: drop the field", c.Path(), typ, field.Name)
			}
		case !c.Config():
			if ok {
				m.fault("%s: %s.%s is state, not configuration: drop the field", c.Path(), typ, field.Name)
			}
		case !ok:
			if !optional(c) {
				m.fault("%s: %s has no field with the tag json:%q", c.Path(), typ, c.Name())
			}
		default:
			m.field(c, typ, field)
		}
	}
	var extra []string
	for name, field := range fields {
		extra = append(extra, fmt.Sprintf("%s.%s: the model has no %s: drop the field or add the node", typ, field.Name,
			strings.TrimPrefix(n.Path()+"/"+name, "/")))
	}
	slices.Sort(extra)
	m.faults = append(m.faults, extra...)
}

// optional reports whether a node needs no field: a base member, a large list,
// or the ports of a service that adds nothing to configure to them.
func optional(n *yang.Node) bool {
	if n.Bulk() || slices.Contains(base, n.Path()) {
		return true
	}
	return n.Path() == "ports" && !slices.ContainsFunc(n.Children(), func(c *yang.Node) bool {
		return c.Config() && c.Kind() != yang.Action && !c.IsKey() && !slices.Contains(base, c.Path())
	})
}

// fields collects the fields of a struct by their tags, as encoding/json does:
// an embedded struct without tag adds its own.
func (m *matcher) fields(typ reflect.Type, into map[string]reflect.StructField) {
	for i := range typ.NumField() {
		field := typ.Field(i)
		tag, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		embedded := deref(field.Type)
		switch {
		case field.Anonymous && tag == "" && embedded.Kind() == reflect.Struct:
			m.fields(embedded, into)
		case !field.IsExported() || tag == "-":
		case tag == "":
			m.fault("%s.%s has no json tag: name the node it belongs to", typ, field.Name)
		default:
			if other, ok := into[tag]; ok {
				m.fault("%s: the fields %s and %s have the same tag json:%q", typ, other.Name, field.Name, tag)
			}
			into[tag] = field
		}
	}
}

// field compares one node with its field.
func (m *matcher) field(n *yang.Node, owner reflect.Type, field reflect.StructField) {
	typ := deref(field.Type)
	where := fmt.Sprintf("%s: %s.%s", n.Path(), owner, field.Name)
	if decodes[json.Unmarshaler](typ) {
		return
	}
	switch n.Kind() {
	case yang.Container:
		if typ.Kind() != reflect.Struct {
			m.fault("%s is %s, a struct is wanted for a container", where, field.Type)
			return
		}
		m.members(n, typ)
	case yang.List:
		if typ.Kind() != reflect.Slice || deref(typ.Elem()).Kind() != reflect.Struct {
			m.fault("%s is %s, a slice of structs is wanted for a list", where, field.Type)
			return
		}
		m.members(n, deref(typ.Elem()))
	case yang.LeafList:
		if typ.Kind() != reflect.Slice {
			m.fault("%s is %s, a slice is wanted for a leaf-list", where, field.Type)
			return
		}
		m.leaf(n, where, deref(typ.Elem()))
	default:
		m.leaf(n, where, typ)
	}
}

// decodes reports whether a pointer to typ implements the interface I.
func decodes[I any](typ reflect.Type) bool {
	return reflect.PointerTo(typ).Implements(reflect.TypeFor[I]())
}

// leaf checks that a Go type can hold the values of a leaf.
func (m *matcher) leaf(n *yang.Node, where string, typ reflect.Type) {
	want := ""
	switch t := n.Type(); t.Base {
	case "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64":
		if typ == reflect.TypeFor[time.Duration]() {
			m.fault("%s is a time.Duration, which would read %s as nanoseconds: use a type with UnmarshalJSON", where, t.Base)
			return
		}
		if !holds(typ, t.Base) {
			want = "an integer that holds " + t.Base
		}
	case "boolean", "empty":
		if typ.Kind() != reflect.Bool {
			want = "a bool"
		}
	case "decimal64":
		if k := typ.Kind(); k != reflect.Float64 && k != reflect.Float32 && typ != reflect.TypeFor[json.Number]() {
			want = "a float"
		}
	case "union":
		if !textual(typ) && typ.Kind() != reflect.Interface {
			want = "a string, an interface, or a type with UnmarshalJSON or UnmarshalText"
		}
	case "binary":
		if !textual(typ) && (typ.Kind() != reflect.Slice || typ.Elem().Kind() != reflect.Uint8) {
			want = "a []byte or a string"
		}
	default:
		if !textual(typ) {
			want = "a string or a type with UnmarshalText"
		}
	}
	if want != "" && !decodes[json.Unmarshaler](typ) {
		m.fault("%s is %s, %s is wanted for %s", where, typ, want, n.Type().Name)
	}
}

// textual reports whether a JSON string can be decoded into a type.
func textual(typ reflect.Type) bool {
	return typ.Kind() == reflect.String || decodes[encoding.TextUnmarshaler](typ)
}

// holds reports whether a Go integer can hold the values of a YANG one.
func holds(typ reflect.Type, name string) bool {
	unsigned := strings.HasPrefix(name, "u")
	bits, err := strconv.Atoi(strings.TrimLeft(name, "uint"))
	if err != nil {
		return false
	}
	switch typ.Kind() {
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return typ.Bits() > bits || (typ.Bits() == bits && !unsigned)
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return unsigned && typ.Bits() >= bits
	default:
		return false
	}
}
