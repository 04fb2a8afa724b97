// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"fmt"
	"strconv"
	"strings"
)

// The subset of JSONPath that path-metric statements use:
//
//	$                     the cube
//	.name  ['name']       a member; names may hold '-' and '_'
//	..name                members of that name at any depth
//	[*]  .*               every element or member
//	[3]  [-1]             one element
//	[?(@.a.b == 'x')]     the elements for which the comparison holds: == != < <= > >=,
//	                      a literal in either quotes, a number, true or false;
//	                      without a comparison, those that have the member
//	.length()             the number of elements or members, or bytes of a string
//
// A path is compiled once, when the model is loaded, so that mistakes are found then.

// jsonPath is a compiled path.
type jsonPath []pathStep

// pathStep maps the nodes selected so far to the next.
type pathStep func(in []any) []any

// compilePath parses a path.
func compilePath(text string) (jsonPath, error) {
	p := &pathParser{rest: strings.TrimSpace(text)}
	if !p.take("$") {
		return nil, fmt.Errorf("JSONPath %q: does not begin with $", text)
	}
	var out jsonPath
	for p.rest != "" {
		step, err := p.step()
		if err != nil {
			return nil, fmt.Errorf("JSONPath %q: before %q: %w", text, p.rest, err)
		}
		out = append(out, step)
	}
	return out, nil
}

// eval selects nodes of a decoded JSON value.
func (p jsonPath) eval(root any) []any {
	in := []any{root}
	for _, step := range p {
		in = step(in)
	}
	return in
}

type pathParser struct{ rest string }

func (p *pathParser) take(prefix string) bool {
	rest, ok := strings.CutPrefix(p.rest, prefix)
	if ok {
		p.rest = rest
	}
	return ok
}

// name parses an identifier.
func (p *pathParser) name() (string, error) {
	n := strings.IndexFunc(p.rest, func(r rune) bool {
		return r != '-' && r != '_' && (r < '0' || r > '9') && (r < 'a' || r > 'z') && (r < 'A' || r > 'Z')
	})
	if n < 0 {
		n = len(p.rest)
	}
	if n == 0 {
		return "", fmt.Errorf("a member's name is missing")
	}
	name := p.rest[:n]
	p.rest = p.rest[n:]
	return name, nil
}

func (p *pathParser) step() (pathStep, error) {
	switch {
	case p.take(".length()"):
		return each(lengthOf), nil
	case p.take(".*"), p.take("[*]"):
		return each(elements), nil
	case p.take("..*"):
		return each(descend), nil
	case p.take(".."):
		name, err := p.name()
		return func(in []any) []any { return each(memberOf(name))(each(descend)(in)) }, err
	case p.take("."):
		name, err := p.name()
		return each(memberOf(name)), err
	case p.take("[?("):
		return p.filter()
	case p.take("["):
		return p.subscript()
	}
	return nil, fmt.Errorf("not a valid step")
}

// subscript parses ['name'], ["name"] and [n] after the bracket.
func (p *pathParser) subscript() (pathStep, error) {
	inside, rest, ok := strings.Cut(p.rest, "]")
	if !ok {
		return nil, fmt.Errorf("a bracket is not closed")
	}
	p.rest = rest
	if name, ok := unquote(inside); ok {
		return each(memberOf(name)), nil
	}
	n, err := strconv.Atoi(strings.TrimSpace(inside))
	if err != nil {
		return nil, fmt.Errorf("subscript %q is neither a number nor a quoted name", inside)
	}
	return each(func(v any) []any {
		a, _ := v.([]any)
		i := n
		if i < 0 {
			i += len(a)
		}
		if i < 0 || i >= len(a) {
			return nil
		}
		return a[i : i+1]
	}), nil
}

