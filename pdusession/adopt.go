// SPDX-License-Identifier: Apache-2.0

package pdusession

// What another process has left in the tables.

import (
	"errors"
	"fmt"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/inet"
	"github.com/polycube/polycube/sdf"
)

// Adopt takes over the sessions that an earlier process has written, and returns those that the tables do not have, as after
// the cube was deleted and created again: Put them as new ones. It comes before the first batch. What no session has is removed; removed
// is how many keys that were, of sessions that the process had not stored yet when it ended.
func (t *Tables) Adopt(all []*Rows) (missing []*Rows, removed int, err error) {
	used := map[uint32]bool{}
	size, err := t.rows.Values()
	if err != nil {
		return nil, 0, err
	}
	for _, r := range all {
		for _, w := range r.ways() {
			if w.List != 0 && int(w.List) < len(size) {
				used[w.List] = true
			}
		}
	}
	if err := t.lists.Begin(used); err != nil {
		return nil, 0, err
	}
	for _, r := range all {
		var undo cube.Undo
		if t.adopt(r, &undo) != nil {
			if err := undo.Run(); err != nil {
				return nil, 0, err
			}
			missing = append(missing, r)
		}
	}
	removed, err = t.clean()
	t.lists.Abandon()
	return missing, removed, err
}

func (t *Tables) adopt(r *Rows, undo *cube.Undo) error {
	for key, w := range r.Tunnels {
		if is, ok, err := t.tunnel(key); err != nil || !ok || is != r.tunnelOf(w) {
			return fmt.Errorf("%s: %w", key, cube.ErrNotFound)
		}
	}
	if r.Device != nil {
		if is, ok, err := t.devices4.Get(keyOf4(r)); r.IPv4.IsValid() && (err != nil || !ok || is != r.device()) {
			return fmt.Errorf("address %s: %w", r.IPv4, cube.ErrNotFound)
		}
		if is, ok, err := t.devices6.Get(keyOf6(r)); r.IPv6.IsValid() && (err != nil || !ok || is != r.device()) {
			return fmt.Errorf("prefix %s: %w", r.IPv6, cube.ErrNotFound)
		}
	}
	for _, network := range r.Routes {
		if is, ok, err := t.routes.Get(inet.NetworkOf(network)); err != nil || !ok || r.Device == nil || is != r.device() {
			return fmt.Errorf("network %s: %w", network, cube.ErrNotFound)
		}
	}
	if err := t.adoptRows(r, undo); err != nil {
		return err
	}
	t.number = max(t.number, r.Number)
	for _, peer := range r.Peers {
		if err := t.peer(peer, ""); err != nil { // its entry stays as it is
			return err
		}
		undo.Push(func() error {
			t.unpeer(peer)
			return nil
		})
	}
	return t.own(nil, r, undo)
}

func keyOf4(r *Rows) uint32 {
	if !r.IPv4.IsValid() {
		return 0
	}
	return key4(r.IPv4)
}

func keyOf6(r *Rows) uint64 {
	if !r.IPv6.IsValid() {
		return 0
	}
	return key6(r.IPv6)
}

// adoptRows marks the rows of a session.
func (t *Tables) adoptRows(r *Rows, undo *cube.Undo) error {
	mark := func(s *space, row, n uint32) error {
		if err := s.adopt(row, n); err != nil {
			return err
		}
		undo.Push(func() error {
			s.free(row, n)
			return nil
		})
		return nil
	}
	errs := []error{mark(t.rules.space, r.Block, r.Size)}
	for _, row := range r.Meters {
		errs = append(errs, mark(t.meters.space, row, 1))
	}
	for _, row := range r.Usages {
		errs = append(errs, mark(t.usages.space, row, 1))
	}
	for _, row := range r.Queues {
		errs = append(errs, mark(t.queues.space, row, 1))
	}
	for _, row := range r.Redirects {
		errs = append(errs, mark(t.urls.space, row, 1))
	}
	for _, l := range t.listsOf(r) {
		if _, err := t.lists.Take(l); err != nil {
			errs = append(errs, err)
			continue
		}
		undo.Push(func() error { return t.lists.Drop([]sdf.List{l}) })
	}
	return errors.Join(errs...)
}

// tunnel returns the entry of a tunnel.
func (t *Tables) tunnel(key TunnelKey) (is tunnel, ok bool, err error) {
	k := key.split()
	if k.Instance == 0 {
		return t.tunnels.Get(k.TEID)
	}
	if err := t.openNamed(); err != nil {
		return is, false, err
	}
	return t.named.Get(k)
}

// owns reports whether a session has a tunnel.
func (t *Tables) owns(key TunnelKey) bool {
	_, known := t.owners[owned{table: ownsTEID, key: uint64(key)}]
	return known
}

// clean removes what no session has.
func (t *Tables) clean() (int, error) {
	e := entriesOf(nil)
	var errs [6]error
	for teid := range t.tunnels.All(&errs[0]) {
		if !t.owns(TunnelKey(teid)) {
			e.tunnels.remove(teid)
		}
	}
	if t.openNamed() == nil {
		for k := range t.named.All(&errs[5]) {
			if key := TunnelKey(k.Instance)<<32 | TunnelKey(k.TEID); !t.owns(key) {
				e.named.remove(k)
			}
		}
	}
	for a := range t.devices4.All(&errs[1]) {
		if _, known := t.owners[owned{table: ownsIPv4, key: uint64(a)}]; !known {
			e.devices4.remove(a)
		}
	}
	for a := range t.devices6.All(&errs[2]) {
		if _, known := t.owners[owned{table: ownsIPv6, key: a}]; !known {
			e.devices6.remove(a)
		}
	}
	known := map[inet.Network]bool{}
	for k := range t.owners {
		if k.network.IsValid() {
			known[inet.NetworkOf(k.network)] = true
		}
	}
	for network := range t.routes.All(&errs[4]) {
		if !known[network] {
			e.routes.remove(network)
		}
	}
	n := len(e.routes.gone) + len(e.tunnels.gone) + len(e.named.gone) + len(e.devices4.gone) + len(e.devices6.gone)
	if err := errors.Join(errs[0], errs[1], errs[2], errs[4], errs[5], t.write(e)); err != nil {
		return 0, err
	}
	for peer := range t.stations.All(&errs[3]) {
		if t.peers[peer.Addr()] == 0 {
			if _, err := t.stations.Delete(peer); err != nil {
				return n, err
			}
		}
	}
	return n, errs[3]
}
