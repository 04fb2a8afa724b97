// SPDX-License-Identifier: Apache-2.0

package topology

// Where transparent cubes are to be, from what a document says at either end: the tcubes of a port or netdev, and the
// parent of a cube. Who is moved is first taken off where it is.

import (
	"fmt"
	"maps"
	"slices"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/internal/topology/document"
	"github.com/polycube/polycube/internal/topology/world"
)

// chainPlan says which transparent cubes are to be at which places.
type chainPlan struct {
	// chains are the places that the document decides on.
	chains map[world.Place][]string
	// where is the inverse.
	where map[string]world.Place
}

// planChains reads the document's chains. Places that it does not name keep who is not told to be elsewhere.
func (a *application) planChains(t *editing) chainPlan {
	p := chainPlan{chains: map[world.Place][]string{}, where: map[string]world.Place{}}
	if a.options.Whole {
		for dev := range t.next.Chains {
			p.chains[world.Place{Netdev: dev}] = nil
		}
	}
	for _, c := range a.cubes {
		if c.want == nil {
			continue
		}
		for _, port := range c.want.Ports() {
			name, _ := port["name"].(string)
			at := world.Place{Cube: c.Name, Port: name}
			p.chains[at] = nil
			tcubes, _ := port["tcubes"].([]any)
			for _, one := range tcubes {
				a.faults.Add(c.Where, c.Name, p.put(fmt.Sprint(one), at, "tcubes of "))
			}
		}
	}
	for _, n := range a.doc.Netdevs {
		at := world.Place{Netdev: n.Name}
		p.chains[at] = nil
		for _, one := range n.Tcubes {
			a.faults.Add(n.Where, "", p.put(one, at, "tcubes of "))
		}
	}
	for _, c := range a.cubes {
		if c.Parent == "" || c.want == nil {
			continue
		}
		at, err := world.ParsePlace(c.Parent)
		if err == nil && p.where[c.Name] != at {
			if _, decided := p.chains[at]; !decided && at.Cube != "" && a.doc.Has(at.Cube) {
				err = fmt.Errorf("in the document, %s has no port %s: %w", at.Cube, at.Port, cube.ErrNotFound)
			} else {
				p.keep(t, a, at)
				if p.where[c.Name] != at {
					err = p.put(c.Name, at, "parent ")
				}
			}
		}
		if err != nil {
			a.faults.Add(c.Where, c.Name, fmt.Errorf("parent: %w", err))
		}
	}
	return p
}

// keep takes over the chain of a place that the document does not name, without those that it places elsewhere.
func (p *chainPlan) keep(t *editing, a *application, at world.Place) {
	if _, decided := p.chains[at]; decided {
		return
	}
	p.chains[at] = nil
	for _, name := range t.next.ChainAt(at) {
		_, elsewhere := p.where[name]
		if c := a.doc.ByName[name]; !elsewhere && (c == nil || c.Parent == at.String()) {
			p.chains[at] = append(p.chains[at], name)
			p.where[name] = at
		}
	}
}

// put appends a cube to the chain of a place.
func (p *chainPlan) put(name string, at world.Place, what string) error {
	if other, twice := p.where[name]; twice && other != at {
		return fmt.Errorf("%s%s: %.80s is also attached to %s: %w", what, at, name, other, cube.ErrInvalid)
	} else if twice && slices.Contains(p.chains[at], name) {
		return fmt.Errorf("%s%s: %.80s is named twice: %w", what, at, name, cube.ErrInvalid)
	}
	p.where[name] = at
	p.chains[at] = append(p.chains[at], name)
	return nil
}

// release takes off the cubes that are not where they are to be: those that the document names, and those at its places.
func (a *application) release(t *editing) error {
	for _, rec := range t.next.InOrder() {
		if rec.Parent == "" {
			continue
		}
		at, err := world.ParsePlace(rec.Parent)
		if err != nil {
			return err
		}
		to, placed := a.plan.where[rec.Name]
		_, decided := a.plan.chains[at]
		if placed && to == at || !placed && !decided && !a.doc.Has(rec.Name) {
			continue
		}
		if err := t.detach(rec); err != nil {
			return fmt.Errorf("detach %s from %s: %w", rec.Name, at, err)
		}
	}
	return nil
}

// attachOthers makes the chains of netdevs, and those of ports of cubes that the document does not have.
func (a *application) attachOthers(t *editing) {
	places := slices.SortedFunc(maps.Keys(a.plan.chains), func(x, y world.Place) int { return document.CompareNatural(x.String(), y.String()) })
	for _, at := range places {
		chain := a.plan.chains[at]
		if at.Cube != "" && a.doc.Has(at.Cube) || slices.Equal(chain, t.next.ChainAt(at)) {
			continue // a port's chain is in its cube's body
		}
		var err error
		for _, name := range chain {
			if slices.Contains(t.next.ChainAt(at), name) {
				continue // it was there, and was not released
			}
			if err = t.checkAttach(name, at); err != nil {
				break
			}
			t.own(name).Parent = at.String()
		}
		if err == nil {
			err = t.setChain(at, chain)
		}
		if err != nil {
			where, name := a.whereOf(at)
			a.faults.Add(where, name, fmt.Errorf("tcubes of %s: %w", at, err))
		}
	}
}

// whereOf is the part of the document that says something of a netdev or of a port that is not in it.
func (a *application) whereOf(at world.Place) (where, name string) {
	for _, n := range a.doc.Netdevs {
		if n.Name == at.Netdev {
			return n.Where, ""
		}
	}
	for _, c := range a.doc.Cubes {
		if c.Parent == at.String() {
			return c.Where, c.Name
		}
	}
	return "", ""
}
