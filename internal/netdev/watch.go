// SPDX-License-Identifier: Apache-2.0

// Watching: one socket is subscribed to links and addresses, so that their messages arrive in the order of the
// changes. The messages update a table, and an event is a difference in that table; so a flood of messages that change
// nothing causes no events, and after lost messages a new listing is compared with the table in the same way. Speed
// changes arrive through another socket.

package netdev

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"sync"
	"syscall"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// EventKind is the kind of change of a device.
type EventKind int

// The kinds of events.
const (
	// Added is a device that appeared, or existed when Watch began.
	Added EventKind = iota + 1
	// Removed is a deleted device; Info is its last known state.
	Removed
	// Changed is a device whose name, state, carrier, speed, MTU, MAC, addresses, kind or peer changed, or whose
	// carrier was lost for a moment; Old is the previous state.
	Changed
	// Synced follows the Added events of the devices that existed when Watch began. It has no Info.
	Synced
)

func (k EventKind) String() string {
	switch k {
	case Added:
		return "added"
	case Removed:
		return "removed"
	case Changed:
		return "changed"
	case Synced:
		return "synced"
	}
	return fmt.Sprintf("EventKind(%d)", int(k))
}

// Event is about one device. A rename is a Changed whose names differ: the index stays the same.
type Event struct {
	Kind EventKind
	Info Info
	Old  *Info
	// Flapped tells that the carrier was lost and came back, or came and was lost, since the last event.
	Flapped bool
}

// receiveBuffer holds the messages of about ten thousand changes while fn is busy.
const receiveBuffer = 4 << 20

// Watch calls fn for every existing device, then with Synced, then for every change, one call at a time, until ctx is
// done; then it returns nil. It watches the namespace of the calling thread.
func Watch(ctx context.Context, fn func(Event)) error {
	s, err := nl.Subscribe(unix.NETLINK_ROUTE, unix.RTNLGRP_LINK, unix.RTNLGRP_IPV4_IFADDR, unix.RTNLGRP_IPV6_IFADDR)
	if err != nil {
		return fmt.Errorf("watch network devices: subscribe: %w", err)
	}
	defer s.Close()
	if err := s.SetReceiveBufferSize(receiveBuffer, true); err != nil {
		// Without CAP_NET_ADMIN the buffer stays at the system's limit, and a new listing is needed more often.
		if err := s.SetReceiveBufferSize(receiveBuffer, false); err != nil {
			return fmt.Errorf("watch network devices: receive buffer: %w", err)
		}
	}
	h, err := netlink.NewHandle(unix.NETLINK_ROUTE)
	if err != nil {
		return fmt.Errorf("watch network devices: %w", err)
	}
	defer h.Close()
	speeds, err := openSpeeds()
	if err != nil {
		return fmt.Errorf("watch network devices: %w", err)
	}
	defer speeds.close()
	stop := context.AfterFunc(ctx, s.Close)
	defer stop()
	w := &watcher{
		known: map[int]Info{}, emit: fn,
		list:    func() ([]Info, error) { return list(h, speeds) },
		receive: s.Receive,
		drain:   func() error { return drain(s) },
		speed:   speeds.of,
	}
	end, err := w.watchSpeeds(speeds)
	if err != nil {
		return fmt.Errorf("watch network devices: %w", err)
	}
	defer end()
	err = w.run(ctx)
	if ctx.Err() != nil {
		return nil
	}
	return fmt.Errorf("watch network devices: %w", err)
}

// drain discards the content of the socket. Messages from before a listing would report outdated states.
func drain(s *nl.NetlinkSocket) error {
	if err := s.SetReceiveTimeout(&unix.Timeval{Usec: 1000}); err != nil {
		return fmt.Errorf("drain: %w", err)
	}
	for {
		_, _, err := s.Receive()
		switch {
		case errors.Is(err, unix.EAGAIN):
			return s.SetReceiveTimeout(&unix.Timeval{})
		case err != nil && !errors.Is(err, unix.ENOBUFS) && !errors.Is(err, unix.EINTR):
			return fmt.Errorf("drain: %w", err)
		}
	}
}

