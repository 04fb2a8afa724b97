// SPDX-License-Identifier: Apache-2.0

package topology

// Writing what is read: layers of configuration and state, laid over each other in the order of the model.

import (
	"bytes"
	"encoding/json"
	"slices"

	"github.com/polycube/polycube/internal/yang"
)

// emitCube writes a whole cube. Its first members come in the order that clients of old know.
func emitCube(b *bytes.Buffer, root *yang.Node, name string, layers []any) {
	first := []string{"uuid", "service-name", "type", "loglevel"}
	out := object{b: b}
	out.member("name", encode(name))
	for _, n := range first {
		out.node(root.Child(n), layers)
	}
	for _, child := range root.Children() {
		if !slices.Contains(first, child.Name()) && child.Name() != "name" {
			out.node(child, layers)
		}
	}
	if root.Child("parent") == nil {
		if parent := membersOf(layers, "parent"); len(parent) > 0 {
			out.member("parent", encode(parent[len(parent)-1]))
		}
	}
	out.end()
}

// emit writes the node that a path's last step leads to.
func emit(b *bytes.Buffer, node *yang.Node, step yang.Step, layers []any) error {
	switch {
	case node.Kind() == yang.Action:
		return &yang.Error{Tag: yang.OperationNotSupported, Path: node.Path(), Message: node.Path() + ": an action cannot be read"}
	case node.Kind() == yang.LeafList && len(step.Keys) > 0:
		b.Write(encode(step.Keys[0]))
	case node.Kind() == yang.List && len(step.Keys) > 0:
		emitObject(b, node, layers)
	case node.Kind() == yang.Leaf && len(layers) == 0:
		return &yang.Error{Tag: yang.DataMissing, Path: node.Path(), Message: node.Path() + ": not set"}
	default:
		emitValue(b, node, layers)
	}
	return nil
}

// emitValue writes a node of which a layer may have nothing.
func emitValue(b *bytes.Buffer, node *yang.Node, layers []any) {
	switch node.Kind() {
	case yang.List:
		emitList(b, node, layers)
	case yang.Container:
		emitObject(b, node, layers)
	case yang.LeafList:
		if len(layers) == 0 {
			b.WriteString("[]")
			return
		}
		b.Write(encode(layers[len(layers)-1]))
	default:
		b.Write(encode(layers[len(layers)-1]))
	}
}

func emitObject(b *bytes.Buffer, node *yang.Node, layers []any) {
	out := object{b: b}
	for _, child := range node.Children() {
		out.node(child, layers)
	}
	out.end()
}

// object writes the members of a JSON object.
type object struct {
	b     *bytes.Buffer
	count int
}

// node writes a member unless no layer has it.
func (o *object) node(node *yang.Node, layers []any) {
	if node == nil || node.Kind() == yang.Action {
		return
	}
	values := membersOf(layers, node.Name())
	if len(values) == 0 {
		return
	}
	o.key(node.Name())
	emitValue(o.b, node, values)
}

func (o *object) member(name string, value []byte) {
	o.key(name)
	o.b.Write(value)
}

func (o *object) key(name string) {
	if o.count == 0 {
		o.b.WriteByte('{')
	} else {
		o.b.WriteByte(',')
	}
	o.count++
	o.b.Write(encode(name))
	o.b.WriteByte(':')
}

func (o *object) end() {
	if o.count == 0 {
		o.b.WriteByte('{')
	}
	o.b.WriteByte('}')
}

// encode writes a value that was decoded from JSON, or a string. HTML is not escaped: the answer is not a page.
func encode(v any) []byte {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return []byte("null") // not reached: such values always encode
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
}

// baseMembers are what the topology shows of a cube: how it is linked, not what it does.
var baseMembers = []string{"uuid", "service-name", "type", "loglevel", "shadow", "span", "ports", "parent"}

// portMembers are the same for a port.
var portMembers = []string{"name", "uuid", "status", "status-reason", "peer", "tcubes"}

func emitBase(b *bytes.Buffer, name string, layers []any) {
	out := object{b: b}
	out.member("name", encode(name))
	for _, member := range baseMembers {
		values := membersOf(layers, member)
		if len(values) == 0 {
			continue
		}
		if member != "ports" {
			out.member(member, encode(values[len(values)-1]))
			continue
		}
		out.key(member)
		emitPorts(b, values)
	}
	out.end()
}

// emitPorts writes ports without what their service adds. The last layer, the framework's, has every port whole.
func emitPorts(b *bytes.Buffer, layers []any) {
	ports, _ := layers[len(layers)-1].([]any)
	b.WriteByte('[')
	for i, p := range ports {
		if i > 0 {
			b.WriteByte(',')
		}
		out := object{b: b}
		for _, member := range portMembers {
			if value := p.(map[string]any)[member]; value != nil {
				out.member(member, encode(value))
			}
		}
		out.end()
	}
	b.WriteByte(']')
}
