// SPDX-License-Identifier: Apache-2.0

package help

import (
	"net/http"
	"slices"
	"strings"

	"github.com/polycube/polycube/internal/yang"
)

// A command can set nodes inside the containers of its target: `ports add p1 access.vlanid=10`. A list of bare keys is
// a set of values, and is set in the same way: `trunk.allowed=10,20`.

// nested is a node with its path from above.
type nested struct {
	*yang.Node
	name string
	// must is true for a mandatory node in containers that always exist.
	must bool
}

// param describes a nested node.
func (n nested) param() Param {
	p := valueParam(n.Node)
	p.Name, p.Mandatory = n.name, n.must
	return p
}

// valuesIn lists the nodes that key=value can set, the given ones first, then those in containers.
func valuesIn(children []*yang.Node) []nested {
	var out []nested
	for _, c := range children {
		if settable(c) {
			out = append(out, nested{c, c.Name(), c.Mandatory()})
		}
	}
	for _, c := range children {
		switch {
		case c.Bare():
			out = append(out, nested{c, c.Name(), c.Mandatory()})
		case c.Kind() == yang.Container && c.Config():
			for _, in := range valuesIn(c.Children()) {
				in.name, in.must = c.Name()+"."+in.name, in.must && !c.Conditional() && !c.Presence()
				out = append(out, in)
			}
		}
	}
	return out
}

// describe returns the descriptions of the nodes for which keep is true.
func describe(nodes []nested, keep func(nested) bool) []Param {
	out := []Param{}
	for _, n := range nodes {
		if keep(n) {
			out = append(out, n.param())
		}
	}
	return out
}

// valueParam describes the value of a node; that of a list of bare keys is a list of values of the key.
func valueParam(n *yang.Node) Param {
	if !n.Bare() {
		return paramOf(n)
	}
	p := paramOf(n.Keys()[0])
	p.Name, p.Description = n.Name(), strings.Join(strings.Fields(n.Description()), " ")
	p.Type, p.Mandatory, p.InitOnly = "leaf", n.Mandatory(), n.InitOnly()
	p.SimpleType += "[]"
	return p
}

// completeLast completes the last of several values separated by commas. It does not offer a value twice.
func completeLast(r *http.Request, n *yang.Node, words []string) []string {
	typed := r.URL.Query().Get("prefix")
	last := strings.LastIndexByte(typed, ',')
	if last < 0 || n.Kind() != yang.LeafList && !n.Bare() {
		return words
	}
	given := strings.Split(typed[:last], ",")
	var out []string
	for _, w := range words {
		if !slices.Contains(given, w) {
			out = append(out, typed[:last+1]+w)
		}
	}
	return out
}
