// SPDX-License-Identifier: Apache-2.0

package document

// An image is a cube's configuration in the canonical form that files and comparisons use: only what was set, members
// in the order of the model, lists without an order of their own sorted by their keys. Two cubes are configured alike
// if and only if their images are equal byte for byte.

import (
	"bytes"
	"cmp"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/polycube/polycube/internal/topology/world"
	"github.com/polycube/polycube/internal/yang"
)

// Image is the configuration of one cube.
type Image struct {
	Service string
	// root is nil if the service is not loaded: lists then stay as they are.
	root   *yang.Node
	Object map[string]any
}

// NewImage takes a configuration as printed by a tree without defaults.
func NewImage(service string, root *yang.Node, raw []byte) (*Image, error) {
	object, err := world.DecodeObject(raw)
	if err != nil {
		return nil, err
	}
	delete(object, "name")
	delete(object, "service-name")
	i := &Image{Service: service, root: root, Object: object}
	if root != nil {
		tidy(root, object)
	}
	for _, p := range i.Ports() {
		if p["peer"] == "" {
			delete(p, "peer") // left behind by a disconnect
		}
		if list, ok := p["tcubes"].([]any); ok && len(list) == 0 {
			delete(p, "tcubes")
		}
	}
	return i, nil
}

// Ports are the entries of the cube's ports.
func (i *Image) Ports() []map[string]any {
	list, _ := i.Object["ports"].([]any)
	ports := make([]map[string]any, 0, len(list))
	for _, entry := range list {
		if p, ok := entry.(map[string]any); ok {
			ports = append(ports, p)
		}
	}
	return ports
}

// tidy sorts the lists below a node whose order has no meaning.
func tidy(node *yang.Node, object map[string]any) {
	for _, child := range node.Children() {
		switch value := object[child.Name()].(type) {
		case map[string]any:
			tidy(child, value)
		case []any:
			if child.Kind() == yang.List {
				for _, entry := range value {
					if e, ok := entry.(map[string]any); ok {
						tidy(child, e)
					}
				}
			}
			if !child.UserOrdered() {
				sortEntries(child, value)
			}
		}
	}
}

// sortEntries sorts the entries of a list or leaf-list.
func sortEntries(list *yang.Node, entries []any) {
	type keyed struct {
		keys  []string
		entry any
	}
	all := make([]keyed, len(entries))
	for i, entry := range entries {
		all[i] = keyed{[]string{fmt.Sprint(entry)}, entry}
		if list.Kind() == yang.List {
			all[i].keys = KeysOf(list, entry)
		}
	}
	slices.SortFunc(all, func(a, b keyed) int { return slices.CompareFunc(a.keys, b.keys, CompareNatural) })
	for i := range all {
		entries[i] = all[i].entry
	}
}

// CompareNatural compares numbers in names by value: p2 comes before p10.
func CompareNatural(a, b string) int {
	x, y := a, b
	for x != "" && y != "" {
		m, n := leadingDigits(x), leadingDigits(y)
		if m > 0 && n > 0 {
			p, q := strings.TrimLeft(x[:m], "0"), strings.TrimLeft(y[:n], "0")
			if c := cmp.Or(cmp.Compare(len(p), len(q)), cmp.Compare(p, q)); c != 0 {
				return c
			}
			x, y = x[m:], y[n:]
			continue
		}
		if x[0] != y[0] {
			return cmp.Compare(x[0], y[0])
		}
		x, y = x[1:], y[1:]
	}
	return cmp.Or(cmp.Compare(len(x), len(y)), cmp.Compare(a, b))
}

func leadingDigits(s string) int {
	n := 0
	for n < len(s) && s[n] >= '0' && s[n] <= '9' {
		n++
	}
	return n
}

// Body is the image as the body of a request, for a tree that contains the service's name.
func (i *Image) Body() []byte {
	var b bytes.Buffer
	i.emit(&b, member{"service-name", Encode(i.Service)})
	return b.Bytes()
}

// Members is the image as it is in a document, without the members that identify the cube.
func (i *Image) Members() []byte {
	var b bytes.Buffer
	i.emit(&b)
	return b.Bytes()
}

// member is a member of a JSON object.
type member struct {
	name  string
	value []byte
}

// emit writes the image with some members before those of the model.
func (i *Image) emit(b *bytes.Buffer, first ...member) {
	out := Writer{B: b}
	for _, m := range first {
		out.Member(m.name, m.value)
	}
	if i.root == nil {
		for _, name := range slices.Sorted(maps.Keys(i.Object)) {
			out.Member(name, Encode(i.Object[name]))
		}
	} else {
		for _, child := range i.root.Children() {
			out.node(child, []any{i.Object})
		}
	}
	out.End()
}

// Same reports whether two images are the same configuration; nil means no cube.
func (i *Image) Same(other *Image) bool {
	if i == nil || other == nil {
		return i == other
	}
	return i.Service == other.Service && reflect.DeepEqual(i.Object, other.Object)
}
