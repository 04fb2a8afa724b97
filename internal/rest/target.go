// SPDX-License-Identifier: Apache-2.0

package rest

import (
	"errors"
	"net/http"
	"slices"
	"strings"

	"github.com/polycube/polycube/internal/rest/message"
	"github.com/polycube/polycube/internal/yang"
)

// What a URL names within a cube, and which methods that has: both follow from the model.

// target is the node of a cube that a URL names.
type target struct {
	service, cube string
	// segments are the whole path, service and cube first.
	segments []string
	node     *yang.Node
	path     yang.Path
	kind     resourceKind
	// values are what the words behind an action of a list say (yang.Schema.ActionOf).
	values []string
}

// resourceKind is what a URL names within a cube.
type resourceKind int

const (
	kindCube resourceKind = iota
	kindContainer
	kindLeaf
	kindLeafList
	// kindValue is one value of a leaf-list.
	kindValue
	kindList
	kindEntry
	kindAction
)

// schemas are the models of the services.
type schemas interface {
	// Schema is the model of a service.
	Schema(service string) (*yang.Schema, error)
}

// resolve finds the node that the segments name.
func resolve(models schemas, segments []string) (*target, error) {
	t := &target{service: segments[0], cube: segments[1], segments: segments}
	schema, err := models.Schema(t.service)
	if err != nil {
		return nil, err
	}
	if len(segments) == 2 {
		t.node = schema.Root()
		return t, nil
	}
	if t.node, t.path, t.values = schema.ActionOf(segments[2:]); t.node != nil {
		t.kind = kindAction
		return t, nil
	}
	if t.node, t.path, err = schema.Resolve(segments[2:]); err != nil {
		return nil, err
	}
	t.kind = kindOf(t.node, t.path)
	return t, nil
}

func kindOf(n *yang.Node, p yang.Path) resourceKind {
	switch n.Kind() {
	case yang.Container:
		return kindContainer
	case yang.Leaf:
		return kindLeaf
	case yang.LeafList:
		if len(p[len(p)-1].Keys) > 0 {
			return kindValue
		}
		return kindLeafList
	case yang.Action:
		return kindAction
	case yang.List:
	}
	if len(p[len(p)-1].Keys) == 0 {
		return kindList
	}
	return kindEntry
}

// methods are those of interface table: state is only read, an action only called, a
// leaf only read, updated and unset.
func (t *target) methods() []string {
	const get, post, put, patch, del, options = http.MethodGet, http.MethodPost, http.MethodPut, http.MethodPatch,
		http.MethodDelete, http.MethodOptions
	switch {
	case t.kind == kindAction:
		return []string{post, options}
	case t.kind == kindCube:
	case t.node.Deletable():
		return []string{get, del, options}
	case !t.node.Config():
		return []string{get, options}
	case t.kind == kindLeaf || t.kind == kindLeafList || t.kind == kindValue:
		if t.node.InitOnly() || t.node.IsKey() {
			return []string{get, options}
		}
		if t.kind == kindLeaf {
			return []string{get, patch, del, options}
		}
		if t.kind == kindValue {
			return []string{get, post, del, options}
		}
	}
	return []string{get, post, put, patch, del, options}
}

// allow refuses a method that the node does not have, and says why where the model does.
func (t *target) allow(r *http.Request) error {
	err := message.Allow(r, t.methods()...)
	var p *message.Problem
	if t.kind == kindCube || t.kind == kindAction || !errors.As(err, &p) {
		return err
	}
	switch {
	case t.node.Deletable():
		p.Message = t.node.Name() + " is state: it can only be read and deleted"
	case !t.node.Config():
		p.Message = t.node.Name() + " is state: it can only be read"
	case t.node.IsKey():
		p.Message = t.node.Name() + " is a key: it cannot change, delete the entry and create another"
	case t.node.InitOnly():
		p.Message = t.node.Name() + " can only be set when its parent is created"
	}
	p.Field = t.node.Name()
	return p
}

// success is the status of a request that succeeds.
func (t *target) success(method string) int {
	entry := t.kind == kindContainer || t.kind == kindEntry || t.kind == kindValue || t.kind == kindLeaf
	switch {
	case method == http.MethodDelete && entry:
		return http.StatusNoContent
	case method == http.MethodGet, method == http.MethodOptions, method == http.MethodDelete, t.kind == kindLeaf:
		return http.StatusOK
	}
	return http.StatusCreated
}

func operation(method string) yang.Op {
	switch method {
	case http.MethodPost:
		return yang.Create
	case http.MethodPut:
		return yang.Replace
	}
	return yang.Merge
}

// words are the path from the cube on, as a person types it.
func (t *target) words() string {
	words := t.segments[1:]
	out := make([]string, len(words))
	for i, w := range words {
		out[i] = w
		if len(w) > 64 || strings.ContainsAny(w, " \t\n\"'") {
			out[i] = message.Clip(w)
		}
	}
	return strings.Join(out, " ")
}

// placeholders are the keys of a list from one on, as usage texts write them.
func placeholders(list *yang.Node, from int) string {
	var out []string
	for _, k := range list.Keys()[from:] {
		out = append(out, "<"+k.Name()+">")
	}
	return strings.Join(out, " ")
}

// within is the entry of a list that only some of its keys name.
func within(segments []string, p *yang.PartialKeysError) *target {
	path := slices.Clone(p.Path)
	path[len(path)-1].Keys = p.Given
	return &target{service: segments[0], cube: segments[1], segments: segments, node: p.List, path: path, kind: kindEntry}
}

// conditional tells whether a read can be answered with 304.
func (t *target) conditional() bool { return t.kind != kindCube && pure(t.node) }

// pure tells whether a node has configuration alone.
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
