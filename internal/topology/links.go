// SPDX-License-Identifier: Apache-2.0

package topology

// Netdevs come and go on their own. The configured name counts: a device that appears under it is bound, whatever its
// index is this time, and one that vanishes leaves its port down until it is back.

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/internal/netdev"
)

// NetdevEvent takes note of a change of a netdev.
func (m *Manager) NetdevEvent(e netdev.Event) {
	ctx := context.Background()
	m.noteNetdev(e)
	switch e.Kind {
	case netdev.Added, netdev.Changed:
		if e.Old != nil && e.Old.Name != e.Info.Name {
			m.unlink(ctx, e.Old.Name, e.Info.Index)
		}
		m.relink(ctx, e.Info.Name, linkOf(e.Info))
	case netdev.Removed:
		m.unlink(ctx, e.Info.Name, e.Info.Index)
	case netdev.Synced: // says nothing of a device
	}
	m.tellParents()
}

// unlink forgets a netdev, unless the name is another device's by now: a request may have seen it before its event came.
func (m *Manager) unlink(ctx context.Context, name string, index int) {
	if m.view.Load().links[name].index == index {
		m.relink(ctx, name, link{})
	}
}

// relink states the graph with a netdev as it is now. A device that the data plane cannot use is left out, so that it
// does not stand in the way of changes elsewhere.
func (m *Manager) relink(ctx context.Context, name string, l link) {
	if m.view.Load().links[name] == l {
		return
	}
	set := func(l link) error {
		return m.transactRestoring(ctx, func(t *txn) error {
			if l.index == 0 {
				delete(t.next.links, name)
			} else {
				t.next.links[name] = l
			}
			return nil
		})
	}
	err := set(l)
	if err == nil || errors.Is(err, errClosed) {
		return
	}
	m.log.Error("a netdev cannot be used, it is left out until it changes", "netdev", name, "error", err)
	l.refused = true
	if err := set(l); err != nil {
		m.log.Error("leaving a netdev out", "netdev", name, "error", err)
	}
}

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
	held := w.holders()
	list := make([]netdevJSON, 0, len(infos))
	for _, info := range infos {
		list = append(list, w.describe(info, held))
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
	return json.Marshal([]netdevJSON{w.describe(info, w.holders())})
}

// getNetdev asks the kernel for a device, and speaks in the errors of package cube.
func (m *Manager) getNetdev(name string) (netdev.Info, error) {
	info, err := m.netdevs.Get(name)
	switch {
	case errors.Is(err, netdev.ErrNotFound):
		return info, fmt.Errorf("netdev %.80s: %w", name, cube.ErrNotFound)
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

func (w *world) describe(info netdev.Info, held map[string][]place) netdevJSON {
	d := netdevJSON{Name: info.Name, Addresses: []string{}, Index: info.Index, MAC: info.MAC.String(), MTU: info.MTU,
		Status: status(info.Up), Kind: info.Kind, Tcubes: append([]string{}, w.chains[info.Name]...)}
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
// over: a cube's code may want one of its own.
func (t *txn) notify() {
	for _, rec := range t.next.inOrder() {
		u := t.next.units[rec.name]
		for _, p := range rec.portsByIndex() {
			t.notifyPort(u, rec, p)
		}
	}
	t.m.tellParents()
}

func (t *txn) notifyPort(u *unit, rec *record, p *port) {
	var was *port
	old := t.old.cubes[rec.name]
	if old != nil {
		was = old.ports[p.name]
	}
	w, ok := u.inst.(cube.PortWatcher)
	if !ok {
		return
	}
	up := t.next.linked(rec, p)
	if up == (was != nil && t.old.linked(old, was)) {
		return
	}
	u.mail.post(task{what: "PortChanged", run: func() { w.PortChanged(p.name, up) }})
}
