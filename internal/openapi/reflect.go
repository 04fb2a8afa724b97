// SPDX-License-Identifier: Apache-2.0

// Schemas of responses that no model describes, from the encoded Go types.

package openapi

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"time"
)

// GoType returns the schema of a Go value's type as encoding/json encodes it. A member is required unless it is
// omitted when empty. It panics on a type without a schema, such as a channel, which a test of the caller finds.
func GoType(v any) Object { return goType(reflect.TypeOf(v)) }

func goType(t reflect.Type) Object {
	switch t {
	case reflect.TypeFor[time.Time]():
		return Object{{"type", "string"}, {"format", "date-time"}}
	case reflect.TypeFor[json.RawMessage]():
		return Object{}
	}
	switch t.Kind() {
	case reflect.Pointer:
		return goType(t.Elem())
	case reflect.Interface:
		return Object{}
	case reflect.String:
		return Object{{"type", "string"}}
	case reflect.Bool:
		return Object{{"type", "boolean"}}
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return Object{{"type", "integer"}}
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return Object{{"type", "integer"}, {"minimum", 0}}
	case reflect.Float32, reflect.Float64:
		return Object{{"type", "number"}}
	case reflect.Slice, reflect.Array:
		return Object{{"type", "array"}, {"items", goType(t.Elem())}}
	case reflect.Map:
		return Object{{"type", "object"}, {"additionalProperties", goType(t.Elem())}}
	case reflect.Struct:
		return goStruct(t)
	default:
		panic(fmt.Sprintf("openapi: %s has no schema", t))
	}
}

func goStruct(t reflect.Type) Object {
	properties, required := Object{}, []string{}
	for _, f := range reflect.VisibleFields(t) {
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		if !f.IsExported() || name == "-" || f.Anonymous {
			continue
		}
		if name == "" {
			name = f.Name
		}
		properties = properties.With(name, goType(f.Type))
		if !strings.Contains(options, "omit") {
			required = append(required, name)
		}
	}
	out := Object{{"type", "object"}, {"properties", properties}}
	if len(required) > 0 {
		out = out.With("required", required)
	}
	return out.With("additionalProperties", false)
}
