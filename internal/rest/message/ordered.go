// SPDX-License-Identifier: Apache-2.0

package message

import "bytes"

// Ordered is a JSON object whose members keep their order, unlike a Go map.
type Ordered []member

type member struct {
	name  string
	Value any
}

// With appends a member.
func (o Ordered) With(name string, value any) Ordered { return append(o, member{name, value}) }

// MarshalJSON writes the members in order.
func (o Ordered) MarshalJSON() ([]byte, error) {
	var b bytes.Buffer
	b.WriteByte('{')
	for i, m := range o {
		if i > 0 {
			b.WriteByte(',')
		}
		name, err := Encode(m.name)
		if err != nil {
			return nil, err
		}
		value, err := Encode(m.Value)
		if err != nil {
			return nil, err
		}
		b.Write(name)
		b.WriteByte(':')
		b.Write(value)
	}
	b.WriteByte('}')
	return b.Bytes(), nil
}
