// SPDX-License-Identifier: Apache-2.0

// Reads a JSON body into values that keep the order of members and the text of
// numbers, within limits on size and depth.

package yang

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"unicode/utf8"
)

// MaxBody is the largest body that is read, in bytes.
const MaxBody = 16 << 20

// valueKind is what a JSON value is.
type valueKind int

const (
	objectValue valueKind = iota
	arrayValue
	stringValue
	numberValue
	boolValue
	nullValue
)

// String names the kind in a sentence.
func (k valueKind) String() string {
	return [...]string{"an object", "an array", "a string", "a number", "a boolean", "null"}[k]
}

// value is a JSON value; text holds a scalar as it was written.
type value struct {
	kind    valueKind
	text    string
	members []member
	items   []value
}

// member is a member of an object.
type member struct {
	name  string
	value value
}

// get returns the member with a name.
func (v *value) get(name string) (value, bool) {
	for _, m := range v.members {
		if m.name == name {
			return m.value, true
		}
	}
	return value{}, false
}

// parseBody reads a body; one of nothing but space is an empty object.
func parseBody(body []byte) (value, error) {
	if len(body) > MaxBody {
		return value{}, fmt.Errorf("the body is longer than %d bytes", MaxBody)
	}
	if len(bytes.TrimSpace(body)) == 0 {
		return value{kind: objectValue}, nil
	}
	if !utf8.Valid(body) {
		return value{}, errors.New("the body is not valid UTF-8")
	}
	d := json.NewDecoder(bytes.NewReader(body))
	d.UseNumber()
	v, err := parseValue(d, 0)
	if err != nil {
		return value{}, err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return value{}, fmt.Errorf("the body goes on after the JSON value, at byte %d", d.InputOffset())
	}
	return v, nil
}

// parseValue reads the next value.
func parseValue(d *json.Decoder, depth int) (value, error) {
	token, err := d.Token()
	if err != nil {
		if errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF
		}
		return value{}, fmt.Errorf("the body is not JSON: %w", err)
	}
	switch t := token.(type) {
	case json.Delim:
		if depth == maxDepth {
			return value{}, fmt.Errorf("the body nests deeper than %d levels", maxDepth)
		}
		if t == '{' {
			return parseObject(d, depth+1)
		}
		return parseArray(d, depth+1)
	case string:
		return value{kind: stringValue, text: t}, nil
	case json.Number:
		return value{kind: numberValue, text: t.String()}, nil
	case bool:
		return value{kind: boolValue, text: fmt.Sprint(t)}, nil
	}
	return value{kind: nullValue, text: "null"}, nil
}

func parseObject(d *json.Decoder, depth int) (value, error) {
	out := value{kind: objectValue}
	seen := make(map[string]bool)
	for d.More() {
		token, err := d.Token()
		if err != nil {
			return value{}, fmt.Errorf("the body is not JSON: %w", err)
		}
		name, ok := token.(string)
		if !ok {
			return value{}, fmt.Errorf("the body is not JSON: a member has no name, at byte %d", d.InputOffset())
		}
		if seen[name] {
			return value{}, fmt.Errorf("the body has %q twice in one object", shorten(name))
		}
		seen[name] = true
		v, err := parseValue(d, depth)
		if err != nil {
			return value{}, err
		}
		out.members = append(out.members, member{name: name, value: v})
	}
	return out, closing(d)
}

func parseArray(d *json.Decoder, depth int) (value, error) {
	out := value{kind: arrayValue}
	for d.More() {
		v, err := parseValue(d, depth)
		if err != nil {
			return value{}, err
		}
		out.items = append(out.items, v)
	}
	return out, closing(d)
}

// closing takes the delimiter that ends an object or array.
func closing(d *json.Decoder) error {
	if _, err := d.Token(); err != nil {
		if errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF
		}
		return fmt.Errorf("the body is not JSON: %w", err)
	}
	return nil
}
