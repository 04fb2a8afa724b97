// SPDX-License-Identifier: Apache-2.0

// What XDP redirects into a veth is received by its other end, and lost there without a trace unless that end polls
// (NAPI): it does when GRO is on or a native XDP program is attached, and it is up. Frames also carry no offload state,
// so a checksum that the sender left to the hardware stays unfinished.

package netdev

import (
	"errors"
	"fmt"
	"os"
	"unsafe"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// Readiness tells whether frames redirected by XDP to a device arrive.
type Readiness struct {
	OK      bool
	Changed bool // the other end was changed to make it so
	// Reason is a sentence: what was found, and when not OK what to do.
	Reason string
}

// EnsureCanReceiveRedirects makes sure that what XDP redirects to the device is received. For a veth it finds the other
// end, in whatever namespace, and switches GRO on there unless a native XDP program does the same. A state that it cannot
// mend is not an error but a Readiness that is not OK; call it again when the device's Carrier or peer changes.
func EnsureCanReceiveRedirects(name string) (Readiness, error) {
	var r Readiness
	kind, err := withPeer(name, func(peer Info) error {
		return r.prepare(name, peer)
	})
	switch {
	case errors.Is(err, errUnreachable):
		return Readiness{Reason: fmt.Sprintf("the other end of %s is in a namespace that has no name in /run/netns and no "+
			"visible process: run 'ethtool -K DEVICE gro on' in it", name)}, nil
	case errors.Is(err, errNoPeer):
		return Readiness{Reason: fmt.Sprintf("%s has no other end any more: delete and recreate the pair", name)}, nil
	case err != nil:
		return Readiness{}, fmt.Errorf("receive redirects on %s: %w", name, err)
	case kind != "veth":
		return Readiness{OK: true, Reason: fmt.Sprintf("%s is a %s device, which needs no preparation", name, kind)}, nil
	}
	return r, nil
}

// prepare runs in the peer's namespace.
func (r *Readiness) prepare(name string, peer Info) error {
	how := "a native XDP program"
	if peer.XDPMode != "native" {
		how = "GRO"
		on, err := feature(peer.Name, unix.ETHTOOL_GGRO)
		if err != nil {
			return err
		}
		if !on {
			if err := setFeature(peer.Name, unix.ETHTOOL_SGRO, unix.ETHTOOL_GGRO, true); err != nil {
				return err
			}
			r.Changed = true
		}
	}
	if !peer.Up {
		r.Reason = fmt.Sprintf("the other end of %s, %s, is down: set it up", name, peer.Name)
		return nil
	}
	r.OK = true
	r.Reason = fmt.Sprintf("the other end of %s, %s, polls because of %s", name, peer.Name, how)
	return nil
}

// SetPeerTxChecksum switches, at the other end of a veth, whether checksums are left for later. Off is what TCP and UDP
// over XDP need: the frame that is redirected does not say that its checksum is unfinished. It changes nothing, and
// reports so, on devices of other kinds.
func SetPeerTxChecksum(name string, on bool) (changed bool, err error) {
	_, err = withPeer(name, func(peer Info) error {
		is, err := feature(peer.Name, unix.ETHTOOL_GTXCSUM)
		if err != nil || is == on {
			return err
		}
		changed = true
		return setFeature(peer.Name, unix.ETHTOOL_STXCSUM, unix.ETHTOOL_GTXCSUM, on)
	})
	if err != nil {
		return false, fmt.Errorf("transmit checksums towards %s: %w", name, err)
	}
	return changed, nil
}

// errNoPeer is a veth whose other end is not where it says.
var errNoPeer = errors.New("no other end")

// withPeer calls fn in the namespace of a veth's other end, and for other kinds not at all.
func withPeer(name string, fn func(peer Info) error) (kind string, err error) {
	info, err := Get(name)
	if err != nil || info.Kind != "veth" {
		return info.Kind, err
	}
	call := func() error {
		peer, err := peerOf(info)
		if err != nil {
			return err
		}
		return fn(peer)
	}
	if info.PeerNetnsID < 0 {
		return info.Kind, call()
	}
	ns, err := openNamespace(info.PeerNetnsID)
	if err != nil {
		return info.Kind, err
	}
	defer ns.Close()
	return info.Kind, inNamespace(ns, call)
}

// peerOf finds the device in the calling thread's namespace and checks that it names info as its own other end.
func peerOf(info Info) (Info, error) {
	l, err := netlink.LinkByIndex(info.PeerIndex)
	var notFound netlink.LinkNotFoundError
	if errors.As(err, &notFound) {
		return Info{}, fmt.Errorf("device %d: %w", info.PeerIndex, errNoPeer)
	}
	if err != nil {
		return Info{}, fmt.Errorf("device %d: %w", info.PeerIndex, err)
	}
	peer := infoOf(l)
	if peer.Kind != "veth" || peer.PeerIndex != info.Index {
		return Info{}, fmt.Errorf("device %d is %s: %w", info.PeerIndex, peer.Name, errNoPeer)
	}
	return peer, nil
}

// setFeature switches an offload and reads it back: the kernel accepts what a device then does not do.
func setFeature(dev string, set, get uint32, on bool) error {
	value := uint32(0)
	if on {
		value = 1
	}
	if _, err := ethtool(dev, set, value); err != nil {
		return err
	}
	is, err := feature(dev, get)
	if err == nil && is != on {
		err = fmt.Errorf("%s: ethtool command %#x has no effect", dev, set)
	}
	return err
}

func feature(dev string, get uint32) (bool, error) {
	v, err := ethtool(dev, get, 0)
	return v != 0, err
}

// ethtool does a command that takes and gives one number, struct ethtool_value.
func ethtool(dev string, cmd, data uint32) (uint32, error) {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return 0, fmt.Errorf("socket: %w", err)
	}
	defer func() { _ = unix.Close(fd) }() // nothing was written
	value := struct{ cmd, data uint32 }{cmd, data}
	ifreq := struct {
		name [unix.IFNAMSIZ]byte
		data unsafe.Pointer
		_    [16]byte
	}{data: unsafe.Pointer(&value)}
	copy(ifreq.name[:unix.IFNAMSIZ-1], dev)
	_, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), unix.SIOCETHTOOL, uintptr(unsafe.Pointer(&ifreq)))
	if errno != 0 {
		return 0, fmt.Errorf("%s: ethtool command %#x: %w", dev, cmd, os.NewSyscallError("ioctl", errno))
	}
	return value.data, nil
}
