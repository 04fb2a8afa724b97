// SPDX-License-Identifier: Apache-2.0

package topology

// Ports and the netdevs that are their peers have the same addresses (ADR 0038). What a port has is written to its netdev
// within the transaction, before the data plane is locked: a netlink call may have to wait. What changes at a netdev is
// found by comparing it with how it looked last, and becomes an edit of the port's configuration, in a transaction of its
// own; so our own writes, which are told back, are no news.

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/internal/netdev"
	"github.com/polycube/polycube/internal/topology/align"
	"github.com/polycube/polycube/internal/topology/unit"
	"github.com/polycube/polycube/internal/topology/world"
)

// alignable are the ports of a cube whose netdevs have to do with their addresses, by netdev.
func (t *txn) alignable(rec *world.Cube) (map[string]cube.Alignment, error) {
	u := t.next.Units[rec.Name]
	alignment := u.Instance().Alignment
	if alignment == nil || rec.Transparent || u.IsDegraded() {
		return nil, nil
	}
	var answer map[string]cube.Alignment
	err := t.call(t.ctx, u, func() (err error) {
		answer, err = alignment(rec.Config.Raw)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("%s: configuration of its ports' netdevs: %w", rec.Name, err)
	}
	out := map[string]cube.Alignment{}
	for _, p := range rec.Ports {
		if a, ok := answer[p.Name]; ok && p.OnNetdev() && t.next.Links[p.Peer].Index != 0 {
			out[p.Name] = a
		}
	}
	return out, nil
}

// meet has a port, or all ports of a cube, take the addresses of their netdevs where they have none.
func (t *editing) meet(at world.Place) {
	if t.meets == nil {
		t.meets = map[world.Place]bool{}
	}
	t.meets[at] = true
}

// adoptInto is adopt for a cube that may be new. At a start nothing is adopted: the watch tells of all netdevs after it.
func (t *settling) adoptInto(u *unit.Unit, was, rec *world.Cube) error {
	if t.restoring || u.IsDegraded() || !rec.OnNetdev() {
		return nil
	}
	t.widenPorts(u, was, rec)
	if err := t.makeInstance(u); err != nil {
		return err
	}
	return t.adopt(rec)
}

// adopt gives ports without addresses that were connected to a netdev those of it.
func (t *settling) adopt(rec *world.Cube) error {
	wanted, err := t.alignable(rec)
	if err != nil {
		return err
	}
	changed := false
	for _, name := range slices.Sorted(maps.Keys(wanted)) {
		p := rec.Ports[name]
		if len(wanted[name].Addresses) > 0 || !t.peerChanged(rec.Name, p) && !t.meets[world.Place{Cube: rec.Name, Port: name}] && !t.meets[world.Place{Cube: rec.Name}] {
			continue
		}
		status, err := t.netdevs.Status(p.Peer)
		if errors.Is(err, netdev.ErrNotFound) {
			continue // it has just gone: the port meets it when it is back
		}
		if err != nil {
			return fmt.Errorf("netdev %s: %w", p.Peer, err)
		}
		is := cube.Interface{Addresses: world.Without(status.Addresses, status.Ours)}
		if err := t.follow(rec, name, cube.Interface{}, is); err != nil {
			return fmt.Errorf("port %s uses the addresses of netdev %s, unless it has align=off: %w", name, p.Peer, err)
		}
		changed = changed || len(is.Addresses) > 0
	}
	if !changed {
		return nil
	}
	return t.derive(rec.Name)
}

// follow edits a cube's configuration so that a port looks as its netdev.
func (t *editing) follow(rec *world.Cube, port string, was, is cube.Interface) error {
	u := t.next.Units[rec.Name]
	var edits []cube.Edit
	err := t.call(t.ctx, u, func() (err error) {
		edits, err = u.Instance().NetdevChanged(port, was, is)
		return err
	})
	if err != nil {
		return err
	}
	for _, e := range edits {
		if err := t.applyEdit(u, e); err != nil {
			return fmt.Errorf("%s: %w", strings.Join(e.Path, " "), err)
		}
	}
	return nil
}

// alignNetdevs gives the netdevs of touched cubes the addresses of their ports, and takes away what ports that left gave them.
func (x *execution) alignNetdevs() error {
	if x.restoring {
		return nil
	}
	to := x.aligner.Begin(x.next.Aligned)
	x.undo = append(x.undo, to.Undo)
	for _, u := range x.removed {
		x.leaveNetdevs(to, u.Name)
	}
	for _, name := range x.touched {
		x.leaveNetdevs(to, name)
	}
	for _, name := range x.touched {
		if rec := x.own(name); rec != nil {
			if err := x.alignCube(to, rec); err != nil {
				return blame(name, err)
			}
		}
	}
	return nil
}

func (x *execution) alignCube(to *align.Change, rec *world.Cube) error {
	if x.next.Units[rec.Name].Instance().Alignment == nil {
		return nil
	}
	wanted, err := x.alignable(rec)
	if err != nil {
		return err
	}
	for _, p := range rec.PortsByIndex() {
		want, ok := wanted[p.Name]
		if !ok {
			to.Release(p)
			continue
		}
		if err := to.Set(p, want); err != nil {
			return fmt.Errorf("port %s of %s: netdev %s cannot have the port's addresses; use align=port-follows-netdev to leave it unchanged: %w",
				p.Name, rec.Name, p.Peer, err)
		}
	}
	return nil
}

// leaveNetdevs takes away what a cube's ports gave to netdevs that are not theirs any more.
func (x *execution) leaveNetdevs(to *align.Change, name string) {
	was := x.old.Cubes[name]
	if was == nil {
		return
	}
	if x.old.Units[name].Instance().Alignment == nil {
		return
	}
	for _, p := range was.PortsByIndex() {
		is := x.next.Cubes[name].PortsOf()[p.Name]
		stays := is != nil && is.UUID == p.UUID
		if stays && is.Peer == p.Peer {
			continue
		}
		gone := *p
		to.Release(&gone)
		if stays {
			is.OwnMAC = ""
		}
	}
}

// noticeNetdev edits the port's configuration as its netdev has changed since it was looked at last. As it is, that is
// only noted.
func (t *editing) noticeNetdev(rec *world.Cube, p *world.Port, asIs bool) error {
	status, err := t.netdevs.Status(p.Peer)
	was := t.next.Aligned[p.Peer]
	if errors.Is(err, netdev.ErrNotFound) {
		if was == nil {
			return errUnchanged
		}
		delete(t.next.Aligned, p.Peer)
		p.OwnMAC = ""
		t.touch(rec.Name)
		return nil
	}
	if err != nil {
		return fmt.Errorf("netdev %s: %w", p.Peer, err)
	}
	wanted, err := t.alignable(rec)
	if err != nil {
		return err
	}
	want, ok := wanted[p.Name]
	if !ok || was != nil && !was.Found && was.SameAs(status) && !t.neighbours.Crowded(p.Peer, status) {
		return errUnchanged
	}
	t.touch(rec.Name)
	if was != nil && (was.PortUUID != p.UUID || was.Index != status.Index) {
		delete(t.next.Aligned, p.Peer)
		was = nil
	}
	if asIs {
		return nil
	}
	if was == nil {
		t.meet(world.Place{Cube: rec.Name, Port: p.Name})
		return nil
	}
	return t.follow(rec, p.Name, want.Interface, was.Change(want.Interface, p, status))
}
