// SPDX-License-Identifier: Apache-2.0

package rest

import "bytes"

// ordered is a JSON object whose members keep their order, which a Go map would not.
type ordered []member

type member struct {
	name  string
	value any
}

// with appends a member.
func (o ordered) with(name string, value any) ordered { return append(o, member{name, value}) }

// MarshalJSON writes the members in order.
func (o ordered) MarshalJSON() ([]byte, error) {
	var b bytes.Buffer
	b.WriteByte('{')
	for i, m := range o {
		if i > 0 {
			b.WriteByte(',')
		}
		name, err := encode(m.name)
		if err != nil {
			return nil, err
		}
		value, err := encode(m.value)
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
