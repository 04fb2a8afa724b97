// SPDX-License-Identifier: Apache-2.0

package cube

// Lists of a configuration in a cube's own type. Of a list of ten thousand entries only those that differ are decoded.

import (
	"bytes"
	"encoding/json"
	"reflect"
	"slices"
)

// span is where an element is in the text of its member.
type span struct{ from, to int }

// amendList is amend for a text in which only elements of one list differ, which is member m: by change, the bytes of the
// last text from same to rest have been replaced. It returns false if it is not possible.
func (d *decoded[C]) amendList(raw []byte, m, same, rest int) bool {
	at := &d.members[m]
	index := d.fields[at.name]
	if index == nil {
		return false
	}
	list := reflect.ValueOf(d.is).Elem().FieldByIndex(index)
	if !isPlainList(list.Type()) {
		return false
	}
	if at.elements == nil {
		at.elements = elementsOf(d.raw[at.from:at.to])
	}
	same, rest = same-at.from, rest-at.from
	first := slices.IndexFunc(at.elements, func(e span) bool { return e.to >= same })
	after := slices.IndexFunc(at.elements, func(e span) bool { return e.from > rest })
	if after < 0 {
		after = len(at.elements)
	}
	if first < 0 || first >= after || len(at.elements) != list.Len() {
		return false
	}
	from, to, longer := at.elements[first].from, at.elements[after-1].to, len(raw)-len(d.raw)
	if from > same || to < rest || to+longer < from {
		return false
	}
	text := slices.Concat([]byte("["), raw[at.from+from:at.from+to+longer], []byte("]"))
	fresh := reflect.New(list.Type())
	now := elementsOf(text)
	if now == nil || json.Unmarshal(text, fresh.Interface()) != nil || len(now) != fresh.Elem().Len() ||
		len(now) == 0 && after-first < list.Len() {
		return false
	}
	is := *d.is
	all := reflect.MakeSlice(list.Type(), 0, list.Len()-(after-first)+len(now))
	all = reflect.AppendSlice(all, list.Slice(0, first))
	all = reflect.AppendSlice(all, fresh.Elem())
	all = reflect.AppendSlice(all, list.Slice(after, list.Len()))
	reflect.ValueOf(&is).Elem().FieldByIndex(index).Set(all)
	elements := slices.Concat(at.elements[:first], shifted(now, from-1), shifted(at.elements[after:], longer))
	d.raw, d.is = raw, &is
	d.members = slices.Concat(d.members[:m], []member{{at.name, at.from, at.to + longer, elements}}, moved(d.members[m+1:], longer))
	return true
}

// isPlainList reports whether encoding/json decodes a type element by element.
func isPlainList(t reflect.Type) bool {
	return t.Kind() == reflect.Slice && t.Elem().Kind() != reflect.Uint8 && !reflect.PointerTo(t).Implements(reflect.TypeFor[json.Unmarshaler]())
}

// elementsOf returns where the elements of the first array in a text are, nil if there is none.
func elementsOf(text []byte) []span {
	start := bytes.IndexByte(text, '[')
	if start < 0 {
		return nil
	}
	dec := json.NewDecoder(bytes.NewReader(text[start:]))
	if t, err := dec.Token(); err != nil || t != json.Delim('[') {
		return nil
	}
	elements := []span{}
	for dec.More() {
		var value json.RawMessage
		if dec.Decode(&value) != nil {
			return nil
		}
		to := start + int(dec.InputOffset())
		elements = append(elements, span{to - len(value), to})
	}
	return elements
}

func shifted(elements []span, by int) []span {
	out := slices.Clone(elements)
	for i := range out {
		out[i].from += by
		out[i].to += by
	}
	return out
}
