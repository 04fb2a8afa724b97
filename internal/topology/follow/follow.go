// SPDX-License-Identifier: Apache-2.0

// Package follow keeps the topology up to date with the netdevs, which come and go on their own. A port is bound to the
// configured name: to any device that appears under it, whatever its index. While there is none, the port is down. The
// topology makes the changes, each as a transaction.
package follow

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"sync/atomic"

	"github.com/polycube/polycube/internal/netdev"
	"github.com/polycube/polycube/internal/topology/announce"
	"github.com/polycube/polycube/internal/topology/neighbours"
	"github.com/polycube/polycube/internal/topology/service"
	"github.com/polycube/polycube/internal/topology/unit"
	"github.com/polycube/polycube/internal/topology/world"
)

// Changes are the changes that the topology makes for netdevs, each a transaction of its own.
type Changes interface {
	// SetLinks takes the present state of netdevs over into the graph.
	SetLinks(ctx context.Context, links map[string]world.Link) error
	// SetUnused notes the state of netdevs that no cube uses, without a change of the data plane; false if a cube uses one.
	SetUnused(links map[string]world.Link) bool
	// FollowNetdev makes a port follow its netdev.
	FollowNetdev(name string, at world.Place)
	// NamespaceEvent handles an event of a device that leads into the namespace of a cube; false for any other device.
	NamespaceEvent(e netdev.Event) bool
}

// Follower follows the netdevs.
type Follower struct {
	view       *atomic.Pointer[unit.Snapshot]
	netdevs    neighbours.Netdevs
	neighbours *neighbours.Neighbours
	events     *announce.Announcer
	log        *slog.Logger
	changes    Changes

	// synced is set when the existing netdevs have been reported.
	synced atomic.Bool
	// seen are the netdevs reported until then. Only the goroutine that calls Events uses it.
	seen map[string]bool
}

// New returns a follower. view is the current snapshot.
func New(view *atomic.Pointer[unit.Snapshot], netdevs neighbours.Netdevs, n *neighbours.Neighbours, events *announce.Announcer,
	log *slog.Logger, changes Changes) *Follower {
	return &Follower{view: view, netdevs: netdevs, neighbours: n, events: events, log: log, changes: changes, seen: map[string]bool{}}
}

// Synced reports whether the netdevs that exist at the start have all been reported.
func (f *Follower) Synced() bool { return f.synced.Load() }

// Events handles events of netdevs, in their order. Together they are one change of the data plane: two hundred containers
// that start together are not two hundred changes. It is called from one goroutine at a time.
func (f *Follower) Events(list []netdev.Event) {
	ctx := context.Background()
	b := f.newBatch()
	for _, e := range list {
		if f.changes.NamespaceEvent(e) {
			continue
		}
		f.neighbours.Note(e)
		switch e.Kind {
		case netdev.Added, netdev.Changed:
			if e.Kind == netdev.Added && b.removed[e.Info.Index] {
				// Another device has the index of one that is gone: what the old one had must be removed first.
				f.settle(ctx, b)
				b = f.newBatch()
			}
			if e.Old != nil && e.Old.Name != e.Info.Name {
				b.gone(e.Old.Name, e.Info.Index, "it was renamed to "+e.Info.Name)
			}
			b.set(e.Info.Name, world.LinkOf(e.Info), e.Flapped)
			f.seen[e.Info.Name] = true
		case netdev.Removed:
			b.removed[e.Info.Index] = true
			b.gone(e.Info.Name, e.Info.Index, world.Deleted)
		case netdev.Synced:
			f.missing(b)
		}
	}
	f.settle(ctx, b)
	f.neighbours.Tell()
	f.followPorts(list)
}

// batch is the combined effect of events.
type batch struct {
	known map[string]world.Link
	links map[string]world.Link
	// removed are the indexes of devices that are gone.
	removed map[int]bool
	// tell announces each change.
	tell func(name string, was, is world.Link)
}

