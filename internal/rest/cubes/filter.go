// SPDX-License-Identifier: Apache-2.0

package cubes

import (
	"encoding/json"
	"math/big"
	"strings"

	"github.com/polycube/polycube/internal/rest/message"
)

// A filter selects entries of a list: port=p1, address=aa:*, age>60, port!=p2. With several filters, all must hold.

// condition compares a leaf of an entry with a value.
type condition struct {
	path     []string
	operator string
	value    string
	number   *big.Float // of value, nil when it is none
}

// filter is a set of conditions that must all hold.
type filter []condition

// operators, those with two characters first.
var operators = []string{"!=", "<=", ">=", "=", "<", ">"}

// parseCondition reads a condition. fields finds the leaf.
func parseCondition(text string, fields func(string) (path, near []string)) (condition, error) {
	at, op := len(text), ""
	for _, o := range operators {
		if i := strings.Index(text, o); i >= 0 && i < at {
			at, op = i, o
		}
	}
	if at == 0 || op == "" {
		return condition{}, message.BadPath("filter=%s: write a leaf, one of = != < <= > >=, and a value, such as port=p1", message.Clip(text))
	}
	c := condition{operator: op, value: text[at+len(op):]}
	name := strings.TrimSpace(text[:at])
	var near []string
	if c.path, near = fields(name); c.path == nil {
		p := message.BadPath("filter=%s: the entries have no leaf %s", message.Clip(text), message.Clip(name))
		p.Near = near
		return c, p
	}
	c.number = numberOf(c.value)
	if c.number == nil && op != "=" && op != "!=" {
		return c, message.BadPath("filter=%s: %s compares only numbers", message.Clip(text), op)
	}
	return c, nil
}

// numberOf parses a number exactly, whatever its size; nil when the text is not a number.
func numberOf(text string) *big.Float {
	if len(text) > 64 {
		return nil
	}
	n, _, err := big.ParseFloat(text, 10, 128, big.ToNearestEven)
	if err != nil || n.IsInf() {
		return nil
	}
	return n
}

// matches reports whether an entry is selected.
func (f filter) matches(entry json.RawMessage) bool {
	if len(f) == 0 {
		return true
	}
	var value any
	dec := json.NewDecoder(strings.NewReader(string(entry)))
	dec.UseNumber()
	if err := dec.Decode(&value); err != nil {
		return false
	}
	for _, c := range f {
		if !c.holds(at(value, c.path)) {
			return false
		}
	}
	return true
}

// at returns the value at the path names, nil when there is none.
func at(value any, path []string) any {
	for _, name := range path {
		object, ok := value.(map[string]any)
		if !ok {
			return nil
		}
		value = object[name]
	}
	return value
}

// holds compares. A leaf that is not set equals nothing; a leaf-list matches if one of its values does.
func (c condition) holds(value any) bool {
	if values, ok := value.([]any); ok {
		if c.operator == "!=" {
			for _, v := range values {
				if !c.holds(v) {
					return false
				}
			}
			return true
		}
		for _, v := range values {
			if c.holds(v) {
				return true
			}
		}
		return false
	}
	text, set := textOf(value)
	switch c.operator {
	case "=":
		return set && matchPattern(text, c.value)
	case "!=":
		return !set || !matchPattern(text, c.value)
	}
	n := numberOf(text)
	if !set || n == nil {
		return false
	}
	switch order := n.Cmp(c.number); c.operator {
	case "<":
		return order < 0
	case "<=":
		return order <= 0
	case ">":
		return order > 0
	}
	return n.Cmp(c.number) >= 0
}

func textOf(value any) (string, bool) {
	switch v := value.(type) {
	case string:
		return v, true
	case json.Number:
		return v.String(), true
	case bool:
		if v {
			return "true", true
		}
		return "false", true
	}
	return "", false
}

// matchPattern compares a value with a pattern in which * stands for any text. Case does not matter, as in enums and
// hexadecimal addresses.
func matchPattern(text, pattern string) bool {
	text, pattern = strings.ToLower(text), strings.ToLower(pattern)
	first, rest, found := strings.Cut(pattern, "*")
	if !found {
		return text == pattern
	}
	if !strings.HasPrefix(text, first) {
		return false
	}
	text = text[len(first):]
	for {
		part, more, found := strings.Cut(rest, "*")
		if !found {
			return strings.HasSuffix(text, part)
		}
		i := strings.Index(text, part)
		if i < 0 {
			return false
		}
		text, rest = text[i+len(part):], more
	}
}
