// SPDX-License-Identifier: Apache-2.0

// References between the leaves of a document: a leafref gets a value that is there.

package yang_test

import (
	"slices"
	"strings"

	"github.com/polycube/polycube/internal/yang"
)

// references makes leaves that refer to others refer to what is in the document, where there is something.
func (g *generator) references(d *datum, n *yang.Node) {
	for i := range d.members {
		m := d.members[i]
		c := n.Child(m.name)
		switch {
		case c == nil:
		case m.value.kind == 'o':
			g.references(m.value, c)
		case m.value.kind == 'a' && c.Kind() == yang.List:
			for _, entry := range m.value.items {
				g.references(entry, c)
			}
			m.value.items = distinct(c, m.value.items)
		case m.value.kind == 'a' && c.Type().LeafrefPath != "":
			for j := range m.value.items {
				m.value.items[j] = g.referred(c, m.value.items[j])
			}
			m.value.items = distinct(c, m.value.items)
		case m.value.kind == 's' && c.Type().LeafrefPath != "":
			d.members[i].value = g.referred(c, m.value)
		}
	}
}

func distinct(n *yang.Node, items []*datum) []*datum {
	seen := map[string]bool{}
	return slices.DeleteFunc(items, func(d *datum) bool {
		id := identity(n, d)
		was := seen[id]
		seen[id] = true
		return was
	})
}

// referred is a value of what a leafref refers to; the value that is there when there is none, or now and then.
func (g *generator) referred(n *yang.Node, old *datum) *datum {
	var found []*datum
	g.root.collect(target(n), nil, &found)
	if len(found) == 0 || g.chance(1, 12) {
		return old
	}
	v := *found[g.IntN(len(found))]
	v.node = n
	return &v
}

// target is the schema path of what a leafref refers to, predicates left out.
func target(n *yang.Node) string {
	path := n.Type().LeafrefPath
	for {
		open := strings.IndexByte(path, '[')
		if open < 0 {
			break
		}
		end := strings.IndexByte(path[open:], ']')
		path = path[:open] + path[open+end+1:]
	}
	at := strings.Split(n.Path(), "/")
	if strings.HasPrefix(path, "/") {
		at = nil
	}
	for step := range strings.SplitSeq(strings.Trim(path, "/"), "/") {
		step = step[strings.IndexByte(step, ':')+1:]
		if step == ".." {
			at = at[:len(at)-1]
		} else {
			at = append(at, strings.TrimSpace(step))
		}
	}
	return strings.Join(at, "/")
}

// collect finds the scalars at a schema path.
func (d *datum) collect(path string, at []string, found *[]*datum) {
	for _, item := range d.items {
		if item.kind == 's' && strings.Join(at, "/") == path {
			*found = append(*found, item)
		}
		item.collect(path, at, found)
	}
	for _, m := range d.members {
		here := append(at[:len(at):len(at)], m.name)
		if m.value.kind == 's' && strings.Join(here, "/") == path {
			*found = append(*found, m.value)
		}
		m.value.collect(path, here, found)
	}
}
