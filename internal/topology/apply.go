// SPDX-License-Identifier: Apache-2.0

package topology

// Apply makes the configuration what a document says, in one transaction: cubes that are missing are made, those that
// are other are changed, and what a change is refused for leaves everything as it was. A cube of the document becomes
// exactly what is written of it; what is not written has its default. Other cubes are left alone, unless the document is
// the whole configuration.

import (
	"context"
	"errors"
	"fmt"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/internal/suggest"
	"github.com/polycube/polycube/internal/topology/document"
	"github.com/polycube/polycube/internal/topology/service"
	"github.com/polycube/polycube/internal/topology/unit"
	"github.com/polycube/polycube/internal/topology/world"
	"github.com/polycube/polycube/internal/yang"
)

// ApplyOptions are how a document is applied.
type ApplyOptions struct {
	// DryRun does everything that can fail and then takes it back: cubes and the data plane prepare, nothing is made.
	// Only namespaces of shadow cubes are not tried.
	DryRun bool
	// Whole deletes the cubes that the document does not have.
	Whole bool
	// Revision refuses with [cube.ErrStale] unless the configuration still has it; nil takes any.
	Revision *uint64
}

// Applied is what came of a document, or would come.
type Applied struct {
	// Revision is that of the configuration afterwards; of a dry run, the present one.
	Revision   uint64              `json:"revision"`
	Changed    bool                `json:"changed"`
	DryRun     bool                `json:"dry-run"`
	Difference document.Difference `json:"difference"`
}

// What ends a transaction without an error of the document.
var (
	errNoChange = errors.New("nothing to change")
	errDryRun   = errors.New("dry run")
)

// Apply applies a document: a JSON array of cubes, or an object with cubes and netdevs as Export writes it. What is wrong
// with it is told as DocumentErrors.
func (m *Manager) Apply(ctx context.Context, body []byte, o ApplyOptions) (*Applied, error) {
	doc, err := document.Parse(body)
	if err != nil {
		return nil, err
	}
	return m.apply(ctx, doc, o, "")
}

// apply applies a document. The note goes into the history.
func (m *Manager) apply(ctx context.Context, doc *document.Document, o ApplyOptions, note string) (*Applied, error) {
	a := &application{doc: doc, options: o}
	out := &Applied{DryRun: o.DryRun}
	err := m.transact(ctx, func(t *editing) error {
		out.Revision = t.old.Revision
		if o.Revision != nil && *o.Revision != t.old.Revision {
			return fmt.Errorf("the configuration is at revision %d, it was changed since revision %d: review the difference again: %w",
				t.old.Revision, *o.Revision, cube.ErrStale)
		}
		t.dry, t.note, a.made = o.DryRun, note, t.next
		t.judge = func(t *settling) (err error) {
			if err := a.verify(t); err != nil {
				return err
			}
			if err := a.adopt(t); err != nil {
				return err
			}
			out.Difference, err = a.difference(t)
			if err == nil && out.Difference.Empty() {
				err = errNoChange
			}
			return err
		}
		return a.edit(t)
	})
	switch {
	case errors.Is(err, errNoChange):
		return out, nil
	case err == nil, errors.Is(err, errDryRun):
		out.Changed = true
		if err == nil {
			out.Revision = a.made.Revision
			a.forget(m)
		}
		return out, nil
	}
	return nil, a.locate(err)
}

// application is a document on its way into the configuration.
type application struct {
	doc     *document.Document
	options ApplyOptions
	cubes   []*wantedCube
	byName  map[string]*wantedCube
	plan    chainPlan
	faults  document.Errors
	// recreated says why a cube is re-created, by its name.
	recreated map[string]string
	// gone are the cubes that could not be restored and are deleted.
	gone []*world.Broken
	// made is the world that the document makes.
	made *unit.Snapshot
}

// wantedCube is one cube of it.
type wantedCube struct {
	*document.Cube
	svc *service.Service
	// want is nil when the cube stays as it is whatever its chains. all is the same with defaults, for a cube that is there.
	want *document.Image
	all  []byte
	// made tells that the cube is new and there already, longer that parents add to the chains of its ports.
	made, longer bool
	// have is what it was, got what it becomes; nil while they are not known.
	have, got *document.Image
}

