// SPDX-License-Identifier: Apache-2.0

// Converts a JSON scalar, or a word of a path, to the form that libyang accepts, and explains why one is refused.

package yang

import (
	"errors"
	"fmt"

	"github.com/polycube/polycube/internal/fault"
	"github.com/polycube/polycube/internal/yang/leaftype"
)

// scalar returns the text of v for a leaf of type t. The error is the end of a sentence that starts with the leaf's
// name.
func (n *Node) scalar(v value) (string, error) {
	if n.typ.Base == "empty" {
		return emptyText(v)
	}
	word := leaftype.Scalar{Text: v.text}
	switch v.kind {
	case objectValue, arrayValue, nullValue:
		return "", fmt.Errorf("%s is given, but must be %s", v.kind, n.typ.Allowed())
	case stringValue:
		word.Kind = leaftype.String
		if err := fault.TextUpTo(v.text, fault.Longest(n.typ.Length, n.inInput, n.inOutput)); err != nil {
			return "", fmt.Errorf("the value %w", err)
		}
		if _, marked := n.extensions["no-host-bits"]; marked {
			if err := leaftype.CheckHostBits(v.text); err != nil {
				return "", err
			}
		}
	case numberValue:
		word.Kind = leaftype.Number
	case boolValue:
		word.Kind = leaftype.Bool
	}
	return n.typ.Spell(word, n.takes)
}

// takes reports whether the leaf accepts a text unchanged.
func (n *Node) takes(text string) bool {
	if n.taken.Has(text) {
		return true
	}
	if _, err := canonical(n, text); err != nil {
		return false
	}
	n.taken.Add(text)
	return true
}

// word returns the text of a word of a path for the key n.
func (n *Node) word(text string) (string, error) {
	return n.scalar(value{kind: stringValue, text: text})
}

// emptyText accepts the usual ways to say that a leaf of type empty exists.
func emptyText(v value) (string, error) {
	listed := v.kind == arrayValue && len(v.items) == 1 && v.items[0].kind == nullValue
	if listed || v.kind == nullValue || (v.kind != arrayValue && v.kind != objectValue &&
		(v.text == "true" || v.text == "")) {
		return "", nil
	}
	return "", errors.New("the leaf has no value: set it to true, or delete it")
}

// reason says why libyang refused a text for a leaf, as the end of a sentence.
func (n *Node) reason(text string, err error) string {
	var native *nativeError
	if !errors.As(err, &native) {
		return fmt.Sprintf("%q is not %s: %v", fault.Shorten(text), n.typ.Allowed(), err)
	}
	return n.typ.Refused(text, native.msg, n.typ.Like(n.Example()))
}
