// SPDX-License-Identifier: Apache-2.0

package document

// Writing the result of a read: layers of configuration and state, merged in the order of the model.

import (
	"bytes"
	"encoding/json"
	"slices"

	"github.com/polycube/polycube/internal/yang"
)

// EmitCube writes a whole cube. Its first members are in the order that older clients expect.
func EmitCube(b *bytes.Buffer, root *yang.Node, name string, layers []any) {
	first := []string{"uuid", "service-name", "type", "loglevel"}
	out := Writer{B: b}
	out.Member("name", Encode(name))
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
			out.Member("parent", Encode(parent[len(parent)-1]))
		}
	}
	out.End()
}

// Emit writes the node at the end of a path.
func Emit(b *bytes.Buffer, node *yang.Node, step yang.Step, layers []any) error {
	switch {
	case node.Kind() == yang.Action:
		return &yang.Error{Tag: yang.OperationNotSupported, Path: node.Path(), Message: node.Path() + ": an action cannot be read"}
	case node.Kind() == yang.LeafList && len(step.Keys) > 0:
		b.Write(Encode(step.Keys[0]))
	case node.Kind() == yang.List && len(step.Keys) > 0:
		emitObject(b, node, layers)
	case node.Kind() == yang.Leaf && len(layers) == 0:
		return &yang.Error{Tag: yang.DataMissing, Path: node.Path(), Message: node.Path() + ": not set"}
	default:
		emitValue(b, node, layers)
	}
	return nil
}

// emitValue writes a node that may be absent from a layer.
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
		b.Write(Encode(layers[len(layers)-1]))
	default:
		b.Write(Encode(layers[len(layers)-1]))
	}
}

func emitObject(b *bytes.Buffer, node *yang.Node, layers []any) {
	out := Writer{B: b}
	for _, child := range node.Children() {
		out.node(child, layers)
	}
	out.End()
}

// Writer writes the members of a JSON object.
type Writer struct {
	B     *bytes.Buffer
	count int
}

// node writes a member unless it is absent from all layers.
func (o *Writer) node(node *yang.Node, layers []any) {
	if node == nil || node.Kind() == yang.Action {
		return
	}
	values := membersOf(layers, node.Name())
	if len(values) == 0 {
		return
	}
	o.key(node.Name())
	emitValue(o.B, node, values)
}

// Member writes a member whose value is already JSON.
func (o *Writer) Member(name string, value []byte) {
	o.key(name)
	o.B.Write(value)
}

func (o *Writer) key(name string) {
	if o.count == 0 {
		o.B.WriteByte('{')
	} else {
		o.B.WriteByte(',')
	}
	o.count++
	o.B.Write(Encode(name))
	o.B.WriteByte(':')
}

// End closes the object.
func (o *Writer) End() {
	if o.count == 0 {
		o.B.WriteByte('{')
	}
	o.B.WriteByte('}')
}

// Encode writes a value that was decoded from JSON, or a string. HTML is not escaped: the answer is not a page.
func Encode(v any) []byte {
	if raw, ok := v.(json.RawMessage); ok {
		return raw
	}
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return []byte("null") // not reached: such values can always be encoded
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
}

// baseMembers are the members of a cube that the topology shows: its connections, not its settings.
var baseMembers = []string{"uuid", "service-name", "type", "loglevel", "shadow", "span", "ports", "parent"}

// portMembers are the same for a port.
var portMembers = []string{"name", "uuid", "status", "status-reason", "peer", "tcubes"}

// EmitLinks writes a cube as a topology shows it: its connections.
func EmitLinks(b *bytes.Buffer, name string, layers []any) {
	out := Writer{B: b}
	out.Member("name", Encode(name))
	for _, member := range baseMembers {
		values := membersOf(layers, member)
		if len(values) == 0 {
			continue
		}
		if member != "ports" {
			out.Member(member, Encode(values[len(values)-1]))
			continue
		}
		out.key(member)
		emitPorts(b, values)
	}
	out.End()
}

// emitPorts writes ports without the members of their service. The last layer, the framework's, has all members of each
// port.
func emitPorts(b *bytes.Buffer, layers []any) {
	ports, _ := layers[len(layers)-1].([]any)
	b.WriteByte('[')
	for i, p := range ports {
		if i > 0 {
			b.WriteByte(',')
		}
		out := Writer{B: b}
		for _, member := range portMembers {
			if value := p.(map[string]any)[member]; value != nil {
				out.Member(member, Encode(value))
			}
		}
		out.End()
	}
	b.WriteByte(']')
}
