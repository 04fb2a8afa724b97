// SPDX-License-Identifier: Apache-2.0

package cubes

import (
	"bytes"
	"encoding/json"
	"net/http"
	"slices"
	"strings"

	"github.com/polycube/polycube/internal/rest/front"
	"github.com/polycube/polycube/internal/rest/message"
	"github.com/polycube/polycube/internal/rest/resource"
	"github.com/polycube/polycube/internal/yang"
)

// Links let a client walk the API without knowing a model. A response that is an object has them in the member _links.
// A response that is an array has them in a Link header (RFC 8288), because clients would take another element for an
// entry.

// serviceLinks returns the links of a service and its cubes.
func (c *Routes) serviceLinks(r *http.Request, service string) []message.Link {
	base := front.Base(r)
	out := []message.Link{{Rel: "self", Href: base + message.JoinPath(service)}}
	for _, ref := range c.manager.Cubes() {
		if ref.Service == service {
			out = append(out, message.Link{Rel: ref.Name, Href: base + message.JoinPath(service, ref.Name)})
		}
	}
	return out
}

// nodeLinks returns the links of a node and its readable children: raw has the leaves that are set.
func (c *Routes) nodeLinks(r *http.Request, t *resource.Target, raw json.RawMessage) []message.Link {
	var set map[string]json.RawMessage
	if err := json.Unmarshal(raw, &set); err != nil {
		set = nil
	}
	self := front.Base(r) + message.JoinPath(t.Segments...)
	out := []message.Link{{Rel: "self", Href: self}}
	children := t.Node.Children()
	if t.Kind == resource.KindCube {
		children = baseFirst(children)
	}
	for _, child := range children {
		if child.Name() == "status-reason" || child.Kind() == yang.Action {
			continue // most ports have none, and the first API had none
		}
		if _, isSet := set[child.Name()]; child.Kind() == yang.Leaf && !isSet {
			continue
		}
		out = append(out, message.Link{Rel: child.Name(), Href: self + child.Name() + "/"})
	}
	return out
}

// baseFirst orders a cube's children like the first API: ports before shadow and span, and without parent, which its
// models did not have.
func baseFirst(children []*yang.Node) []*yang.Node {
	order := []string{"uuid", "type", "service-name", "loglevel", "ports", "shadow", "span"}
	rank := func(n *yang.Node) int {
		if i := slices.Index(order, n.Name()); i >= 0 {
			return i
		}
		return len(order)
	}
	out := slices.DeleteFunc(slices.Clone(children), func(n *yang.Node) bool {
		return n.Name() == "name" || n.Name() == "parent"
	})
	slices.SortStableFunc(out, func(a, b *yang.Node) int { return rank(a) - rank(b) })
	return out
}

// entryLinks returns the links of a list and the entries that were read.
func (c *Routes) entryLinks(r *http.Request, t *resource.Target, raw json.RawMessage) []message.Link {
	base := front.Base(r)
	self := base + message.JoinPath(t.Segments...)
	out := []message.Link{{Rel: "self", Href: self}}
	for _, keys := range entryKeys(t.Node, raw, message.MaxLinkHeader/len(self)) {
		href := base + message.JoinPath(append(slices.Clone(t.Segments), keys...)...)
		out = append(out, message.Link{Rel: strings.Join(keys, " "), Href: href})
	}
	return out
}

// entryKeys reads the keys of the first entries of a list, up to a limit, in the model's order.
func entryKeys(list *yang.Node, raw json.RawMessage, most int) [][]string {
	var out [][]string
	dec := json.NewDecoder(bytes.NewReader(raw))
	if _, err := dec.Token(); err != nil {
		return nil
	}
	for len(out) < most && dec.More() {
		var entry map[string]json.RawMessage
		if err := dec.Decode(&entry); err != nil {
			return out
		}
		var keys []string
		for _, k := range list.Keys() {
			keys = append(keys, scalar(entry[k.Name()]))
		}
		out = append(out, keys)
	}
	return out
}

// scalar is a JSON scalar as written in a URL.
func scalar(raw json.RawMessage) string {
	var s string
	if json.Unmarshal(raw, &s) == nil {
		return s
	}
	return string(bytes.TrimSpace(raw))
}
