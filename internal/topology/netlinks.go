// SPDX-License-Identifier: Apache-2.0

package topology

// What is known of netdevs, and what follows for the ports that are connected to them.

import (
	"errors"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/internal/netdev"
)

// setLinks takes netdevs over; one that is gone is kept as long as somebody may ask where it is.
func (w *world) setLinks(links map[string]link) {
	held := w.allHolders()
	for name, l := range links {
		if l.index == 0 && len(held[name]) == 0 && len(w.chains[name]) == 0 {
			delete(w.links, name)
		} else {
			w.links[name] = l
		}
	}
}

// whyDown says why nothing passes by a netdev, and what to do; "" when it is in use.
func (w *world) whyDown(name string) string {
	l := w.links[name]
	switch {
	case l.gone != "":
		return "there is no netdev " + name + " any more, " + l.gone + ": the port is bound again when it appears"
	case l.index == 0:
		return "there is no netdev " + name + ": the port is bound when it appears"
	case unfit(l) != "":
		return name + " " + unfit(l)
	case l.refused != "":
		return l.refused
	case !l.up:
		return name + " is down: ip link set " + name + " up"
	}
	return ""
}

// unfit says why a device cannot be the peer of a port; "" for those that can.
func unfit(l link) string {
	switch {
	case l.bare:
		return "is a " + l.kind + " device, which has no Ethernet frames: use a TAP or a veth pair"
	case l.kind == "loopback":
		return "is the loopback, which brings back what is sent to it: use one end of a veth pair"
	case l.kind == "ifb":
		return "is an ifb device, which takes packets from tc mirred only: use the device whose packets it is given"
	}
	return ""
}

// remark is what is to be said of a port's status: why it is down, or what is lost although it is up. notes, if not nil,
// knows what stands in the way of packets.
func (w *world) remark(rec *record, p *port, notes noter) string {
	at, err := parsePlace(p.peer)
	if p.peer == "" || err != nil {
		return ""
	}
	if at.netdev == "" {
		_, far, err := w.portAt(at)
		switch {
		case errors.Is(err, cube.ErrNotFound):
			return "there is no port " + p.peer
		case err == nil && far.peer != (place{cube: rec.name, port: p.name}).String():
			return p.peer + " is not connected to this port: polycubectl connect " + rec.name + ":" + p.name + " " + p.peer
		}
		return ""
	}
	l := w.links[at.netdev]
	if why := w.whyDown(at.netdev); why != "" && why == l.refused {
		return why + "; when that is mended: polycubectl connect " + rec.name + ":" + p.name + " " + at.netdev
	} else if why != "" {
		return why
	}
	if notes != nil {
		if note := notes.NetdevNote(l.index); note != "" {
			return note
		}
	}
	switch {
	case !l.carrier && l.kind == "veth":
		return at.netdev + " has no carrier: set its other end up"
	case !l.carrier:
		return at.netdev + " has no carrier: nobody is at its other end"
	case l.ownOnly:
		return at.netdev + " receives only frames to its own address: a bridge needs a macvlan of mode passthru"
	}
	return ""
}

// noter is a data plane that knows what stands in the way of packets by a netdev.
type noter interface {
	// NetdevNote is a sentence, or "" when nothing is known.
	NetdevNote(ifindex int) string
}

// works says whether a port's link carries frames, as far as the near end of it knows.
func (w *world) works(rec *record, p *port) bool {
	at, err := parsePlace(p.peer)
	return w.linked(rec, p) && (err != nil || at.netdev == "" || w.links[at.netdev].carrier)
}

// flaps is how often the netdev of a port was seen to lose its carrier for a moment.
func (w *world) flaps(p *port) int {
	at, err := parsePlace(p.peer)
	if err != nil || at.netdev == "" {
		return 0
	}
	return w.links[at.netdev].flaps
}

// link is what matters of a netdev.
type link struct {
	index int
	up    bool
	mtu   int
	// carrier tells that the device's other end works, flaps how often it was seen to go and come back.
	carrier bool
	flaps   int
	// kind is netdev.Info's; bare (NoEthernet there) and ownOnly, too.
	kind          string
	bare, ownOnly bool
	// gone says how a device went that a cube has to do with; the rest is zero then.
	gone string
	// refused says why the data plane could not use the device; it is left out until it changes.
	refused string
}

func linkOf(info netdev.Info) link {
	return link{index: info.Index, up: info.Up, mtu: info.MTU, carrier: info.Carrier,
		kind: info.Kind, bare: info.NoEthernet, ownOnly: info.OwnOnly}
}
