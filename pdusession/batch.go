// SPDX-License-Identifier: Apache-2.0

package pdusession

// Changes of sessions. Rows of rules are never changed while packets use them: a session that changes gets new ones, and then
// its keys lead there.

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"sync/atomic"
	"time"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/cube/grace"
	"github.com/polycube/polycube/cube/table"
	"github.com/polycube/polycube/gtppath"
	"github.com/polycube/polycube/inet"
	"github.com/polycube/polycube/sdf"
)

// Batch is a number of changes that take effect together.
type Batch struct {
	t       *Tables
	changes []change
	// done are functions that make a failed batch undone, in reverse.
	done cube.Undo
	// after are carried out when no packet uses what there was before, and lists are those that are used once less then.
	after []func()
	lists []sdf.List
	final map[uint32]Counts
	waits bool
}

// change is the step of one session; of one that is new or gone, was or is is nil.
type change struct{ was, is *Rows }

// Begin begins a batch. Either Commit or Abort ends it.
func (t *Tables) Begin() *Batch {
	t.forget(stay)
	t.emptied()
	return &Batch{t: t, final: map[uint32]Counts{}}
}

// Put makes a session what s says. was is where it is, nil for a new one. Errors wrap cube.ErrFull if there is no room,
// cube.ErrExists if another session has one of its TEIDs or addresses, and cube.ErrInvalid; then nothing has changed. The
// result may be passed to another Put or Remove in the same batch.
func (b *Batch) Put(was *Rows, s *Session) (*Rows, error) {
	w := writer{t: b.t, s: s, was: was, is: &Rows{IPv4: s.IPv4, IPv6: s.IPv6}}
	if err := w.write(); err != nil {
		return nil, errors.Join(err, w.undo.Run())
	}
	b.done.Push(w.undo.Run)
	b.after = append(b.after, w.after...)
	b.changes = append(b.changes, change{was, w.is})
	if was != nil {
		b.retire(was, w.is)
	}
	return w.is, nil
}

// Remove removes a session. Packets that wait are dropped.
func (b *Batch) Remove(was *Rows) error {
	b.changes = append(b.changes, change{was, nil})
	b.t.disown(was, &b.done)
	b.retire(was, &Rows{})
	return nil
}

// retire frees what a session has and will not have, once no packet uses it.
func (b *Batch) retire(was, is *Rows) {
	b.waits = true
	b.lists = append(b.lists, b.t.listsOf(was)...)
	b.after = append(b.after, func() {
		t := b.t
		t.rules.space.free(was.Block, was.Size)
		for id, row := range was.Meters {
			if is.Meters[id] != row {
				t.meters.space.free(row, 1)
			}
		}
		for id, row := range was.Usages {
			if is.Usages[id] != row {
				b.final[row], _ = t.Counts(row)
				t.usages.space.free(row, 1)
			}
		}
		for id, row := range was.Redirects {
			if is.Redirects[id] != row {
				t.urls.space.free(row, 1)
			}
		}
		for id, row := range was.Queues {
			if is.Queues[id] != row {
				t.queues.values[row].set(discard)
				t.emptying = append(t.emptying, row)
			}
		}
		for _, peer := range was.Peers {
			t.unpeer(peer)
		}
	})
}

// Commit makes the changes take effect. When it returns, no packet uses what there was before, and its rows are free. final has
// what usages that are gone have counted, by row. After an error nothing has changed.
func (b *Batch) Commit() (final map[uint32]Counts, err error) {
	if err := b.publish(); err != nil {
		return nil, errors.Join(err, b.Abort())
	}
	if b.waits {
		if err := grace.Wait(); err != nil {
			return nil, errors.Join(err, b.Abort())
		}
	}
	for _, do := range b.after {
		do()
	}
	b.t.lists.Dropped(b.lists)
	return b.final, nil
}

// Abort ends a batch without an effect.
func (b *Batch) Abort() error { return b.done.Run() }

// emptied frees the rows of queues whose packets were dropped.
func (t *Tables) emptied() {
	t.emptying = slices.DeleteFunc(t.emptying, func(row uint32) bool {
		if atomic.LoadUint32(&t.queues.values[row].Waiting) != 0 {
			return false
		}
		t.queues.space.free(row, 1)
		return true
	})
}

