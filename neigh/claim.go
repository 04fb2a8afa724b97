// SPDX-License-Identifier: Apache-2.0

package neigh

// The cube's own addresses: duplicate detection (RFC 4862 5.4, RFC 5227 2.1), announcements of new ones (RFC 5227 2.3,
// RFC 4861 7.2.6), and defence of those in use (RFC 5227 2.4).

import (
	"slices"
	"time"

	"github.com/polycube/polycube/wire"
)

// Announcer carries out the actions of claims.
type Announcer interface {
	// Probe asks whether any station has an address, Announce announces that this cube has it.
	Probe(k Key, mac wire.MAC)
	Announce(k Key, mac wire.MAC)
	// Usable sets whether the cube answers for an address.
	Usable(k Key, usable bool)
	// Duplicate reports that another station has an address, Unique that none has it any more.
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
	// recheck is the interval of checks whether a duplicate address has become free.
	recheck = time.Minute
)

// Claims contains the cube's own addresses.
type Claims struct {
	host   Announcer
	claims map[Key]*claim
}

type claim struct {
	mac                wire.MAC
	at                 time.Duration
	probing, announces int // number still to be sent
	duplicate          bool
	waits              bool // the port is down
	held               bool // a previous run of the cube has announced it
	defended           time.Duration
	other              wire.MAC
}

// NewClaims creates an empty set.
func NewClaims(host Announcer) *Claims { return &Claims{host: host, claims: map[Key]*claim{}} }

// Start is the initial action of a claim.
type Start uint8

// The ways to begin.
const (
	// Check probes first: the address is new.
	Check Start = iota
	// Announce announces at once.
	Announce
	// Hold does nothing: a previous run of the cube has done it.
	Hold
)

// Add claims an address, or renews a claim: with another MAC address, it is checked again unless a check has already
// succeeded. A port that is not up waits for Up.
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

// Remove drops a claim.
func (c *Claims) Remove(k Key) { delete(c.claims, k) }

// Has reports whether an address is claimed, and its MAC address.
func (c *Claims) Has(k Key) (wire.MAC, bool) {
	cl := c.claims[k]
	if cl == nil {
		return wire.MAC{}, false
	}
	return cl.mac, true
}

// Down records that a port is down, so its addresses are not announced.
func (c *Claims) Down(port uint16) {
	for k, cl := range c.claims {
		if k.Port == port {
			cl.held = false
		}
	}
}

// Up announces the addresses of a port that came up, or starts the checks that wait for it. Addresses that a previous
// run of the cube announced are skipped the first time, when the port is found up.
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

// Next returns when Tick is due; false if it is not.
func (c *Claims) Next() (time.Duration, bool) {
	at := never
	for _, cl := range c.claims {
		at = min(at, cl.at)
	}
	return at, at != never
}

// Tick does the work that is due.
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
		case cl.duplicate: // no station has answered
			cl.duplicate = false
			c.host.Unique(k)
			c.settle(k, cl, now)
		default:
			c.settle(k, cl, now)
		}
	}
}

// settle announces an address that belongs to the cube.
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

// Conflict processes another station's claim, or attempt to claim, of the address. While the address is being checked
// it does not belong to the cube any more, until no station answers; later it is defended, but without endless
// announcements.
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

// Probed processes another station's probe for the address. The owner answers; while the address is being checked,
// neither of the two can have it.
func (c *Claims) Probed(k Key, other wire.MAC, now time.Duration) {
	if cl := c.claims[k]; cl != nil && (cl.duplicate || cl.checking()) {
		c.Conflict(k, other, now)
	}
}

// checking reports whether it is still unknown if the address is unique.
func (cl *claim) checking() bool {
	return cl.probing > 0 || cl.announces == announcements && cl.at != never
}

// Usable reports whether the cube may answer for an address: an IPv6 one only after it is known to be unique (RFC 4862
// 5.4); an IPv4 one is in use while it is checked.
func (c *Claims) Usable(k Key) bool {
	cl := c.claims[k]
	return cl != nil && !cl.duplicate && (k.Addr.Is4() || !cl.checking())
}

// Duplicates returns the addresses of a port that another station has, or has claimed within the last defence interval.
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
