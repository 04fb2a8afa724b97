// SPDX-License-Identifier: Apache-2.0

package topology

// The namespaces of shadow cubes within a transaction: they are made before the data plane prepares, since it must know
// their interfaces, and what is not wanted any more is removed when the change is in force. Addresses follow the
// configuration before it is written to disk, so that what a restarted daemon finds in a namespace is never older than
// what it reads: it may take all differences for changes that somebody made there.

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/internal/shadow"
	"github.com/polycube/polycube/internal/topology/unit"
	"github.com/polycube/polycube/internal/topology/world"
)

// Shadows makes the namespaces of shadow cubes; *shadow.Keeper.
type Shadows interface {
	// Ensure makes what is missing of a cube's namespace.
	Ensure(shadow.Cube) (shadow.Ends, error)
	// Trim removes the interfaces of ports that the cube does not have.
	Trim(shadow.Cube) error
	// Remove deletes a cube's namespace.
	Remove(uuid string) error
	// Set changes a port's interface.
	Set(uuid, port string, to shadow.Setting) error
	// States reads the interfaces of a cube's ports.
	States(shadow.Cube) (map[string]shadow.State, error)
	// Name is the name of a cube's namespace.
	Name(cube string) string
	// Owner is the UUID of the cube that an outer end belongs to, "" for any other device.
	Owner(ifindex int) string
	// Sweep removes the namespaces of cubes that are not kept.
	Sweep(keep func(uuid string) bool) error
	// Start begins to report changes in namespaces.
	Start(changed func(uuid string))
}

// deriveShadow takes over whether a cube has a namespace.
func (t *settling) deriveShadow(rec *world.Cube, conf world.Common) error {
	if conf.Shadow && conf.Type.Hook() != cube.TC {
		return fmt.Errorf("%s: a cube of type %s cannot have a namespace, a shadow cube must be of type TC: %w", rec.Name, conf.Type, cube.ErrInvalid)
	}
	if conf.Shadow && t.shadows == nil {
		return fmt.Errorf("%s: this daemon does not support namespaces: %w", rec.Name, cube.ErrUnsupported)
	}
	rec.Shadow, rec.Span = conf.Shadow, conf.Span
	return nil
}

// ensureShadows makes what the touched cubes need of namespaces.
func (x *execution) ensureShadows() error {
	for _, name := range x.touched {
		rec := x.own(name)
		if rec == nil || !rec.Shadow {
			continue
		}
		if err := x.ensureShadow(rec); err != nil {
			return blame(name, fmt.Errorf("%s: its namespace: %w", name, err))
		}
		if err := x.planAlignment(rec); err != nil {
			return blame(name, err)
		}
	}
	return nil
}

func (t *txn) ensureShadow(rec *world.Cube) error {
	ends, err := t.shadows.Ensure(rec.Namespace())
	if err != nil {
		return err
	}
	t.undo = append(t.undo, ends.Undo)
	for name, p := range rec.Ports {
		p.Outer = ends.Outer[name]
	}
	if t.made == nil {
		t.made = map[world.Place]bool{}
	}
	for _, name := range ends.Made {
		t.made[world.Place{Cube: rec.Name, Port: name}] = true
	}
	return nil
}

// alignment is what a transaction does to the interface of a port, and its reverse.
type alignment struct {
	uuid, port  string
	forth, back shadow.Setting
}

// planAlignment asks a cube how its ports are to be configured. It may wait for the cube, so it comes before the plane lock.
func (x *execution) planAlignment(rec *world.Cube) error {
	was := x.before(rec.Name)
	before, err := x.interfaces(was)
	if err != nil {
		return err
	}
	after, err := x.interfaces(rec)
	if err != nil {
		return err
	}
	for _, p := range rec.PortsByIndex() {
		from, to := before[p.Name], after[p.Name]
		if x.made[world.Place{Cube: rec.Name, Port: p.Name}] {
			from = cube.Interface{}
		} else if was == nil {
			continue // found after a restart: what differs was changed in the namespace
		}
		forth := step(from, to)
		if forth.MAC != nil || len(forth.Add)+len(forth.Remove) > 0 {
			x.alignments = append(x.alignments, alignment{rec.UUID, p.Name, forth, step(to, from)})
		}
	}
	return nil
}

