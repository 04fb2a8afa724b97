// SPDX-License-Identifier: Apache-2.0

package topology

// Netdevs come and go on their own. The configured name counts: a device that appears under it is bound, whatever its
// index is this time, and one that vanishes leaves its port down until it is back.

import (
	"context"
	"errors"
	"maps"
	"slices"

	"github.com/polycube/polycube/internal/netdev"
	"github.com/polycube/polycube/internal/topology/service"
	"github.com/polycube/polycube/internal/topology/world"
)

// NetdevEvent takes note of a change of a netdev.
func (m *Manager) NetdevEvent(e netdev.Event) { m.NetdevEvents([]netdev.Event{e}) }

// NetdevEvents takes note of changes of netdevs, in their order. What they come to is one change of the data plane: two
// hundred containers that start together are not two hundred changes. It is called from one goroutine at a time.
func (m *Manager) NetdevEvents(events []netdev.Event) {
	ctx := context.Background()
	b := m.newBatch()
	for _, e := range events {
		if m.shadowEvent(e) {
			continue
		}
		m.neighbours.Note(e)
		switch e.Kind {
		case netdev.Added, netdev.Changed:
			if e.Kind == netdev.Added && b.removed[e.Info.Index] {
				// Another device has the number of one that went: what the old one had must be gone first.
				m.settleNetdevs(ctx, b)
				b = m.newBatch()
			}
			if e.Old != nil && e.Old.Name != e.Info.Name {
				b.gone(e.Old.Name, e.Info.Index, "it was renamed to "+e.Info.Name)
			}
			b.set(e.Info.Name, world.LinkOf(e.Info), e.Flapped)
			m.seen[e.Info.Name] = true
		case netdev.Removed:
			b.removed[e.Info.Index] = true
			b.gone(e.Info.Name, e.Info.Index, deleted)
		case netdev.Synced:
			m.missing(b)
		}
	}
	m.settleNetdevs(ctx, b)
	m.neighbours.Tell()
	m.followNetdevs(events)
}

// batch is what some events come to.
type batch struct {
	known map[string]world.Link
	links map[string]world.Link
	// removed are the numbers of devices that went.
	removed map[int]bool
	// tell is told of each device.
	tell func(name string, was, is world.Link)
}

func (m *Manager) newBatch() *batch {
	return &batch{known: m.view.Load().Links, links: map[string]world.Link{}, removed: map[int]bool{}, tell: m.tell.Netdev}
}

func (b *batch) now(name string) world.Link {
	if l, ok := b.links[name]; ok {
		return l
	}
	return b.known[name]
}

func (b *batch) set(name string, l world.Link, flapped bool) {
	was := b.now(name)
	l.Flaps = was.Flaps
	if flapped || was.Carrier != l.Carrier && b.links[name] != (world.Link{}) {
		l.Flaps++ // else the end of the batch looks as its beginning
	}
	b.tell(name, was, l)
	b.links[name] = l
}

// gone forgets a netdev, unless the name is another device's by now: a request may have seen it before its event came.
func (b *batch) gone(name string, index int, how string) {
	if b.now(name).Index == index {
		b.tell(name, b.now(name), world.Link{Gone: how})
		b.links[name] = world.Link{Gone: how}
	}
}

// missing looks for devices that went while nobody watched, when all that are there have been told of.
func (m *Manager) missing(b *batch) {
	for name, l := range m.view.Load().Links {
		if l.Index == 0 || m.seen[name] {
			continue
		}
		if m.isGone(name) {
			b.gone(name, l.Index, "it was deleted")
		}
	}
	clear(m.seen)
}

func (m *Manager) isGone(name string) bool {
	_, err := m.netdevs.Get(name)
	return errors.Is(err, netdev.ErrNotFound)
}

// settleNetdevs states the graph with the netdevs as they are now.
func (m *Manager) settleNetdevs(ctx context.Context, b *batch) {
	for name, l := range b.links {
		if b.known[name] == l {
			delete(b.links, name)
		}
	}
	if len(b.links) == 0 || m.setUnused(b.links) {
		return
	}
	before := m.view.Load()
	err := m.setLinks(ctx, b.links)
	if err == nil || errors.Is(err, service.ErrClosed) {
		m.tell.PortsOn(slices.Sorted(maps.Keys(b.links)), before, m.view.Load())
		return
	}
	for _, name := range slices.Sorted(maps.Keys(b.links)) {
		m.relink(ctx, name, b.links[name])
	}
}

// setUnused takes note of netdevs that no cube has to do with, which is no matter of the data plane.
func (m *Manager) setUnused(links map[string]world.Link) bool {
	if !m.started {
		return false
	}
	<-m.writer
	defer func() { m.writer <- struct{}{} }()
	if m.closed {
		return true
	}
	w := m.view.Load()
	held := w.AllHolders()
	for name := range links {
		if len(held[name]) > 0 || len(w.Chains[name]) > 0 {
			return false
		}
	}
	w = w.Clone()
	w.SetLinks(links)
	m.view.Store(w)
	return true
}

func (m *Manager) setLinks(ctx context.Context, links map[string]world.Link) error {
	return m.transactRestoring(ctx, func(t *txn) error {
		t.next.SetLinks(links)
		return nil
	})
}

// relink states the graph with one netdev as it is now. A device that the data plane cannot use is left out, so that it
// does not stand in the way of changes elsewhere.
func (m *Manager) relink(ctx context.Context, name string, l world.Link) {
	before := m.view.Load()
	was := before.Links[name]
	if was == l {
		return
	}
	err := m.setLinks(ctx, map[string]world.Link{name: l})
	if err != nil && m.isGone(name) {
		return // the event that says so is under way
	}
	if err != nil && !errors.Is(err, service.ErrClosed) {
		l.Refused = err.Error()
		if l.Refused != was.Refused {
			m.log.Error("a netdev cannot be used, it is ignored until it changes", "netdev", name, "error", err)
		}
		if err := m.setLinks(ctx, map[string]world.Link{name: l}); err != nil {
			m.log.Error("netdev left out", "netdev", name, "error", err)
		}
		return
	}
	m.tell.PortsOn([]string{name}, before, m.view.Load())
}
