// SPDX-License-Identifier: Apache-2.0

package topology

// The requests that make, change and end cubes.

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/internal/jsonscan"
	"github.com/polycube/polycube/internal/topology/document"
	"github.com/polycube/polycube/internal/topology/read"
	"github.com/polycube/polycube/internal/topology/unit"
	"github.com/polycube/polycube/internal/topology/world"
	"github.com/polycube/polycube/internal/yang"
)

// Create makes a cube. The body may hold the tcubes of ports, and must hold no other name than the cube's.
func (m *Manager) Create(ctx context.Context, serviceName, name string, body []byte) error {
	words := areWords(ctx)
	return m.together(ctx, []string{name}, false, func(t *editing) error { return t.create(serviceName, name, body, words) })
}

func (t *editing) create(serviceName, name string, body []byte, words bool) error {
	svc, err := t.LoadedService(serviceName)
	if err != nil {
		return err
	}
	if err := t.units.checkName(name); err != nil {
		return err
	}
	if other := t.next.Cubes[name]; other != nil {
		return fmt.Errorf("cube %s: the name is in use by a %s: %w", name, other.Service, cube.ErrExists)
	}
	if b := t.next.Broken[name]; b != nil {
		return fmt.Errorf("cube %s: exists in the store but could not be restored (%s), delete it first: %w", name, b.Reason, cube.ErrExists)
	}
	id, err := t.units.free(t.next)
	if err != nil {
		return err
	}
	body, err = document.TakeName(name, body)
	if err != nil {
		return err
	}
	u, rec := t.units.create(svc, name, id)
	t.created = append(t.created, u)
	t.next.Units[name], t.next.Cubes[name] = u, rec
	t.direct[name] = true
	return t.request(u, yang.Create, nil, body, words)
}

// Edit changes a part of a cube's configuration. What is deleted of a list may be state, such as learned addresses: the
// cube is asked to delete that.
func (m *Manager) Edit(ctx context.Context, serviceName, name string, op yang.Op, path yang.Path, body []byte) error {
	if len(path) == 0 && op != yang.Merge {
		if op == yang.Delete {
			return m.Delete(ctx, serviceName, name)
		}
		return m.Create(ctx, serviceName, name, body)
	}
	words := areWords(ctx)
	change := func(t *editing) error {
		_, u, err := t.next.Find(serviceName, name)
		if err != nil {
			return err
		}
		op, path := op, path
		if op == yang.Delete {
			if path, err = u.Tree.Only(path); err != nil {
				return err
			}
		}
		switch node, err := document.NodeAt(u.Service.Schema, path); {
		case err != nil:
			return err
		case op == yang.Delete && read.IsWholeList(node, path):
			return t.deleteList(u, node, path)
		case op == yang.Delete && node.Deletable():
			return t.deleteState(u, path)
		case op == yang.Create && node.AddReplaces() && len(path[len(path)-1].Keys) > 0:
			op = yang.Replace
		}
		t.direct[name] = true
		body := body
		if len(path) == 0 {
			if body, err = document.TakeName(name, body); err != nil {
				return err
			}
		}
		if op == yang.Replace && len(path) == 1 && path[0].Name == "ports" {
			t.meet(world.Place{Cube: name})
		}
		err = t.request(u, op, path, body, words)
		if op == yang.Delete {
			return t.deleteEntry(u, path, err)
		}
		return err
	}
	if op == yang.Delete {
		return m.transact(ctx, change) // it may ask the cube, which does not forget that it was asked
	}
	return m.together(ctx, []string{name}, false, change)
}

// Delete ends a cube: its ports' peers are disconnected, and the transparent cubes on them released. A cube that could
// not be restored is taken out of the store; where its service is not loaded, any other's name will do.
func (m *Manager) Delete(ctx context.Context, serviceName, name string) error {
	if b := m.view.Load().Broken[name]; b != nil && (b.Stored.Service == serviceName || m.loaded.Load().ByName[b.Stored.Service] == nil) {
		return m.deleteBroken(ctx, name, b)
	}
	return m.transact(ctx, func(t *editing) error {
		rec, _, err := t.next.Find(serviceName, name)
		if err != nil {
			return err
		}
		return t.drop(rec)
	})
}

// drop takes a cube out of the next world, and others off its ports.
func (t *editing) drop(rec *world.Cube) error {
	if err := t.detach(rec); err != nil {
		return err
	}
	for _, p := range rec.Ports {
		t.release(p.Tcubes)
		t.next.Leaving[p.Slot] = true
	}
	t.removed = append(t.removed, t.next.Units[rec.Name])
	delete(t.next.Cubes, rec.Name)
	delete(t.next.Units, rec.Name)
	return nil
}

func (m *Manager) deleteBroken(ctx context.Context, name string, b *world.Broken) error {
	err := m.transact(ctx, func(t *editing) error {
		if t.next.Broken[name] != b {
			return fmt.Errorf("cube %s: %w", name, cube.ErrNotFound)
		}
		return t.dropBroken(name)
	})
	if err == nil {
		m.forgetBroken(b)
	}
	return err
}

// dropBroken takes a cube that could not be restored out of the next world, and out of chains.
func (t *editing) dropBroken(name string) error {
	delete(t.next.Broken, name)
	for _, rec := range t.next.InOrder() {
		for _, p := range rec.PortsByIndex() {
			if err := t.detachName(world.Place{Cube: rec.Name, Port: p.Name}, name); err != nil {
				return err
			}
		}
	}
	for _, dev := range slices.Sorted(maps.Keys(t.next.Chains)) {
		if err := t.detachName(world.Place{Netdev: dev}, name); err != nil {
			return err
		}
	}
	return nil
}

