// SPDX-License-Identifier: Apache-2.0

// People read the document, so its members keep the order of the model.

package openapi

import (
	"bytes"
	"encoding/json"
	"fmt"
)

// Object is a JSON object whose members keep their order.
type Object []Member

// Member is one member of an object.
type Member struct {
	Name  string
	Value any
}

// With returns the object with one more member.
func (o Object) With(name string, value any) Object { return append(o, Member{name, value}) }

// Get returns the value of a member, nil if there is none.
func (o Object) Get(name string) any {
	for _, m := range o {
		if m.Name == name {
			return m.Value
		}
	}
	return nil
}

// MarshalJSON writes the members in order, without the escapes that only HTML needs.
func (o Object) MarshalJSON() ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	b.WriteByte('{')
	for i, m := range o {
		if i > 0 {
			b.WriteByte(',')
		}
		if err := enc.Encode(m.Name); err != nil {
			return nil, fmt.Errorf("encode the name %q: %w", m.Name, err)
		}
		b.WriteByte(':')
		if err := enc.Encode(m.Value); err != nil {
			return nil, fmt.Errorf("encode %q: %w", m.Name, err)
		}
	}
	b.WriteByte('}')
	return b.Bytes(), nil
}

// Of builds an object from names and values in turn. It panics if they are not pairs.
func Of(pairs ...any) Object {
	out := make(Object, 0, len(pairs)/2)
	for i := 0; i < len(pairs); i += 2 {
		out = append(out, Member{pairs[i].(string), pairs[i+1]})
	}
	return out
}
