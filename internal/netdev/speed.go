// SPDX-License-Identifier: Apache-2.0

// Link speeds. Link messages do not contain them: the generic netlink family "ethtool" is queried for each device, and
// its notifications report speeds that are set.

package netdev

import (
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// ethtoolFamily and ethtoolMonitor are ETHTOOL_GENL_NAME and ETHTOOL_MCGRP_MONITOR_NAME of linux/ethtool_netlink.h.
const (
	ethtoolFamily  = "ethtool"
	ethtoolMonitor = "monitor"
)

// maxSpeed is the largest accepted speed, in Mbit/s. The kernel's SPEED_UNKNOWN is above it.
const maxSpeed = 1<<31 - 1

// speeds queries the speed of devices in the namespace in which it was opened. A nil one, for a kernel without the
// family, returns none.
type speeds struct {
	family  uint16
	version uint8
	monitor int
	sockets map[int]*nl.SocketHandle
}

// openSpeeds works in the namespace of the calling thread.
func openSpeeds() (*speeds, error) {
	family, err := findFamily(ethtoolFamily)
	if errors.Is(err, unix.ENOENT) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	s := &speeds{family: family.id, version: family.version, monitor: int(family.groups[ethtoolMonitor])}
	socket, err := nl.Subscribe(unix.NETLINK_GENERIC)
	if err != nil {
		return nil, fmt.Errorf("netlink family %s: %w", ethtoolFamily, err)
	}
	err = errors.Join(socket.SetSendTimeout(&nl.SocketTimeoutTv), socket.SetReceiveTimeout(&nl.SocketTimeoutTv))
	if err != nil {
		socket.Close()
		return nil, fmt.Errorf("netlink family %s: %w", ethtoolFamily, err)
	}
	s.sockets = map[int]*nl.SocketHandle{unix.NETLINK_GENERIC: {Socket: socket}}
	return s, nil
}

func (s *speeds) close() {
	if s != nil {
		s.sockets[unix.NETLINK_GENERIC].Socket.Close()
	}
}

// of is the speed of a device in Mbit/s, 0 for one that reports none, has no link, or does not exist.
func (s *speeds) of(index int) uint32 {
	if s == nil {
		return 0
	}
	req := nl.NewNetlinkRequest(int(s.family), unix.NLM_F_ACK)
	req.Sockets = s.sockets
	req.AddData(genlHeader{unix.ETHTOOL_MSG_LINKMODES_GET, s.version})
	header := nl.NewRtAttr(unix.ETHTOOL_A_LINKMODES_HEADER|unix.NLA_F_NESTED, nil)
	header.AddRtAttr(unix.ETHTOOL_A_HEADER_DEV_INDEX, nl.Uint32Attr(uint32(index)))
	header.AddRtAttr(unix.ETHTOOL_A_HEADER_FLAGS, nl.Uint32Attr(unix.ETHTOOL_FLAG_COMPACT_BITSETS))
	req.AddData(header)
	msgs, err := req.Execute(unix.NETLINK_GENERIC, 0)
	if err != nil {
		return 0
	}
	for _, m := range msgs {
		if of, speed, ok := speedIn(m); ok && of == index {
			return speed
		}
	}
	return 0
}

// subscribe opens a socket for the notifications that speedIn parses; nil if the kernel has none.
func (s *speeds) subscribe() (*nl.NetlinkSocket, error) {
	if s == nil || s.monitor == 0 {
		return nil, nil
	}
	socket, err := nl.Subscribe(unix.NETLINK_GENERIC)
	if err != nil {
		return nil, err
	}
	// A group's number may be too large for the bit mask of a subscription.
	err = unix.SetsockoptInt(socket.GetFd(), unix.SOL_NETLINK, unix.NETLINK_ADD_MEMBERSHIP, s.monitor)
	if err != nil {
		socket.Close()
		return nil, err
	}
	return socket, nil
}

// speedIn parses a message about link modes, ETHTOOL_MSG_LINKMODES_GET_REPLY or _NTF.
func speedIn(m []byte) (index int, speed uint32, ok bool) {
	if len(m) < nl.SizeofGenlmsg || m[0] != unix.ETHTOOL_MSG_LINKMODES_GET_REPLY && m[0] != unix.ETHTOOL_MSG_LINKMODES_NTF {
		return 0, 0, false
	}
	attrs, err := nl.ParseRouteAttr(m[nl.SizeofGenlmsg:])
	if err != nil {
		return 0, 0, false
	}
	for _, a := range attrs {
		switch a.Attr.Type &^ unix.NLA_F_NESTED {
		case unix.ETHTOOL_A_LINKMODES_HEADER:
			index = deviceIn(a.Value)
		case unix.ETHTOOL_A_LINKMODES_SPEED:
			if len(a.Value) == 4 {
				speed = binary.NativeEndian.Uint32(a.Value)
			}
		}
	}
	if speed > maxSpeed {
		speed = 0
	}
	return index, speed, index != 0
}

// deviceIn is the number of the device in the header of a message.
func deviceIn(header []byte) int {
	attrs, err := nl.ParseRouteAttr(header)
	if err != nil {
		return 0
	}
	for _, a := range attrs {
		if a.Attr.Type == unix.ETHTOOL_A_HEADER_DEV_INDEX && len(a.Value) == 4 {
			return int(binary.NativeEndian.Uint32(a.Value))
		}
	}
	return 0
}

// speedOf is the speed of the device of a link message. That of a veth never changes, and there may be thousands.
func (w *watcher) speedOf(info Info) uint32 {
	if old, ok := w.known[info.Index]; ok && info.Kind == "veth" {
		return old.Speed
	}
	return w.speed(info.Index)
}

// watchSpeeds makes the watcher follow speed changes, until end is called.
func (w *watcher) watchSpeeds(s *speeds) (end func(), err error) {
	socket, err := s.subscribe()
	if socket == nil || err != nil {
		return func() {}, err
	}
	var following sync.WaitGroup
	following.Go(func() {
		for {
			msgs, from, err := socket.Receive()
			switch {
			case errors.Is(err, unix.ENOBUFS):
				w.askSpeeds()
			case errors.Is(err, unix.EINTR):
			case err != nil:
				return
			case from.Pid == nl.PidKernel:
				for _, m := range msgs {
					w.speedSet(m.Data)
				}
			}
		}
	})
	return func() {
		socket.Close()
		following.Wait()
	}, nil
}

// speedSet handles a notification.
func (w *watcher) speedSet(m []byte) {
	index, speed, ok := speedIn(m)
	w.mu.Lock()
	defer w.mu.Unlock()
	if info, known := w.known[index]; ok && known {
		info.Speed = speed
		w.set(info)
	}
}

// askSpeeds queries all speeds, because notifications were lost.
func (w *watcher) askSpeeds() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, index := range slices.Sorted(maps.Keys(w.known)) {
		info := w.known[index]
		info.Speed = w.speed(index)
		w.set(info)
	}
}
