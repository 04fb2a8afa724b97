// SPDX-License-Identifier: Apache-2.0

// Parses a JSON body into values that keep the order of members and the text of numbers, with limits on size and depth.

package yang

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"unicode/utf8"

	"github.com/polycube/polycube/internal/fault"
	"github.com/polycube/polycube/internal/jsonscan"
)

// MaxBody is the size limit of a body, in bytes.
const MaxBody = fault.MaxBody

// valueKind is the kind of a JSON value.
type valueKind int

const (
	objectValue valueKind = iota
	arrayValue
	stringValue
	numberValue
	boolValue
	nullValue
)

// String is the kind as in a message.
func (k valueKind) String() string {
	return [...]string{"an object", "an array", "a string", "a number", "a boolean", "null"}[k]
}

// value is a JSON value; text is a scalar as written.
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

// maxEntries is at least how many entries of a list are read from one body: the time in libyang grows with the square
// of their number. For a few too many, validation reports the limit. Bulk lists have no such limit.
const maxEntries = 16384

// reader reads one JSON body.
type reader struct {
	ctx context.Context
	*jsonscan.Scanner
	// values counts the values read.
	values int
	// words marks a body that was typed in words.
	words bool
}

// parseBody parses a body until the context ends; a blank one is an empty object. n is the node of the body, nil if
// there is none; for a list, the body is the whole list unless entry says that it is one entry.
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
	r.Scanner = jsonscan.New(body)
	v, err := r.value(n, entry, 0)
	if errors.Is(err, jsonscan.ErrSyntax) || err == nil && !r.End() {
		err = jsonscan.Why(body)
	}
	if err != nil {
		return value{}, err
	}
	return v, nil
}

// value reads the next value.
func (r *reader) value(n *Node, entry bool, depth int) (value, error) {
	if r.values++; r.values%1024 == 0 && r.ctx.Err() != nil {
		return value{}, fmt.Errorf("read the body: %w", r.ctx.Err())
	}
	first := r.Peek()
	if (first == '{' || first == '[') && depth == maxDepth {
		return value{}, fmt.Errorf("the body is nested deeper than %d levels", maxDepth)
	}
	switch first {
	case '{':
		return r.object(n, depth+1)
	case '[':
		return r.array(n, entry, depth+1)
	}
	v, err := r.scalar(first)
	if err == nil && r.words && !entry && n.several() {
		return n.split(v)
	}
	return v, err
}

// scalar reads the scalar that starts with a byte.
func (r *reader) scalar(first byte) (v value, err error) {
	if first == '"' {
		v.kind = stringValue
		v.text, err = r.Text()
		return v, err
	}
	v.kind = numberValue
	if v.text, err = r.Literal(); first == 'n' {
		v.kind = nullValue
	} else if first == 't' || first == 'f' {
		v.kind = boolValue
	}
	return v, err
}

// fewMembers is up to how many members duplicates are found without a map.
const fewMembers = 16

func (r *reader) object(n *Node, depth int) (value, error) {
	out := value{kind: objectValue}
	var seen map[string]bool
	err := r.Object(func(name string) error {
		if len(out.members) == fewMembers {
			seen = make(map[string]bool, 2*fewMembers)
			for _, m := range out.members {
				seen[m.name] = true
			}
		}
		if seen[name] || seen == nil && slices.ContainsFunc(out.members, func(m member) bool { return m.name == name }) {
			return fmt.Errorf("the body has %q twice in the same object", fault.Shorten(name))
		}
		if seen != nil {
			seen[name] = true
		}
		v, err := r.value(n.Child(name), false, depth)
		out.members = append(out.members, member{name: name, value: v})
		return err
	})
	return out, err
}

func (r *reader) array(n *Node, entry bool, depth int) (value, error) {
	out := value{kind: arrayValue}
	most := MaxBody
	if !entry {
		most = n.most()
	}
	err := r.Array(func() error {
		if len(out.items) == most {
			return fmt.Errorf("%s: more than %d entries", n.name, most)
		}
		v, err := r.value(n, true, depth)
		out.items = append(out.items, v)
		return err
	})
	return out, err
}

// most is how many entries one body may have for a list.
func (n *Node) most() int {
	switch {
	case n == nil || n.bulk:
		return MaxBody
	case n.bound > 0:
		return n.bound
	}
	return max(n.max, maxEntries)
}
