// SPDX-License-Identifier: Apache-2.0

package topology

// From edited trees to the next world: records are derived from configurations, ports get their numbers, what the change
// implies elsewhere is done (a peer that is gone, a filter that is released), and the rules of service chains checked.

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/internal/topology/unit"
	"github.com/polycube/polycube/internal/topology/world"
)

// settle completes the next world, has it judged by whoever asked for the change, and adds what follows from the change.
func (t *settling) settle() error {
	if err := t.complete(); err != nil {
		return err
	}
	if t.judge != nil {
		if err := t.judge(t); err != nil {
			return err
		}
	}
	return t.addConsequences()
}

// addConsequences makes the edits that the cubes' code asks for: ports take the addresses of the netdevs that they were
// connected to, and parts of the configuration go with what they depend on. Nothing is edited after that.
func (t *settling) addConsequences() error {
	for _, name := range t.touched {
		u, rec, was := t.next.Units[name], t.next.Cubes[name], t.known(name)
		if rec == nil {
			continue // deleted
		}
		if err := t.adoptInto(u, was, rec); err != nil {
			return blame(name, fmt.Errorf("%s: %w", name, err))
		}
		if was == nil || u.IsDegraded() {
			continue
		}
		t.widenPorts(u, was, rec)
		if err := t.dropDependents(name, u, was, rec); err != nil {
			return blame(name, fmt.Errorf("%s: %w", name, err))
		}
	}
	return nil
}

// known is the record that a cube's code knows: the one before the transaction, nil if the cube or its code is new.
func (t *txn) known(name string) *world.Cube {
	if t.successor(t.next.Units[name]) != nil {
		return nil
	}
	return t.before(name)
}

// complete derives records, does what the change implies elsewhere, and checks the next world.
func (t *settling) complete() error {
	for _, name := range slices.Clone(t.touched) {
		if err := t.derive(name); err != nil {
			return blame(name, err)
		}
	}
	if !t.restoring && len(t.given)+len(t.parents) == 0 {
		if r := t.reach(); !r.Wired {
			t.extent = r
			return nil
		}
	}
	if err := t.clearStalePeers(); err != nil {
		return err
	}
	if t.restoring {
		t.restoreParents()
		return nil
	}
	if err := t.attachGiven(); err != nil {
		return err
	}
	if err := t.checkPeers(); err != nil {
		return err
	}
	if err := t.checkOutputs(); err != nil {
		return err
	}
	if t.extent = t.reach(); !t.extent.Wired {
		return nil
	}
	return t.checkHooks()
}

