// SPDX-License-Identifier: Apache-2.0

package pdusession

// What the cube itself does with its tables: it sends the packets that wait, and shows devices.

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"net/netip"
	"strings"
	"sync/atomic"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/cube/table"
	"github.com/polycube/polycube/inet"
)

// Order is what happens to the packets of a queue.
type Order uint32

// The orders.
const (
	Hold    = Order(hold)
	Release = Order(release)
	Discard = Order(discard)
)

// Queues are the rows of packets that wait, as the cube sees them.
type Queues struct{ rows *table.Mapped[queue] }

// NewQueues returns those of a cube.
func NewQueues(env cube.Env) *Queues { return &Queues{table.NewMapped[queue](env, "queues")} }

// Close unmaps them.
func (q *Queues) Close() error { return q.rows.Close() }

// row returns a row; nil if there is none.
func (q *Queues) row(row uint32) *queue {
	rows, err := q.rows.Values()
	if err != nil || int(row) >= len(rows) {
		return nil
	}
	return &rows[row]
}

// Order returns what is to happen to the packets of a row.
func (q *Queues) Order(row uint32) Order {
	if is := q.row(row); is != nil {
		return Order(atomic.LoadUint32(&is.State))
	}
	return Discard
}

// Waiting returns how many packets of a row are on their way to user space, or wait there.
func (q *Queues) Waiting(row uint32) uint32 {
	if is := q.row(row); is != nil {
		return atomic.LoadUint32(&is.Waiting)
	}
	return 0
}

// Wait notes that one more packet of a row waits. It reports whether there is such a row.
func (q *Queues) Wait(row uint32) bool {
	is := q.row(row)
	if is == nil || row == 0 {
		return false
	}
	atomic.AddUint32(&is.Waiting, 1)
	return true
}

// Done notes that packets of a row do not wait any more. Packets that were given up may still come: the count stays at 0 then,
// as programs would take one below it for a full queue.
func (q *Queues) Done(row, packets uint32) {
	is := q.row(row)
	for is != nil {
		was := atomic.LoadUint32(&is.Waiting)
		if atomic.CompareAndSwapUint32(&is.Waiting, was, was-min(was, packets)) {
			return
		}
	}
}

// Busy returns the rows with packets that wait.
func (q *Queues) Busy() (busy []uint32, err error) {
	rows, err := q.rows.Values()
	for i := range rows {
		if atomic.LoadUint32(&rows[i].Waiting) != 0 {
			busy = append(busy, uint32(i))
		}
	}
	return busy, err
}

// Device is a device with a session.
type Device struct {
	IP       netip.Addr
	Action   Action
	Peer     netip.Addr // without a tunnel, it is invalid
	TEID     uint32
	QFI      uint8
	QueueRow uint32
}

// Devices are the devices in the tables.
type Devices struct {
	v4    table.Table[uint32, device]
	v6    table.Table[uint64, device]
	rules *table.Mapped[rule]
}

// NewDevices returns those of a cube.
func NewDevices(env cube.Env) *Devices {
	return &Devices{table.New[uint32, device](env, "devices4"), table.New[uint64, device](env, "devices6"), table.NewMapped[rule](env, "rules")}
}

// Close unmaps their rules.
func (d *Devices) Close() error { return d.rules.Close() }

// Get returns a device by its IPv4 address, or the first address of its IPv6 prefix.
func (d *Devices) Get(ip netip.Addr) (Device, bool, error) {
	var is device
	var ok bool
	var err error
	if ip.Is4() {
		is, ok, err = d.v4.Get(key4(ip))
	} else {
		is, ok, err = d.v6.Get(key6(netip.PrefixFrom(ip, 64)))
	}
	if err != nil || !ok {
		return Device{}, false, err
	}
	shown, err := d.shown(ip, is)
	return shown, true, err
}

// shown is a device as it is shown.
func (d *Devices) shown(ip netip.Addr, is device) (Device, error) {
	rules, err := d.rules.Values()
	if err != nil {
		return Device{}, err
	}
	if int(is.Rule) >= len(rules) {
		return Device{}, fmt.Errorf("device %s: its rule is in row %d: %w", ip, is.Rule, cube.ErrNotFound)
	}
	r := rules[is.Rule]
	shown := Device{IP: ip, Action: Action(r.Action), TEID: r.TEID, QFI: r.QFI, QueueRow: r.Queue}
	if r.Flags&flagTunnel != 0 {
		shown.Peer = r.Peer.Addr()
	}
	return shown, nil
}

// Page returns up to limit devices: first those with IPv4 addresses. after is empty or the former page's next.
func (d *Devices) Page(after string, limit int) (page []Device, next string, err error) {
	family, position, _ := strings.Cut(cmp.Or(after, "4/"), "/")
	switch family {
	case "4":
		entries, following, err := d.v4.Page(position, limit, nil)
		if err != nil {
			return nil, "", err
		}
		for _, e := range entries {
			var b [4]byte
			binary.NativeEndian.PutUint32(b[:], e.Key)
			if page, err = d.add(page, netip.AddrFrom4(b), e.Value); err != nil {
				return nil, "", err
			}
		}
		if following != "" {
			return page, "4/" + following, nil
		}
		return page, "6/", nil
	case "6":
		entries, following, err := d.v6.Page(position, limit, nil)
		if err != nil {
			return nil, "", err
		}
		for _, e := range entries {
			var b [16]byte
			binary.NativeEndian.PutUint64(b[:], e.Key)
			if page, err = d.add(page, netip.AddrFrom16(b), e.Value); err != nil {
				return nil, "", err
			}
		}
		if following != "" {
			following = "6/" + following
		}
		return page, following, nil
	}
	return nil, "", fmt.Errorf("position %q: %w", after, cube.ErrInvalid)
}

func (d *Devices) add(page []Device, ip netip.Addr, is device) ([]Device, error) {
	shown, err := d.shown(ip, is)
	return append(page, shown), err
}

// Teller writes notices from the cube itself.
type Teller struct{ notices table.Queue[notice] }

// NewTeller returns that of a cube.
func NewTeller(env cube.Env) Teller { return Teller{table.NewQueue[notice](env, "notices")} }

// Tell writes a notice about a peer.
func (t Teller) Tell(kind NoticeKind, peer netip.Addr, teid uint32) error {
	return t.notices.Push(notice{Kind: uint32(kind), TEID: teid, Peer: inet.AddressOf(peer)})
}
