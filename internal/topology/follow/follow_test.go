// SPDX-License-Identifier: Apache-2.0

package follow

// The changes that events of netdevs ask for, without a topology that makes them.

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/polycube/polycube/internal/netdev"
	"github.com/polycube/polycube/internal/topology/announce"
	"github.com/polycube/polycube/internal/topology/neighbours"
	"github.com/polycube/polycube/internal/topology/unit"
	"github.com/polycube/polycube/internal/topology/world"
)

// recorder makes the changes of links in a snapshot, and records the calls.
type recorder struct {
	view  *atomic.Pointer[unit.Snapshot]
	asked []string
	// unused is set if no cube uses the netdevs; refuse is the netdev that the data plane cannot use.
	unused bool
	refuse string
}

// list writes links as NAME=INDEX, NAME:gone or NAME:refused, in order of names.
func list(links map[string]world.Link) string {
	var out []string
	for _, name := range slices.Sorted(maps.Keys(links)) {
		switch l := links[name]; {
		case l.Gone != "":
			out = append(out, name+":gone")
		case l.Refused != "":
			out = append(out, name+":refused")
		default:
			out = append(out, fmt.Sprintf("%s=%d", name, l.Index))
		}
	}
	return strings.Join(out, " ")
}

func (r *recorder) set(links map[string]world.Link) {
	w := r.view.Load().Clone()
	w.SetLinks(links)
	r.view.Store(w)
}

func (r *recorder) SetLinks(_ context.Context, links map[string]world.Link) error {
	if l, ok := links[r.refuse]; ok && l.Refused == "" {
		r.asked = append(r.asked, "refuse "+list(links))
		return errors.New("it cannot be used")
	}
	r.asked = append(r.asked, "set "+list(links))
	r.set(links)
	return nil
}

func (r *recorder) SetUnused(links map[string]world.Link) bool {
	if r.unused {
		r.asked = append(r.asked, "note "+list(links))
		r.set(links)
	}
	return r.unused
}

func (r *recorder) FollowNetdev(name string, at world.Place) {
	r.asked = append(r.asked, "follow "+name+" "+at.String())
}

// NamespaceEvent takes the events of devices named s1-*.
func (r *recorder) NamespaceEvent(e netdev.Event) bool { return strings.HasPrefix(e.Info.Name, "s1-") }

// present are the devices that exist, whatever the events say.
type present map[string]int

func (p present) Get(name string) (netdev.Info, error) {
	if p[name] == 0 {
		return netdev.Info{}, netdev.ErrNotFound
	}
	return netdev.Info{Name: name, Index: p[name], Up: true}, nil
}

func (p present) Status(name string) (netdev.Status, error) {
	i, err := p.Get(name)
	return netdev.Status{Index: i.Index, Up: true}, err
}

func event(kind netdev.EventKind, name string, index int) netdev.Event {
	return netdev.Event{Kind: kind, Info: netdev.Info{Name: name, Index: index, Up: true}}
}

func renamed(name string, index int, to string) netdev.Event {
	e := event(netdev.Changed, to, index)
	e.Old = &netdev.Info{Name: name, Index: index, Up: true}
	return e
}

func TestEventsAskForChanges(t *testing.T) {
	before := map[string]world.Link{"eth1": {Index: 11, Up: true}, "eth2": {Index: 12, Up: true}}
	tests := []struct {
		name   string
		events []netdev.Event
		unused bool
		refuse string
		want   []string
	}{
		{name: "events that arrive together are one change",
			events: []netdev.Event{event(netdev.Added, "veth1", 21), event(netdev.Added, "veth2", 22), event(netdev.Removed, "eth2", 12)},
			want:   []string{"set eth2:gone veth1=21 veth2=22"}},
		{name: "netdevs that no cube uses do not change the data plane", unused: true,
			events: []netdev.Event{event(netdev.Added, "veth1", 21)}, want: []string{"note veth1=21"}},
		{name: "a device that came and disappeared changes nothing but the reason",
			events: []netdev.Event{event(netdev.Added, "veth1", 21), event(netdev.Removed, "veth1", 21)}, want: []string{"set veth1:gone"}},
		{name: "an index is used again: the old device is removed first",
			events: []netdev.Event{event(netdev.Removed, "eth1", 11), event(netdev.Added, "veth1", 11)},
			want:   []string{"set eth1:gone", "set veth1=11"}},
		{name: "a device is renamed", events: []netdev.Event{renamed("eth1", 11, "lan")}, want: []string{"set eth1:gone lan=11"}},
		{name: "the name is another device's by now", events: []netdev.Event{event(netdev.Removed, "eth1", 9)}, want: nil},
		{name: "nothing has changed", events: []netdev.Event{event(netdev.Added, "eth1", 11)}, want: nil},
		{name: "one that is refused is left out", refuse: "veth1",
			events: []netdev.Event{event(netdev.Added, "veth1", 21), event(netdev.Added, "veth2", 22)},
			want:   []string{"refuse veth1=21 veth2=22", "refuse veth1=21", "set veth1:refused", "set veth2=22"}},
		{name: "a device disappeared before the watch began",
			events: []netdev.Event{event(netdev.Added, "eth1", 11), {Kind: netdev.Synced}}, want: []string{"set eth2:gone"}},
		{name: "a device of a namespace is no netdev", events: []netdev.Event{event(netdev.Added, "s1-p1", 31)}, want: nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var view atomic.Pointer[unit.Snapshot]
			view.Store(unit.NewSnapshot())
			r := &recorder{view: &view, unused: tt.unused, refuse: tt.refuse}
			r.set(before)
			there := present{"eth1": 11, "veth1": 21, "veth2": 22}
			log := slog.New(slog.NewTextHandler(t.Output(), nil))
			f := New(&view, there, neighbours.New(&view, there, &unit.News{}), announce.New(nil, log), log, r)
			f.Events(tt.events)
			if !slices.Equal(r.asked, tt.want) {
				t.Errorf("asked for %q, want %q", r.asked, tt.want)
			}
			last := tt.events[len(tt.events)-1].Kind
			if f.Synced() != (last == netdev.Synced) {
				t.Errorf("synced: %v after an event of kind %v", f.Synced(), last)
			}
		})
	}
}
