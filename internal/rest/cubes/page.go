// SPDX-License-Identifier: Apache-2.0

package cubes

import (
	"bufio"
	"encoding/json"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/internal/rest/front"
	"github.com/polycube/polycube/internal/rest/message"
	"github.com/polycube/polycube/internal/rest/resource"
	"github.com/polycube/polycube/internal/suggest"
	"github.com/polycube/polycube/internal/yang"
)

// Lists are read in pages: ?limit=100 returns the first hundred entries, and the response's Link header has the next
// page, which starts after the last entry of this one (?after=). ?filter= selects entries. The body is always an
// array. Entries are sent as they are read, so a long list takes no extra memory. A list that the model marks `paged`
// has its own cursors instead of keys.

var pageParams = []string{resource.ParamLimit, resource.ParamAfter, resource.ParamFilter}

// page is the part of a list that a request asks for.
type page struct {
	limit int // 0 for all
	after []string
	// cursor is the position in a list that is marked `paged`.
	cursor string
	filter filter
	query  url.Values
}

// asked reports whether a request asks for a page.
func asked(q url.Values) bool {
	return slices.ContainsFunc(pageParams, q.Has)
}

// ownCursor stands for the number of keys if a list has its own cursors.
const ownCursor = -1

// pageOf parses the parameters; nil when there are none. keys is the number of keys of an entry.
func pageOf(r *http.Request, keys int, fields func(string) ([]string, []string)) (*page, error) {
	if r.URL.RawQuery == "" {
		return nil, nil
	}
	q, err := message.QueryOf(r, pageParams...)
	if err != nil || !asked(q) {
		return nil, err
	}
	p := &page{query: q}
	if q.Has(resource.ParamLimit) {
		n, err := strconv.Atoi(q.Get(resource.ParamLimit))
		if err != nil || n < 1 || n > resource.MaxLimit {
			return nil, message.BadPath("limit=%s: expected a number from 1 to %d", message.Clip(q.Get(resource.ParamLimit)), resource.MaxLimit)
		}
		p.limit = n
	}
	if q.Has(resource.ParamAfter) && keys == ownCursor {
		p.cursor = q.Get(resource.ParamAfter)
	} else if q.Has(resource.ParamAfter) {
		if p.after, err = splitAfter(q.Get(resource.ParamAfter), keys); err != nil {
			return nil, err
		}
	}
	for _, text := range q[resource.ParamFilter] {
		c, err := parseCondition(text, fields)
		if err != nil {
			return nil, err
		}
		p.filter = append(p.filter, c)
	}
	return p, nil
}

// pageOfTarget parses the page that a request asks for, nil for the whole list.
func (c *Routes) pageOfTarget(r *http.Request, t *resource.Target) (*page, error) {
	if t.Kind == resource.KindList && t.Node.Paged() {
		return pageOf(r, ownCursor, fieldsOf(t.Node))
	}
	if t.Kind == resource.KindList {
		p, err := pageOf(r, len(t.Node.Keys()), fieldsOf(t.Node))
		if err == nil && p != nil && p.after != nil && t.Node.Bulk() {
			p.after, err = t.Node.CanonicalKeys(p.after)
		}
		return p, err
	}
	if asked(r.URL.Query()) {
		return nil, message.BadPath("limit, after and filter are accepted only on lists, and %s is not a list", message.Clip(t.Node.Path()))
	}
	return nil, nil
}

// splitAfter splits the keys of an entry, joined as in a path.
func splitAfter(text string, keys int) ([]string, error) {
	parts := strings.Split(text, "/")
	if keys == 0 {
		return nil, message.BadPath("after=%s: the list has no keys, so it is not read in pages", message.Clip(text))
	}
	if len(parts) != keys {
		return nil, message.BadPath("after=%s: expected the %d keys of an entry, separated by /, with %%2F for a / within a key", message.Clip(text), keys)
	}
	for i, p := range parts {
		key, err := url.PathUnescape(p)
		if err != nil || key == "" {
			return nil, message.BadPath("after=%s: expected the keys of an entry, encoded as in a path", message.Clip(text))
		}
		parts[i] = key
	}
	return parts, nil
}

// behind is the address of the page after an entry.
func (p *page) behind(self string, keys []string) message.Link {
	escaped := make([]string, len(keys))
	for i, k := range keys {
		escaped[i] = url.PathEscape(k)
	}
	return p.next(self, strings.Join(escaped, "/"))
}

// next is the address of the page after a position.
func (p *page) next(self, after string) message.Link {
	q := url.Values{resource.ParamLimit: p.query[resource.ParamLimit], resource.ParamFilter: p.query[resource.ParamFilter], resource.ParamAfter: {after}}
	if len(q[resource.ParamFilter]) == 0 {
		delete(q, resource.ParamFilter)
	}
	return message.Link{Rel: "next", Href: self + "?" + q.Encode()}
}

