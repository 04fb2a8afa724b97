// SPDX-License-Identifier: Apache-2.0

// The server's member order is the model's order, and people read it; Go maps
// lose it and float64 loses integers beyond 2^53. So answers and bodies are
// held in a small ordered tree that keeps number literals as they were written.

package cli

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
)

// maxDepth bounds the nesting of JSON and YAML: far above any model, far below
// what would exhaust the stack.
const maxDepth = 512

var errTooDeep = fmt.Errorf("nested deeper than %d levels", maxDepth)

type kind uint8

const (
	kindNull kind = iota
	kindBool
	kindNumber
	kindString
	kindArray
	kindObject
)

// value is one JSON value. text holds the content of a string, or the literal
// of a number, boolean or null.
type value struct {
	kind    kind
	text    string
	items   []value
	members []member
}

type member struct {
	key string
	val value
}

func stringValue(s string) value { return value{kind: kindString, text: s} }

func objectValue(members ...member) value { return value{kind: kindObject, members: members} }

func (v value) isLeaf() bool { return v.kind != kindArray && v.kind != kindObject }

// get returns the first member named key.
func (v value) get(key string) (value, bool) {
	for _, m := range v.members {
		if m.key == key {
			return m.val, true
		}
	}
	return value{}, false
}

// string returns the text of the member named key, or "" when it is missing or
// is not a leaf.
func (v value) string(key string) string {
	m, ok := v.get(key)
	if !ok || !m.isLeaf() || m.kind == kindNull {
		return ""
	}
	return m.text
}

// decodeJSON reads exactly one JSON value.
func decodeJSON(data []byte) (value, error) {
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.UseNumber()
	v, err := decodeValue(dec, 0)
	if err != nil {
		return value{}, err
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return value{}, errors.New("more than one JSON value")
	}
	return v, nil
}

func decodeValue(dec *json.Decoder, depth int) (value, error) {
	if depth > maxDepth {
		return value{}, errTooDeep
	}
	tok, err := dec.Token()
	if err != nil {
		return value{}, err
	}
	switch t := tok.(type) {
	case nil:
		return value{kind: kindNull, text: "null"}, nil
	case bool:
		return value{kind: kindBool, text: fmt.Sprint(t)}, nil
	case json.Number:
		return value{kind: kindNumber, text: t.String()}, nil
	case string:
		return stringValue(t), nil
	}
	if tok == json.Delim('[') {
		return decodeArray(dec, depth)
	}
	return decodeObject(dec, depth)
}

func decodeArray(dec *json.Decoder, depth int) (value, error) {
	v := value{kind: kindArray}
	for dec.More() {
		item, err := decodeValue(dec, depth+1)
		if err != nil {
			return value{}, err
		}
		v.items = append(v.items, item)
	}
	_, err := dec.Token()
	return v, err
}

func decodeObject(dec *json.Decoder, depth int) (value, error) {
	v := value{kind: kindObject}
	for dec.More() {
		key, err := dec.Token()
		if err != nil {
			return value{}, err
		}
		val, err := decodeValue(dec, depth+1)
		if err != nil {
			return value{}, err
		}
		v.members = append(v.members, member{key: key.(string), val: val})
	}
	_, err := dec.Token()
	return v, err
}

// appendJSON appends the compact JSON of v.
func (v value) appendJSON(dst []byte) []byte {
	switch v.kind {
	case kindString:
		return appendJSONString(dst, v.text)
	case kindArray:
		dst = append(dst, '[')
		for i, item := range v.items {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = item.appendJSON(dst)
		}
		return append(dst, ']')
	case kindObject:
		dst = append(dst, '{')
		for i, m := range v.members {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = appendJSONString(dst, m.key)
			dst = append(dst, ':')
			dst = m.val.appendJSON(dst)
		}
		return append(dst, '}')
	case kindNull:
		return append(dst, "null"...)
	default:
		return append(dst, v.text...)
	}
}

// appendJSONString quotes s without the HTML escapes of encoding/json, so that
// "a<b" arrives as it was typed.
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