// watcher has the known state. Its functions are fields so that tests can lose messages.
type watcher struct {
	mu      sync.Mutex // guards known and the order of events
	known   map[int]Info
	flaps   map[int]uint32 // the kernel's count of carrier changes
	emit    func(Event)
	list    func() ([]Info, error)
	receive func() ([]syscall.NetlinkMessage, *unix.SockaddrNetlink, error)
	drain   func() error
	speed   func(index int) uint32
}

func (w *watcher) run(ctx context.Context) error {
	if err := w.resync(); err != nil {
		return err
	}
	w.tell(Event{Kind: Synced})
	for ctx.Err() == nil {
		msgs, from, err := w.receive()
		switch {
		case errors.Is(err, unix.ENOBUFS):
			if err := w.drain(); err != nil {
				return err
			}
			if err := w.resync(); err != nil {
				return err
			}
		case errors.Is(err, unix.EINTR):
		case err != nil:
			return err
		case from.Pid == nl.PidKernel: // any process may send to the socket
			for _, m := range msgs {
				if err := w.message(m); err != nil {
					return err
				}
			}
		}
	}
	return ctx.Err()
}

// resync updates the table from a new listing. Deleted devices are reported first, because their names may have been
// reused.
func (w *watcher) resync() error {
	w.mu.Lock() // a speed set now is reported after the listing
	defer w.mu.Unlock()
	infos, err := w.list()
	if err != nil {
		return err
	}
	var gone []int
	for index := range w.known {
		if !slices.ContainsFunc(infos, func(i Info) bool { return i.Index == index }) {
			gone = append(gone, index)
		}
	}
	slices.Sort(gone)
	for _, index := range gone {
		w.remove(index)
	}
	for _, info := range infos {
		w.set(info)
	}
	return w.countFlaps()
}

// countFlaps requests the counts of all devices; a listing does not have them.
func (w *watcher) countFlaps() error {
	msgs, err := Listed(func() ([][]byte, error) {
		req := nl.NewNetlinkRequest(unix.RTM_GETLINK, unix.NLM_F_DUMP)
		req.AddData(nl.NewIfInfomsg(unix.AF_UNSPEC))
		return req.Execute(unix.NETLINK_ROUTE, unix.RTM_NEWLINK)
	})
	if err != nil {
		return fmt.Errorf("read the counts of carrier changes: %w", err)
	}
	if w.flaps == nil {
		w.flaps = map[int]uint32{}
	}
	for _, m := range msgs {
		if n, ok := flapsIn(m); ok {
			w.flaps[int(nl.DeserializeIfInfomsg(m).Index)] = n
		}
	}
	return nil
}

// flapsIn reads IFLA_CARRIER_CHANGES from a link message.
func flapsIn(m []byte) (uint32, bool) {
	attrs, err := nl.ParseRouteAttr(m[unix.SizeofIfInfomsg:])
	if err != nil {
		return 0, false
	}
	for _, a := range attrs {
		if a.Attr.Type == unix.IFLA_CARRIER_CHANGES && len(a.Value) == 4 {
			return binary.NativeEndian.Uint32(a.Value), true
		}
	}
	return 0, false
}

// flapped reports whether the carrier changed more often than its state shows.
func (w *watcher) flapped(index int, m []byte) bool {
	n, ok := flapsIn(m)
	if !ok {
		return false
	}
	before, known := w.flaps[index]
	w.flaps[index] = n
	return known && n-before >= 2
}

func (w *watcher) tell(e Event) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.emit(e)
}

