// SPDX-License-Identifier: Apache-2.0

package jsonscan

import (
	"bytes"
	"slices"
)

// Member is a member of an object: its decoded name, and the text of its value.
type Member struct {
	Name  string
	Value []byte
	// from and to are its position in the object, including its name.
	from, to int
}

// Object is an object whose values are not decoded.
type Object struct {
	text    []byte
	Members []Member
}

// ReadObject reads the members of an object; false for any other text.
func ReadObject(text []byte) (Object, bool) {
	s, o := New(text), Object{text: text}
	if s.Peek() != '{' {
		return o, false
	}
	err := s.Object(func(name string) error {
		from := s.named
		value, err := s.Skip()
		o.Members = append(o.Members, Member{name, value, from, s.at})
		return err
	})
	return o, err == nil && s.End()
}

// Get is the text of a member's value; of several with that name, the last one's.
func (o Object) Get(name string) (value []byte, ok bool) {
	for _, m := range o.Members {
		if m.Name == name {
			value, ok = m.Value, true
		}
	}
	return value, ok
}

// Names are the names of the members, sorted and unique.
func (o Object) Names() []string {
	names := make([]string, len(o.Members))
	for i, m := range o.Members {
		names[i] = m.Name
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// Without is the text of the object without the members with these names. The rest is unchanged.
func (o Object) Without(names ...string) []byte {
	if !slices.ContainsFunc(o.Members, func(m Member) bool { return slices.Contains(names, m.Name) }) {
		return o.text
	}
	out := append(make([]byte, 0, len(o.text)), '{')
	for _, m := range o.Members {
		if slices.Contains(names, m.Name) {
			continue
		}
		if len(out) > 1 {
			out = append(out, ',')
		}
		out = append(out, o.text[m.from:m.to]...)
	}
	return append(out, '}')
}

// With is the text of the object with one more member at its end.
func (o Object) With(name string, value []byte) []byte {
	text := bytes.TrimSpace(o.text)
	out := append(make([]byte, 0, len(text)+len(name)+len(value)+4), text[:len(text)-1]...)
	if len(o.Members) > 0 {
		out = append(out, ',')
	}
	out = append(append(append(out, '"'), name...), '"', ':')
	return append(append(out, value...), '}')
}

// ReadArray parses an array into the texts of its elements; false for any other text.
func ReadArray(text []byte) (elements [][]byte, ok bool) {
	s := New(text)
	if s.Peek() != '[' {
		return nil, false
	}
	err := s.Array(func() error {
		element, err := s.Skip()
		elements = append(elements, element)
		return err
	})
	if err != nil || !s.End() {
		return nil, false
	}
	return elements, true
}
