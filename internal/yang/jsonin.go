// SPDX-License-Identifier: Apache-2.0

// Reads a JSON body into values that keep the order of members and the text of
// numbers, within limits on size and depth.

package yang

import (
	"bytes"
	"context"
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
	// typed says that the array was one word.
	typed bool
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

// maxEntries is how many entries of a list are read of one body, at least: the time that libyang takes grows with the
// square of their number. Of a few too many, validation says how many are allowed. Bulk lists have no such limit.
const maxEntries = 16384

// reader reads one JSON body.
type reader struct {
	ctx context.Context
	*json.Decoder
	// values counts those that were read.
	values int
	// words says that the body was typed in words.
	words bool
}

// parseBody reads a body, of which a context may stop the reading; one of nothing but space is an empty object. n is the
// node that it is for, nil if there is none; of a list, it is the whole list unless entry says that it is an entry.
func parseBody(ctx context.Context, body []byte, n *Node, entry bool) (value, error) {
	return parse(&reader{ctx: ctx}, body, n, entry)
}

func parse(r *reader, body []byte, n *Node, entry bool) (value, error) {
	if len(body) > MaxBody {
		return value{}, fmt.Errorf("the body is longer than %d bytes", MaxBody)
	}
	if len(bytes.TrimSpace(body)) == 0 {
		return value{kind: objectValue}, nil
	}
	if !utf8.Valid(body) {
		return value{}, errors.New("the body is not valid UTF-8")
	}
	r.Decoder = json.NewDecoder(bytes.NewReader(body))
	r.UseNumber()
	v, err := r.value(n, entry, 0)
	if err != nil {
		return value{}, err
	}
	if _, err := r.Token(); !errors.Is(err, io.EOF) {
		return value{}, fmt.Errorf("there is more text after the JSON value, at byte %d", r.InputOffset())
	}
	return v, nil
}

// value reads the next value.
func (r *reader) value(n *Node, entry bool, depth int) (value, error) {
	if r.values++; r.values%1024 == 0 && r.ctx.Err() != nil {
		return value{}, fmt.Errorf("reading the body: %w", r.ctx.Err())
	}
	token, err := r.Token()
	if err != nil {
		if errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF
		}
		return value{}, fmt.Errorf("the body is not JSON: %w", err)
	}
	delim, isDelim := token.(json.Delim)
	switch {
	case !isDelim && r.words && !entry && n.several():
		return n.split(scalarOf(token))
	case !isDelim:
		return scalarOf(token), nil
	case depth == maxDepth:
		return value{}, fmt.Errorf("the body nests deeper than %d levels", maxDepth)
	case delim == '{':
		return r.object(n, depth+1)
	}
	return r.array(n, entry, depth+1)
}

func scalarOf(token json.Token) value {
	switch t := token.(type) {
	case string:
		return value{kind: stringValue, text: t}
	case json.Number:
		return value{kind: numberValue, text: t.String()}
	case bool:
		return value{kind: boolValue, text: fmt.Sprint(t)}
	}
	return value{kind: nullValue, text: "null"}
}

func (r *reader) object(n *Node, depth int) (value, error) {
	out := value{kind: objectValue}
	seen := make(map[string]bool)
	for r.More() {
		token, err := r.Token()
		if err != nil {
			return value{}, fmt.Errorf("the body is not JSON: %w", err)
		}
		name, ok := token.(string)
		if !ok {
			return value{}, fmt.Errorf("the body is not JSON: a member has no name, at byte %d", r.InputOffset())
		}
		if seen[name] {
			return value{}, fmt.Errorf("the body has %q twice in one object", shorten(name))
		}
		seen[name] = true
		v, err := r.value(n.Child(name), false, depth)
		if err != nil {
			return value{}, err
		}
		out.members = append(out.members, member{name: name, value: v})
	}
	return out, r.closing()
}

func (r *reader) array(n *Node, entry bool, depth int) (value, error) {
	out := value{kind: arrayValue}
	most := MaxBody
	if !entry {
		most = n.most()
	}
	for r.More() {
		if len(out.items) == most {
			return value{}, fmt.Errorf("%s: more than %d entries", n.name, most)
		}
		v, err := r.value(n, true, depth)
		if err != nil {
			return value{}, err
		}
		out.items = append(out.items, v)
	}
	return out, r.closing()
}

// most is how many entries one body may give a list.
func (n *Node) most() int {
	switch {
	case n == nil || n.bulk:
		return MaxBody
	case n.bound > 0:
		return n.bound
	}
	return max(n.max, maxEntries)
}

// closing takes the delimiter that ends an object or array.
func (r *reader) closing() error {
	if _, err := r.Token(); err != nil {
		if errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF
		}
		return fmt.Errorf("the body is not JSON: %w", err)
	}
	return nil
}
