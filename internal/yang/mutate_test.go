// SPDX-License-Identifier: Apache-2.0

// One thing is made wrong in a document. Whether it is wrong then, the other tool says.

package yang_test

import (
	"fmt"
	"slices"
	"strings"

	"github.com/polycube/polycube/internal/yang"
)

// mutation is a change that can be made at a place of a document.
type mutation struct {
	what  string
	place string
	apply func()
}

// mutate makes one change and says which; "" when there is nothing that could be changed.
func (g *generator) mutate(d *datum, n *yang.Node) string {
	kinds := map[string][]mutation{}
	var order []string
	g.mutations(d, n, func(m mutation) {
		if kinds[m.what] == nil {
			order = append(order, m.what)
		}
		kinds[m.what] = append(kinds[m.what], m)
	})
	if len(order) == 0 {
		return ""
	}
	// The kind first, so that the rare ones have their turn.
	of := kinds[order[g.IntN(len(order))]]
	m := of[g.IntN(len(of))]
	m.apply()
	return m.what + " at " + m.place
}

// mutations lists what can be done to an object.
func (g *generator) mutations(d *datum, n *yang.Node, add func(mutation)) {
	put := func(what string, apply func()) { add(mutation{what, n.Path(), apply}) }
	put("an unknown member", func() { d.members = append(d.members, named{"no-such-thing", raw("1")}) })
	for _, c := range n.Children() {
		if c.Kind() != yang.Action && !c.Config() && d.member(c.Name()) == nil {
			put("a member that is state", func() { d.members = append(d.members, named{c.Name(), g.value(c)}) })
		}
		if d.member(c.Name()) != nil {
			continue
		}
		for _, o := range n.Children() {
			if c.Excludes(o) && d.member(o.Name()) != nil && c.Config() {
				put("another alternative too", func() { d.members = append(d.members, named{c.Name(), g.value(c)}) })
			}
		}
	}
	for i := range d.members {
		m := &d.members[i]
		c := n.Child(m.name)
		_, positions := n.Extension("positions")
		switch {
		case positions && c.IsKey(): // an element without one has its place in the array, which YANG does not know
		case c.Mandatory():
			what := "what is mandatory is missing"
			if c.IsKey() {
				what = "a key is missing"
			}
			put(what, func() { d.members = slices.Delete(d.members, i, i+1) })
		default:
			put("something is missing", func() { d.members = slices.Delete(d.members, i, i+1) })
		}
		g.typeMutations(&m.value, c, add)
		switch c.Kind() {
		case yang.Container:
			g.mutations(m.value, c, add)
		case yang.Leaf:
			g.scalarMutations(&m.value, c, add)
		default:
			g.listMutations(m.value, c, add)
		}
	}
}

// typeMutations put JSON of another kind in the place of a value.
func (g *generator) typeMutations(v **datum, c *yang.Node, add func(mutation)) {
	for what, json := range map[string]string{"an object": `{}`, "a string": `"x"`, "a number": `7`, "an array of null": `[null]`, "an array of arrays": `[[]]`, "a boolean": "false"} {
		fits := map[yang.Kind][]string{yang.Container: {"an object"}, yang.List: nil, yang.LeafList: nil,
			yang.Leaf: {"a string", "a number", "a boolean", "an array of null"}}[c.Kind()]
		if !slices.Contains(fits, what) {
			add(mutation{fmt.Sprintf("%s as %s", what, c.Kind()), c.Path(), func() { *v = raw(json) }})
		}
	}
}

// listMutations are those of a list or leaf-list.
func (g *generator) listMutations(d *datum, n *yang.Node, add func(mutation)) {
	put := func(what string, apply func()) { add(mutation{what, n.Path(), apply}) }
	if len(d.items) > 0 {
		put("an entry twice", func() { d.items = append(d.items, d.items[g.IntN(len(d.items))].clone()) })
		put("no entry", func() { d.items = nil })
	}
	if n.MaxElements() > 0 {
		put("too many entries", func() {
			for range 50 {
				if d.items = distinct(n, append(d.items, g.entry(n))); len(d.items) > n.MaxElements() {
					return
				}
			}
		})
	}
	for i := range d.items {
		if n.Kind() == yang.LeafList {
			g.scalarMutations(&d.items[i], n, add)
			continue
		}
		put("an entry that is none", func() { d.items[i] = raw("5") })
		g.mutations(d.items[i], n, add)
		for _, c := range n.Children() {
			for j := range d.items {
				if v := d.items[j].member(c.Name()); i != j && v != nil && v.kind == 's' && !c.IsKey() && d.items[i].member(c.Name()) != nil {
					put("the same as another entry", func() {
						for k := range d.items[i].members {
							if d.items[i].members[k].name == c.Name() {
								d.items[i].members[k].value = v.clone()
							}
						}
					})
				}
			}
		}
	}
}

// scalarMutations are those of a value.
func (g *generator) scalarMutations(v **datum, n *yang.Node, add func(mutation)) {
	old, t := *v, n.Type()
	set := func(what string, d *datum) {
		d.node = n
		add(mutation{what, n.Path(), func() { *v = d }})
	}
	set("another value", g.scalar(n, t))
	if t.LeafrefPath != "" {
		set("a reference to nothing", text("nothing-like-it"))
	}
	switch t.Base {
	case "int8", "int16", "int32", "uint8", "uint16", "uint32":
		set("a number out of range", raw(g.outside(t)))
		set("a fraction", raw("1.5"))
		set("a huge number", raw("99999999999999999999999"))
		d := raw("7")
		d.ours, d.rfc = `"seven"`, `"seven"`
		set("a word for a number", d)
	case "int64", "uint64", "decimal64":
		beyond := g.outside(t)
		set("a number out of range", &datum{kind: 's', ours: beyond, rfc: quoted(beyond), text: beyond})
		set("a word for a number", text("seven"))
		set("too many digits", &datum{kind: 's', ours: "0.1234567890123456789", rfc: `"0.1234567890123456789"`})
	case "boolean":
		set("a word for a boolean", text("maybe"))
		set("a number for a boolean", raw("1"))
	case "enumeration", "identityref", "bits":
		set("an unknown name", text("no-such-name"))
		set("no name", text(""))
	case "binary":
		set("no base64", text("?"))
		set("bytes too many", text(strings.Repeat("QUJD", 50)))
	case "string":
		set("a string too long", text(old.text+strings.Repeat("x", 300)))
		set("an empty string", text(""))
		set("another character", text(old.text+"~ "))
		set("characters of any kind", text(g.characters(g.IntN(12))))
		set("a number for a string", raw("7"))
		set("a boolean for a string", raw("true"))
	case "union":
		set("a value of no member", text("~~~"))
	}
	for what, json := range map[string]string{"null for a value": `null`, "an array for a value": `[1]`} {
		if t.Base != "empty" {
			set(what, raw(json))
		}
	}
}

// outside is a number just beyond a range.
func (g *generator) outside(t yang.Type) string {
	if t.Range == "" {
		return "99999999999999999999"
	}
	low, high := g.part(t.Range)
	if g.chance(1, 2) {
		high.Add(high, one)
		return high.FloatString(t.FractionDigits)
	}
	low.Sub(low, one)
	return low.FloatString(t.FractionDigits)
}
