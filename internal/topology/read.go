// SPDX-License-Identifier: Apache-2.0

package topology

// What a read shows is three layers, laid over each other in the order of the model: the configuration, the state that
// the cube's code adds, and the members that the framework itself knows (uuid, status, peer, tcubes, parent).

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/internal/topology/world"
	"github.com/polycube/polycube/internal/yang"
)

// Read returns a part of a cube: configuration with defaults, and state. Objects have their members in the order of the
// model, a leaf is its bare value.
func (m *Manager) Read(ctx context.Context, serviceName, name string, path yang.Path) (json.RawMessage, error) {
	w := m.view.Load()
	rec, u, err := w.find(serviceName, name)
	if err != nil {
		return nil, err
	}
	if len(path) == 1 && path[0].Name == "parent" && rec.Transparent {
		return json.Marshal(rec.Parent)
	}
	node, err := nodeAt(u.svc.schema, path)
	if err != nil {
		return nil, err
	}
	layers, err := m.layers(ctx, w, rec, u, path)
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	if len(path) == 0 {
		emitCube(&b, node, rec.Name, layers)
	} else if err := emit(&b, node, path[len(path)-1], layers); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}

// layers are what is known of the node at a path.
func (m *Manager) layers(ctx context.Context, w *snapshot, rec *world.Cube, u *unit, path yang.Path) ([]any, error) {
	conf, err := rec.Config.Decode()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", rec.Name, err)
	}
	state, err := u.state(ctx, path)
	if err != nil {
		return nil, err
	}
	layers := []any{conf, rec.TableLayer()}
	if state != nil {
		layers = append(layers, confineToPorts(state, rec))
	}
	layers = append(layers, m.base(w, rec))
	return walk(u.svc.schema.Root(), path, layers)
}

// nodeAt finds the node of a path.
func nodeAt(schema *yang.Schema, path yang.Path) (*yang.Node, error) {
	node := schema.Root()
	for i, step := range path {
		if node = node.Child(step.Name); node == nil {
			return nil, &yang.Error{Tag: yang.BadElement, Path: path[:i+1].String(),
				Message: fmt.Sprintf("%s: there is no such node", path[:i+1].Words())}
		}
	}
	return node, nil
}

// state asks the cube's code; nil when it has none to add or is degraded.
func (u *unit) state(ctx context.Context, path yang.Path) (map[string]any, error) {
	stater, ok := u.inst.(cube.Stater)
	if !ok || u.degraded.Load() != nil {
		return nil, nil
	}
	var value any
	err := u.handle(ctx, "State", func() (err error) {
		value, err = stater.State(ctx, path.Segments())
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("%s: state: %w", u.name, err)
	}
	object, err := encodeState(value)
	if err != nil {
		return nil, fmt.Errorf("%s: its state: %w", u.name, err)
	}
	return object, nil
}

// encodeState turns what a cube's code answers into a layer; nil when there is nothing.
func encodeState(value any) (map[string]any, error) {
	raw, err := json.Marshal(value)
	if err != nil {
		return nil, fmt.Errorf("encoding it: %w", err)
	}
	object, err := world.DecodeObject(raw)
	if err != nil || len(object) == 0 {
		return nil, err
	}
	return object, nil
}

// confineToPorts drops state of ports that are not there (any more): ports exist by configuration alone.
func confineToPorts(state map[string]any, rec *world.Cube) map[string]any {
	if ports, ok := state["ports"].([]any); ok {
		state["ports"] = slices.DeleteFunc(ports, func(entry any) bool {
			e, _ := entry.(map[string]any)
			name, _ := e["name"].(string)
			return rec.Ports[name] == nil
		})
	}
	return state
}

// base is the framework's layer.
func (m *Manager) base(w *snapshot, rec *world.Cube) map[string]any {
	if rec.Transparent {
		return map[string]any{"uuid": rec.UUID, "service-name": rec.Service, "parent": rec.Parent}
	}
	var ports []any
	for _, p := range rec.PortsByIndex() {
		tcubes := make([]any, 0, len(p.Tcubes))
		for _, name := range p.Tcubes {
			tcubes = append(tcubes, name)
		}
		entry := map[string]any{"name": p.Name, "uuid": p.UUID, "status": status(w.Linked(rec, p)),
			"peer": p.Peer, "tcubes": tcubes}
		if remark := cmp.Or(w.Remark(rec, p, m.notes), m.shadowRemark(rec, p)); remark != "" {
			entry["status-reason"] = remark
		}
		ports = append(ports, entry)
	}
	return map[string]any{"uuid": rec.UUID, "service-name": rec.Service, "ports": ports}
}

// walk follows a path through the layers and keeps those that have the node.
func walk(node *yang.Node, path yang.Path, layers []any) ([]any, error) {
	for i, step := range path {
		node = node.Child(step.Name)
		layers = membersOf(layers, step.Name)
		if len(step.Keys) == 0 {
			continue
		}
		if node.Kind() == yang.LeafList {
			layers = slices.DeleteFunc(layers, func(l any) bool { return !holds(l, step.Keys[0]) })
		} else {
			var err error
			if layers, err = entries(node, layers, step.Keys); err != nil {
				return nil, err
			}
		}
		if len(layers) == 0 {
			return nil, &yang.Error{Tag: yang.DataMissing, Path: path[:i+1].String(), Message: path[:i+1].Words() + ": not found"}
		}
	}
	return layers, nil
}

// membersOf returns a member of each layer that has it.
func membersOf(layers []any, name string) []any {
	var out []any
	for _, l := range layers {
		if object, ok := l.(map[string]any); ok {
			if v, ok := object[name]; ok && v != nil {
				out = append(out, v)
			}
		}
	}
	return out
}

// entries returns a list entry of each layer that has it.
func entries(list *yang.Node, layers []any, keys []string) ([]any, error) {
	var out []any
	for _, l := range layers {
		if table, ok := l.(*yang.Table); ok {
			e, err := entryOf(table, keys)
			if err != nil {
				return nil, err
			}
			if e != nil {
				out = append(out, e)
			}
			continue
		}
		array, _ := l.([]any)
		for _, entry := range array {
			if sameKeys(list, keysOf(list, entry), keys) {
				out = append(out, entry)
			}
		}
	}
	return out, nil
}

// sameKeys compares keys as the model does: enums in any case.
func sameKeys(list *yang.Node, a, b []string) bool {
	for i, k := range list.Keys() {
		if a[i] != b[i] && (len(k.Type().Enums) == 0 || !strings.EqualFold(a[i], b[i])) {
			return false
		}
	}
	return true
}

// keysOf are the values of an entry's keys as text.
func keysOf(list *yang.Node, entry any) []string {
	object, _ := entry.(map[string]any)
	keys := make([]string, 0, len(list.Keys()))
	for _, k := range list.Keys() {
		keys = append(keys, fmt.Sprint(object[k.Name()]))
	}
	return keys
}

// holds says whether a leaf-list has a value.
func holds(values any, value string) bool {
	array, _ := values.([]any)
	return slices.ContainsFunc(array, func(v any) bool { return fmt.Sprint(v) == value })
}

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
