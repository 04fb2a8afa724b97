// SPDX-License-Identifier: Apache-2.0

package cube

// Configurations in a cube's own type. Of a cube with hundreds of ports, a change usually concerns one member, so only
// members that differ from those of the last configuration are decoded, and of a list only elements that differ.

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
)

// ChangeOf is a Change in a cube's own type. Old and New may share parts, and must not be changed.
type ChangeOf[C any] struct {
	Old, New *C
	Entries  []EntryChange
}

// Created is Change.Created.
func (c ChangeOf[C]) Created() bool { return c.Old == nil && c.New != nil }

// Typed creates Instance.Prepare from a function that takes decoded configurations. C is the struct that the cube's
// configuration decodes into; its JSON names are the model's. The result is for one instance.
func Typed[C any](prepare func(ctx context.Context, c ChangeOf[C]) (Plan, error)) func(context.Context, Change) (Plan, error) {
	last := newDecoded[C]()
	return func(ctx context.Context, c Change) (Plan, error) {
		is := ChangeOf[C]{Entries: c.Entries}
		for _, side := range []struct {
			what string
			raw  json.RawMessage
			into **C
		}{{"present", c.Old, &is.Old}, {"new", c.New, &is.New}} {
			if side.raw == nil {
				continue
			}
			err := last.decode(side.raw)
			if err != nil {
				return Plan{}, fmt.Errorf("decode the %s configuration: %w", side.what, err)
			}
			*side.into = last.is
		}
		return prepare(ctx, is)
	}
}

// decoded is the configuration that was decoded last, from which the next one takes what is the same.
type decoded[C any] struct {
	raw []byte
	is  *C
	// members are those of raw, in their order.
	members []member
	// fields are those of C by JSON name; nil if C decodes itself, or in a way of its own.
	fields map[string][]int
}

func newDecoded[C any]() *decoded[C] {
	return &decoded[C]{fields: fieldsOf(reflect.TypeFor[C]())}
}

// fieldsOf returns the indexes of a struct's fields by their JSON names. It returns nil if encoding/json may find fields in
// another way: C has a method to decode itself, a field without a name, or two fields of one name.
func fieldsOf(t reflect.Type) map[string][]int {
	if t.Kind() != reflect.Struct || reflect.PointerTo(t).Implements(reflect.TypeFor[json.Unmarshaler]()) {
		return nil
	}
	fields := map[string][]int{}
	for _, f := range reflect.VisibleFields(t) {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch {
		case f.Anonymous && f.Type.Kind() == reflect.Struct && name == "":
			continue // its fields follow
		case !f.Anonymous && (!f.IsExported() || name == "-"):
			continue
		case f.Anonymous || name == "" || fields[name] != nil:
			return nil
		}
		fields[name] = f.Index
	}
	return fields
}

// decode makes raw the configuration that was decoded last. On an error it stays another.
func (d *decoded[C]) decode(raw []byte) error {
	if d.is != nil && bytes.Equal(raw, d.raw) {
		return nil
	}
	if d.is != nil && d.members != nil && d.amend(raw) {
		return nil
	}
	is := new(C)
	if err := json.Unmarshal(raw, is); err != nil {
		return err
	}
	d.raw, d.is, d.members = raw, is, nil
	if d.fields != nil {
		d.members = membersOf(raw)
	}
	return nil
}

// amend is decode for a text that differs from the last one in a few members; false if it is not possible.
func (d *decoded[C]) amend(raw []byte) bool {
	same := commonPrefix(d.raw, raw)
	rest := len(d.raw) - commonSuffix(d.raw[same:], raw[same:])
	first := slices.IndexFunc(d.members, func(m member) bool { return m.to >= same })
	after := slices.IndexFunc(d.members, func(m member) bool { return m.from > rest })
	if after < 0 {
		after = len(d.members)
	}
	if first < 0 || first >= after {
		return false
	}
	was := d.members[first:after]
	if len(was) == 1 && d.amendList(raw, first, same, rest) {
		return true
	}
	from, to := was[0].from, was[len(was)-1].to
	longer := len(raw) - len(d.raw)
	if from > same || to < rest || to+longer < from {
		return false // there is more between members than a comma
	}
	object := slices.Concat([]byte("{"), raw[from:to+longer], []byte("}"))
	fresh, now := new(C), membersOf(object)
	if now == nil || json.Unmarshal(object, fresh) != nil {
		return false
	}
	is := *d.is
	for _, m := range slices.Concat(was, now) {
		if index := d.fields[m.name]; index != nil {
			reflect.ValueOf(&is).Elem().FieldByIndex(index).Set(reflect.ValueOf(fresh).Elem().FieldByIndex(index))
		}
	}
	d.raw, d.is = raw, &is
	d.members = slices.Concat(d.members[:first], moved(now, from-1), moved(d.members[after:], longer))
	return true
}

// member is the position of a member in an object, with its name, without commas.
type member struct {
	name     string
	from, to int
	// elements are those of a list that has been amended, nil of one that has not.
	elements []span
}

// membersOf returns the members of an object, nil for any other text.
func membersOf(text []byte) []member {
	dec := json.NewDecoder(bytes.NewReader(text))
	if t, err := dec.Token(); err != nil || t != json.Delim('{') {
		return nil
	}
	members := []member{}
	for dec.More() {
		from := int(dec.InputOffset())
		from += len(text[from:]) - len(bytes.TrimLeft(text[from:], ", \t\r\n"))
		name, err := dec.Token()
		var value json.RawMessage
		if err != nil || dec.Decode(&value) != nil {
			return nil
		}
		members = append(members, member{name: name.(string), from: from, to: int(dec.InputOffset())})
	}
	return members
}

func moved(members []member, by int) []member {
	out := slices.Clone(members)
	for i := range out {
		out[i].from += by
		out[i].to += by
	}
	return out
}

// commonPrefix returns how many bytes at the start of two texts are the same.
func commonPrefix(a, b []byte) int {
	n, step := min(len(a), len(b)), 256
	i := 0
	for i+step <= n && bytes.Equal(a[i:i+step], b[i:i+step]) {
		i += step
	}
	for i < n && a[i] == b[i] {
		i++
	}
	return i
}

// commonSuffix returns how many bytes at the end of two texts are the same.
func commonSuffix(a, b []byte) int {
	n, step := min(len(a), len(b)), 256
	i := 0
	for i+step <= n && bytes.Equal(a[len(a)-i-step:len(a)-i], b[len(b)-i-step:len(b)-i]) {
		i += step
	}
	for i < n && a[len(a)-1-i] == b[len(b)-1-i] {
		i++
	}
	return i
}