// alignShadows gives the interfaces of touched cubes the addresses that their ports have been given.
func (x *execution) alignShadows() error {
	for _, a := range x.alignments {
		x.undo = append(x.undo, func() error { return x.shadows.Set(a.uuid, a.port, a.back) })
		if err := x.shadows.Set(a.uuid, a.port, a.forth); err != nil {
			return err
		}
	}
	return nil
}

// step is what leads from one state of an interface to another.
func step(from, to cube.Interface) shadow.Setting {
	var s shadow.Setting
	if to.MAC != nil && !bytes.Equal(from.MAC, to.MAC) {
		s.MAC = to.MAC
	}
	for _, a := range to.Addresses {
		if !slices.Contains(from.Addresses, a) {
			s.Add = append(s.Add, a)
		}
	}
	for _, a := range from.Addresses {
		if !slices.Contains(to.Addresses, a) {
			s.Remove = append(s.Remove, a)
		}
	}
	return s
}

// interfaces asks a cube how its ports are configured; a cube without addresses has no answer.
func (t *txn) interfaces(rec *world.Cube) (map[string]cube.Interface, error) {
	if rec == nil {
		return nil, nil
	}
	u := t.next.Units[rec.Name]
	interfaces := u.Instance().Interfaces
	if interfaces == nil || u.IsDegraded() {
		return nil, nil
	}
	var answer map[string]cube.Interface
	err := t.call(t.ctx, u, func() (err error) {
		answer, err = interfaces(rec.Config.Raw)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("%s: configuration of its ports in the namespace: %w", rec.Name, err)
	}
	return answer, nil
}

// finishShadows removes what the change has no use for, and tells the interfaces whether their ports are linked and how
// large packets may be there. Nothing here can undo the change; what goes wrong is logged.
func (c *committed) finishShadows() {
	if c.shadows == nil {
		return
	}
	var errs []error
	for _, u := range c.removed {
		errs = append(errs, c.shadows.Remove(u.UUID))
	}
	for _, name := range c.touched {
		if rec := c.next.Cubes[name]; rec != nil && rec.Shadow {
			errs = append(errs, c.shadows.Trim(rec.Namespace()))
			c.watchRoutes(rec)
		}
	}
	for _, rec := range c.next.Cubes {
		if !rec.Shadow {
			continue
		}
		for _, p := range rec.Ports {
			errs = append(errs, c.followPeer(rec, p))
		}
	}
	if err := errors.Join(errs...); err != nil {
		c.log.Error("a namespace differs from its cube", "error", err)
	}
}

// followPeer gives a port's interface the carrier and the MTU of the port's link, when they have changed.
func (c *committed) followPeer(rec *world.Cube, p *world.Port) error {
	var was *world.Port
	old := c.old.Cubes[rec.Name]
	if old != nil && !c.made[world.Place{Cube: rec.Name, Port: p.Name}] {
		was = old.Ports[p.Name]
	}
	up, mtu := c.next.Linked(rec, p), c.next.Links[p.Peer].MTU
	var to shadow.Setting
	if was == nil || up != c.old.Linked(old, was) {
		to.Up = &up
	}
	if mtu > 0 && (was == nil || mtu != c.old.Links[was.Peer].MTU) {
		to.MTU = mtu
	}
	if to.Up == nil && to.MTU == 0 {
		return nil
	}
	return c.shadows.Set(rec.UUID, p.Name, to)
}

// errUnchanged ends a transaction that has nothing to do.
var errUnchanged = errors.New("nothing has changed")

// repairShadow makes what is missing of a cube's namespace.
func (t *editing) repairShadow(rec *world.Cube) error {
	before := map[string]int{}
	for name, p := range rec.Ports {
		before[name] = p.Outer
	}
	if err := t.ensureShadow(rec); err != nil {
		return fmt.Errorf("%s: %w", rec.Name, err)
	}
	for name, p := range rec.Ports {
		if p.Outer != before[name] {
			t.log.Warn("a deleted interface of a cube's namespace was restored", "cube", rec.Name, "port", name)
			t.touch(rec.Name)
		}
	}
	if len(t.touched) == 0 {
		return errUnchanged
	}
	return nil
}

// noteShadow takes note of interfaces that somebody has set down or up in the namespace.
func (t *editing) noteShadow(rec *world.Cube) error {
	states, err := t.shadows.States(rec.Namespace())
	if err != nil {
		return err
	}
	changed := false
	for name, st := range states {
		p := rec.Ports[name]
		changed = changed || p.InnerDown == st.Up
		p.InnerDown = !st.Up
	}
	if !changed {
		return errUnchanged
	}
	return nil
}

// followShadow makes the edits by which a cube follows its namespace.
func (t *editing) followShadow(rec *world.Cube) error {
	edits, err := t.differences(rec)
	if err != nil {
		return err
	}
	if len(edits) == 0 {
		return errUnchanged
	}
	for _, e := range edits {
		if err := t.applyEdit(t.next.Units[rec.Name], e); err != nil {
			return fmt.Errorf("%s: %s: %w", rec.Name, strings.Join(e.Path, " "), err)
		}
	}
	return nil
}

// differences asks a cube for the edits that make its ports as their interfaces are.
func (t *editing) differences(rec *world.Cube) ([]cube.Edit, error) {
	wanted, err := t.interfaces(rec)
	if err != nil || wanted == nil {
		return nil, err
	}
	states, err := t.shadows.States(rec.Namespace())
	if err != nil {
		return nil, err
	}
	u := t.next.Units[rec.Name]
	var edits []cube.Edit
	for _, name := range slices.Sorted(maps.Keys(states)) {
		want, ok := wanted[name]
		if !ok || looks(states[name].Interface, want) {
			continue
		}
		err := t.call(t.ctx, u, func() error {
			more, err := u.Instance().NamespaceChanged(name, want, states[name].Interface)
			edits = append(edits, more...)
			return err
		})
		if err != nil {
			return nil, fmt.Errorf("port %s of %s: %w", name, rec.Name, err)
		}
	}
	return edits, nil
}

// looks tells whether an interface is as a cube wants it.
func looks(is, want cube.Interface) bool {
	sorted := func(list []netip.Prefix) []netip.Prefix {
		return slices.Compact(slices.SortedFunc(slices.Values(list), netip.Prefix.Compare))
	}
	return (want.MAC == nil || bytes.Equal(is.MAC, want.MAC)) && slices.Equal(sorted(is.Addresses), sorted(want.Addresses))
}

// routeTeller is a Shadows that can tell routes.
type routeTeller interface {
	WatchRoutes(c shadow.Cube, told shadow.Told)
}

// watchRoutes has a cube told of the routes in its namespace, if it wants to hear of them.
func (c *committed) watchRoutes(rec *world.Cube) {
	u := c.next.Units[rec.Name]
	teller, can := c.shadows.(routeTeller)
	changed := u.Instance().RoutesChanged
	if can && changed != nil {
		n := &unit.RouteNews{Unit: u, Changed: changed}
		teller.WatchRoutes(rec.Namespace(), n.Take)
	}
}

// advertiser is a Shadows that has routes of cubes.
type advertiser interface {
	Advertise(uuid string, prefixes []netip.Prefix) error
}

// advertise makes the routes of a cube in its namespace those to prefixes.
func advertise(to Shadows, uuid string, prefixes []netip.Prefix) error {
	if a, ok := to.(advertiser); ok {
		return a.Advertise(uuid, prefixes)
	}
	return fmt.Errorf("this daemon does not support namespaces: %w", cube.ErrNotFound)
}
