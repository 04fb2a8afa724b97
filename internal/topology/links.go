// SPDX-License-Identifier: Apache-2.0

package topology

// What requests ask about netdevs, and what cubes are told of them.

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/internal/netdev"
	"github.com/polycube/polycube/internal/topology/unit"
	"github.com/polycube/polycube/internal/topology/world"
)

// transactRestoring is transact for changes that nobody asked for. While New runs, it holds the writer's token itself.
func (m *Manager) transactRestoring(ctx context.Context, fn func(*txn) error) error {
	lenient := func(t *txn) error {
		t.restoring = true
		return fn(t)
	}
	if m.started {
		return m.transact(ctx, lenient)
	}
	t := m.begin(ctx)
	if err := t.run(lenient); err != nil {
		t.rollback()
		return err
	}
	t.publish()
	return nil
}

// Netdevs lists the network devices as a JSON array.
func (m *Manager) Netdevs(context.Context) (json.RawMessage, error) {
	infos, err := m.netdevs.List()
	if err != nil {
		return nil, fmt.Errorf("listing the netdevs: %w", err)
	}
	w := m.view.Load()
	held := w.AllHolders()
	list := make([]netdevJSON, 0, len(infos))
	for _, info := range infos {
		list = append(list, describeNetdev(w, info, held))
	}
	return json.Marshal(list)
}

// Netdev describes one network device as a JSON array of one element, the shape that clients know.
func (m *Manager) Netdev(_ context.Context, name string) (json.RawMessage, error) {
	info, err := m.getNetdev(name)
	if err != nil {
		return nil, err
	}
	w := m.view.Load()
	return json.Marshal([]netdevJSON{describeNetdev(w, info, w.AllHolders())})
}

// getNetdev asks the kernel for a device, and speaks in the errors of package cube.
func (m *Manager) getNetdev(name string) (netdev.Info, error) {
	info, err := m.netdevs.Get(name)
	switch {
	case errors.Is(err, netdev.ErrNotFound):
		return info, &world.AbsentError{Kind: "netdev", Name: name, Err: cube.ErrNotFound}
	case errors.Is(err, netdev.ErrInvalidName):
		return info, fmt.Errorf("netdev: %w: %w", err, cube.ErrInvalid)
	case err != nil:
		return info, fmt.Errorf("netdev %.80s: %w", name, err)
	}
	return info, nil
}

// netdevJSON is a netdev as answers show it.
type netdevJSON struct {
	Name      string   `json:"name"`
	Addresses []string `json:"addresses"`
	Index     int      `json:"index"`
	MAC       string   `json:"mac"`
	MTU       int      `json:"mtu"`
	Status    string   `json:"status"`
	Kind      string   `json:"kind"`
	Peer      string   `json:"peer"`
	Tcubes    []string `json:"tcubes"`
}

func describeNetdev(w *unit.Snapshot, info netdev.Info, held map[string][]world.Place) netdevJSON {
	d := netdevJSON{Name: info.Name, Addresses: []string{}, Index: info.Index, MAC: info.MAC.String(), MTU: info.MTU,
		Status: status(info.Up), Kind: info.Kind, Tcubes: append([]string{}, w.Chains[info.Name]...)}
	for _, a := range info.Addresses {
		d.Addresses = append(d.Addresses, a.String())
	}
	for _, p := range held[info.Name] {
		d.Peer = p.String()
	}
	return d
}

func status(up bool) string {
	if up {
		return "UP"
	}
	return "DOWN"
}

// notify tells cubes what the transaction changed around them. They hear of it by their mailbox, when the transaction is
// over: a cube's code may want one of its own. What ports are connected to comes after the links that ceased to work and
// before those that work from now on: no link is used with what is known of another.
func (t *txn) notify() {
	var working []func()
	for _, rec := range t.reached() {
		u := t.next.Units[rec.Name]
		for _, p := range rec.PortsByIndex() {
			if t.notifyPort(u, rec, p) {
				w := u.Instance().(cube.LinkWatcher)
				working = append(working, func() { t.m.news.Tell(u, "LinkChanged", func() { w.LinkChanged(p.Name, true) }) })
			}
		}
	}
	t.m.neighbours.tell()
	for _, tell := range working {
		tell()
	}
}

// notifyPort tells a cube what changed of a port, but that its link works from now on: that it returns.
func (t *txn) notifyPort(u *unit.Unit, rec *world.Cube, p *world.Port) (works bool) {
	var was *world.Port
	old := t.before(rec.Name)
	if old != nil {
		was = old.Ports[p.Name]
	}
	// A port that a start finds down may have been up when the last daemon ended, and what was learned then is still there.
	found := t.restoring && (old == nil || t.successor(u) != nil)
	up := t.next.Linked(rec, p)
	if w, ok := u.Instance().(cube.PortWatcher); ok && (found || up != (was != nil && t.old.Linked(old, was))) {
		t.m.news.Tell(u, "PortChanged", func() { w.PortChanged(p.Name, up) })
	}
	w, ok := u.Instance().(cube.LinkWatcher)
	if !ok {
		return false
	}
	works = t.next.Works(rec, p)
	worked := was != nil && t.old.Works(old, was)
	flapped := works && worked && t.next.Flaps(p) != t.old.Flaps(was)
	if flapped || !works && (found || worked) {
		t.m.news.Tell(u, "LinkChanged", func() { w.LinkChanged(p.Name, false) })
	}
	return works && (found || flapped || !worked)
}