// forgetBroken removes what the data plane still has of such a cube.
func (m *Manager) forgetBroken(b *world.Broken) {
	if b.Stored.UUID == "" {
		return
	}
	remove := func() error { return m.dp.Forget(b.Stored.UUID) }
	if b.Made {
		remove = func() error { return m.dp.DeleteCube(b.Stored.ID) }
	}
	if err := unit.Guard(remove); err != nil {
		m.log.Error("remove a cube's maps", "cube", b.Stored.Name, "error", err)
	}
	m.namespaces.forget(b.Stored.UUID)
}

// Action runs one of the model's actions; the changes of configuration that it asks for are part of the transaction.
func (m *Manager) Action(ctx context.Context, serviceName, name string, path yang.Path, body []byte) (json.RawMessage, error) {
	var act action
	words := areWords(ctx)
	err := m.transact(ctx, func(t *editing) error {
		_, u, err := t.next.Find(serviceName, name)
		if err != nil {
			return err
		}
		act, err = t.act(u, path, body, words)
		return err
	})
	if err != nil || act.rest == nil {
		return act.output, err
	}
	value, err := act.rest(ctx)
	if err == nil {
		err = m.Exclusively(ctx, func() error {
			if m.view.Load().Units[name] != act.unit {
				return fmt.Errorf("the cube has been deleted: %w", cube.ErrNotFound)
			}
			act.output, err = actionOutput(act.unit, act.path, value)
			return err
		})
	}
	return act.output, act.fails(err)
}

// action is an action that a cube has carried out, or begun: then it has a rest.
type action struct {
	unit   *unit.Unit
	path   yang.Path
	output json.RawMessage
	rest   func(context.Context) (any, error)
}

// fails says which action an error is of.
func (a *action) fails(err error) error {
	if err != nil {
		return fmt.Errorf("%s: %s: %w", a.unit.Name, a.path.Words(), err)
	}
	return nil
}

func (t *editing) act(u *unit.Unit, path yang.Path, body []byte, words bool) (action, error) {
	node, err := document.NodeAt(u.Service.Schema, path)
	if err != nil {
		return action{}, err
	}
	run := u.Instance().Action
	if node.Kind() != yang.Action || run == nil {
		return action{}, &yang.Error{Tag: yang.OperationNotSupported, Path: path.String(), Message: path.Words() + ": not an action of " + u.Name}
	}
	parse := u.Tree.ParseInput
	if words {
		parse = u.Tree.InputWords
	}
	input, err := parse(path, body)
	if err != nil {
		return action{}, err
	}
	if path, err = u.Service.Schema.Canonical(path); err != nil {
		return action{}, err
	}
	t.direct[u.Name] = true
	var result cube.ActionResult
	err = u.Handle(t.ctx, "Action", func() (err error) {
		result, err = run(t.ctx, path.Segments(), input)
		return err
	})
	a := action{unit: u, path: path, rest: result.Rest}
	if err == nil && a.rest == nil {
		a.output, err = actionOutput(u, path, result.Output)
	}
	if err != nil {
		return action{}, a.fails(err)
	}
	for _, e := range result.Edits {
		if err := t.applyEdit(u, e); err != nil {
			return action{}, a.fails(err)
		}
	}
	return a, nil
}

func actionOutput(u *unit.Unit, path yang.Path, value any) (json.RawMessage, error) {
	if value == nil {
		return nil, nil
	}
	output, err := json.Marshal(value)
	if err != nil {
		return nil, fmt.Errorf("encode its output: %w", err)
	}
	checked, err := u.Tree.CheckOutput(path, output)
	if err != nil {
		// The cube is at fault, not the request: the kind of error must not say otherwise.
		return nil, fmt.Errorf("its output does not fit the model: %s", err.Error())
	}
	return checked, nil
}

// CreateMany creates the cubes of an array, or of an export, with their peers and attachments, or none of them. An element is a cube's
// body with service-name and name; that of a transparent cube may say in parent which netdev it is attached to.
func (m *Manager) CreateMany(ctx context.Context, body []byte) error {
	list, netdevs, err := document.ManyCubes(body)
	if err != nil {
		return err
	}
	return m.transact(ctx, func(t *editing) error {
		for i, object := range list {
			if err := t.createElement(object); err != nil {
				return fmt.Errorf("element %d: %w", i, err)
			}
		}
		for _, n := range netdevs {
			for _, name := range n.Tcubes {
				t.parents = append(t.parents, givenParent{cube: name, parent: n.Name})
			}
		}
		return nil
	})
}

func (t *editing) createElement(object jsonscan.Object) error {
	var serviceName, name, parent string
	for _, m := range []struct {
		name string
		into *string
	}{{"service-name", &serviceName}, {"name", &name}, {"parent", &parent}} {
		raw, ok := object.Get(m.name)
		if !ok && m.name != "parent" {
			return &yang.Error{Tag: yang.MissingAttribute, Path: m.name, Message: m.name + " is missing"}
		}
		if ok && json.Unmarshal(raw, m.into) != nil {
			return &yang.Error{Tag: yang.InvalidValue, Path: m.name, Message: m.name + ": must be a string"}
		}
	}
	svc, err := t.LoadedService(serviceName)
	if err != nil {
		return err
	}
	body := object.Without("name")
	if svc.Info.Transparent {
		body = object.Without("name", "parent")
	}
	if err := t.create(serviceName, name, body, false); err != nil {
		return err
	}
	if svc.Info.Transparent {
		t.parents = append(t.parents, givenParent{cube: name, parent: parent})
	}
	return nil
}
