// SPDX-License-Identifier: Apache-2.0

package pdusession

// The tables, as the cube has pinned them.

import (
	"errors"
	"fmt"
	"math"
	"net/netip"
	"path/filepath"
	"sync/atomic"
	"time"

	"github.com/cilium/ebpf"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/cube/table"
	"github.com/polycube/polycube/gtppath"
	"github.com/polycube/polycube/inet"
	"github.com/polycube/polycube/sdf"
)

// Tables are those of a cube `upf`. One process writes them, one call at a time.
type Tables struct {
	tunnels table.Table[uint32, tunnel]
	// named are the tunnels of network instances with a name: openNamed opens them.
	named    table.Table[gtppath.Tunnel, tunnel]
	devices4 table.Table[uint32, device]
	devices6 table.Table[uint64, device]
	routes   table.Table[inet.Network, device]
	stations table.Table[inet.Address, uint64]
	notices  table.Queue[notice]

	rules  mapped[rule]
	meters mapped[meter]
	usages mapped[usage]
	queues mapped[queue]
	urls   mapped[redirect]
	rows   *table.Mapped[sdf.List]
	lists  *sdf.Lists

	// peers are how many sessions use each, left since when none does, owners the first row of the session that has a TEID or an address.
	peers  map[netip.Addr]int
	left   map[netip.Addr]time.Time
	owners map[owned]uint32
	// number is that of the session that was created last.
	number uint32
	// emptying are rows of queues that no session has, in which packets may wait to be dropped.
	emptying []uint32
	// maps are by name, dir is where they are pinned, and load opens one.
	maps map[string]*ebpf.Map
	dir  string
	load func(name string) (*ebpf.Map, error)
}

// owned is a TEID, an address as a key of the tables, or a network.
type owned struct {
	table   uint8
	key     uint64
	network netip.Prefix
}

const (
	ownsTEID = iota
	ownsIPv4
	ownsIPv6
)

// mapped is a table in memory that programs read, and its rows in use.
type mapped[V any] struct {
	*table.Mapped[V]
	values []V
	space  *space
}

// Open opens the tables in the directory of the cube's pins, BPFFS/cubes/UUID. All rows are free: Adopt takes over
// those of sessions.
func Open(dir string) (*Tables, error) {
	t, err := openFrom(func(name string) (*ebpf.Map, error) { return ebpf.LoadPinnedMap(filepath.Join(dir, name), nil) })
	if err == nil {
		t.dir = dir
	}
	return t, err
}

// Current reports whether the pinned tables are those that were opened. They are not if the cube was deleted, or has
// tables of another layout since the daemon was upgraded: close them, and open them again.
func (t *Tables) Current() bool {
	for name, opened := range t.maps {
		pinned, err := ebpf.LoadPinnedMap(filepath.Join(t.dir, name), &ebpf.LoadPinOptions{ReadOnly: true})
		if err != nil {
			return false
		}
		same := sameMap(pinned, opened)
		_ = pinned.Close()
		if !same {
			return false
		}
	}
	return true
}

// sameMap reports whether two descriptors are of the same map.
func sameMap(a, b *ebpf.Map) bool {
	first, err := a.Info()
	if err != nil {
		return false
	}
	second, err := b.Info()
	if err != nil {
		return false
	}
	is, known := first.ID()
	other, _ := second.ID()
	return known && is == other
}

func openFrom(get func(name string) (*ebpf.Map, error)) (*Tables, error) {
	t := &Tables{maps: map[string]*ebpf.Map{}, peers: map[netip.Addr]int{}, left: map[netip.Addr]time.Time{}, owners: map[owned]uint32{}, load: get}
	var errs []error
	load := func(name string) *ebpf.Map {
		m, err := get(name)
		if err != nil {
			errs = append(errs, fmt.Errorf("table %s: %w", name, err))
			return nil
		}
		t.maps[name] = m
		return m
	}
	keep := func(err error) { errs = append(errs, err) }
	open(load, keep, "tunnels", table.Of[uint32, tunnel], &t.tunnels)
	open(load, keep, "devices4", table.Of[uint32, device], &t.devices4)
	open(load, keep, "devices6", table.Of[uint64, device], &t.devices6)
	open(load, keep, "routes", table.Of[inet.Network, device], &t.routes)
	open(load, keep, "stations", table.Of[inet.Address, uint64], &t.stations)
	open(load, keep, "notices", table.QueueOf[notice], &t.notices)
	open(load, keep, "rules", mappedOf[rule], &t.rules)
	open(load, keep, "meters", mappedOf[meter], &t.meters)
	open(load, keep, "usages", mappedOf[usage], &t.usages)
	open(load, keep, "queues", mappedOf[queue], &t.queues)
	open(load, keep, "redirects", mappedOf[redirect], &t.urls)
	open(load, keep, "lists", table.MappedOf[sdf.List], &t.rows)
	t.lists = sdf.NewLists(t.rows)
	if err := errors.Join(errs...); err != nil {
		return nil, errors.Join(err, t.Close())
	}
	return t, nil
}