// keys are entries that are written and removed.
type keys[K comparable, V any] struct {
	set  map[K]V
	gone map[K]bool
}

func newKeys[K comparable, V any]() *keys[K, V] { return &keys[K, V]{map[K]V{}, map[K]bool{}} }

func (k *keys[K, V]) put(key K, value V) { k.set[key] = value; delete(k.gone, key) }

func (k *keys[K, V]) remove(key K) { k.gone[key] = true; delete(k.set, key) }

// lists returns the entries to write, in two columns, and the keys to remove.
func (k *keys[K, V]) lists() (set []K, values []V, gone []K) {
	for key, value := range k.set {
		set, values = append(set, key), append(values, value)
	}
	for key := range k.gone {
		gone = append(gone, key)
	}
	return set, values, gone
}

// entries are those of all tables with keys.
type entries struct {
	tunnels  *keys[uint32, tunnel]
	named    *keys[gtppath.Tunnel, tunnel]
	devices4 *keys[uint32, device]
	devices6 *keys[uint64, device]
	routes   *keys[inet.Network, device]
}

// entriesOf returns what leads from one state of sessions to another.
func entriesOf(changes []change) *entries {
	e := &entries{newKeys[uint32, tunnel](), newKeys[gtppath.Tunnel, tunnel](), newKeys[uint32, device](), newKeys[uint64, device](), newKeys[inet.Network, device]()}
	for _, c := range changes {
		if c.was != nil {
			e.apply(c.was, false)
		}
		if c.is != nil {
			e.apply(c.is, true)
		}
	}
	return e
}

// apply adds the entries of a session, or removes them.
func (e *entries) apply(r *Rows, put bool) {
	for key, w := range r.Tunnels {
		e.tunnel(key, r.tunnelOf(w), put)
	}
	if r.Device == nil {
		return
	}
	if r.IPv4.IsValid() {
		if put {
			e.devices4.put(key4(r.IPv4), r.device())
		} else {
			e.devices4.remove(key4(r.IPv4))
		}
	}
	if r.IPv6.IsValid() {
		if put {
			e.devices6.put(key6(r.IPv6), r.device())
		} else {
			e.devices6.remove(key6(r.IPv6))
		}
	}
	for _, network := range r.Routes {
		if put {
			e.routes.put(inet.NetworkOf(network), r.device())
		} else {
			e.routes.remove(inet.NetworkOf(network))
		}
	}
}

// tunnel adds the entry of a tunnel, or removes it.
func (e *entries) tunnel(key TunnelKey, is tunnel, put bool) {
	switch k := key.split(); {
	case k.Instance == 0 && put:
		e.tunnels.put(k.TEID, is)
	case k.Instance == 0:
		e.tunnels.remove(k.TEID)
	case put:
		e.named.put(k, is)
	default:
		e.named.remove(k)
	}
}

// publish writes the keys.
func (b *Batch) publish() error {
	back := make([]change, 0, len(b.changes))
	for i := len(b.changes) - 1; i >= 0; i-- {
		back = append(back, change{b.changes[i].is, b.changes[i].was})
	}
	b.done.Push(func() error { return errors.Join(b.t.write(entriesOf(back)), grace.Wait()) }) // then rows are freed
	return b.t.write(entriesOf(b.changes))
}

// write writes and removes entries, in batches: what is removed makes room.
func (t *Tables) write(e *entries) error {
	if len(e.named.set)+len(e.named.gone) > 0 {
		if err := t.openNamed(); err != nil {
			return err
		}
	}
	tunnels, named, devices4, devices6, routes := stepsOf(t.tunnels, e.tunnels), stepsOf(t.named, e.named), stepsOf(t.devices4, e.devices4), stepsOf(t.devices6, e.devices6), stepsOf(t.routes, e.routes)
	for _, step := range []func(gone bool) error{tunnels, named, devices4, devices6, routes} {
		if err := step(true); err != nil {
			return err
		}
	}
	for _, step := range []func(gone bool) error{routes, devices6, devices4, named, tunnels} {
		if err := step(false); err != nil {
			return err
		}
	}
	return nil
}

