// SPDX-License-Identifier: Apache-2.0

package read

// A read merges three layers in the order of the model: the configuration, the state that the cube's code adds, and the
// members that the framework itself knows (uuid, status, peer, tcubes, parent).

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"

	"github.com/polycube/polycube/internal/shadow"
	"github.com/polycube/polycube/internal/topology/document"
	"github.com/polycube/polycube/internal/topology/unit"
	"github.com/polycube/polycube/internal/topology/world"
	"github.com/polycube/polycube/internal/yang"
)

// Read returns a part of a cube: configuration with defaults, and state. Objects have their members in the order of the
// model, a leaf is its bare value.
func (rd *Reader) Read(ctx context.Context, serviceName, name string, path yang.Path) (json.RawMessage, error) {
	w := rd.view.Load()
	rec, u, err := w.Find(serviceName, name)
	if err != nil {
		return nil, err
	}
	if len(path) == 1 && path[0].Name == "parent" && rec.Transparent {
		return json.Marshal(rec.Parent)
	}
	node, err := document.NodeAt(u.Service.Schema, path)
	if err != nil {
		return nil, err
	}
	layers, err := rd.layers(ctx, w, rec, u, path)
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	if len(path) == 0 {
		document.EmitCube(&b, node, rec.Name, layers)
	} else if err := document.Emit(&b, node, path[len(path)-1], layers); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}

// layers are the layers of the node at a path.
func (rd *Reader) layers(ctx context.Context, w *unit.Snapshot, rec *world.Cube, u *unit.Unit, path yang.Path) ([]any, error) {
	conf, err := rec.Config.Decode()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", rec.Name, err)
	}
	state, err := u.State(ctx, path)
	if err != nil {
		return nil, err
	}
	layers := []any{conf, rec.TableLayer(u.Service.Schema)}
	if state != nil {
		layers = append(layers, ConfineToPorts(state, rec))
	}
	layers = append(layers, rd.base(w, rec))
	return document.Follow(u.Service.Schema.Root(), path, layers)
}

// ConfineToPorts removes state of ports that do not exist (any more): only the configuration creates ports.
func ConfineToPorts(state map[string]any, rec *world.Cube) map[string]any {
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
func (rd *Reader) base(w *unit.Snapshot, rec *world.Cube) map[string]any {
	if rec.Transparent {
		base := map[string]any{"uuid": rec.UUID, "service-name": rec.Service, "parent": rec.Parent}
		if len(rec.Outputs) > 0 {
			base["outputs"] = outputs(w, rec, rd.notes)
		}
		return base
	}
	var ports []any
	for _, p := range rec.PortsByIndex() {
		tcubes := make([]any, 0, len(p.Tcubes))
		for _, name := range p.Tcubes {
			tcubes = append(tcubes, name)
		}
		entry := map[string]any{"name": p.Name, "uuid": p.UUID, "status": UpOrDown(w.Linked(rec, p)),
			"peer": p.Peer, "tcubes": tcubes}
		if remark := cmp.Or(w.Remark(rec, p, rd.notes), rd.shadowRemark(rec, p)); remark != "" {
			entry["status-reason"] = remark
		}
		ports = append(ports, entry)
	}
	return map[string]any{"uuid": rec.UUID, "service-name": rec.Service, "ports": ports}
}

// outputs is the framework's layer of a cube's outputs.
func outputs(w *unit.Snapshot, rec *world.Cube, notes world.Notes) []any {
	var list []any
	for _, o := range rec.Outputs {
		why := w.WhyNoOutput(rec, o, notes)
		entry := map[string]any{"number": json.Number(strconv.Itoa(int(o.Number))), "status": UpOrDown(why == "")}
		if why != "" {
			entry["status-reason"] = why
		}
		list = append(list, entry)
	}
	return list
}

// shadowRemark says that a port's interface is down, and how to set it up; "" if it is up.
func (rd *Reader) shadowRemark(rec *world.Cube, p *world.Port) string {
	if !rec.Shadow || !p.InnerDown {
		return ""
	}
	netns, name := rd.namespace(rec.Name), shadow.InnerName(p.Name)
	return fmt.Sprintf("interface %s in namespace %s is down: ip -n %[2]s link set %[1]s up", name, netns)
}