// edit makes the next world what the document says.
func (a *application) edit(t *editing) error {
	a.recreated = map[string]string{}
	a.byName = make(map[string]*wantedCube, len(a.doc.Cubes))
	for _, c := range a.doc.Cubes {
		one := &wantedCube{Cube: c}
		a.faults.Add(c.Where, c.Name, one.check(t))
		a.cubes = append(a.cubes, one)
		a.byName[c.Name] = one
	}
	a.plan = a.planChains(t)
	if err := a.faults.Err(); err != nil {
		return err
	}
	for _, c := range a.cubes {
		if c.want == nil {
			continue
		}
		c.setTcubes(&a.plan)
		reason, err := c.fixed(t)
		a.faults.Add(c.Where, c.Name, err)
		if reason != "" {
			a.recreated[c.Name] = reason
		}
	}
	if err := a.faults.Err(); err != nil {
		return err
	}
	if err := a.remove(t); err != nil {
		return err
	}
	if err := a.release(t); err != nil {
		return err
	}
	for _, c := range a.cubes {
		if c.want != nil {
			a.faults.Add(c.Where, c.Name, c.createOrReplace(t))
		}
	}
	a.attachOthers(t)
	return a.faults.Err()
}

// check asks the model about a cube on its own.
func (c *wantedCube) check(t *editing) (err error) {
	if b := t.next.Broken[c.Name]; b != nil {
		have, err := t.ImageOf(t.next, c.Name)
		if err == nil && have != nil && b.Stored.Service == c.Service {
			if same, err := t.ImageFrom(c.Service, c.Body); err == nil && same.Same(have) {
				return nil // as it stands in the store
			}
		}
		return fmt.Errorf("it %s: %w", b, cube.ErrExists)
	}
	if c.svc, err = t.LoadedService(c.Service); err != nil {
		return &yang.Error{Tag: yang.InvalidValue, Path: "service-name", Given: c.Service, Near: suggest.Near(c.Service, t.loaded.Load().Order),
			Message: fmt.Sprintf("service-name: no service %.80q", c.Service)}
	}
	if err := t.units.checkName(c.Name); err != nil {
		return err
	}
	if c.Parent != "" && !c.svc.Info.Transparent {
		return &yang.Error{Tag: yang.InvalidValue, Path: "parent",
			Message: fmt.Sprintf("parent: a %s cannot be attached, connect its ports instead", c.Service)}
	}
	if t.next.Cubes[c.Name] == nil {
		if err := t.create(c.Service, c.Name, c.Body, false); err != nil {
			return err
		}
		c.made = true
		return c.read(t.next.Units[c.Name].Tree)
	}
	scratch := c.svc.Schema.NewTree()
	defer scratch.Close()
	if _, err := scratch.Edit(t.ctx, yang.Create, nil, c.Body); err != nil {
		return err
	}
	if err := c.read(scratch); err != nil {
		return err
	}
	c.all, err = scratch.JSON(nil, yang.JSONOptions{Defaults: true, Apart: true})
	return err
}

// read takes what is wanted from a tree that has it.
func (c *wantedCube) read(tree *yang.Tree) error {
	raw, err := tree.JSON(nil, yang.JSONOptions{})
	if err == nil {
		c.want, err = document.NewImage(c.Service, c.svc.Schema.Root(), raw)
	}
	return err
}

// setTcubes gives the ports their chains, which the parents of others may add to.
func (c *wantedCube) setTcubes(p *chainPlan) {
	for _, port := range c.want.Ports() {
		name, _ := port["name"].(string)
		was := len(document.AsList(port["tcubes"]))
		delete(port, "tcubes")
		var list []any
		for _, one := range p.chains[world.Place{Cube: c.Name, Port: name}] {
			list = append(list, one)
		}
		if list != nil {
			port["tcubes"] = list
		}
		c.longer = c.longer || len(list) != was
	}
}

// fixed says why an existing cube must be re-created, "" if it need not be.
func (c *wantedCube) fixed(t *editing) (string, error) {
	rec := t.next.Cubes[c.Name]
	if c.made {
		return "", nil
	}
	if rec.Service != c.Service {
		return fmt.Sprintf("it is a %s", rec.Service), c.refuseRecreate(rec)
	}
	var err error
	if c.have, err = t.ImageOf(t.next, c.Name); err != nil || c.want.Same(c.have) {
		return "", err
	}
	after, err := world.DecodeObject(c.all)
	if err != nil {
		return "", err
	}
	before, err := rec.Config.Decode()
	if err != nil {
		return "", err
	}
	if leaf := document.FixedMember(c.svc.Schema.Root(), nil, before, after); leaf != "" {
		return leaf + " is fixed at creation", c.refuseRecreate(rec)
	}
	return "", nil
}

// refuseRecreate refuses to make a cube with a namespace anew: the old namespace could not be brought back.
func (c *wantedCube) refuseRecreate(rec *world.Cube) error {
	if rec.Shadow || c.want.Object["shadow"] == true {
		return fmt.Errorf("a cube with a namespace cannot be re-created within a change, delete %s first: %w", c.Name, cube.ErrUnsupported)
	}
	return nil
}
