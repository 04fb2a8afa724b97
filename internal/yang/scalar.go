// SPDX-License-Identifier: Apache-2.0

// Converts a JSON scalar, or a word of a path, to the form that libyang accepts, and explains why one is refused.

package yang

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/polycube/polycube/internal/fault"
	"github.com/polycube/polycube/internal/number"
)

// scalar returns the text of v for a leaf of type t. The error is the end of a sentence that starts with the leaf's
// name.
func (n *Node) scalar(v value) (string, error) {
	if n.typ.Base == "empty" {
		return emptyText(v)
	}
	switch v.kind {
	case objectValue, arrayValue, nullValue:
		return "", fmt.Errorf("%s is given, but must be %s", v.kind, n.typ.allowed())
	case stringValue:
		if err := fault.TextUpTo(v.text, fault.Longest(n.typ.Length, n.inInput, n.inOutput)); err != nil {
			return "", fmt.Errorf("the value %w", err)
		}
		if err := n.checkHostBits(v.text); err != nil {
			return "", err
		}
	case numberValue, boolValue:
	}
	return n.typ.normal(v, n.takes)
}

// checkHostBits refuses a prefix with host bits set if the model does.
func (n *Node) checkHostBits(text string) error {
	if _, marked := n.extensions["no-host-bits"]; !marked {
		return nil
	}
	p, err := netip.ParsePrefix(text)
	if err != nil || p == p.Masked() {
		return nil //nolint:nilerr // libyang says what is wrong with it
	}
	return fmt.Errorf("%s is an address in a network: the network is %s", text, p.Masked())
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

// normal converts a scalar to canonical spelling; accepts reports whether the whole type accepts a text.
func (t *Type) normal(v value, accepts func(string) bool) (string, error) {
	switch t.Base {
	case "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64":
		return t.integer(v)
	case "decimal64":
		return t.decimal(v)
	case "boolean":
		if text := strings.ToLower(v.text); v.kind != numberValue && (text == "true" || text == "false") {
			return text, nil
		}
		return "", fmt.Errorf("%q is not true or false", fault.Shorten(v.text))
	case "union":
		return t.member(v, accepts), nil
	}
	if v.kind != stringValue {
		return "", fmt.Errorf("%s is %s, but must be a string", v.text, v.kind)
	}
	switch t.Base {
	case "enumeration":
		return t.enum(v.text)
	case "identityref":
		if id, ok := t.identities[fault.Bare(v.text)]; ok {
			return id, nil
		}
		return "", fault.Unknown(v.text, t.Enums, "%q is not %s", fault.Shorten(v.text), t.allowed())
	}
	if slices.ContainsFunc(t.Patterns, func(p string) bool { return hexPatterns[p] }) {
		return strings.ToLower(v.text), nil
	}
	return v.text, nil
}

// hexPatterns are the patterns of the types of RFC 6991 whose canonical form is lower case. libyang 2.1 keeps the
// case, and a MAC address in two spellings would be two keys.
var hexPatterns = map[string]bool{
	"[0-9a-fA-F]{2}(:[0-9a-fA-F]{2}){5}":                                          true, // mac-address
	"([0-9a-fA-F]{2}(:[0-9a-fA-F]{2})*)?":                                         true, // phys-address, hex-string
	"[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}": true, // uuid
}

// enum finds a name in any case; an exact match comes first.
func (t *Type) enum(text string) (string, error) {
	found := ""
	for _, e := range t.Enums {
		if e == text {
			return e, nil
		}
		if found == "" && strings.EqualFold(e, text) {
			found = e
		}
	}
	if found == "" {
		return "", fault.Unknown(text, t.Enums, "%q is not %s", fault.Shorten(text), t.allowed())
	}
	return found, nil
}

// member returns a text unchanged if the union accepts it, and otherwise tries the spelling of its enums and
// identities.
func (t *Type) member(v value, accepts func(string) bool) string {
	respells := func(m Type) bool { return m.Base == "enumeration" || m.Base == "identityref" || m.Base == "boolean" }
	if !slices.ContainsFunc(t.Union, respells) || accepts(v.text) {
		return v.text
	}
	for i := range t.Union {
		m := &t.Union[i]
		if !respells(*m) {
			continue
		}
		if text, err := m.normal(v, accepts); err == nil && accepts(text) {
			return text
		}
	}
	return v.text
}

// integer accepts only plain decimal digits: libyang would read 010 as eight.
func (t *Type) integer(v value) (string, error) {
	if v.kind == boolValue {
		return "", fmt.Errorf("%s is a boolean, but must be %s", v.text, t.allowed())
	}
	text, ok := number.Integer(v.text)
	switch {
	case !ok:
		return "", fmt.Errorf("%q is not a whole number in %s", fault.Shorten(v.text), t.Range)
	case text == "":
		return "", fmt.Errorf("%s is out of range %s", fault.Shorten(v.text), t.Range)
	}
	return text, nil
}

// decimal writes a number without exponent.
func (t *Type) decimal(v value) (string, error) {
	text, ok := number.Decimal(v.text, t.FractionDigits)
	if !ok || v.kind == boolValue {
		return "", fmt.Errorf("%q is not a decimal number with at most %d digits after the point", fault.Shorten(v.text), t.FractionDigits)
	}
	return text, nil
}

// reason says why libyang refused a text for a leaf, as the end of a sentence.
func (n *Node) reason(text string, err error) string {
	var native *nativeError
	t, quotedText := &n.typ, fmt.Sprintf("%q", fault.Shorten(text))
	if !errors.As(err, &native) {
		return fmt.Sprintf("%s is not %s: %v", quotedText, t.allowed(), err)
	}
	if custom := fault.CustomMessage(native.msg); custom != "" {
		return fmt.Sprintf("%s is refused: %s", quotedText, custom)
	}
	switch {
	case t.Range != "":
		return fmt.Sprintf("%s is out of range %s", fault.Shorten(text), t.Range)
	case t.Length != "" && strings.Contains(native.msg, "length"):
		return fmt.Sprintf("%s has %d characters, the allowed length is %s", quotedText, utf8.RuneCountInString(text), t.Length)
	case t.Name != t.Base || len(t.Enums) > 0:
		return fmt.Sprintf("%s is not %s%s", quotedText, t.allowed(), n.like())
	case len(t.Patterns) > 0:
		return fmt.Sprintf("%s does not match the pattern %s%s", quotedText, strings.Join(t.Patterns, " and "), n.like())
	}
	return fmt.Sprintf("%s is not %s%s", quotedText, t.allowed(), n.like())
}

// like gives the example in the model. The name of a type defined in the model says little: without an example, its
// patterns are given if they are readable.
func (n *Node) like() string {
	const readable = 60
	if n.Example() != "" {
		return fmt.Sprintf(" (for example %s)", n.Example())
	}
	patterns := strings.Join(n.typ.Patterns, " and ")
	if n.typ.Name == n.typ.Base || patterns == "" || len(patterns) > readable || strings.Contains(patterns, "!") {
		return ""
	}
	return ", which matches " + patterns
}