// derive makes a cube's record follow its tree.
func (t *settling) derive(name string) error {
	u, rec := t.next.Units[name], t.own(name)
	if rec == nil {
		return nil // deleted
	}
	text, err := u.Tree.Text()
	if err != nil {
		return fmt.Errorf("%s: read its configuration: %w", name, err)
	}
	ports := text.Member("ports")
	samePorts := rec.Config != nil && bytes.Equal(rec.Config.Ports, ports)
	members := []string{"type", "loglevel", "shadow", "span"}
	if rec.Transparent {
		if rec.Outputs, err = world.OutputsIn(text.Only("outputs")); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	if !samePorts {
		members = append(members, "ports")
	}
	var conf world.Common
	if err := json.Unmarshal(text.Only(members...), &conf); err != nil {
		return fmt.Errorf("%s: decode its configuration: %w", name, err)
	}
	if err := t.deriveShadow(rec, conf); err != nil {
		return err
	}
	level, ok := unit.LogLevels[conf.Loglevel]
	if !ok {
		return fmt.Errorf("%s: loglevel %q: %w", name, conf.Loglevel, cube.ErrInvalid)
	}
	rec.Tables = u.Tree.Tables()
	if rec.Config == nil || !bytes.Equal(rec.Config.Raw, text.Full) {
		rec.Config = &world.Config{Raw: text.Full, Ports: ports}
	}
	rec.Saved = text.Saved
	rec.Type, rec.LogLevel = conf.Type, level.Fast
	if t.before(name) == nil {
		u.SetType(conf.Type)
		if _, ok := u.Service.Objects[conf.Type.Hook()]; !ok && len(u.Service.Objects) > 0 {
			return fmt.Errorf("%s: service %s has no programs for type %s: %w", name, rec.Service, conf.Type, cube.ErrUnsupported)
		}
	}
	if samePorts {
		return nil
	}
	return t.derivePorts(rec, conf)
}

func (t *settling) derivePorts(rec *world.Cube, conf world.Common) error {
	var fresh []*world.Port
	taken := map[uint16]bool{}
	there := make(map[string]bool, len(conf.Ports))
	for _, c := range conf.Ports {
		there[c.Name] = true
		if p := rec.Ports[c.Name]; p != nil {
			p.Peer, p.Tcubes = c.Peer, c.Tcubes
			continue
		}
		if err := world.CheckPortName(rec.Name, c.Name); err != nil {
			return err
		}
		fresh = append(fresh, &world.Port{Name: c.Name, UUID: world.NewUUID(), Peer: c.Peer, Tcubes: c.Tcubes})
		if len(c.Tcubes) > 0 {
			t.given = append(t.given, givenChain{at: world.Place{Cube: rec.Name, Port: c.Name}, tcubes: c.Tcubes})
		}
	}
	for name, p := range rec.Ports {
		if !there[name] {
			taken[p.Index] = true
			t.release(p.Tcubes)
			t.next.Leaving[p.Slot] = true
			delete(rec.Ports, name)
		}
	}
	if err := t.next.NumberPorts(rec, fresh, taken, t.next.Units[rec.Name].Service.PortLimit()); err != nil {
		return err
	}
	for _, p := range fresh {
		rec.Ports[p.Name] = p
	}
	return nil
}

// attachGiven attaches what the bodies of new ports and cubes ask for.
func (t *settling) attachGiven() error {
	for _, g := range t.given {
		for _, name := range g.tcubes {
			if err := t.checkAttach(name, g.at); err != nil {
				return blame(g.at.Cube, fmt.Errorf("port %s of %s: tcubes: %w", g.at.Port, g.at.Cube, err))
			}
			t.own(name).Parent = g.at.String()
		}
	}
	for _, g := range t.parents {
		if rec := t.next.Cubes[g.cube]; g.parent == "" || rec != nil && rec.Parent == g.parent {
			continue // a port's own tcubes say so too
		}
		at, err := world.ParsePlace(g.parent)
		if err == nil {
			err = t.attach(g.cube, at, AttachRequest{Position: "last"})
		}
		if err == nil && at.Netdev == "" {
			err = t.derive(at.Cube)
		}
		if err != nil {
			return blame(g.cube, fmt.Errorf("cube %s: parent %.140s: %w", g.cube, g.parent, err))
		}
	}
	return nil
}

// restoreParents notes where the transparent cubes of a restored world are attached.
func (t *settling) restoreParents() {
	note := func(name string, at world.Place) {
		if rec := t.next.Cubes[name]; rec != nil && rec.Parent != at.String() {
			t.own(name).Parent = at.String()
		}
	}
	for _, rec := range t.next.InOrder() {
		for _, p := range rec.PortsByIndex() {
			for _, name := range p.Tcubes {
				note(name, world.Place{Cube: rec.Name, Port: p.Name})
			}
		}
	}
	for dev, chain := range t.next.Chains {
		for _, name := range chain {
			note(name, world.Place{Netdev: dev})
		}
	}
}

// clearStalePeers empties the peer of ports whose other side was deleted or turned to another peer in this transaction,
// as a disconnect would.
func (t *settling) clearStalePeers() error {
	if t.restoring {
		return nil
	}
	for _, rec := range t.reached() {
		for _, p := range rec.PortsByIndex() {
			if !t.stale(rec, p) {
				continue
			}
			if err := t.setPeer(rec.Name, p.Name, ""); err != nil {
				return err
			}
			if err := t.derive(rec.Name); err != nil {
				return err
			}
		}
	}
	return nil
}

func (t *settling) stale(rec *world.Cube, p *world.Port) bool {
	if !strings.Contains(p.Peer, ":") || t.peerChanged(rec.Name, p) {
		return false
	}
	at, err := world.ParsePlace(p.Peer)
	if err != nil {
		return false
	}
	_, was, err := t.old.PortAt(at)
	if err != nil {
		return false // it was not there before either: a configuration restored in part
	}
	_, is, err := t.next.PortAt(at)
	if err != nil {
		return true
	}
	me := world.Place{Cube: rec.Name, Port: p.Name}.String()
	return is.Peer != was.Peer && is.Peer != "" && is.Peer != me
}

// peerChanged says whether this transaction gave the port the peer that it has.
func (t *settling) peerChanged(cubeName string, p *world.Port) bool {
	was := t.before(cubeName)
	return was == nil || was.Ports[p.Name] == nil || was.Ports[p.Name].Peer != p.Peer
}

// checkPeers checks each peer that this transaction set.
func (t *settling) checkPeers() error {
	var errs []error
	var set []world.Place
	wanted := map[string]bool{}
	for _, name := range t.touched {
		rec := t.next.Cubes[name]
		if rec == nil || rec.SamePorts(t.before(name)) {
			continue
		}
		for _, p := range rec.PortsByIndex() {
			if p.Peer != "" && t.peerChanged(name, p) {
				set = append(set, world.Place{Cube: name, Port: p.Name})
				wanted[p.Peer] = true
			}
		}
	}
	if len(set) == 0 {
		return nil
	}
	held := t.next.Holders(func(peer string) bool { return wanted[peer] })
	for _, at := range set {
		rec := t.next.Cubes[at.Cube]
		p := rec.Ports[at.Port]
		if err := t.checkPeer(rec, p, held[p.Peer]); err != nil {
			errs = append(errs, blame(at.Cube, fmt.Errorf("port %s of %s: peer %.140s: %w", p.Name, at.Cube, p.Peer, err)))
		}
	}
	return errors.Join(errs...)
}

func (t *settling) checkPeer(rec *world.Cube, p *world.Port, holders []world.Place) error {
	at, err := world.ParsePlace(p.Peer)
	if err != nil {
		return err
	}
	me := world.Place{Cube: rec.Name, Port: p.Name}
	if at == me {
		return fmt.Errorf("a port cannot be its own peer: %w", cube.ErrInvalid)
	}
	if at.Netdev != "" {
		err = t.checkNetdev(at.Netdev)
	} else {
		err = t.checkFarPort(rec, me, at)
	}
	if err != nil {
		return err
	}
	for _, other := range holders {
		if other != me {
			return fmt.Errorf("already the peer of %s, disconnect them first: %w", other, cube.ErrInUse)
		}
	}
	return nil
}

func (t *settling) checkFarPort(rec *world.Cube, me, at world.Place) error {
	far, other, err := t.next.PortAt(at)
	if err != nil {
		return err
	}
	if far.Type.Hook() != rec.Type.Hook() {
		return fmt.Errorf("%s runs at %s and %s at %s: a TC and an XDP port cannot be linked: %w",
			rec.Name, rec.Type, far.Name, far.Type, cube.ErrInvalid)
	}
	if other.Peer != "" && other.Peer != me.String() {
		return fmt.Errorf("it already has a peer, %s: %w", other.Peer, cube.ErrInUse)
	}
	return nil
}

// checkNetdev checks a netdev that a request names as a peer, and notes its index.
func (t *settling) checkNetdev(name string) error {
	l, err := t.findNetdev(name)
	if err != nil {
		return err
	}
	if why := world.Unfit(l); why != "" {
		return fmt.Errorf("netdev %s %s: %w", name, why, cube.ErrInvalid)
	}
	if !l.Up {
		return fmt.Errorf("netdev %s is down, set it up first (ip link set %s up): %w", name, name, cube.ErrInvalid)
	}
	return nil
}

// checkHooks checks that what is on one path runs at one family of hooks, on the paths that the transaction can have
// changed.
func (t *settling) checkHooks() error {
	w := t.next
	agree := func(name string, rec *world.Cube) error {
		tc := w.Cubes[name]
		if tc == nil || tc.Type.Hook() == rec.Type.Hook() {
			return nil
		}
		return fmt.Errorf("%s is of type %s, but %s of type %s is already there: TC and XDP cannot be mixed: %w",
			name, tc.Type, rec.Name, rec.Type, cube.ErrInvalid)
	}
	for _, name := range w.Chains[world.HostStack] {
		if tc := w.Cubes[name]; tc != nil && tc.Type == cube.TypeXDPSKB {
			return fmt.Errorf("%s is of type %s, which is no faster than TC: give a cube for the host type TC or XDP_DRV: %w", name, tc.Type, cube.ErrInvalid)
		}
	}
	devices := map[string]*world.Cube{} // what a chain has to agree with, nil for its own first cube
	for _, name := range t.next.ChainsChanged(&t.old.World) {
		devices[name] = nil
	}
	for _, rec := range t.reached() {
		for _, p := range rec.PortsByIndex() {
			for _, name := range p.Tcubes {
				if err := agree(name, rec); err != nil {
					return fmt.Errorf("%s:%s: %w", rec.Name, p.Name, err)
				}
			}
			if p.Peer != "" && !strings.Contains(p.Peer, ":") {
				devices[p.Peer] = rec
			}
		}
	}
	for _, dev := range slices.Sorted(maps.Keys(devices)) {
		first := devices[dev]
		for _, name := range w.Chains[dev] {
			if first == nil {
				first = w.Cubes[name]
			}
			if first != nil {
				if err := agree(name, first); err != nil {
					return fmt.Errorf("netdev %s: %w", dev, err)
				}
			}
		}
	}
	return nil
}
