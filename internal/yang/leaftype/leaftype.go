// SPDX-License-Identifier: Apache-2.0

// Package leaftype has the types of leaves, and how their values are spelled: what people and programs write is converted to
// the form that libyang accepts.
package leaftype

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/polycube/polycube/internal/fault"
	"github.com/polycube/polycube/internal/number"
)

// Type is the type of a leaf or leaf-list.
type Type struct {
	// Name is the type as the model writes it, e.g. "inet:ipv4-address".
	Name string
	// Base is the built-in base type, e.g. "string". That of a leafref is the base type of its target; LeafrefPath
	// tells that it is a leafref.
	Base string
	// Enums are the names of an enumeration, of bits, or of the identities that an identityref accepts, as in the
	// model.
	Enums []string
	// EnumTexts are the descriptions of the names of an enumeration or of bits, "" for one without. It is empty for
	// identities.
	EnumTexts []string
	// Range is the range of a number, e.g. "1..4094"; always set for integers.
	Range string
	// Length is the length of a string or binary.
	Length string
	// Patterns are regular expressions (XML Schema) that a string must match; one that starts with "!" must not match.
	Patterns []string
	// LeafrefPath is the path of a leafref.
	LeafrefPath string
	// FractionDigits is the number of digits after the point of a decimal64.
	FractionDigits int
	// Union are the member types of a union.
	Union []Type

	// Identities are the names in Enums with their modules, for an identityref.
	Identities map[string]string
}

// Kind is the kind of a JSON scalar.
type Kind int

// The kinds of scalar.
const (
	String Kind = iota
	Number
	Bool
)

// String is the kind as in a message.
func (k Kind) String() string { return [...]string{"a string", "a number", "a boolean"}[k] }

// Scalar is a JSON scalar as written.
type Scalar struct {
	Kind Kind
	Text string
}

// Allowed describes the valid values of a leaf in a few words.
func (t *Type) Allowed() string {
	switch {
	case len(t.Enums) == 1:
		return strconv.Quote(t.Enums[0])
	case len(t.Enums) > 0:
		return "one of " + strings.Join(t.Enums, ", ")
	case t.Range != "":
		return "a number in " + t.Range
	case t.Base == "boolean":
		return "true or false"
	case t.Name != t.Base && t.LeafrefPath == "":
		return "a valid " + fault.Bare(t.Name)
	case t.Base == "string" && t.Length != "":
		return "a string of " + t.Length + " characters"
	case len(t.Union) > 0:
		var members []string
		for i := range t.Union {
			if m := t.Union[i].Allowed(); !slices.Contains(members, m) {
				members = append(members, m)
			}
		}
		return strings.Join(members, " or ")
	}
	return "a " + t.Base
}

// RefersTo is the path of a leafref for people, without the steps up.
func (t *Type) RefersTo() string {
	path := t.LeafrefPath
	for strings.HasPrefix(path, "../") {
		path = path[len("../"):]
	}
	return path
}

// Spell converts a scalar to canonical spelling; accepts reports whether the whole type accepts a text.
func (t *Type) Spell(v Scalar, accepts func(string) bool) (string, error) {
	switch t.Base {
	case "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64":
		return t.integer(v)
	case "decimal64":
		return t.decimal(v)
	case "boolean":
		if text := strings.ToLower(v.Text); v.Kind != Number && (text == "true" || text == "false") {
			return text, nil
		}
		return "", fmt.Errorf("%q is not true or false", fault.Shorten(v.Text))
	case "union":
		return t.member(v, accepts), nil
	}
	if v.Kind != String {
		return "", fmt.Errorf("%s is %s, but must be a string", v.Text, v.Kind)
	}
	switch t.Base {
	case "enumeration":
		return t.enum(v.Text)
	case "identityref":
		if id, ok := t.Identities[fault.Bare(v.Text)]; ok {
			return id, nil
		}
		return "", fault.Unknown(v.Text, t.Enums, "%q is not %s", fault.Shorten(v.Text), t.Allowed())
	}
	if slices.ContainsFunc(t.Patterns, func(p string) bool { return hexPatterns[p] }) {
		return strings.ToLower(v.Text), nil
	}
	return v.Text, nil
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
		return "", fault.Unknown(text, t.Enums, "%q is not %s", fault.Shorten(text), t.Allowed())
	}
	return found, nil
}

// member returns a text unchanged if the union accepts it, and otherwise tries the spelling of its enums and
// identities.
func (t *Type) member(v Scalar, accepts func(string) bool) string {
	respells := func(m Type) bool { return m.Base == "enumeration" || m.Base == "identityref" || m.Base == "boolean" }
	if !slices.ContainsFunc(t.Union, respells) || accepts(v.Text) {
		return v.Text
	}
	for i := range t.Union {
		m := &t.Union[i]
		if !respells(*m) {
			continue
		}
		if text, err := m.Spell(v, accepts); err == nil && accepts(text) {
			return text
		}
	}
	return v.Text
}

// integer accepts only plain decimal digits: libyang would read 010 as eight.
func (t *Type) integer(v Scalar) (string, error) {
	if v.Kind == Bool {
		return "", fmt.Errorf("%s is a boolean, but must be %s", v.Text, t.Allowed())
	}
	text, ok := number.Integer(v.Text)
	switch {
	case !ok:
		return "", fmt.Errorf("%q is not a whole number in %s", fault.Shorten(v.Text), t.Range)
	case text == "":
		return "", fmt.Errorf("%s is out of range %s", fault.Shorten(v.Text), t.Range)
	}
	return text, nil
}

// decimal writes a number without exponent.
func (t *Type) decimal(v Scalar) (string, error) {
	text, ok := number.Decimal(v.Text, t.FractionDigits)
	if !ok || v.Kind == Bool {
		return "", fmt.Errorf("%q is not a decimal number with at most %d digits after the point", fault.Shorten(v.Text), t.FractionDigits)
	}
	return text, nil
}

// Refused says why libyang refused a text with a message, as the end of a sentence. like gives an example, or is empty.
func (t *Type) Refused(text, message, like string) string {
	quoted := fmt.Sprintf("%q", fault.Shorten(text))
	if custom := fault.CustomMessage(message); custom != "" {
		return fmt.Sprintf("%s is refused: %s", quoted, custom)
	}
	switch {
	case t.Range != "":
		return fmt.Sprintf("%s is out of range %s", fault.Shorten(text), t.Range)
	case t.Length != "" && strings.Contains(message, "length"):
		return fmt.Sprintf("%s has %d characters, the allowed length is %s", quoted, utf8.RuneCountInString(text), t.Length)
	case t.Name != t.Base || len(t.Enums) > 0:
		return fmt.Sprintf("%s is not %s%s", quoted, t.Allowed(), like)
	case len(t.Patterns) > 0:
		return fmt.Sprintf("%s does not match the pattern %s%s", quoted, strings.Join(t.Patterns, " and "), like)
	}
	return fmt.Sprintf("%s is not %s%s", quoted, t.Allowed(), like)
}
