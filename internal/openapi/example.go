// SPDX-License-Identifier: Apache-2.0

// Examples: those in the models, if they are valid values, and otherwise the simplest value of the type.

package openapi

import (
	"math/big"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/polycube/polycube/internal/yang"
)

// Fits reports whether a text is a value of a type, as far as its schema can tell.
func Fits(t yang.Type, text string) bool {
	switch t.Base {
	case "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64":
		n, ok := new(big.Rat).SetString(text)
		return ok && n.IsInt() && !strings.ContainsAny(text, "/eE.+_xX") && within(n, t.Range)
	case "decimal64":
		n, ok := new(big.Rat).SetString(text)
		return ok && !strings.ContainsAny(text, "/eE+_xX") && within(n, t.Range)
	case "boolean":
		return text == "true" || text == "false"
	case "empty":
		return text == "" || text == "true"
	case "enumeration", "identityref":
		name := text[strings.LastIndexByte(text, ':')+1:]
		return slices.ContainsFunc(t.Enums, func(e string) bool { return strings.EqualFold(e, text) || e == name })
	case "bits":
		return !slices.ContainsFunc(strings.Fields(text), func(b string) bool { return !slices.Contains(t.Enums, b) })
	case "union":
		return slices.ContainsFunc(t.Union, func(m yang.Type) bool { return Fits(m, text) })
	case "binary":
		return true
	}
	return within(big.NewRat(int64(utf8.RuneCountInString(text)), 1), t.Length) && matches(t.Patterns, text)
}

// within reports whether a number is in a range of the model; "" is any number.
func within(n *big.Rat, bounds string) bool {
	if bounds == "" {
		return true
	}
	for part := range strings.SplitSeq(bounds, "|") {
		from, to, isRange := strings.Cut(strings.TrimSpace(part), "..")
		if !isRange {
			to = from
		}
		low, lowOK := new(big.Rat).SetString(from)
		high, highOK := new(big.Rat).SetString(to)
		if lowOK && highOK && n.Cmp(low) >= 0 && n.Cmp(high) <= 0 {
			return true
		}
	}
	return false
}

func matches(patterns []string, text string) bool {
	for _, xsd := range patterns {
		plain, inverted := strings.CutPrefix(xsd, "!")
		ecma, _, ok := Pattern(plain)
		if !ok {
			continue
		}
		re, err := regexp.Compile(ecma)
		if err != nil || re.MatchString(text) == inverted {
			return false
		}
	}
	return true
}

// Example is a value of a leaf; ok is false if none is known.
func (s *Schemas) Example(n *yang.Node) (value any, ok bool) {
	t := n.Type()
	def, _ := n.Default()
	candidates := []string{n.Example(), s.suggest(n), def}
	candidates = append(candidates, t.Enums...)
	low, _, _ := strings.Cut(t.Range, ".")
	candidates = append(candidates, strings.TrimSpace(low))
	switch {
	case t.Base == "boolean", t.Base == "empty":
		candidates = append(candidates, "true")
	case t.LeafrefPath != "" || t.Base == "string":
		candidates = append(candidates, n.Name())
	}
	for _, text := range candidates {
		if text != "" && Fits(t, text) {
			return literal(t, text), true
		}
	}
	return nil, false
}

// bodyExample is a body that creates a node: mandatory members, and those with an example in the model, as far as they
// refer to nothing else.
func (s *Schemas) bodyExample(n *yang.Node, keys bool) (out Object, ok bool) {
	out = Object{}
	for _, c := range n.Children() {
		needed := requiredChild(c)
		if !c.Config() || c.Kind() == yang.Action || (c.IsKey() && !keys) || (c.Conditional() && !needed) {
			continue
		}
		if !needed && (c.Presence() || c.Kind() == yang.List || c.Kind() == yang.LeafList || c.Kind() == yang.Leaf &&
			(c.Example() == "" || c.Type().LeafrefPath != "" || c.InitOnly())) {
			continue
		}
		value, found := s.memberExample(c)
		if found {
			out = out.With(c.Name(), value)
		} else if needed {
			return nil, false
		}
	}
	return out, true
}

func (s *Schemas) memberExample(c *yang.Node) (any, bool) {
	switch c.Kind() {
	case yang.Leaf:
		return s.Example(c)
	case yang.LeafList:
		value, ok := s.Example(c)
		return []any{value}, ok
	case yang.List:
		entry, ok := s.bodyExample(c, true)
		return []any{entry}, ok
	case yang.Container, yang.Action:
	}
	inner, ok := s.bodyExample(c, false)
	return inner, ok && len(inner) > 0
}

// BodyExample is a body that creates a cube, container, list entry or input; ok is false if none is known.
func (s *Schemas) BodyExample(n *yang.Node) (example Object, ok bool) {
	if n == nil {
		return nil, false
	}
	return s.bodyExample(n, false)
}
