// SPDX-License-Identifier: Apache-2.0

package world

// The state of netdevs, and its effect on the ports connected to them.

import (
	"errors"
	"maps"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/internal/netdev"
)

// SetLinks records the state of netdevs; a deleted one is kept as long as something refers to it.
func (w *World) SetLinks(links map[string]Link) {
	used := w.Uses()
	for name, l := range links {
		if l.Index == 0 && !used(name) {
			w.toOwnLinks()
			delete(w.Links, name)
		} else {
			w.SetLink(name, l)
		}
	}
}

// SetLink records the state of one netdev.
func (w *World) SetLink(name string, l Link) {
	if is, ok := w.Links[name]; ok && is == l {
		return
	}
	w.toOwnLinks()
	w.Links[name] = l
}

// toOwnLinks copies the netdevs, which until then are shared with the previous world that readers use.
func (w *World) toOwnLinks() {
	if !w.ownLinks {
		w.Links, w.ownLinks = maps.Clone(w.Links), true
	}
}

// WhyDown says why no packets pass through a netdev, and what to do; "" if it is in use.
func (w *World) WhyDown(name string) string {
	l := w.Links[name]
	switch {
	case l.Gone != "":
		return "netdev " + name + " no longer exists, " + l.Gone + ": the port is bound again when it appears"
	case l.Index == 0:
		return "no netdev " + name + ": the port is bound when it appears"
	case Unfit(l) != "":
		return name + " " + Unfit(l)
	case l.Refused != "":
		return l.Refused
	case !l.Up:
		return name + " is down: ip link set " + name + " up"
	}
	return ""
}

// Unfit says why a device cannot be the peer of a port; "" if it can.
func Unfit(l Link) string {
	switch {
	case l.Bare:
		return "is a " + l.kind + " device, which has no Ethernet frames: use a TAP or a veth pair"
	case l.kind == "loopback":
		return "is the loopback device, which returns everything sent to it: use one end of a veth pair"
	case l.kind == "ifb":
		return "is an ifb device, which receives packets only from tc mirred: use the device that it mirrors"
	}
	return ""
}

// Remark is the text about a port's status: why it is down, or what is lost although it is up. notes, if not nil, knows
// what prevents packets from passing.
func (w *World) Remark(rec *Cube, p *Port, notes Notes) string {
	at, err := ParsePlace(p.Peer)
	if p.Peer == "" || err != nil {
		return ""
	}
	if at.Netdev == "" {
		_, far, err := w.PortAt(at)
		switch {
		case errors.Is(err, cube.ErrNotFound):
			return "no port " + p.Peer
		case err == nil && far.Peer != (Place{Cube: rec.Name, Port: p.Name}).String():
			return p.Peer + " is not connected to this port: polycubectl connect " + rec.Name + ":" + p.Name + " " + p.Peer
		}
		return ""
	}
	l := w.Links[at.Netdev]
	if why := w.WhyDown(at.Netdev); why != "" && why == l.Refused {
		return why + "; when that is fixed: polycubectl connect " + rec.Name + ":" + p.Name + " " + at.Netdev
	} else if why != "" {
		return why
	}
	if notes != nil {
		if note := notes.NetdevNote(l.Index); note != "" {
			return note
		}
	}
	switch {
	case !l.Carrier && l.kind == "veth":
		return at.Netdev + " has no carrier: set its other end up"
	case !l.Carrier:
		return at.Netdev + " has no carrier: nothing is attached to its other end"
	case l.ownOnly:
		return at.Netdev + " receives only frames to its own address: a bridge needs a macvlan of mode passthru"
	}
	return ""
}

// Notes is a data plane that knows what prevents packets from passing through a netdev.
type Notes interface {
	// NetdevNote is a sentence, or "" if nothing is known.
	NetdevNote(ifindex int) string
}

// Works reports whether a port's link carries frames, as far as its near end knows.
func (w *World) Works(rec *Cube, p *Port) bool {
	at, err := ParsePlace(p.Peer)
	return w.Linked(rec, p) && (err != nil || at.Netdev == "" || w.Links[at.Netdev].Carrier)
}

// Flaps counts how often the netdev of a port was seen to lose its carrier briefly.
func (w *World) Flaps(p *Port) int {
	at, err := ParsePlace(p.Peer)
	if err != nil || at.Netdev == "" {
		return 0
	}
	return w.Links[at.Netdev].Flaps
}

// Link is the part of a netdev's state that is used here.
type Link struct {
	Index int
	Up    bool
	MTU   int
	// Carrier is set if the device's other end works, flaps counts how often it was seen to be lost and to return.
	Carrier bool
	Flaps   int
	// kind is netdev.Info's; bare (NoEthernet there), ownOnly and enslaved, too.
	kind                    string
	Bare, ownOnly, enslaved bool
	// Gone says how a device that a cube uses was removed; all other fields are then zero.
	Gone string
	// Refused says why the data plane could not use the device; it is left out until it changes.
	Refused string
}

// LinkOf returns the part of a device's state that is used here.
func LinkOf(info netdev.Info) Link {
	return Link{Index: info.Index, Up: info.Up, MTU: info.MTU, Carrier: info.Carrier,
		kind: info.Kind, Bare: info.NoEthernet, ownOnly: info.OwnOnly, enslaved: info.Enslaved}
}

// Deleted is how a netdev went, as far as that is known without its event.
const Deleted = "it was deleted or moved to another namespace"
