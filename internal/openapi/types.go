// SPDX-License-Identifier: Apache-2.0

// Types of leaves.

package openapi

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/polycube/polycube/internal/yang"
)

// Version is a version of OpenAPI.
type Version string

// The supported versions. 3.0 is for tools that do not support 3.1 yet.
const (
	V30 Version = "3.0.3"
	V31 Version = "3.1.0"
)

// typeSchema is the schema of a type in its canonical form.
func (s *Schemas) typeSchema(t yang.Type) Object {
	switch t.Base {
	case "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64":
		return bounded(Object{{"type", "integer"}, {"format", t.Base}}, t.Range, "minimum", "maximum")
	case "decimal64":
		return bounded(Object{{"type", "number"}}, t.Range, "minimum", "maximum").With("x-yang-fraction-digits", t.FractionDigits)
	case "boolean":
		return Object{{"type", "boolean"}}
	case "empty":
		return Object{{"type", "boolean"}, {"enum", []bool{true}}}
	case "enumeration", "identityref":
		return Object{{"type", "string"}, {"enum", t.Enums}}
	case "bits":
		bit := "(?:" + strings.Join(t.Enums, "|") + ")"
		return Object{{"type", "string"}, {"pattern", "^(?:" + bit + "(?: " + bit + ")*)?$"}}
	case "binary":
		out := Object{{"type", "string"}}
		if s.version == V30 {
			out = out.With("format", "byte")
		} else {
			out = out.With("contentEncoding", "base64")
		}
		if t.Length != "" {
			out = out.With("x-yang-length", t.Length)
		}
		return out
	case "union":
		members := make([]Object, len(t.Union))
		for i, m := range t.Union {
			members[i] = s.typeSchema(m)
		}
		return Object{{"anyOf", members}}
	}
	return stringSchema(t)
}

// stringSchema is that of a string: lengths and patterns.
func stringSchema(t yang.Type) Object {
	out := bounded(Object{{"type", "string"}}, t.Length, "minLength", "maxLength")
	var all []Object
	for _, xsd := range t.Patterns {
		plain, inverted := strings.CutPrefix(xsd, "!")
		ecma, exact, ok := Pattern(plain)
		switch {
		case !ok, inverted && !exact: // an omitted limit only makes the schema accept more
		case inverted:
			all = append(all, Object{{"not", Object{{"pattern", ecma}}}})
		default:
			all = append(all, Object{{"pattern", ecma}})
		}
	}
	switch {
	case len(all) == 1:
		out = append(out, all[0]...)
	case len(all) > 1:
		out = out.With("allOf", all)
	}
	if len(t.Patterns) > 0 {
		out = out.With("x-yang-patterns", t.Patterns)
	}
	return out
}

// bounded adds the limits of a range or length of the model: "1..4 | 9".
func bounded(o Object, bounds, least, most string) Object {
	if bounds == "" {
		return o
	}
	var parts []Object
	for part := range strings.SplitSeq(bounds, "|") {
		from, to, isRange := strings.Cut(strings.TrimSpace(part), "..")
		if !isRange {
			to = from
		}
		parts = append(parts, Object{{least, json.Number(from)}, {most, json.Number(to)}})
	}
	if len(parts) == 1 {
		return append(o, parts[0]...)
	}
	return o.With("anyOf", parts)
}

// shared is the schema of a type that is used in many places: a reference to a component if the type has a name and is
// long, the schema itself otherwise.
func (s *Schemas) shared(t yang.Type) Object {
	schema := s.typeSchema(t)
	if t.Name == t.Base || t.LeafrefPath != "" || (len(t.Patterns) == 0 && len(t.Union) == 0) {
		return schema
	}
	name := "type." + strings.ReplaceAll(t.Name, ":", ".")
	raw, err := json.Marshal(schema)
	if err != nil {
		return schema
	}
	if known, ok := s.types[name]; ok && known != string(raw) {
		return schema // a restriction of the type, or another one of that name
	} else if !ok {
		s.types[name] = string(raw)
		s.add(name, schema)
	}
	return reference(name)
}

func reference(name string) Object { return Object{{"$ref", "#/components/schemas/" + name}} }

// literal is a JSON value, from its text in a model.
func literal(t yang.Type, text string) any {
	switch t.Base {
	case "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "decimal64":
		var n json.Number
		if json.Unmarshal([]byte(text), &n) == nil {
			return n
		}
	case "boolean":
		return text == "true"
	case "empty":
		return true
	case "identityref":
		return text[strings.LastIndexByte(text, ':')+1:]
	case "enumeration":
		if i := slices.IndexFunc(t.Enums, func(e string) bool { return strings.EqualFold(e, text) }); i >= 0 {
			return t.Enums[i]
		}
	case "union":
		for _, m := range t.Union {
			if v := literal(m, text); Fits(m, text) {
				return v
			}
		}
	}
	return text
}