// stepsOf returns the two steps of a table.
func stepsOf[K comparable, V any](t table.Table[K, V], k *keys[K, V]) func(gone bool) error {
	set, values, removed := k.lists()
	return func(gone bool) (err error) {
		switch {
		case gone && len(removed) > 0:
			_, err = t.DeleteAll(removed)
		case !gone && len(set) > 0:
			_, err = t.SetAll(set, values)
		}
		return err
	}
}

// ways are all ways of a session.
func (r *Rows) ways() (all []Way) {
	for _, w := range r.Tunnels {
		all = append(all, w)
	}
	if r.Device != nil {
		all = append(all, *r.Device)
	}
	return all
}

// keysOf are the TEIDs and addresses of a session.
func (r *Rows) keysOf() (all []owned) {
	for key := range r.Tunnels {
		all = append(all, owned{table: ownsTEID, key: uint64(key)})
	}
	if r.Device != nil && r.IPv4.IsValid() {
		all = append(all, owned{table: ownsIPv4, key: uint64(key4(r.IPv4))})
	}
	if r.Device != nil && r.IPv6.IsValid() {
		all = append(all, owned{table: ownsIPv6, key: key6(r.IPv6)})
	}
	for _, network := range r.Routes {
		all = append(all, owned{network: network})
	}
	return all
}

// own gives a session its keys; was is what it was.
func (t *Tables) own(was, is *Rows, undo *cube.Undo) error {
	for _, k := range is.keysOf() {
		if block, taken := t.owners[k]; taken && (was == nil || block != was.Block) {
			return fmt.Errorf("%s: another session has it: %w", k, cube.ErrExists)
		}
	}
	if was != nil {
		t.disown(was, undo)
	}
	for _, k := range is.keysOf() {
		t.owners[k] = is.Block
		undo.Push(func() error {
			delete(t.owners, k)
			return nil
		})
	}
	return nil
}

// disown takes the keys from a session.
func (t *Tables) disown(was *Rows, undo *cube.Undo) {
	for _, k := range was.keysOf() {
		delete(t.owners, k)
		undo.Push(func() error {
			t.owners[k] = was.Block
			return nil
		})
	}
}

func (k owned) String() string {
	switch {
	case k.network.IsValid():
		return "network " + k.network.String()
	case k.table == ownsTEID:
		return TunnelKey(k.key).String()
	case k.table == ownsIPv4:
		return "the IPv4 address"
	}
	return "the IPv6 prefix"
}

// listsOf returns the lists of a session.
func (t *Tables) listsOf(r *Rows) (all []sdf.List) {
	rows, err := t.rows.Values()
	for _, w := range r.ways() {
		if err == nil && w.List != 0 && int(w.List) < len(rows) {
			all = append(all, rows[w.List])
		}
	}
	return all
}

// peer counts a session that uses a peer. The program learns where it is from its packets. The network instance of the first
// session is the one whose address Echo Requests come from.
func (t *Tables) peer(a netip.Addr, instance string) error {
	if _, known := t.peers[a]; !known {
		is := gtppath.Station(gtppath.Instance(instance))
		_, err := t.stations.Add(inet.AddressOf(a), is)
		if errors.Is(err, cube.ErrFull) && len(t.left) > 0 {
			t.forget(0) // those that sessions have just left
			_, err = t.stations.Add(inet.AddressOf(a), is)
		}
		if err != nil {
			return err
		}
	}
	delete(t.left, a)
	t.peers[a]++
	return nil
}

// unpeer is the reverse. The program knows the peer for some time yet: it gets an End Marker.
func (t *Tables) unpeer(a netip.Addr) {
	if t.peers[a]--; t.peers[a] == 0 {
		t.left[a] = time.Now()
	}
}

// stay is how long a peer without sessions is known.
const stay = 10 * time.Second

// forget forgets the peers that all sessions have left so long ago.
func (t *Tables) forget(ago time.Duration) {
	for a, since := range t.left {
		if time.Since(since) >= ago {
			delete(t.left, a)
			delete(t.peers, a)
			_, _ = t.stations.Delete(inet.AddressOf(a)) // at worst an entry that nobody uses stays
		}
	}
}