// openNamed opens the table of tunnels of network instances with a name, which a cube of an earlier daemon does not have.
func (t *Tables) openNamed() error {
	const name = "named_tunnels"
	if t.maps[name] != nil {
		return nil
	}
	m, err := t.load(name)
	if err != nil {
		return fmt.Errorf("table %s: %w", name, err)
	}
	if t.named, err = table.Of[gtppath.Tunnel, tunnel](name, m); err != nil {
		return errors.Join(err, m.Close())
	}
	t.maps[name] = m // which Close closes
	return nil
}

// open opens one table.
func open[T any](load func(string) *ebpf.Map, keep func(error), name string, of func(string, *ebpf.Map) (T, error), to *T) {
	m := load(name)
	if m == nil {
		return
	}
	opened, err := of(name, m)
	if err != nil {
		keep(err)
		return
	}
	*to = opened
}

func mappedOf[V any](name string, m *ebpf.Map) (is mapped[V], err error) {
	if is.Mapped, err = table.MappedOf[V](name, m); err != nil {
		return is, err
	}
	if is.values, err = is.Values(); err != nil {
		return is, err
	}
	is.space = newSpace(name, m.MaxEntries())
	return is, nil
}

// close ends the mapping, if there is one.
func (m *mapped[V]) close() error {
	if m.Mapped == nil {
		return nil
	}
	return m.Close()
}

// Close closes the tables. What is in them stays in effect.
func (t *Tables) Close() error {
	errs := []error{t.rules.close(), t.meters.close(), t.usages.close(), t.queues.close(), t.urls.close()}
	if t.rows != nil {
		errs = append(errs, t.lists.Close())
	}
	for _, m := range t.maps {
		errs = append(errs, m.Close())
	}
	t.maps = nil
	return errors.Join(errs...)
}

// Counts returns what a usage has counted, by its row in Rows.Usages.
func (t *Tables) Counts(row uint32) (Counts, error) {
	if row == 0 || int(row) >= len(t.usages.values) {
		return Counts{}, fmt.Errorf("usage in row %d: %w", row, cube.ErrNotFound)
	}
	u := &t.usages.values[row]
	return Counts{
		Up: atomic.LoadUint64(&u.Bytes[0]), Down: atomic.LoadUint64(&u.Bytes[1]),
		UpPackets: atomic.LoadUint64(&u.Packets[0]), DownPackets: atomic.LoadUint64(&u.Packets[1]),
		First: time.Duration(atomic.LoadUint64(&u.First)), Last: time.Duration(atomic.LoadUint64(&u.Last)),
	}, nil
}

// Arm gives a usage other limits, which are compared with all that it has counted.
func (t *Tables) Arm(row uint32, threshold, quota Volume) error {
	if row == 0 || int(row) >= len(t.usages.values) {
		return fmt.Errorf("usage in row %d: %w", row, cube.ErrNotFound)
	}
	t.usages.values[row].arm(threshold, quota)
	return nil
}

// arm writes limits. In between programs may compare with some of the old and some of the new ones.
func (u *usage) arm(threshold, quota Volume) {
	atomic.StoreUint64(&u.Near, 0)
	near := uint64(math.MaxUint64)
	watches := atomic.LoadUint32(&u.Watches) &^ (watchThreshold | watchQuota)
	for _, l := range []struct {
		to   *[3]uint64
		is   Volume
		flag uint32
	}{{&u.Threshold, threshold, watchThreshold}, {&u.Quota, quota, watchQuota}} {
		numbers, any := limits(l.is)
		for i, n := range numbers {
			atomic.StoreUint64(&l.to[i], n)
			near = min(near, n)
		}
		if any {
			watches |= l.flag
		}
	}
	atomic.StoreUint32(&u.Watches, watches)
	atomic.StoreUint64(&u.Near, near)
	atomic.AndUint32(&u.Told, ^uint32(watchThreshold|watchQuota))
}

// Seen returns when the last packet of a session came, in steps of 100 ms of CLOCK_MONOTONIC; 0 if none has come since its
// rules were changed.
func (t *Tables) Seen(rows *Rows) (last time.Duration, err error) {
	for i := rows.Block; i < rows.Block+rows.Size; i++ {
		last = max(last, time.Duration(atomic.LoadUint64(&t.rules.values[i].Seen)))
	}
	return last, nil
}

// Use is how much of the tables is in use.
type Use struct{ Sessions, Rules, Meters, Usages, Queues uint32 }

// InUse returns how much of the tables is in use. A session counts once, by the rows of its rules.
func (t *Tables) InUse() Use {
	blocks := map[uint32]bool{}
	for _, block := range t.owners {
		blocks[block] = true
	}
	return Use{uint32(len(blocks)), t.rules.space.count, t.meters.space.count, t.usages.space.count, t.queues.space.count - uint32(len(t.emptying))}
}
