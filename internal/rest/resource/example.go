// SPDX-License-Identifier: Apache-2.0

package resource

import (
	"regexp"
	"strconv"
	"strings"

	"github.com/polycube/polycube/internal/yang"
)

// An example says more about a value than its type. If the model has none, one is derived from the type.

// examples are values of the types that models use from RFC 6991, and of our own.
var examples = map[string]string{
	"ipv4-address": "10.0.0.1", "ipv4-address-no-zone": "10.0.0.1", "ip-address": "10.0.0.1", "ip-address-no-zone": "10.0.0.1",
	"ipv6-address": "2001:db8::1", "ipv6-address-no-zone": "2001:db8::1",
	"ipv4-prefix": "10.0.0.0/24", "ip-prefix": "10.0.0.0/24", "ipv6-prefix": "2001:db8::/32",
	"ipv4-address-and-prefix": "10.0.0.1/24", "ip-address-and-prefix": "10.0.0.1/24", "ipv6-address-and-prefix": "2001:db8::1/64",
	"mac-address": "02:00:00:00:00:01", "port-number": "80", "host": "host.example.com", "domain-name": "example.com",
	"uri": "http://example.com/", "uuid": "f81d4fae-7dec-11d0-a765-00a0c91e6bf6", "dscp": "46", "as-number": "65001",
	"date-and-time": "2026-01-31T12:00:00Z", "hex-string": "0a:0b", "phys-address": "02:00:00:00:00:01",
}

// Example is an example value of a leaf, "" if none can be derived.
func Example(n *yang.Node) string {
	if n.Example() != "" || (n.Kind() != yang.Leaf && n.Kind() != yang.LeafList) {
		return n.Example()
	}
	if value, ok := n.Default(); ok && n.Type().Base == "boolean" {
		return strconv.FormatBool(value == "false") // what one would type
	} else if ok && value != "" {
		return value
	}
	if referred, _ := ReferredBy(n); referred != nil {
		return Example(referred)
	}
	return exampleOf(n.Type())
}

// exampleOf derives a value from a type.
func exampleOf(t yang.Type) string {
	if made, ok := examples[t.Name[strings.LastIndexByte(t.Name, ':')+1:]]; ok {
		return made
	}
	switch {
	case len(t.Enums) > 0:
		return t.Enums[0]
	case t.Base == "boolean":
		return "true"
	case t.Range != "" && t.Base != "decimal64":
		return inRange(t.Range)
	case len(t.Union) > 0:
		return exampleOf(t.Union[0])
	}
	return ""
}

// inRange is 1 if the range contains it, otherwise the least number of the range.
func inRange(bounds string) string {
	first, _, _ := strings.Cut(bounds, "|")
	from, to, several := strings.Cut(first, "..")
	from, to = strings.TrimSpace(from), strings.TrimSpace(to)
	least, err := strconv.ParseInt(from, 10, 64)
	if several && err == nil && least < 1 && !strings.HasPrefix(to, "-") && to != "0" {
		return "1"
	}
	return from
}

// leafref is the path of a leafref, or of the first in a union.
func leafref(t yang.Type) string {
	path := t.LeafrefPath
	for i := 0; path == "" && i < len(t.Union); i++ {
		path = leafref(t.Union[i])
	}
	return path
}

// ReferredBy finds the target of a leafref, nil for another leaf, and how many nodes of the path to it are also on the
// path to the leaf. Predicates in its path restrict which entries count; completion ignores them.
func ReferredBy(leaf *yang.Node) (referred *yang.Node, common int) {
	path := predicate.ReplaceAllString(leafref(leaf.Type()), "")
	if path == "" {
		return nil, 0
	}
	at := leaf
	common = depth(leaf)
	if strings.HasPrefix(path, "/") {
		for at.Parent() != nil {
			at = at.Parent()
		}
	}
	for name := range strings.SplitSeq(strings.Trim(path, "/"), "/") {
		name = strings.TrimSpace(name[strings.LastIndexByte(name, ':')+1:])
		if name == ".." {
			at = at.Parent()
			if at != nil && at.Parent() != nil && at.Parent().Input() == at {
				at = at.Parent() // the input node of an action is not part of a path
			}
		} else {
			common = min(common, depth(at))
			at = at.Child(name)
		}
		if at == nil {
			return nil, 0
		}
	}
	if at.Kind() != yang.Leaf && at.Kind() != yang.LeafList {
		return nil, 0
	}
	return at, common
}

// depth is the number of nodes from the cube down to a node.
func depth(n *yang.Node) int {
	d := 0
	for ; n.Parent() != nil; n = n.Parent() {
		d++
	}
	return d
}

var predicate = regexp.MustCompile(`\[[^\]]*\]`)
