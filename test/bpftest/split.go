// SPDX-License-Identifier: Apache-2.0

package bpftest

// Frames of which only the first bytes can be read directly, as with header-data split: the rest is in fragments of an
// skb, or in further buffers of an XDP frame.

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/polycube/polycube/test/netns"
)

// SendSplit sends a frame of more than a page from a host, with so many bytes in the linear part of the skb.
func SendSplit(host *netns.Node, frame []byte, linear int) error {
	header := make([]byte, vnetHeader)
	binary.NativeEndian.PutUint16(header[2:], uint16(linear))
	return send(host, header, frame)
}

// vnetHeader is the size of struct virtio_net_hdr of linux/virtio_net.h.
const vnetHeader = 10

// SendSuperframe sends a frame of TCP without IP options or extension headers from a host, as one of segments whose payloads have
// at most so many bytes.
func SendSuperframe(host *netns.Node, frame []byte, segment int) error {
	const needsSum, tcp4, tcp6, sumOfTCP = 1, 1, 4, 16
	kind, transport := byte(tcp4), uint16(34)
	if frame[12] == 0x86 {
		kind, transport = tcp6, 54
	}
	header := make([]byte, vnetHeader)
	header[0], header[1] = needsSum, kind
	binary.NativeEndian.PutUint16(header[2:], transport+20)
	binary.NativeEndian.PutUint16(header[4:], uint16(segment))
	binary.NativeEndian.PutUint16(header[6:], transport)
	binary.NativeEndian.PutUint16(header[8:], sumOfTCP)
	return send(host, header, frame)
}

// send sends a frame behind a struct virtio_net_hdr.
func send(host *netns.Node, header, frame []byte) error {
	return host.Do(func() (err error) {
		i, err := net.InterfaceByName(netns.Inner)
		if err != nil {
			return err
		}
		fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, unix.Close(fd)) }()
		if err := unix.SetsockoptInt(fd, unix.SOL_PACKET, unix.PACKET_VNET_HDR, 1); err != nil {
			return err
		}
		return unix.Sendto(fd, slices.Concat(header, frame), 0, &unix.SockaddrLinklayer{Ifindex: i.Index})
	})
}

// TrySplit is a test run at XDP of a frame with so many bytes in its first buffer, since Linux 6.18. Older kernels
// answer ErrRefused.
func (l *Lab) TrySplit(dev string, frame []byte, linear int) error {
	l.t.Helper()
	err := l.Do(func() (err error) {
		prog, ifindex, err := l.program(dev)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, prog.Close()) }()
		opts := l.testRun(ifindex, frame)
		opts.Context = Context(l.Type.Hook(), ifindex, linear)
		_, err = prog.Run(opts)
		return err
	})
	if err != nil {
		return fmt.Errorf("run a frame of %d bytes, %d of them in the first buffer: %w", len(frame), linear, err)
	}
	return nil
}