// filter parses the condition of [?(@… op literal)] after the bracket.
func (p *pathParser) filter() (pathStep, error) {
	if !p.take("@") {
		return nil, fmt.Errorf("a filter must begin with @")
	}
	var left jsonPath
	for strings.HasPrefix(p.rest, ".") || strings.HasPrefix(p.rest, "[") {
		step, err := p.step()
		if err != nil {
			return nil, err
		}
		left = append(left, step)
	}
	p.rest = strings.TrimLeft(p.rest, " ")
	op := ""
	for _, o := range []string{"==", "!=", "<=", ">=", "<", ">"} {
		if p.take(o) {
			op = o
			break
		}
	}
	literal, rest, ok := cutLiteral(p.rest)
	if !ok {
		return nil, fmt.Errorf("a filter is not closed")
	}
	p.rest = rest
	if (op == "") != (literal == "") {
		return nil, fmt.Errorf("a filter must have one operator and one literal")
	}
	return each(func(v any) []any {
		var out []any
		for _, e := range elements(v) {
			if found := left.eval(e); len(found) > 0 && (op == "" || compare(found[0], op, literal)) {
				out = append(out, e)
			}
		}
		return out
	}), nil
}

// cutLiteral cuts the text up to ")]" that is not inside quotes.
func cutLiteral(s string) (literal, rest string, ok bool) {
	quote := byte(0)
	for i := 0; i < len(s); i++ {
		switch c := s[i]; {
		case quote != 0 && c == quote:
			quote = 0
		case quote != 0:
		case c == '\'' || c == '"':
			quote = c
		case strings.HasPrefix(s[i:], ")]"):
			return strings.TrimSpace(s[:i]), s[i+2:], true
		}
	}
	return "", "", false
}

func unquote(s string) (string, bool) {
	s = strings.TrimSpace(s)
	if len(s) >= 2 && (s[0] == '\'' || s[0] == '"') && s[len(s)-1] == s[0] {
		return s[1 : len(s)-1], true
	}
	return "", false
}

// compare compares numbers as numbers and everything else as text.
func compare(v any, op, literal string) bool {
	text, quoted := unquote(literal)
	if !quoted {
		text = literal
		if l, err := strconv.ParseFloat(literal, 64); err == nil {
			if f, ok := number(v); ok {
				return ordering(op, cmpFloat(f, l))
			}
		}
	}
	return ordering(op, strings.Compare(fmt.Sprint(v), text))
}

func cmpFloat(a, b float64) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
}

func ordering(op string, c int) bool {
	switch op {
	case "==":
		return c == 0
	case "!=":
		return c != 0
	case "<":
		return c < 0
	case "<=":
		return c <= 0
	case ">":
		return c > 0
	}
	return c >= 0
}

// each applies a step to each node.
func each(f func(any) []any) pathStep {
	return func(in []any) []any {
		var out []any
		for _, v := range in {
			out = append(out, f(v)...)
		}
		return out
	}
}

func memberOf(name string) func(any) []any {
	return func(v any) []any {
		if m, ok := v.(map[string]any); ok {
			if c, ok := m[name]; ok {
				return []any{c}
			}
		}
		return nil
	}
}

func elements(v any) []any {
	switch v := v.(type) {
	case []any:
		return v
	case map[string]any:
		var out []any
		for _, c := range v {
			out = append(out, c)
		}
		return out
	}
	return nil
}

// descend is the node and all its descendants.
func descend(v any) []any {
	out := []any{v}
	for _, c := range elements(v) {
		out = append(out, descend(c)...)
	}
	return out
}

func lengthOf(v any) []any {
	switch v := v.(type) {
	case []any:
		return []any{float64(len(v))}
	case map[string]any:
		return []any{float64(len(v))}
	case string:
		return []any{float64(len(v))}
	}
	return nil
}

// number converts a value to a metric: numbers, numbers in quotes, true as 1.
func number(v any) (float64, bool) {
	switch v := v.(type) {
	case float64:
		return v, true
	case bool:
		if v {
			return 1, true
		}
		return 0, true
	case string:
		f, err := strconv.ParseFloat(v, 64)
		return f, err == nil
	}
	return 0, false
}
