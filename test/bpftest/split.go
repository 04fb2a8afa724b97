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
		header := make([]byte, 10) // struct virtio_net_hdr
		binary.NativeEndian.PutUint16(header[2:], uint16(linear))
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
