// SPDX-License-Identifier: Apache-2.0

// Lists are printed as tables. What a row nests (a port's addresses, a chain's rules) becomes columns named "inner
// (outer)" and, for arrays, more lines below the row. Entries that have a text of several lines follow
// each other instead. Memory follows the number of values, whatever their shape: a
// hostile response must not grow on the way to the terminal.

package output

import (
	"slices"
	"strings"
	"unicode/utf8"
)

// Limits and layout of tables.
const (
	MaxColumns     = 512 // above this, rows are printed as JSON, one per line
	MaxColumnWidth = 200 // a longer cell pushes its own line only
	Gap            = "  "
)

// columns is a tree like the rows: a node is a column, has inner columns, or both.
type columns struct {
	key    string
	leaf   bool
	index  int // of the column, when leaf
	inner  []*columns
	byName map[string]*columns
}

func (c *columns) child(key string) *columns {
	if n, ok := c.byName[key]; ok {
		return n
	}
	if c.byName == nil {
		c.byName = map[string]*columns{}
	}
	n := &columns{key: key}
	c.byName[key] = n
	c.inner = append(c.inner, n)
	return n
}

// learn adds the columns that v needs; depth as in printer.object.
func (c *columns) learn(v Value, depth int) {
	switch {
	case v.IsLeaf() || depth < 1:
		c.leaf = true
	case v.Kind == KindObject:
		for _, m := range v.Members {
			c.child(m.Key).learn(m.Val, depth-1)
		}
	default:
		for _, item := range v.Items {
			if item.Kind == KindObject {
				c.learn(item, depth)
			} else {
				c.leaf = true
			}
		}
	}
}

// number gives every column its index and returns the headers.
func (c *columns) number(outer string, top bool, headers []string) []string {
	if c.leaf || !top && len(c.inner) == 0 {
		c.leaf = true
		c.index = len(headers)
		headers = append(headers, header(c.key, outer))
	}
	for _, n := range c.inner {
		headers = n.number(c.key, false, headers)
	}
	return headers
}

func header(key, outer string) string {
	if outer == "" {
		return Clean(key)
	}
	return Clean(key) + " (" + Clean(outer) + ")"
}

type cell struct {
	column int
	text   string
}

// grid holds only the cells that exist.
type grid struct{ lines [][]cell }

func (g *grid) put(line int, c *columns, text string) {
	for len(g.lines) <= line {
		g.lines = append(g.lines, nil)
	}
	if text != "" && c.leaf {
		g.lines[line] = append(g.lines[line], cell{c.index, text})
	}
}

// fill writes v starting at line and returns how many lines it takes, at least one.
func (g *grid) fill(line int, c *columns, v Value, depth int) int {
	switch {
	case v.IsLeaf():
		g.put(line, c, leafText(v))
		return 1
	case depth < 1:
		g.put(line, c, summary(v))
		return 1
	case v.Kind == KindObject:
		g.put(line, c, "")
		height := 1
		for _, m := range v.Members {
			height = max(height, g.fill(line, c.child(m.Key), m.Val, depth-1))
		}
		return height
	}
	height := 0
	for _, item := range v.Items {
		if item.Kind == KindObject {
			height += g.fill(line+height, c, item, depth)
			continue
		}
		text := leafText(item)
		if item.Kind == KindArray {
			text = Clean(string(item.AppendJSON(nil)))
		}
		g.put(line+height, c, text)
		height++
	}
	return max(height, 1)
}

// Table prints an array; depth as in printer.object.
func (p Printer) Table(v Value, depth int, indent string) {
	if len(v.Items) == 0 {
		return
	}
	if slices.ContainsFunc(v.Items, Value.hasBlock) {
		p.blocks(v, depth, indent)
		return
	}
	top := &columns{}
	top.learn(v, depth)
	headers := top.number("", true, nil)
	if len(headers) > MaxColumns {
		for _, item := range v.Items {
			p.Line(indent + Clean(string(item.AppendJSON(nil))))
		}
		return
	}
	g := &grid{}
	g.fill(0, top, v, depth)
	switch {
	case len(headers) == 0:
		return
	case len(headers) == 1 && headers[0] == "":
		for _, line := range g.lines {
			p.cells(line, []int{0}, indent)
		}
		return
	}
	starts := g.starts(headers)
	var head []cell
	for i, h := range headers {
		head = append(head, cell{i, h})
	}
	p.cells(head, starts, indent)
	for _, line := range g.lines {
		p.cells(line, starts, indent)
	}
}

// hasBlock reports whether v is an object with a text of several lines.
func (v Value) hasBlock() bool {
	return slices.ContainsFunc(v.Members, func(m Member) bool { return m.isBlock() })
}

// blocks prints the entries of an array below each other, since no cell has room for a text of several lines.
func (p Printer) blocks(v Value, depth int, indent string) {
	for i, item := range v.Items {
		if i > 0 {
			p.Line("")
		}
		if item.Kind == KindObject {
			p.object(item, depth, indent)
		} else {
			p.Line(indent + Clean(string(item.AppendJSON(nil))))
		}
	}
}

// starts computes where each column begins.
func (g *grid) starts(headers []string) []int {
	widths := make([]int, len(headers))
	for i, h := range headers {
		widths[i] = min(utf8.RuneCountInString(h), MaxColumnWidth)
	}
	for _, line := range g.lines {
		for _, c := range line {
			widths[c.column] = max(widths[c.column], min(utf8.RuneCountInString(c.text), MaxColumnWidth))
		}
	}
	starts := make([]int, len(headers))
	for i := 1; i < len(headers); i++ {
		starts[i] = starts[i-1] + widths[i-1] + len(Gap)
	}
	return starts
}

// cells prints one line; spaces go before a cell, so none trail.
func (p Printer) cells(line []cell, starts []int, indent string) {
	slices.SortStableFunc(line, func(a, b cell) int { return a.column - b.column })
	var b strings.Builder
	at, last := 0, -1
	for _, c := range line {
		if c.column == last {
			continue
		}
		pad := starts[c.column] - at
		if last >= 0 {
			pad = max(pad, len(Gap))
		}
		b.WriteString(strings.Repeat(" ", pad))
		b.WriteString(c.text)
		at += pad + utf8.RuneCountInString(c.text)
		last = c.column
	}
	p.Line(strings.TrimRight(indent+b.String(), " "))
}
