// SPDX-License-Identifier: Apache-2.0

// Prints data nodes as JSON, from the output of dump.c.

package yang

import (
	"encoding/binary"
	"errors"
	"slices"

	"github.com/polycube/polycube/internal/bulk"
	"github.com/polycube/polycube/internal/fault"
	"github.com/polycube/polycube/internal/jsonscan"
)

// JSONOptions chooses what is printed.
type JSONOptions struct {
	// Defaults includes leaves that have their default value.
	Defaults bool
	// Apart omits the entries of bulk lists.
	Apart bool
}

// item is a data node read back from C.
type item struct {
	node     *Node
	isDef    bool
	op       byte
	base     string
	text     string
	original string
	kids     []*item
	// table are the entries of a bulk list.
	table *bulk.Table
}

var errDump = errors.New("libyang printed data that cannot be read back")

// decode reads the output of dump.
func (s *Schema) decode(buf []byte, diff bool) ([]*item, error) {
	d := &decoder{schema: s, buf: buf, diff: diff}
	items := d.items(false)
	if d.bad || len(d.buf) != 0 {
		return nil, errDump
	}
	return items, nil
}

type decoder struct {
	schema *Schema
	buf    []byte
	diff   bool
	bad    bool
}

func (d *decoder) take(n int) []byte {
	if d.bad || n > len(d.buf) {
		d.bad = true
		return make([]byte, min(n, 16))
	}
	out := d.buf[:n]
	d.buf = d.buf[n:]
	return out
}

func (d *decoder) string() string {
	n := binary.NativeEndian.Uint32(d.take(4))
	if d.bad || uint64(n) > uint64(len(d.buf)) {
		d.bad = true
		return ""
	}
	return string(d.take(int(n)))
}

// items reads nodes up to the end of their parent, or of the buffer.
func (d *decoder) items(nested bool) []*item {
	var out []*item
	for !d.bad && (nested || len(d.buf) > 0) {
		kind := d.take(1)[0]
		if kind == 'e' {
			d.bad = d.bad || !nested
			return out
		}
		it := &item{node: d.schema.nodes[uintptr(binary.NativeEndian.Uint64(d.take(8)))]}
		it.isDef, it.op = d.take(1)[0] == 1, d.take(1)[0]
		switch kind {
		case 'i':
			it.kids = d.items(true)
		case 't':
			it.base, it.text = baseName(d.take(1)[0]), d.string()
			if d.diff {
				it.original = d.string()
			}
		default:
			d.bad = true
		}
		d.bad = d.bad || it.node == nil
		out = append(out, it)
	}
	return out
}

// itemKeys returns the keys of a list entry.
func itemKeys(entry *item) []string {
	keys := make([]string, 0, len(entry.node.keys))
	for _, k := range entry.kids {
		if k.node.key {
			keys = append(keys, k.text)
		}
	}
	return keys
}

// printer appends JSON to buf.
type printer struct {
	buf      []byte
	defaults bool
	// tables are those of bulk lists, which items may have.
	tables *bulk.Tables
}

// shown reports whether an item is printed as a member.
func (p *printer) shown(it *item) bool {
	switch it.node.kind {
	case Leaf, LeafList:
		return p.defaults || !it.isDef || it.node.key
	case Container:
		return it.node.presence || slices.ContainsFunc(it.kids, p.shown)
	default:
		return true
	}
}

// object prints the members of a container or list entry in model order.
func (p *printer) object(items []*item) {
	byIndex := func(a, b *item) int { return a.node.index - b.node.index }
	if !slices.IsSortedFunc(items, byIndex) {
		items = slices.Clone(items)
		slices.SortStableFunc(items, byIndex)
	}
	p.buf = append(p.buf, '{')
	comma := false
	for len(items) > 0 {
		n := 1
		for n < len(items) && items[n].node == items[0].node {
			n++
		}
		group := items[:n]
		items = items[n:]
		if !p.shown(group[0]) {
			continue
		}
		if comma {
			p.buf = append(p.buf, ',')
		}
		comma = true
		p.buf = jsonscan.AppendString(p.buf, group[0].node.name)
		p.buf = append(p.buf, ':')
		p.group(group)
	}
	p.buf = append(p.buf, '}')
}

// group prints the value of a member, which is one item, or all entries of a list.
func (p *printer) group(items []*item) {
	if k := items[0].node.kind; items[0].table != nil {
		p.buf = p.tables.AppendAll(p.buf, items[0].table, p.defaults)
	} else if k == List || k == LeafList {
		p.array(items)
	} else {
		p.item(items[0])
	}
}

func (p *printer) array(items []*item) {
	p.buf = append(p.buf, '[')
	for i, it := range items {
		if i > 0 {
			p.buf = append(p.buf, ',')
		}
		p.item(it)
	}
	p.buf = append(p.buf, ']')
}

// fill adds the bulk lists in some items, which are below list entries with some keys.
func fill(t *Tree, above []string, items []*item) {
	for _, it := range items {
		if !it.node.holdsBulk {
			continue
		}
		below := above
		if it.node.kind == List {
			below = slices.Concat(above, itemKeys(it))
		}
		it.kids = t.withTables(it.node, below, it.kids)
	}
}

// withTables adds the bulk lists to the items below n, which is below list entries with some keys.
func (t *Tree) withTables(n *Node, above []string, items []*item) []*item {
	if !n.holdsBulk {
		return items
	}
	fill(t, above, items)
	for _, c := range n.children {
		absent := !slices.ContainsFunc(items, func(it *item) bool { return it.node == c })
		if c.bulk {
			if table := t.tables.At(c.path, above); table.Len() > 0 {
				items = append(items, &item{node: c, table: table})
			}
		} else if c.holdsBulk && c.kind == Container && absent { // libyang has no container that is empty without them
			if kids := t.withTables(c, above, nil); len(kids) > 0 {
				items = append(items, &item{node: c, kids: kids})
			}
		}
	}
	return items
}

// item prints one node without its name.
func (p *printer) item(it *item) {
	switch it.node.kind {
	case Leaf, LeafList:
		p.buf = appendScalar(p.buf, it.base, it.text)
	default:
		p.object(it.kids)
	}
}

// appendScalar prints the canonical text of a value of a base type.
func appendScalar(buf []byte, base, text string) []byte {
	switch base {
	case "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "decimal64", "boolean":
		return append(buf, text...)
	case "empty":
		return append(buf, "true"...)
	case "identityref":
		return jsonscan.AppendString(buf, fault.Bare(text))
	}
	return jsonscan.AppendString(buf, text)
}
