// SPDX-License-Identifier: Apache-2.0

// A frame that XDP redirects into a veth is received by the other end, and silently lost there unless that end polls
// (NAPI): it does when GRO is on or a native XDP program is attached, and it is up. Frames also carry no offload
// state, so a checksum that the sender left to the hardware stays unfinished, and a VLAN tag that it left outside the
// frame is lost.

package netdev

import (
	"errors"
	"fmt"
	"slices"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// Readiness reports whether frames redirected by XDP to a device arrive.
type Readiness struct {
	OK      bool
	Changed bool // GRO was switched on at the other end to make it so
	// WithProgram: not OK, but may be while a native XDP program is on the device, as with virtio.
	WithProgram bool
	// Reason is a sentence: what was found and, if not OK, what to do.
	Reason string
}

// EnsureCanReceiveRedirects ensures that frames redirected by XDP to the device are received. For a veth it finds the
// other end, in any namespace, and switches GRO on there unless a native XDP program has the same effect. A state that
// it cannot repair is not an error but a Readiness that is not OK; call it again when the device's Carrier or peer
// changes.
func EnsureCanReceiveRedirects(name string) (Readiness, error) { return readiness(name, true) }

// TakesRedirects reports what EnsureCanReceiveRedirects would report, and changes nothing.
func TakesRedirects(name string) (Readiness, error) { return readiness(name, false) }

// readiness finds the state of a device, after it has been prepared if that is wanted.
func readiness(name string, prepare bool) (Readiness, error) {
	var r Readiness
	kind, err := withPeer(name, func(peer Info) error {
		return r.prepare(name, peer, prepare)
	})
	switch {
	case errors.Is(err, errUnreachable):
		return Readiness{Reason: fmt.Sprintf("the other end of %s is in a namespace without a name in /run/netns and without a "+
			"visible process: run 'ethtool -K DEVICE gro on' in it", name)}, nil
	case errors.Is(err, errNoPeer):
		return Readiness{Reason: fmt.Sprintf("%s no longer has another end: delete and re-create the pair", name)}, nil
	case err != nil:
		return Readiness{}, fmt.Errorf("receive redirects on %s: %w", name, err)
	case kind != "veth":
		return other(name, kind)
	}
	if r.OK && prepare {
		err = r.ensurePrepared(name)
	}
	return r, err
}

// noRedirectKinds are kinds of devices that accept no redirected frames, for kernels that do not report it.
var noRedirectKinds = []string{"bond", "bridge", "dummy", "geneve", "gretap", "ifb", "loopback", "macvlan", "macvtap", "vlan", "vxlan"}

// other reports whether a device that is not a veth accepts redirected frames.
func other(name, kind string) (Readiness, error) {
	info, err := Get(name)
	if err != nil {
		return Readiness{}, fmt.Errorf("receive redirects on %s: %w", name, err)
	}
	can, err := xdpFeatures(info.Index)
	if errors.Is(err, errNoFeatures) {
		can, err = actNdoXmit, nil
		if slices.Contains(noRedirectKinds, kind) {
			can = 0
		}
	}
	if err != nil {
		return Readiness{}, fmt.Errorf("receive redirects on %s: %w", name, err)
	}
	return otherReadiness(info, can), nil
}

// otherReadiness is the readiness of a device that is not a veth, by its XDP features.
func otherReadiness(info Info, can uint64) Readiness {
	const native = actBasic | actRedirect
	switch {
	case can&actNdoXmit != 0:
		return Readiness{OK: true, Reason: fmt.Sprintf("%s is a %s device, which needs no preparation", info.Name, info.Kind)}
	case can&native == native && info.XDPMode != "native":
		return Readiness{WithProgram: true, Reason: fmt.Sprintf("%s is a %s device, which accepts frames from cubes of type XDP_DRV only while such "+
			"a cube is attached to it, if at all: attach one there, or use type XDP_SKB or TC for all cubes that lead to it", info.Name, info.Kind)}
	}
	return Readiness{Reason: fmt.Sprintf("%s is a %s device, which accepts no frames from cubes of type XDP_DRV: "+
		"use type XDP_SKB or TC for all cubes that lead to it", info.Name, info.Kind)}
}

// ensurePrepared ensures that the kernel applies what prepare has done: it applies GRO only when that is switched
// while the other end is up; an end that went down in between polls, and receives nothing anyway.
func (r *Readiness) ensurePrepared(name string) error {
	info, err := Get(name)
	if err != nil {
		return fmt.Errorf("receive redirects on %s: %w", name, err)
	}
	takes, err := takesRedirects(info.Index)
	if takes || errors.Is(err, errNoFeatures) {
		return nil
	}
	if err == nil {
		_, err = withPeer(name, func(peer Info) error {
			if peer.XDPMode == "native" {
				return nil
			}
			return errors.Join(
				setFeature(peer.Name, unix.ETHTOOL_SGRO, unix.ETHTOOL_GGRO, false),
				setFeature(peer.Name, unix.ETHTOOL_SGRO, unix.ETHTOOL_GGRO, true),
			)
		})
	}
	if err == nil {
		takes, err = takesRedirects(info.Index)
	}
	if err != nil {
		return fmt.Errorf("receive redirects on %s: %w", name, err)
	}
	if !takes {
		r.OK, r.Reason = false, fmt.Sprintf("%s accepts no redirected frames: check that both ends have the same number of queues", name)
	}
	return nil
}

// prepare runs in the peer's namespace. It switches GRO on there if needed and wanted.
func (r *Readiness) prepare(name string, peer Info, wanted bool) error {
	if !peer.Up {
		r.Reason = fmt.Sprintf("the other end of %s, %s, is down: set it up", name, peer.Name)
		return nil
	}
	how := "a native XDP program"
	if peer.XDPMode != "native" {
		how = "GRO"
		on, err := feature(peer.Name, unix.ETHTOOL_GGRO)
		if err != nil {
			return err
		}
		if !on && wanted {
			if err := setFeature(peer.Name, unix.ETHTOOL_SGRO, unix.ETHTOOL_GGRO, true); err != nil {
				return err
			}
			r.Changed = true
		}
	}
	r.OK = true
	r.Reason = fmt.Sprintf("the other end of %s, %s, polls because of %s", name, peer.Name, how)
	return nil
}

// Offloads that leave a part of a frame outside its bytes: native XDP gets only the bytes.
var (
	peerTags = []string{"tx-vlan-hw-insert", "tx-vlan-stag-hw-insert"}
	ownTags  = []string{"rx-vlan-hw-parse", "rx-vlan-stag-hw-parse"}
)

const (
	// TxChecksum is PreparePeerForXDP's name for the checksums of all protocols together.
	TxChecksum = "tx-checksumming"
	// GRO is UndoForXDP's name for what EnsureCanReceiveRedirects switches on.
	GRO = "rx-gro"
)

// PreparePeerForXDP makes complete frames arrive at a device with a native XDP program: it switches off the offloads
// that leave a part of a frame outside its bytes, where such a program loses it. For a veth these are checksums and
// VLAN tags that the other end leaves for later; for other kinds, VLAN tags that the device strips on receive. It
// returns the offloads that it switched off, by their kernel names (checksums are TxChecksum), even if a later one
// fails. UndoForXDP reverts it.
func PreparePeerForXDP(name string) (changed []string, err error) {
	kind, err := withPeer(name, func(peer Info) error {
		off, err := switchTxChecksumOff(peer.Name)
		if off {
			changed = append(changed, TxChecksum)
		}
		tags, tagErr := switchOff(peer.Name, peerTags)
		changed = append(changed, tags...)
		return errors.Join(err, tagErr)
	})
	if err == nil && kind != "veth" {
		changed, err = switchOff(name, ownTags)
	}
	if err != nil {
		return changed, fmt.Errorf("switch off offloads that XDP loses on %s: %w", name, err)
	}
	return changed, nil
}

// UndoForXDP reverts what EnsureCanReceiveRedirects and PreparePeerForXDP changed on the device, once it has no XDP
// program any more. Settings that were already reverted by others stay.
func UndoForXDP(name string, changed []string) error {
	var tags []string
	kind, err := withPeer(name, func(peer Info) error {
		var errs []error
		for _, what := range changed {
			switch what {
			case GRO:
				errs = append(errs, setFeature(peer.Name, unix.ETHTOOL_SGRO, unix.ETHTOOL_GGRO, false))
			case TxChecksum:
				errs = append(errs, setFeature(peer.Name, unix.ETHTOOL_STXCSUM, unix.ETHTOOL_GTXCSUM, true))
			default:
				tags = append(tags, what)
			}
		}
		return errors.Join(append(errs, switchOn(peer.Name, tags))...)
	})
	if err == nil && kind != "veth" {
		err = switchOn(name, changed)
	}
	if err != nil {
		return fmt.Errorf("restore the settings that XDP changed on %s: %w", name, err)
	}
	return nil
}

func switchTxChecksumOff(dev string) (changed bool, err error) {
	on, err := feature(dev, unix.ETHTOOL_GTXCSUM)
	if err != nil || !on {
		return false, err
	}
	err = setFeature(dev, unix.ETHTOOL_STXCSUM, unix.ETHTOOL_GTXCSUM, false)
	return err == nil, err
}

// errNoPeer is for a veth whose other end is not where it should be.
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

// peerOf finds the device in the calling thread's namespace and checks that info is its other end.
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
