// SPDX-License-Identifier: Apache-2.0

package resource

import (
	"errors"
	"net/http"
	"slices"
	"strings"

	"github.com/polycube/polycube/internal/rest/message"
	"github.com/polycube/polycube/internal/yang"
)

// What a URL names within a cube, and its methods: both follow from the model.

// Target is the node of a cube that a URL names.
type Target struct {
	Service, Cube string
	// Segments are the whole path, starting with service and cube.
	Segments []string
	Node     *yang.Node
	Path     yang.Path
	Kind     Kind
	// Values are the values of the words after an action of a list (yang.Schema.ActionOf).
	Values []string
}

// Kind is the kind of node that a URL names within a cube.
type Kind int

// Kinds of nodes that a URL can name.
const (
	KindCube Kind = iota
	KindContainer
	KindLeaf
	KindLeafList
	// KindValue is one value of a leaf-list.
	KindValue
	KindList
	KindEntry
	KindAction
)

// Models are the models of the services.
type Models interface {
	// Schema is the model of a service.
	Schema(service string) (*yang.Schema, error)
}

// Resolve finds the node that the segments name.
func Resolve(in Models, segments []string) (*Target, error) {
	t := &Target{Service: segments[0], Cube: segments[1], Segments: segments}
	schema, err := in.Schema(t.Service)
	if err != nil {
		return nil, err
	}
	if len(segments) == 2 {
		t.Node = schema.Root()
		return t, nil
	}
	if t.Node, t.Path, t.Values = schema.ActionOf(segments[2:]); t.Node != nil {
		t.Kind = KindAction
		return t, nil
	}
	if t.Node, t.Path, err = schema.Resolve(segments[2:]); err != nil {
		return nil, err
	}
	t.Kind = kindOf(t.Node, t.Path)
	return t, nil
}

func kindOf(n *yang.Node, p yang.Path) Kind {
	switch n.Kind() {
	case yang.Container:
		return KindContainer
	case yang.Leaf:
		return KindLeaf
	case yang.LeafList:
		if len(p[len(p)-1].Keys) > 0 {
			return KindValue
		}
		return KindLeafList
	case yang.Action:
		return KindAction
	case yang.List:
	}
	if len(p[len(p)-1].Keys) == 0 {
		return KindList
	}
	return KindEntry
}

// Methods are those of the REST interface (docs/guide/api.md): state is read-only, an action can only be called, a
// leaf can be read, updated and unset.
func (t *Target) Methods() []string {
	const get, post, put, patch, del, options = http.MethodGet, http.MethodPost, http.MethodPut, http.MethodPatch,
		http.MethodDelete, http.MethodOptions
	switch {
	case t.Kind == KindAction:
		return []string{post, options}
	case t.Kind == KindCube:
	case t.Node.Deletable():
		return []string{get, del, options}
	case !t.Node.Config():
		return []string{get, options}
	case t.Kind == KindLeaf || t.Kind == KindLeafList || t.Kind == KindValue:
		if t.Node.InitOnly() || t.Node.IsKey() {
			return []string{get, options}
		}
		if t.Kind == KindLeaf {
			return []string{get, patch, del, options}
		}
		if t.Kind == KindValue {
			return []string{get, post, del, options}
		}
	}
	return []string{get, post, put, patch, del, options}
}

// Allow refuses a method that the node does not support, with the reason in the model if it has one.
func (t *Target) Allow(r *http.Request) error {
	err := message.Allow(r, t.Methods()...)
	var p *message.Error
	if t.Kind == KindCube || t.Kind == KindAction || !errors.As(err, &p) {
		return err
	}
	switch {
	case t.Node.Deletable():
		p.Message = t.Node.Name() + " is state: it can only be read and deleted"
	case !t.Node.Config():
		p.Message = t.Node.Name() + " is state: it can only be read"
	case t.Node.IsKey():
		p.Message = t.Node.Name() + " is a key and cannot be changed: delete the entry and create another"
	case t.Node.InitOnly():
		p.Message = t.Node.Name() + " can only be set when its parent is created"
	}
	p.Field = t.Node.Name()
	return p
}

// Success is the status of a request that succeeds.
func (t *Target) Success(method string) int {
	entry := t.Kind == KindContainer || t.Kind == KindEntry || t.Kind == KindValue || t.Kind == KindLeaf
	switch {
	case method == http.MethodDelete && entry:
		return http.StatusNoContent
	case method == http.MethodGet, method == http.MethodOptions, method == http.MethodDelete, t.Kind == KindLeaf:
		return http.StatusOK
	}
	return http.StatusCreated
}

// Operation is the effect of a method on the configuration.
func Operation(method string) yang.Op {
	switch method {
	case http.MethodPost:
		return yang.Create
	case http.MethodPut:
		return yang.Replace
	}
	return yang.Merge
}

// Words are the path after the cube, as a person types it.
func (t *Target) Words() string {
	words := t.Segments[1:]
	out := make([]string, len(words))
	for i, w := range words {
		out[i] = w
		if len(w) > 64 || strings.ContainsAny(w, " \t\n\"'") {
			out[i] = message.Clip(w)
		}
	}
	return strings.Join(out, " ")
}

// Placeholders are the keys of a list, starting at one of them, as usage texts write them.
func Placeholders(list *yang.Node, from int) string {
	var out []string
	for _, k := range list.Keys()[from:] {
		out = append(out, "<"+k.Name()+">")
	}
	return strings.Join(out, " ")
}

// Within is the entry of a list that only some of its keys name.
func Within(segments []string, p *yang.PartialKeysError) *Target {
	path := slices.Clone(p.Path)
	path[len(path)-1].Keys = p.Given
	return &Target{Service: segments[0], Cube: segments[1], Segments: segments, Node: p.List, Path: path, Kind: KindEntry}
}

// Conditional reports whether a read can return 304.
func (t *Target) Conditional() bool { return t.Kind != KindCube && pure(t.Node) }

// pure reports whether a node has only configuration.
func pure(n *yang.Node) bool {
	if !n.Config() {
		return false
	}
	for _, child := range n.Children() {
		if child.Kind() != yang.Action && !pure(child) {
			return false
		}
	}
	return true
}