func (f *Follower) newBatch() *batch {
	return &batch{known: f.view.Load().Links, links: map[string]world.Link{}, removed: map[int]bool{}, tell: f.events.Netdev}
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
		l.Flaps++ // else the end of the batch looks like its beginning
	}
	b.tell(name, was, l)
	b.links[name] = l
}

// gone removes a netdev, unless another device has the name by now: a request may have seen it before its event came.
func (b *batch) gone(name string, index int, how string) {
	if b.now(name).Index == index {
		b.tell(name, b.now(name), world.Link{Gone: how})
		b.links[name] = world.Link{Gone: how}
	}
}

// missing finds devices that disappeared while nobody watched, once all that exist have been reported.
func (f *Follower) missing(b *batch) {
	for name, l := range f.view.Load().Links {
		if l.Index == 0 || f.seen[name] {
			continue
		}
		if f.isGone(name) {
			b.gone(name, l.Index, "it was deleted")
		}
	}
	clear(f.seen)
}

func (f *Follower) isGone(name string) bool {
	_, err := f.netdevs.Get(name)
	return errors.Is(err, netdev.ErrNotFound)
}

// settle takes the netdevs of a batch over into the graph.
func (f *Follower) settle(ctx context.Context, b *batch) {
	for name, l := range b.links {
		if b.known[name] == l {
			delete(b.links, name)
		}
	}
	if len(b.links) == 0 || f.changes.SetUnused(b.links) {
		return
	}
	before := f.view.Load()
	err := f.changes.SetLinks(ctx, b.links)
	if err == nil || errors.Is(err, service.ErrClosed) {
		f.events.PortsOn(slices.Sorted(maps.Keys(b.links)), before, f.view.Load())
		return
	}
	for _, name := range slices.Sorted(maps.Keys(b.links)) {
		f.Relink(ctx, name, b.links[name])
	}
}

// Relink takes the present state of one netdev over into the graph. A device that the data plane cannot use is left out, so
// that it does not block changes elsewhere.
func (f *Follower) Relink(ctx context.Context, name string, l world.Link) {
	before := f.view.Load()
	was := before.Links[name]
	if was == l {
		return
	}
	err := f.changes.SetLinks(ctx, map[string]world.Link{name: l})
	if err != nil && f.isGone(name) {
		return // the event that says so is under way
	}
	if err != nil && !errors.Is(err, service.ErrClosed) {
		l.Refused = err.Error()
		if l.Refused != was.Refused {
			f.log.Error("a netdev cannot be used, it is ignored until it changes", "netdev", name, "error", err)
		}
		if err := f.changes.SetLinks(ctx, map[string]world.Link{name: l}); err != nil {
			f.log.Error("netdev left out", "netdev", name, "error", err)
		}
		return
	}
	f.events.PortsOn([]string{name}, before, f.view.Load())
}

// followPorts makes ports follow netdevs that may have changed, and gives netdevs that appeared the addresses of their ports.
func (f *Follower) followPorts(list []netdev.Event) {
	names, readdressed := map[string]bool{}, false
	for _, e := range list {
		names[e.Info.Name] = true
		if e.Old != nil {
			names[e.Old.Name] = true
		}
		readdressed = readdressed || e.Kind == netdev.Added && len(e.Info.Addresses) > 0 ||
			e.Old != nil && !slices.Equal(e.Old.Addresses, e.Info.Addresses)
		if e.Kind == netdev.Synced {
			f.synced.Store(true)
		}
	}
	w := f.view.Load()
	if readdressed {
		for name, a := range w.Aligned {
			names[name] = names[name] || f.neighbours.Crowded(name, a.Status)
		}
	}
	for name, at := range w.Holders(func(peer string) bool { return names[peer] }) {
		if u := w.Units[at[0].Cube]; u != nil {
			if u.Instance().Alignment != nil {
				f.changes.FollowNetdev(name, at[0])
			}
		}
	}
}