func (w *watcher) message(m syscall.NetlinkMessage) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch m.Header.Type {
	case unix.RTM_NEWLINK, unix.RTM_DELLINK:
		// A bridge reports its ports with the same messages, in a separate family.
		if nl.DeserializeIfInfomsg(m.Data).Family != unix.AF_UNSPEC {
			return nil
		}
		header := unix.NlMsghdr(m.Header)
		l, err := netlink.LinkDeserialize(&header, m.Data)
		if err != nil {
			return fmt.Errorf("link message: %w", err)
		}
		if m.Header.Type == unix.RTM_DELLINK {
			w.remove(l.Attrs().Index)
			return nil
		}
		info := infoOf(l)
		info.Addresses, info.Speed = w.known[info.Index].Addresses, w.speedOf(info)
		if w.flapped(info.Index, m.Data) && w.known[info.Index].Index != 0 {
			old := w.known[info.Index]
			w.known[info.Index] = info
			w.emit(Event{Kind: Changed, Info: info, Old: &old, Flapped: true})
			return nil
		}
		w.set(info)
	case unix.RTM_NEWADDR, unix.RTM_DELADDR:
		index, prefix, err := parseAddress(m.Data)
		if err != nil {
			return fmt.Errorf("address message: %w", err)
		}
		w.address(index, prefix, m.Header.Type == unix.RTM_NEWADDR)
	}
	return nil
}

func (w *watcher) address(index int, prefix netip.Prefix, add bool) {
	info, ok := w.known[index]
	if !ok {
		return // its link is gone already
	}
	if at := slices.Index(info.Addresses, prefix); add == (at >= 0) {
		return
	} else if add {
		info.Addresses = sortPrefixes(append(slices.Clone(info.Addresses), prefix))
	} else {
		info.Addresses = slices.Delete(slices.Clone(info.Addresses), at, at+1)
	}
	w.set(info)
}

func (w *watcher) set(info Info) {
	old, ok := w.known[info.Index]
	w.known[info.Index] = info
	switch {
	case !ok:
		w.emit(Event{Kind: Added, Info: info})
	case !same(old, info):
		w.emit(Event{Kind: Changed, Info: info, Old: &old})
	}
}

func (w *watcher) remove(index int) {
	old, ok := w.known[index]
	if !ok {
		return
	}
	delete(w.known, index)
	delete(w.flaps, index)
	w.emit(Event{Kind: Removed, Info: old})
}

// same ignores XDPMode: the kernel does not report every change of it.
func same(a, b Info) bool {
	return a.Name == b.Name && slices.Equal(a.MAC, b.MAC) && a.MTU == b.MTU && a.Up == b.Up && a.Carrier == b.Carrier && a.Speed == b.Speed &&
		a.Kind == b.Kind && a.NoEthernet == b.NoEthernet && a.OwnOnly == b.OwnOnly && a.Enslaved == b.Enslaved && a.VLAN == b.VLAN && a.Carries == b.Carries && slices.Equal(a.Addresses, b.Addresses) && a.PeerIndex == b.PeerIndex && a.PeerNetnsID == b.PeerNetnsID
}

// parseAddress parses struct ifaddrmsg and its attributes. On a point-to-point link IFA_ADDRESS is the other side, so
// IFA_LOCAL is used if present.
func parseAddress(b []byte) (index int, prefix netip.Prefix, err error) {
	if len(b) < unix.SizeofIfAddrmsg {
		return 0, netip.Prefix{}, fmt.Errorf("%d bytes", len(b))
	}
	msg := nl.DeserializeIfAddrmsg(b)
	attrs, err := nl.ParseRouteAttr(b[msg.Len():])
	if err != nil {
		return 0, netip.Prefix{}, err
	}
	var addr, local netip.Addr
	for _, a := range attrs {
		switch a.Attr.Type {
		case unix.IFA_ADDRESS:
			addr, _ = netip.AddrFromSlice(a.Value)
		case unix.IFA_LOCAL:
			local, _ = netip.AddrFromSlice(a.Value)
		}
	}
	if local.IsValid() {
		addr = local
	}
	if !addr.IsValid() {
		return 0, netip.Prefix{}, errors.New("it has no address")
	}
	return int(msg.Index), netip.PrefixFrom(addr, int(msg.Prefixlen)), nil
}
