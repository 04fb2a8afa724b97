// SPDX-License-Identifier: Apache-2.0

package nft

// Expressions: what is compared, and with which values.

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// selector is what a match looks at: a key such as `ip saddr`, and the mask that is applied to it, if any.
type selector struct {
	key  string
	mask any
}

// item is a value, or the values from first to last. A prefix has its length in bits, others -1.
type item struct {
	first, last string
	bits        int
}

func (i item) ranged() bool { return i.first != i.last }

// operand is what is compared with. Flags are listed without a set: they are bits.
type operand struct {
	op    string
	items []item
	set   bool
	flags bool
}

// acts reports whether an element has statements of its own, such as a counter.
func acts(element any) bool {
	_, value, _ := only(element)
	object, _ := value.(map[string]any)
	for name := range object {
		if object["val"] != nil && !slices.Contains([]string{"val", "comment"}, name) {
			return true
		}
	}
	return false
}

// scalar returns a string or number as text.
func scalar(v any) (string, bool) {
	switch v := v.(type) {
	case string:
		return v, true
	case json.Number:
		return v.String(), true
	}
	return "", false
}

// member returns a member of an object, which must be a string or number.
func member(v any, name string) (string, bool) {
	object, ok := v.(map[string]any)
	if !ok {
		return "", false
	}
	return scalar(object[name])
}

// only returns the only member of an object.
func only(v any) (name string, value any, ok bool) {
	object, isObject := v.(map[string]any)
	if !isObject || len(object) != 1 {
		return "", nil, false
	}
	for name, value = range object {
	}
	return name, value, true
}

// selectorOf reads the left side of a match.
func selectorOf(left any) (s selector, err error) {
	kind, value, ok := only(left)
	if !ok {
		return s, fmt.Errorf("%s cannot be compared", text(left))
	}
	switch kind {
	case "&":
		parts, isList := value.([]any)
		if !isList || len(parts) != 2 {
			return s, fmt.Errorf("%s cannot be compared", text(left))
		}
		if s, err = selectorOf(parts[0]); err == nil && s.mask != nil {
			err = fmt.Errorf("%s has two masks", text(left))
		}
		s.mask = parts[1]
		return s, err
	case "meta", "ct":
		if object, isObject := value.(map[string]any); isObject && len(object) == 1 {
			if key, isText := member(value, "key"); isText {
				return selector{key: kind + " " + key}, nil
			}
		}
	case "payload":
		protocol, hasProtocol := member(value, "protocol")
		field, hasField := member(value, "field")
		if hasProtocol && hasField {
			return selector{key: protocol + " " + field}, nil
		}
	case "concat":
		return s, errors.New("iptables cannot compare concatenations")
	}
	return s, fmt.Errorf("iptables cannot compare %s", text(left))
}

// operandOf reads the right side of a match.
func (d *draft) operandOf(op string, right any) (o operand, err error) {
	if !slices.Contains([]string{"==", "!=", "in", "<", ">", "<=", ">="}, op) {
		return o, fmt.Errorf("the operator %q is not known", op)
	}
	o.op = op
	elements := []any{right}
	if list, ok := right.([]any); ok {
		o.flags, elements = true, list
	} else if kind, value, ok := only(right); ok && (kind == "set" || kind == "|") {
		if elements, ok = value.([]any); !ok {
			elements = []any{value}
		}
		o.set, o.flags = kind == "set", kind == "|"
	} else if name, ok := right.(string); ok && strings.HasPrefix(name, "@") {
		o.set = true
		if elements, err = d.elements(d.rules.sets, name[1:]); err != nil {
			return o, err
		}
	}
	if len(elements) > d.most() {
		return o, fmt.Errorf("a set of %d elements: up to %d are imported; use -m set with an ipset cube", len(elements), d.most())
	}
	for _, e := range elements {
		if d.exact && acts(e) {
			return o, errors.New("an element of a set does more than to match")
		}
		i, err := itemOf(e)
		if err != nil {
			return o, err
		}
		o.items = append(o.items, i)
	}
	return o, nil
}

// elements returns those of a named set or map that keeps them.
func (d *draft) elements(of map[chainKey]*set, name string) ([]any, error) {
	k := chainKey{d.rule.Family, d.rule.Table, name}
	found := of[k]
	if found == nil {
		return nil, fmt.Errorf("there is no set @%s in the table", name)
	}
	flags := text(found.Flags)
	if strings.Contains(flags, "timeout") || strings.Contains(flags, "dynamic") {
		return nil, fmt.Errorf("the elements of @%s change (flags %s)", name, flags)
	}
	if d.exact && (d.rules.updated[k] || len(found.Stmt) > 0) {
		return nil, fmt.Errorf("the elements of @%s change, or do more than to match", name)
	}
	if kind, ok := found.Type.(string); !ok || !slices.Contains(setTypes, kind) {
		return nil, fmt.Errorf("@%s is a set of the type %s: imported are sets of %s", name, text(found.Type), strings.Join(setTypes, ", "))
	}
	return found.Elem, nil
}

// setTypes are the types of named sets whose elements are imported.
var setTypes = []string{"ipv4_addr", "ipv6_addr", "inet_service", "inet_proto", "mark"}

// itemOf reads a value, a range or a prefix.
func itemOf(v any) (i item, err error) {
	if t, ok := scalar(v); ok {
		return item{t, t, -1}, nil
	}
	kind, value, ok := only(v)
	if !ok {
		return i, fmt.Errorf("%s is no value", text(v))
	}
	switch kind {
	case "elem":
		object, _ := value.(map[string]any)
		if object["timeout"] != nil || object["expires"] != nil {
			return i, errors.New("an element of a set expires")
		}
		if inner, isElem := object["val"].(map[string]any); isElem && inner["elem"] != nil {
			return i, fmt.Errorf("%s is no value", text(v))
		}
		return itemOf(object["val"])
	case "prefix":
		addr, hasAddr := member(value, "addr")
		bits, hasBits := member(value, "len")
		n, isNumber := number(bits, 128)
		if hasAddr && hasBits && isNumber {
			return item{addr, addr, int(n)}, nil
		}
	case "range":
		if ends, isList := value.([]any); isList && len(ends) == 2 {
			first, okFirst := scalar(ends[0])
			last, okLast := scalar(ends[1])
			if okFirst && okLast {
				return item{first, last, -1}, nil
			}
		}
	}
	return i, fmt.Errorf("%s is no value that iptables can compare with", text(v))
}
