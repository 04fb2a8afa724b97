// SPDX-License-Identifier: Apache-2.0

package neigh

// The cube's own addresses: whether somebody else has one already (RFC 4862 5.4, RFC 5227 2.1), telling everybody
// about new ones (RFC 5227 2.3, RFC 4861 7.2.6), and defending those that are in use (RFC 5227 2.4).

import (
	"slices"
	"time"

	"github.com/polycube/polycube/wire"
)

// Announcer is what claims act on.
type Announcer interface {
	// Probe asks whether anybody has an address, Announce tells everybody that this cube has it.
	Probe(k Key, mac wire.MAC)
	Announce(k Key, mac wire.MAC)
	// Usable says from now on whether the cube answers for an address.
	Usable(k Key, usable bool)
	// Duplicate tells that somebody else has an address, Unique that nobody has any more.
	Duplicate(k Key, other wire.MAC)
	Unique(k Key)
}

// Times of RFC 5227 1.1 and RFC 4861 10.
const (
	probes4, probes6 = 3, 1
	probeInterval    = time.Second
	announcements    = 2
	announceInterval = 2 * time.Second
	defendInterval   = 10 * time.Second
	// recheck is how often it is looked whether an address that somebody else had is free.
	recheck = time.Minute
)

// Claims are the cube's own addresses.
type Claims struct {
	host   Announcer
	claims map[Key]*claim
}

type claim struct {
	mac                wire.MAC
	at                 time.Duration
	probing, announces int // left to be sent
	duplicate          bool
	waits              bool // the port is down
	held               bool // an earlier life of the cube has announced it
	defended           time.Duration
	other              wire.MAC
}

// NewClaims makes an empty set.
func NewClaims(host Announcer) *Claims { return &Claims{host: host, claims: map[Key]*claim{}} }

// Start is how a claim begins.
type Start uint8

// The ways to begin.
const (
	// Check asks first: the address is new.
	Check Start = iota
	// Announce tells everybody at once.
	Announce
	// Hold does nothing: an earlier life of the cube has done it.
	Hold
)

// Add claims an address, or claims it anew: by another MAC address, it is checked again if that has not ended well yet. A
// port that is not up waits for Up.
func (c *Claims) Add(k Key, mac wire.MAC, start Start, up bool, now time.Duration) {
	if was := c.claims[k]; was != nil && (was.probing > 0 || was.duplicate) {
		start = Check
	}
	cl := &claim{mac: mac, at: never}
	c.claims[k] = cl
	switch start {
	case Check:
		cl.probing = probes4
		if k.Addr.Is6() {
			cl.probing = probes6
		}
		cl.announces = announcements
	case Announce:
		cl.announces = announcements
	case Hold:
		cl.held = true
		return
	}
	cl.waits = !up
	if up {
		cl.at = now
	}
}

// Remove gives an address up.
func (c *Claims) Remove(k Key) { delete(c.claims, k) }

// Has says whether an address is claimed, by which MAC address.
func (c *Claims) Has(k Key) (wire.MAC, bool) {
	cl := c.claims[k]
	if cl == nil {
		return wire.MAC{}, false
	}
	return cl.mac, true
}

// Down takes note of a port that is down, which nobody has announced in the next moment.
func (c *Claims) Down(port uint16) {
	for k, cl := range c.claims {
		if k.Port == port {
			cl.held = false
		}
	}
}

// Up announces the addresses of a port that has come up, or begins to check those that wait for it. What an earlier life
// of the cube has announced is left out the first time, when the port is found up.
func (c *Claims) Up(port uint16, now time.Duration) {
	for k, cl := range c.claims {
		if k.Port != port || cl.probing > 0 && !cl.waits || cl.duplicate {
			continue
		}
		if cl.held {
			cl.held = false
			continue
		}
		cl.waits, cl.announces, cl.at = false, announcements, now
	}
}

// Next is when Tick has something to do; false when nothing is due.
func (c *Claims) Next() (time.Duration, bool) {
	at := never
	for _, cl := range c.claims {
		at = min(at, cl.at)
	}
	return at, at != never
}

// Tick does what is due.
func (c *Claims) Tick(now time.Duration) {
	for k, cl := range c.claims {
		if cl.at > now {
			continue
		}
		switch {
		case cl.probing > 0:
			cl.probing--
			c.host.Probe(k, cl.mac)
			cl.at = now + probeInterval
		case cl.duplicate: // nobody has said anything
			cl.duplicate = false
			c.host.Unique(k)
			c.settle(k, cl, now)
		default:
			c.settle(k, cl, now)
		}
	}
}

// settle announces an address that is the cube's.
func (c *Claims) settle(k Key, cl *claim, now time.Duration) {
	if cl.announces == announcements {
		c.host.Usable(k, true)
	}
	if cl.announces == 0 {
		cl.at = never
		return
	}
	cl.announces--
	c.host.Announce(k, cl.mac)
	cl.at = now + announceInterval
}

// Conflict takes note of somebody who claims the address, or is about to. While it is being checked it is not the
// cube's any more, until nobody answers; later it is defended, but not in a war of announcements.
func (c *Claims) Conflict(k Key, other wire.MAC, now time.Duration) {
	cl := c.claims[k]
	if cl == nil || other == cl.mac {
		return
	}
	if cl.duplicate || cl.checking() {
		first := !cl.duplicate
		cl.duplicate, cl.other = true, other
		cl.probing, cl.announces, cl.at = 1, announcements, now+recheck
		if first {
			c.host.Usable(k, false)
			c.host.Duplicate(k, other)
		}
		return
	}
	if cl.defended != 0 && now-cl.defended < defendInterval {
		return
	}
	cl.defended = now
	c.host.Duplicate(k, other)
	c.host.Announce(k, cl.mac)
}

// Probed takes note of somebody who asks whether the address is free. Who has it answers; while it is being checked,
// neither of the two can have it.
func (c *Claims) Probed(k Key, other wire.MAC, now time.Duration) {
	if cl := c.claims[k]; cl != nil && (cl.duplicate || cl.checking()) {
		c.Conflict(k, other, now)
	}
}

// checking says whether it is not known yet if the address is unique.
func (cl *claim) checking() bool {
	return cl.probing > 0 || cl.announces == announcements && cl.at != never
}

// Usable says whether the cube may answer for an address: of IPv6, only when it is known to be unique (RFC 4862
// 5.4); one of IPv4 is in use while it is checked.
func (c *Claims) Usable(k Key) bool {
	cl := c.claims[k]
	return cl != nil && !cl.duplicate && (k.Addr.Is4() || !cl.checking())
}

// Duplicates are the addresses of a port that somebody else has, or has claimed within the last interval of defence.
func (c *Claims) Duplicates(port uint16, now time.Duration) []Key {
	var out []Key
	for k, cl := range c.claims {
		contested := cl.defended != 0 && now-cl.defended < defendInterval
		if k.Port == port && (cl.duplicate || contested) {
			out = append(out, k)
		}
	}
	slices.SortFunc(out, func(a, b Key) int { return a.Addr.Compare(b.Addr) })
	return out
}