// readList sends a list entry by entry, if a page is requested or the list may be large.
func (c *Routes) readList(w http.ResponseWriter, r *http.Request, t *resource.Target, p *page) error {
	if p == nil {
		p = &page{}
	}
	a := &arrayWriter{w: w, r: r, self: front.Base(r) + message.JoinPath(t.Segments...), page: p}
	if t.Node.Paged() {
		return c.sendArray(a, func() error { return c.fillPaged(a, t) })
	}
	return c.sendArray(a, func() error {
		return c.manager.Entries(r.Context(), t.Service, t.Cube, t.Path, p.after, a.add)
	})
}

// fillPaged adds the entries of a list that is marked `paged`: a page is collected, a whole list is sent in parts.
func (c *Routes) fillPaged(a *arrayWriter, t *resource.Target) error {
	q := cube.PageQuery{After: a.page.cursor, Limit: a.page.limit}
	if len(a.page.filter) > 0 {
		q.Matches = a.page.filter.matches
	}
	if q.Limit == 0 {
		q.Limit = pagedAtOnce
	}
	for {
		got, err := c.manager.Page(a.r.Context(), t.Service, t.Cube, t.Path, q)
		if err != nil {
			return err
		}
		a.cursor = got.Next
		for _, entry := range got.Entries {
			if a.send(entry); a.err != nil {
				return a.err
			}
		}
		if q.After = got.Next; q.After == "" || a.page.limit > 0 {
			return nil
		}
	}
}

// pagedAtOnce is how many entries are read at a time when a whole list is sent.
const pagedAtOnce = 1000

// sendArray sends what fill adds.
func (c *Routes) sendArray(a *arrayWriter, fill func() error) error {
	err := fill()
	if err != nil && a.out == nil {
		return err
	}
	if err == nil {
		err = a.end()
	}
	if err != nil {
		c.log.Debug("client of a list went away", "path", a.r.URL.EscapedPath(), "err", err)
		panic(http.ErrAbortHandler) // the client must notice that the response is incomplete
	}
	return nil
}

// arrayWriter sends entries as an array. The header is sent before the first entry, or, for a short page, at the end,
// because the Link header has the page's last entry.
type arrayWriter struct {
	w    http.ResponseWriter
	r    *http.Request
	self string
	page *page

	held [][]byte // entries of a page, until it is known whether there is a next one
	last []string
	more bool
	// cursor is the position of the next page in a list with its own cursors.
	cursor string
	n      int
	out    *bufio.Writer
	err    error
}

// add takes an entry; false ends the list.
func (a *arrayWriter) add(keys []string, entry json.RawMessage) bool {
	if !a.page.filter.matches(entry) {
		return true
	}
	if a.page.limit > 0 {
		if len(a.held) == a.page.limit {
			a.more = true
			return false
		}
		a.held, a.last = append(a.held, slices.Clone(entry)), slices.Clone(keys)
		return true
	}
	a.send(entry)
	return a.err == nil
}

func (a *arrayWriter) send(entry []byte) {
	sep := byte(',')
	if a.out == nil {
		a.begin()
		sep = '['
	}
	a.n++
	a.err = a.out.WriteByte(sep)
	if a.err == nil {
		_, a.err = a.out.Write(entry)
	}
}

func (a *arrayWriter) begin() {
	links := []message.Link{{Rel: "self", Href: a.self}}
	switch {
	case a.more:
		links = append(links, a.page.behind(a.self, a.last))
	case a.cursor != "" && a.page.limit > 0:
		links = append(links, a.page.next(a.self, a.cursor))
	}
	message.SetLinkHeader(a.w.Header(), links)
	a.w.Header().Set("Content-Type", message.ContentType)
	a.w.WriteHeader(http.StatusOK)
	a.out = bufio.NewWriterSize(a.w, 64<<10)
}

func (a *arrayWriter) end() error {
	for _, entry := range a.held {
		a.send(entry)
	}
	if a.out == nil {
		a.begin()
		_ = a.out.WriteByte('[') // the writer keeps its error
	}
	_ = a.out.WriteByte(']')
	if a.err == nil {
		a.err = a.out.Flush()
	}
	return a.err
}

// cubeFields are the fields of a service's cubes, whose name is not in the model.
func cubeFields(root *yang.Node) func(string) ([]string, []string) {
	return func(name string) (path, near []string) {
		if name == "name" {
			return []string{name}, nil
		}
		return fieldsOf(root)(name)
	}
}

// fieldsOf finds a leaf of a list's entries by its name, or by a path with dots.
func fieldsOf(list *yang.Node) func(string) ([]string, []string) {
	return func(name string) (path, near []string) {
		n := list
		for part := range strings.SplitSeq(name, ".") {
			child := n.Child(part)
			if child == nil || child.Kind() == yang.Action {
				var known []string
				for _, c := range n.Children() {
					known = append(known, c.Name())
				}
				return nil, suggest.Near(part, known)
			}
			n = child
			path = append(path, part)
		}
		if n.Kind() != yang.Leaf && n.Kind() != yang.LeafList {
			return nil, nil
		}
		return path, nil
	}
}
