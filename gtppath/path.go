// SPDX-License-Identifier: Apache-2.0

// Package gtppath ends GTP-U tunnels in user space, for cubes whose programs do so with <pcn/gtpu_end.h>: it watches the paths to
// peers, which are base stations or other user plane functions, and answers the messages and packets that programs hand to it
// (3GPP TS 29.281).
package gtppath

import (
	"errors"
	"net/netip"
	"time"

	"github.com/polycube/polycube/bucket"
	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/cube/table"
	"github.com/polycube/polycube/inet"
)

// Settings are what a cube configures.
type Settings struct {
	// Locals are the addresses of this end.
	Locals []netip.Addr
	// EchoInterval is the time from an answer to the next Echo Request; 0 sends none. A request that is not answered is repeated
	// after EchoTimeout, and the peer is down when EchoRequests of them have not been answered.
	EchoInterval, EchoTimeout time.Duration
	EchoRequests              int
}

// Local returns the address that tunnels to a peer come from; false if no address is of the peer's family.
func (s *Settings) Local(peer netip.Addr) (local netip.Addr, ok bool) {
	for _, a := range s.Locals {
		if a.Is4() == peer.Is4() && (!ok || a.Less(local)) {
			local, ok = a, true
		}
	}
	return local, ok
}

// Options are functions of the cube, called in turn with its others. Each may be nil.
type Options struct {
	// Changed is called when a peer goes up or down. A peer is neither until it has answered, or not answered, Echo Requests.
	Changed func(peer netip.Addr, up bool)
	// Indicated is called when a peer says that it does not know a tunnel.
	Indicated func(from netip.Addr, teid uint32)
}

// Limits is struct pcn_gtpu_end_limits: how many messages about paths, and about what has failed, user space takes.
type Limits struct{ Paths, Failures bucket.Limit }

// newLimits returns those that are not configured: thousands of base stations may ask once a minute, all of them at once.
func newLimits() (l Limits, err error) {
	if l.Paths, err = bucket.New(2000, time.Second, 4000); err != nil {
		return l, err
	}
	l.Failures, err = bucket.New(500, time.Second, 500)
	return l, err
}

// Path is the user space of a cube that ends tunnels. Its functions are called in turn.
type Path struct {
	env      cube.Env
	options  Options
	settings Settings
	peers    map[netip.Addr]*peer
	messages Messages
	parent   cube.Parent
	ids      uint16 // of the IPv4 packets that are sent

	locals table.Table[inet.Address, uint32]
	limits table.Table[uint32, Limits]
	// macs has an entry for each peer, which programs write when they hear it.
	macs table.Table[inet.Address, uint64]
}

// New returns the user space of a cube. It sends nothing before Configure.
func New(env cube.Env, o Options) *Path {
	p := &Path{
		env: env, options: o, peers: map[netip.Addr]*peer{},
		locals: table.New[inet.Address, uint32](env, "addresses"), limits: table.New[uint32, Limits](env, "limits"),
		macs: table.New[inet.Address, uint64](env, "stations"),
	}
	env.Every(time.Second, p.tick)
	return p
}

// SetParent notes what the cube is attached to, whose address its frames come from.
func (p *Path) SetParent(parent cube.Parent) { p.parent = parent }

// Begin takes over the maps of an earlier daemon: peers that are not wanted any more are removed.
func (p *Path) Begin(wanted map[netip.Addr]bool) error {
	var gone []inet.Address
	var all error
	for address := range p.macs.All(&all) {
		if !wanted[address.Addr()] {
			gone = append(gone, address)
		}
	}
	limits, err := newLimits()
	if err := errors.Join(err, all); err != nil {
		return err
	}
	if err := p.limits.Set(0, limits); err != nil {
		return err
	}
	_, err = p.macs.DeleteAll(gone)
	return err
}

// Configure writes the addresses of this end, and uses the settings from now on.
func (p *Path) Configure(s Settings, undo *cube.Undo) error {
	want := map[inet.Address]uint32{}
	for _, a := range s.Locals {
		want[inet.AddressOf(a)] = 1
	}
	back, err := table.Replace(p.locals, want).Do()
	if err != nil {
		return err
	}
	was := p.settings
	p.settings = s
	undo.Push(func() error {
		p.settings = was
		if back == nil {
			return nil
		}
		return back()
	})
	return nil
}
