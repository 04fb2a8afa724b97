// SPDX-License-Identifier: Apache-2.0

package nft

// Rules as nft writes them, for messages.

import (
	"encoding/json"
	"strconv"
	"strings"
)

// String returns the rule in nft's syntax, as far as it is known.
func (r *rule) String() string {
	var parts []string
	for _, s := range r.Expr {
		parts = append(parts, statementText(s))
	}
	if r.Comment != "" {
		parts = append(parts, "comment "+strconv.Quote(r.Comment))
	}
	return strings.Join(parts, " ")
}

func statementText(s map[string]any) string {
	kind, value, _ := only(s)
	object, _ := value.(map[string]any)
	switch kind {
	case "match":
		op, _ := object["op"].(string)
		left := text(object["left"])
		if op == "in" || op == "==" && !strings.HasPrefix(left, "tcp flags") && !strings.Contains(left, " & ") {
			return left + " " + text(object["right"])
		}
		return left + " " + op + " " + text(object["right"])
	case "vmap":
		return text(object["key"]) + " vmap " + text(object["data"])
	case "counter":
		if name, ok := scalar(value); ok {
			return "counter name " + name
		}
		return "counter"
	case "set":
		return text(object["op"]) + " " + text(object["set"]) + " { " + text(object["elem"]) + " }"
	case "mangle":
		return text(object["key"]) + " set " + text(object["value"])
	case "jump", "goto":
		return kind + " " + text(object["target"])
	case "xt":
		return "xt " + text(object["type"]) + " " + text(object["name"])
	case "limit":
		return limitText(object)
	case "log":
		return "log" + logText(object)
	case "reject":
		out := kind
		if object["type"] != nil {
			out += " with " + text(object["type"])
		}
		if object["expr"] != nil {
			out += " " + text(object["expr"])
		}
		return out
	}
	if value == nil {
		return kind
	}
	return kind + " " + text(value)
}

func limitText(object map[string]any) string {
	if object["rate"] == nil {
		return "limit " + text(object)
	}
	over, unit := "", ""
	if is, _ := object["inv"].(bool); is {
		over = "over "
	}
	if object["rate_unit"] != nil {
		unit = " " + text(object["rate_unit"])
	}
	out := "limit rate " + over + text(object["rate"]) + unit + "/" + text(object["per"])
	if object["burst"] != nil && unit == "" {
		out += " burst " + text(object["burst"]) + " packets"
	}
	return out
}

func logText(object map[string]any) string {
	out := ""
	for _, name := range []string{"prefix", "level", "flags", "group"} {
		switch v := object[name]; {
		case v == nil:
		case name == "prefix":
			out += " prefix " + strconv.Quote(text(v))
		default:
			out += " " + name + " " + text(v)
		}
	}
	return out
}

// text returns an expression in nft's syntax, or as JSON if there is none for it here.
func text(v any) string {
	if t, ok := scalar(v); ok {
		return t
	}
	if list, ok := v.([]any); ok {
		if pair := elementText(list); pair != "" {
			return pair
		}
		return texts(list, ",")
	}
	kind, value, _ := only(v)
	list, isList := value.([]any)
	switch {
	case kind == "meta" || kind == "ct":
		if key, ok := member(value, "key"); ok {
			return kind + " " + key
		}
	case kind == "payload":
		protocol, ok := member(value, "protocol")
		field, okField := member(value, "field")
		if ok && okField {
			return protocol + " " + field
		}
	case kind == "prefix":
		addr, ok := member(value, "addr")
		bits, okBits := member(value, "len")
		if ok && okBits {
			return addr + "/" + bits
		}
	case kind == "range" && isList:
		return texts(list, "-")
	case kind == "set" && isList:
		return "{ " + texts(list, ", ") + " }"
	case (kind == "&" || kind == "|") && isList:
		return texts(list, " "+kind+" ")
	case kind == "concat" && isList:
		return texts(list, " . ")
	}
	raw, err := json.Marshal(v)
	if err != nil {
		return "?"
	}
	return string(raw)
}

// elementText returns an element of a map with its verdict; nothing for another list.
func elementText(list []any) string {
	if len(list) != 2 {
		return ""
	}
	if kind, value, ok := only(list[1]); ok && (value == nil || kind == "jump" || kind == "goto") {
		return text(list[0]) + " : " + statementText(list[1].(map[string]any))
	}
	return ""
}

func texts(list []any, separator string) string {
	parts := make([]string, len(list))
	for i, v := range list {
		parts[i] = text(v)
	}
	return strings.Join(parts, separator)
}
