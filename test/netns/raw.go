// SPDX-License-Identifier: Apache-2.0

// Exact bytes on a wire. The kernel removes a VLAN tag from a frame before a packet socket sees it, and reports it as
// auxiliary data; a test that compares bytes needs it in place.

package netns

import (
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"os"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

const maxFrame = 1 << 17

// Doer is where a socket is opened: a *Namespace, *Lab or *Node.
type Doer interface{ Do(fn func() error) error }

// Raw sends and receives whole frames on one device.
type Raw struct {
	fd  int
	dev string
	buf []byte
	oob []byte
}

// OpenRaw opens a packet socket on dev inside in, closed when the test ends. It receives frames that arrive from then
// on, not those that the device sends.
func OpenRaw(t testing.TB, in Doer, dev string) *Raw {
	t.Helper()
	r := &Raw{dev: dev, buf: make([]byte, maxFrame), oob: make([]byte, 256)}
	if err := in.Do(r.open); err != nil {
		t.Fatalf("packet socket on %s: %v", dev, err)
	}
	t.Cleanup(func() {
		if err := unix.Close(r.fd); err != nil {
			t.Errorf("close the packet socket on %s: %v", dev, err)
		}
		r.buf, r.oob = nil, nil // package testing keeps everything that cleanups refer to until all tests have ended
	})
	return r
}

func (r *Raw) open() error {
	iface, err := net.InterfaceByName(r.dev)
	if err != nil {
		return err
	}
	// Protocol 0: nothing is received before bind, neither from other devices nor without the options.
	r.fd, err = unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return fmt.Errorf("socket: %w", err)
	}
	for _, opt := range []int{unix.PACKET_AUXDATA, unix.PACKET_IGNORE_OUTGOING} {
		if err == nil {
			err = unix.SetsockoptInt(r.fd, unix.SOL_PACKET, opt, 1)
		}
	}
	if err == nil {
		err = unix.SetsockoptInt(r.fd, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, 64<<20)
	}
	if err == nil {
		err = unix.Bind(r.fd, &unix.SockaddrLinklayer{Protocol: htons(unix.ETH_P_ALL), Ifindex: iface.Index})
	}
	if err != nil {
		return errors.Join(err, unix.Close(r.fd))
	}
	return nil
}

func htons(v uint16) uint16 { return v<<8 | v>>8 }

// Send sends a frame, with its Ethernet header and any VLAN tags.
func (r *Raw) Send(frame []byte) error {
	if _, err := unix.Write(r.fd, frame); err != nil {
		return fmt.Errorf("send %d bytes on %s: %w", len(frame), r.dev, err)
	}
	return nil
}

// Recv returns the first frame that filter accepts, with its VLAN tag in place; a nil filter accepts every one. After
// within the error is os.ErrDeadlineExceeded and lists the frames that came instead.
func (r *Raw) Recv(filter func([]byte) bool, within time.Duration) ([]byte, error) {
	deadline := time.Now().Add(within)
	others, first := 0, ""
	timedOut := func() error {
		return fmt.Errorf("no frame on %s within %v (%d others%s): %w", r.dev, within, others, first, os.ErrDeadlineExceeded)
	}
	for {
		frame, err := r.next()
		if errors.Is(err, unix.EAGAIN) {
			wait := time.Until(deadline)
			if wait <= 0 {
				return nil, timedOut()
			}
			// One millisecond more, because Poll rounds down and would spin at the end.
			_, err = unix.Poll([]unix.PollFd{{Fd: int32(r.fd), Events: unix.POLLIN}}, int(wait.Milliseconds())+1)
			if err != nil && !errors.Is(err, unix.EINTR) {
				return nil, fmt.Errorf("poll %s: %w", r.dev, err)
			}
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("receive on %s: %w", r.dev, err)
		}
		if filter == nil || filter(frame) {
			return frame, nil
		}
		if others++; others == 1 {
			first = ", the first " + hex.EncodeToString(frame[:min(len(frame), 64)])
		}
		if time.Now().After(deadline) {
			return nil, timedOut()
		}
	}
}

func (r *Raw) next() ([]byte, error) {
	n, oobn, flags, _, err := unix.Recvmsg(r.fd, r.buf, r.oob, 0)
	if err != nil {
		return nil, err
	}
	if flags&(unix.MSG_TRUNC|unix.MSG_CTRUNC) != 0 {
		return nil, fmt.Errorf("frame longer than %d bytes", len(r.buf))
	}
	msgs, err := unix.ParseSocketControlMessage(r.oob[:oobn])
	if err != nil {
		return nil, fmt.Errorf("control message: %w", err)
	}
	frame := append([]byte(nil), r.buf[:n]...)
	for _, m := range msgs {
		if m.Header.Level == unix.SOL_PACKET && m.Header.Type == unix.PACKET_AUXDATA {
			frame = withTag(frame, m.Data)
		}
	}
	return frame, nil
}

// withTag restores the tag in struct tpacket_auxdata: status, len and snaplen of 4 bytes, then mac, net, vlan_tci and
// vlan_tpid of 2.
func withTag(frame, aux []byte) []byte {
	if len(aux) < 20 || len(frame) < 14 {
		return frame
	}
	status := binary.NativeEndian.Uint32(aux)
	if status&unix.TP_STATUS_VLAN_VALID == 0 {
		return frame
	}
	tpid := uint16(unix.ETH_P_8021Q)
	if status&unix.TP_STATUS_VLAN_TPID_VALID != 0 {
		tpid = binary.NativeEndian.Uint16(aux[18:])
	}
	tagged := append(make([]byte, 0, len(frame)+4), frame[:12]...)
	tagged = binary.BigEndian.AppendUint16(tagged, tpid)
	tagged = binary.BigEndian.AppendUint16(tagged, binary.NativeEndian.Uint16(aux[16:]))
	return append(tagged, frame[12:]...)
}
