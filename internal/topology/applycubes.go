// SPDX-License-Identifier: Apache-2.0

package topology

// How a document's cubes get into the next world, and what is looked at when that world is complete.

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/internal/topology/document"
	"github.com/polycube/polycube/internal/topology/world"
	"github.com/polycube/polycube/internal/yang"
)

// remove deletes the cubes that are re-created, and of a whole configuration those that it does not have.
func (a *application) remove(t *editing) error {
	for _, rec := range t.next.InOrder() {
		if a.recreated[rec.Name] == "" && (!a.options.Whole || a.doc.Has(rec.Name)) {
			continue
		}
		if err := t.drop(t.next.Cubes[rec.Name]); err != nil {
			return fmt.Errorf("delete %s: %w", rec.Name, err)
		}
	}
	if !a.options.Whole {
		return nil
	}
	for _, name := range slices.Sorted(maps.Keys(t.next.Broken)) {
		if a.doc.Has(name) {
			continue
		}
		a.gone = append(a.gone, t.next.Broken[name])
		if err := t.dropBroken(name); err != nil {
			return fmt.Errorf("delete %s: %w", name, err)
		}
	}
	return nil
}

// forget removes what the data plane has of cubes that could not be restored and are deleted now.
func (a *application) forget(m *Manager) {
	for _, b := range a.gone {
		m.forgetBroken(b)
	}
}

// createOrReplace makes a cube, or changes the one that is there.
func (c *wantedCube) createOrReplace(t *editing) error {
	rec, u := t.next.Cubes[c.Name], t.next.Units[c.Name]
	if rec == nil {
		return t.create(c.Service, c.Name, c.want.Body(), false)
	}
	if c.made && !c.longer {
		return nil
	}
	if !slices.Contains(t.touched, c.Name) {
		if c.want.Same(c.have) {
			return nil
		}
	}
	for _, entry := range c.want.Ports() {
		name, _ := entry["name"].(string)
		p := rec.Ports[name]
		if p == nil {
			continue // what a new port has is attached when it is made
		}
		var fresh []string
		for _, one := range document.AsList(entry["tcubes"]) {
			if name := fmt.Sprint(one); !slices.Contains(p.Tcubes, name) {
				fresh = append(fresh, name)
			}
		}
		if fresh != nil {
			t.given = append(t.given, givenChain{at: world.Place{Cube: c.Name, Port: name}, tcubes: fresh})
		}
	}
	t.direct[c.Name] = true
	change, err := u.Tree.Amend(t.ctx, yang.Replace, nil, c.want.Body())
	if err != nil {
		return err
	}
	t.edited(u, change)
	return nil
}

// verify checks that the next world has what the document says: what one cube asks for may have taken something from
// another.
func (a *application) verify(t *settling) error {
	var faults document.Errors
	touched := make(map[string]bool, len(t.touched))
	for _, name := range t.touched {
		touched[name] = true
	}
	for _, c := range a.cubes {
		if c.want == nil || !touched[c.Name] {
			continue // it was so before
		}
		var err error
		if c.got, err = t.ImageOf(t.next, c.Name); err != nil {
			return err
		}
		d := document.CompareCubes(c.Name, c.want, c.got, "")
		if d == nil {
			continue
		}
		where := "it"
		if len(d.Changes) > 0 {
			where = strings.ReplaceAll(d.Changes[0].Path, "/", " ")
			if strings.HasSuffix(where, " peer") {
				where += fmt.Sprintf(" %s: the other side does not exist or is connected elsewhere, so it", d.Changes[0].Old)
			}
		}
		faults.Add(c.Where, c.Name, fmt.Errorf("%s cannot be configured as in the document: %w", where, cube.ErrInvalid))
	}
	return faults.Err()
}

// adopt gives ports of the document that have no addresses those of their netdevs. A document that is applied again finds
// them there, and must not take them away.
func (a *application) adopt(t *settling) error {
	for _, c := range a.cubes {
		if c.got == nil {
			continue
		}
		t.meet(world.Place{Cube: c.Name})
		err := t.adoptInto(t.next.Units[c.Name], t.before(c.Name), t.next.Cubes[c.Name])
		if err == nil {
			c.got, err = t.ImageOf(t.next, c.Name)
		}
		if err != nil {
			return blame(c.Name, err)
		}
	}
	return nil
}

// difference is what the transaction changes, the consequences for other cubes too.
func (a *application) difference(t *settling) (document.Difference, error) {
	names := slices.Clone(t.touched)
	for _, u := range t.removed {
		names = append(names, u.Name)
	}
	for _, b := range a.gone {
		names = append(names, b.Stored.Name)
	}
	slices.SortFunc(names, document.CompareNatural)
	d := document.Difference{Netdevs: document.CompareChains(t.old.Chains, t.next.Chains)}
	for _, name := range slices.Compact(names) {
		before, after, err := a.images(t, name)
		if err != nil {
			return d, err
		}
		if one := document.CompareCubes(name, before, after, a.recreated[name]); one != nil {
			d.Cubes = append(d.Cubes, *one)
		}
	}
	return d, nil
}

// images are a cube before and after the transaction.
func (a *application) images(t *settling, name string) (before, after *document.Image, err error) {
	if c := a.byName[name]; c != nil {
		before, after = c.have, c.got
	}
	if before == nil {
		if before, err = t.ImageOf(t.old, name); err != nil {
			return nil, nil, err
		}
	}
	if after == nil {
		after, err = t.ImageOf(t.next, name)
	}
	return before, after, err
}

// locate says where in the document the cause of an error is, if it is a cube's.
func (a *application) locate(err error) error {
	if f := (document.Errors)(nil); errors.As(err, &f) {
		return f
	}
	several, ok := err.(interface{ Unwrap() []error })
	if !ok {
		several = single{err}
	}
	var faults document.Errors
	for _, one := range several.Unwrap() {
		var culprit *cubeError
		if !errors.As(one, &culprit) {
			return err
		}
		where := ""
		if c := a.doc.ByName[culprit.cube]; c != nil {
			where = c.Where
		}
		faults.Add(where, culprit.cube, one)
	}
	return faults
}

// single is one error in the shape of several.
type single [1]error

func (s single) Unwrap() []error { return s[:] }
