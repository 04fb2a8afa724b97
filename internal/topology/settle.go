// SPDX-License-Identifier: Apache-2.0

package topology

// From edited trees to the next world: records are derived from configurations, ports get their numbers, what the change
// implies elsewhere is done (a peer that is gone, a filter that is released), and the rules of service chains checked.

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/internal/yang"
)

// settle completes the next world and checks it.
func (t *txn) settle() error {
	for _, name := range slices.Clone(t.touched) {
		if err := t.derive(name); err != nil {
			return blame(name, err)
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
	if t.extent = t.reach(); !t.extent.wired {
		return nil
	}
	if err := t.checkHooks(); err != nil {
		return err
	}
	return t.checkBypass()
}

// derive makes a cube's record follow its tree.
func (t *txn) derive(name string) error {
	u, rec := t.next.units[name], t.own(name)
	if rec == nil {
		return nil // deleted
	}
	raw, err := u.tree.JSON(nil, yang.JSONOptions{Defaults: true, Apart: true})
	if err != nil {
		return fmt.Errorf("%s: reading its configuration: %w", name, err)
	}
	saved, err := u.tree.JSON(nil, yang.JSONOptions{Apart: true})
	if err != nil {
		return fmt.Errorf("%s: reading its configuration: %w", name, err)
	}
	var conf baseConfig
	if err := json.Unmarshal(raw, &conf); err != nil {
		return fmt.Errorf("%s: decoding its configuration: %w", name, err)
	}
	if err := t.deriveShadow(rec, conf); err != nil {
		return err
	}
	level, ok := logLevels[conf.Loglevel]
	if !ok {
		return fmt.Errorf("%s: loglevel %q: %w", name, conf.Loglevel, cube.ErrInvalid)
	}
	rec.tables = u.tree.Tables()
	rec.conf, rec.saved, rec.typ, rec.level = &document{raw: raw}, saved, conf.Type, level.fast
	if t.before(name) == nil {
		u.env.typ = conf.Type
		if _, ok := u.svc.Objects[conf.Type.Hook()]; !ok && len(u.svc.Objects) > 0 {
			return fmt.Errorf("%s: service %s has no programs for type %s: %w", name, rec.service, conf.Type, cube.ErrUnsupported)
		}
	}
	return t.derivePorts(rec, conf)
}

func (t *txn) derivePorts(rec *record, conf baseConfig) error {
	var fresh []*port
	taken := map[uint16]bool{}
	there := make(map[string]bool, len(conf.Ports))
	for _, c := range conf.Ports {
		there[c.Name] = true
		if p := rec.ports[c.Name]; p != nil {
			p.peer, p.tcubes = c.Peer, c.Tcubes
			continue
		}
		if err := checkPortName(rec.name, c.Name); err != nil {
			return err
		}
		fresh = append(fresh, &port{name: c.Name, uuid: newUUID(), peer: c.Peer, tcubes: c.Tcubes})
		if len(c.Tcubes) > 0 {
			t.given = append(t.given, givenChain{at: place{cube: rec.name, port: c.Name}, tcubes: c.Tcubes})
		}
	}
	for name, p := range rec.ports {
		if !there[name] {
			taken[p.index] = true
			t.release(p.tcubes)
			t.next.leaving[p.slot] = true
			delete(rec.ports, name)
		}
	}
	if err := t.next.numberPorts(rec, fresh, taken, t.next.units[rec.name].svc.portLimit()); err != nil {
		return err
	}
	for _, p := range fresh {
		rec.ports[p.name] = p
	}
	return nil
}

// attachGiven attaches what the bodies of new ports and cubes ask for.
func (t *txn) attachGiven() error {
	for _, g := range t.given {
		for _, name := range g.tcubes {
			if err := t.checkAttach(name, g.at); err != nil {
				return blame(g.at.cube, fmt.Errorf("port %s of %s: tcubes: %w", g.at.port, g.at.cube, err))
			}
			t.own(name).parent = g.at.String()
		}
	}
	for _, g := range t.parents {
		if rec := t.next.cubes[g.cube]; g.parent == "" || rec != nil && rec.parent == g.parent {
			continue // a port's own tcubes say so too
		}
		at, err := parsePlace(g.parent)
		if err == nil {
			err = t.attach(g.cube, at, AttachRequest{Position: "last"})
		}
		if err == nil && at.netdev == "" {
			err = t.derive(at.cube)
		}
		if err != nil {
			return blame(g.cube, fmt.Errorf("cube %s: parent %.140s: %w", g.cube, g.parent, err))
		}
	}
	return nil
}

// restoreParents notes where the transparent cubes of a restored world are attached.
func (t *txn) restoreParents() {
	note := func(name string, at place) {
		if rec := t.next.cubes[name]; rec != nil && rec.parent != at.String() {
			t.own(name).parent = at.String()
		}
	}
	for _, rec := range t.next.inOrder() {
		for _, p := range rec.portsByIndex() {
			for _, name := range p.tcubes {
				note(name, place{cube: rec.name, port: p.name})
			}
		}
	}
	for dev, chain := range t.next.chains {
		for _, name := range chain {
			note(name, place{netdev: dev})
		}
	}
}

// release detaches transparent cubes from a place that goes.
func (t *txn) release(chain []string) {
	for _, name := range chain {
		if rec := t.own(name); rec != nil {
			rec.parent = ""
		}
	}
}

// clearStalePeers empties the peer of ports whose other side was deleted or turned to another peer in this transaction,
// as a disconnect would.
func (t *txn) clearStalePeers() error {
	if t.restoring {
		return nil
	}
	for _, rec := range t.reached() {
		for _, p := range rec.portsByIndex() {
			if !t.stale(rec, p) {
				continue
			}
			if err := t.setPeer(rec.name, p.name, ""); err != nil {
				return err
			}
			if err := t.derive(rec.name); err != nil {
				return err
			}
		}
	}
	return nil
}

func (t *txn) stale(rec *record, p *port) bool {
	if !strings.Contains(p.peer, ":") || t.peerChanged(rec.name, p) {
		return false
	}
	at, err := parsePlace(p.peer)
	if err != nil {
		return false
	}
	_, was, err := t.old.portAt(at)
	if err != nil {
		return false // it was not there before either: a configuration restored in part
	}
	_, is, err := t.next.portAt(at)
	if err != nil {
		return true
	}
	me := place{cube: rec.name, port: p.name}.String()
	return is.peer != was.peer && is.peer != "" && is.peer != me
}

// peerChanged says whether this transaction gave the port the peer that it has.
func (t *txn) peerChanged(cubeName string, p *port) bool {
	was := t.before(cubeName)
	return was == nil || was.ports[p.name] == nil || was.ports[p.name].peer != p.peer
}

// setPeer edits the leaf peer of a port.
func (t *txn) setPeer(cubeName, portName, peer string) error {
	path := yang.Path{{Name: "ports", Keys: []string{portName}}, {Name: "peer"}}
	body, _ := json.Marshal(peer) // a string always marshals
	return t.edit(t.next.units[cubeName], yang.Merge, path, body)
}

// checkPeers checks each peer that this transaction set.
func (t *txn) checkPeers() error {
	var errs []error
	var set []place
	wanted := map[string]bool{}
	for _, name := range t.touched {
		rec := t.next.cubes[name]
		if rec == nil {
			continue
		}
		for _, p := range rec.portsByIndex() {
			if p.peer != "" && t.peerChanged(name, p) {
				set = append(set, place{cube: name, port: p.name})
				wanted[p.peer] = true
			}
		}
	}
	if len(set) == 0 {
		return nil
	}
	held := t.next.holders(func(peer string) bool { return wanted[peer] })
	for _, at := range set {
		rec := t.next.cubes[at.cube]
		p := rec.ports[at.port]
		if err := t.checkPeer(rec, p, held[p.peer]); err != nil {
			errs = append(errs, blame(at.cube, fmt.Errorf("port %s of %s: peer %.140s: %w", p.name, at.cube, p.peer, err)))
		}
	}
	return errors.Join(errs...)
}

func (t *txn) checkPeer(rec *record, p *port, holders []place) error {
	at, err := parsePlace(p.peer)
	if err != nil {
		return err
	}
	me := place{cube: rec.name, port: p.name}
	if at == me {
		return fmt.Errorf("a port cannot be its own peer: %w", cube.ErrInvalid)
	}
	if at.netdev != "" {
		err = t.checkNetdev(at.netdev)
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

func (t *txn) checkFarPort(rec *record, me, at place) error {
	far, other, err := t.next.portAt(at)
	if err != nil {
		return err
	}
	if far.typ.Hook() != rec.typ.Hook() {
		return fmt.Errorf("%s runs at %s and %s at %s: a TC and an XDP port cannot be linked: %w",
			rec.name, rec.typ, far.name, far.typ, cube.ErrInvalid)
	}
	if other.peer != "" && other.peer != me.String() {
		return fmt.Errorf("it already has a peer, %s: %w", other.peer, cube.ErrInUse)
	}
	return nil
}

// checkNetdev checks a netdev that a request names as a peer, and notes its index.
func (t *txn) checkNetdev(name string) error {
	l, err := t.findNetdev(name)
	if err != nil {
		return err
	}
	if why := unfit(l); why != "" {
		return fmt.Errorf("netdev %s %s: %w", name, why, cube.ErrInvalid)
	}
	if !l.up {
		return fmt.Errorf("netdev %s is down, set it up first (ip link set %s up): %w", name, name, cube.ErrInvalid)
	}
	return nil
}

// checkHooks checks that what is on one path runs at one family of hooks, on the paths that the transaction can have
// changed.
func (t *txn) checkHooks() error {
	w := t.next
	agree := func(name string, rec *record) error {
		tc := w.cubes[name]
		if tc == nil || tc.typ.Hook() == rec.typ.Hook() {
			return nil
		}
		return fmt.Errorf("%s runs at %s, but %s at %s is there: TC and XDP do not mix: %w",
			name, tc.typ, rec.name, rec.typ, cube.ErrInvalid)
	}
	devices := map[string]*record{} // what a chain has to agree with, nil for its own first cube
	for _, name := range t.next.chainsChanged(&t.old.world) {
		devices[name] = nil
	}
	for _, rec := range t.reached() {
		for _, p := range rec.portsByIndex() {
			for _, name := range p.tcubes {
				if err := agree(name, rec); err != nil {
					return fmt.Errorf("%s:%s: %w", rec.name, p.name, err)
				}
			}
			if p.peer != "" && !strings.Contains(p.peer, ":") {
				devices[p.peer] = rec
			}
		}
	}
	for _, dev := range slices.Sorted(maps.Keys(devices)) {
		first := devices[dev]
		for _, name := range w.chains[dev] {
			if first == nil {
				first = w.cubes[name]
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
