// SPDX-License-Identifier: Apache-2.0

// The order of the server's members is the model's order, for people; Go maps lose it, and float64 loses integers
// beyond 2^53. So responses and bodies are held in a small ordered tree with the original number literals.

package output

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
)

// MaxDepth limits the nesting of JSON and YAML: far above any model, far below what would exhaust the stack.
const MaxDepth = 512

var errTooDeep = fmt.Errorf("nested deeper than %d levels", MaxDepth)

type kind uint8

// Kinds of values.
const (
	KindNull kind = iota
	KindBool
	KindNumber
	KindString
	KindArray
	KindObject
)

// Value is one JSON value. Text holds the content of a string, or the literal
// of a number, boolean or null.
type Value struct {
	Kind    kind
	Text    string
	Items   []Value
	Members []Member
}

// Member is one member of an object.
type Member struct {
	Key string
	Val Value
}

// StringValue is a string.
func StringValue(s string) Value { return Value{Kind: KindString, Text: s} }

// ObjectValue is an object.
func ObjectValue(members ...Member) Value { return Value{Kind: KindObject, Members: members} }

// IsLeaf reports whether a value holds no others.
func (v Value) IsLeaf() bool { return v.Kind != KindArray && v.Kind != KindObject }

// Get returns the first member named key.
func (v Value) Get(key string) (Value, bool) {
	for _, m := range v.Members {
		if m.Key == key {
			return m.Val, true
		}
	}
	return Value{}, false
}

// TextOf returns the text of the member named key, or "" when it is missing or
// is not a leaf.
func (v Value) TextOf(key string) string {
	m, ok := v.Get(key)
	if !ok || !m.IsLeaf() || m.Kind == KindNull {
		return ""
	}
	return m.Text
}

// DecodeJSON reads exactly one JSON value.
func DecodeJSON(data []byte) (Value, error) {
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.UseNumber()
	v, err := decodeValue(dec, 0)
	if err != nil {
		return Value{}, err
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return Value{}, errors.New("more than one JSON value")
	}
	return v, nil
}

func decodeValue(dec *json.Decoder, depth int) (Value, error) {
	if depth > MaxDepth {
		return Value{}, errTooDeep
	}
	tok, err := dec.Token()
	if err != nil {
		return Value{}, err
	}
	switch t := tok.(type) {
	case nil:
		return Value{Kind: KindNull, Text: "null"}, nil
	case bool:
		return Value{Kind: KindBool, Text: fmt.Sprint(t)}, nil
	case json.Number:
		return Value{Kind: KindNumber, Text: t.String()}, nil
	case string:
		return StringValue(t), nil
	}
	if tok == json.Delim('[') {
		return decodeArray(dec, depth)
	}
	return decodeObject(dec, depth)
}

func decodeArray(dec *json.Decoder, depth int) (Value, error) {
	v := Value{Kind: KindArray}
	for dec.More() {
		item, err := decodeValue(dec, depth+1)
		if err != nil {
			return Value{}, err
		}
		v.Items = append(v.Items, item)
	}
	_, err := dec.Token()
	return v, err
}

func decodeObject(dec *json.Decoder, depth int) (Value, error) {
	v := Value{Kind: KindObject}
	for dec.More() {
		key, err := dec.Token()
		if err != nil {
			return Value{}, err
		}
		val, err := decodeValue(dec, depth+1)
		if err != nil {
			return Value{}, err
		}
		v.Members = append(v.Members, Member{Key: key.(string), Val: val})
	}
	_, err := dec.Token()
	return v, err
}

// AppendJSON appends the compact JSON of v.
func (v Value) AppendJSON(dst []byte) []byte {
	switch v.Kind {
	case KindString:
		return appendJSONString(dst, v.Text)
	case KindArray:
		dst = append(dst, '[')
		for i, item := range v.Items {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = item.AppendJSON(dst)
		}
		return append(dst, ']')
	case KindObject:
		dst = append(dst, '{')
		for i, m := range v.Members {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = appendJSONString(dst, m.Key)
			dst = append(dst, ':')
			dst = m.Val.AppendJSON(dst)
		}
		return append(dst, '}')
	case KindNull:
		return append(dst, "null"...)
	default:
		return append(dst, v.Text...)
	}
}

// appendJSONString quotes s without the HTML escapes of encoding/json, so that "a<b" arrives as typed.
func appendJSONString(dst []byte, s string) []byte {
	special := func(r rune) bool { return r < ' ' || r > '~' || r == '"' || r == '\\' }
	if !strings.ContainsFunc(s, special) {
		return append(append(append(dst, '"'), s...), '"')
	}
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	// A string always encodes and a Buffer always accepts.
	_ = enc.Encode(s)
	return append(dst, bytes.TrimSuffix(b.Bytes(), []byte("\n"))...)
}
